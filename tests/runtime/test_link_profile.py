"""Link timing between two real ranks, and failing programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sccl.errors import ToolError
from sccl.runtime.link_profile import LinkTrial, measure_links
from sccl.runtime.mpi import Mpi, find_mpi
from sccl.topo.profiles.measurements import Pacing
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S, Pipe, wait_for_end
from tests.kit.projects import mpich, open_mpi
from tests.kit.scripts import script, scripted_mpi

TRIAL = LinkTrial(2, ((0, 1), (1, 0)), (1024, 2048, 4096), (1, 3), 2)
ROW = {"src": 0, "dst": 1, "pacing": "in-turn", "chunks": 3, "chunk_bytes": 8,
       "us": 10.0, "answer_us": 1.0}  # fmt: skip
SLOW = ROW | {"us": 6.0, "answer_us": 1.5}


@pytest.mark.parametrize("mpi", [mpich, open_mpi])
def test_every_row_of_every_link_is_timed(mpi: Callable[[], Mpi]) -> None:
    told: list[str] = []
    found = measure_links(TRIAL, mpi(), told.append)
    rows = [(t.edge, t.chunk_bytes, t.chunks, t.pacing) for t in found]
    every = ((1, Pacing.IN_TURN), (3, Pacing.IN_TURN), (3, Pacing.AT_ONCE))
    assert rows == [
        (edge, size, chunks, pacing)
        for edge in TRIAL.edges
        for size in TRIAL.sizes
        for chunks, pacing in every
    ]
    assert all(len(t.us) == 2 for t in found)
    assert told[-1] == "measuring: 4 of 4"


def _timed(folder: Path, program: str) -> list[tuple[float, ...]]:
    mpi = find_mpi(scripted_mpi(folder / "mpi", program))
    return [t.us for t in measure_links(TRIAL, mpi)]


def test_answers_are_taken_off(tmp_path: Path) -> None:
    """Three of them send chunks in turn, one sends at once, and never more than half."""
    rows = [row | {"pacing": pacing} for row in (ROW, SLOW) for pacing in ("in-turn", "at-once")]
    lines = "\n".join(map(json.dumps, rows))
    found = _timed(tmp_path, f'echo "$@" > "{tmp_path}/told"\ncat <<\'.\'\n{lines}\n.')
    assert found == [(7.0, 3.0), (9.0, 4.5)]
    assert (tmp_path / "told").read_text().split() == ["2", "1024,2048,4096", "1,3", "0-1", "1-0"]


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("echo {}", r"profile printed '{}\\n', expected a line of JSON"),
        (f"echo '{json.dumps(ROW | {'us': 0})}'", "an impossible value: link 0->1, .* has 0"),
        ("echo 'rank 1 is gone' >&2; exit 3", "profile ended with exit code 3:\nrank 1 is gone"),
        ("echo; echo '= KILLED'; echo; exit 9", "profile ended with exit code 9:\n= KILLED"),
    ],
)
def test_failed_profile_is_reported(program: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=says):
        _timed(tmp_path, program)


def test_compiler_that_fails_is_told_in_its_words(tmp_path: Path) -> None:
    mpi = find_mpi(scripted_mpi(tmp_path / "mpi", ""))
    script(mpi.folder / "mpicxx", "echo 'no mpi.h' >&2; exit 1")
    with pytest.raises(ToolError, match=r"mpicxx failed:\nno mpi\.h"):
        measure_links(TRIAL, mpi)


def test_interrupt_ends_the_ranks(tmp_path: Path) -> None:
    pipe, mpi = Pipe(tmp_path / "pipe"), scripted_mpi(tmp_path / "mpi", "")
    os.mkfifo(tmp_path / "never")
    script(mpi / "made", f"sh -c 'echo $$ > {pipe.path}; read line < {tmp_path / 'never'}'; true")
    output = tmp_path / "machine.json"
    words = ["topo", "profile", "--ranks", "2", "--mpi", str(mpi), "-o", str(output)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.programs.at_work", str(pipe.path), *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert pipe.line() == "at work"
    begun = int(pipe.line())
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 130, said
    assert said.endswith("interrupted\n")
    assert not output.exists()
    wait_for_end(begun)
