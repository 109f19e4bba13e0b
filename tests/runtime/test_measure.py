"""Projects in one run: arguments and output of their benchmark, and failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sccl.codegen.project_writer import generate, write_project
from sccl.errors import InputError, ParameterError, ToolError
from sccl.runtime.measure import ContenderTiming, TimingTrial, time_projects
from sccl.runtime.mpi import Mpi, find_mpi
from sccl.runtime.project import Project, build_project, load_project
from sccl.runtime.project_timing import iterate_timings
from tests.kit.easy_algorithms import frontier
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S, Pipe, wait_for_end
from tests.kit.scripts import script, scripted_mpi

ROW = {"collective": "allgather", "size": 4, "us": [2.0, 1.0, 4.0]}
TRIAL = TimingTrial((4, 8), 3, ("allgather",))


def project(folder: Path, machine: str = "ring:4") -> Project:
    write_project(folder, generate(frontier(machine, "allgather"), "host"))
    return load_project(folder)


def built(folder: Path, bench: str) -> tuple[Project, Mpi]:
    """Return a project whose benchmark is a script, and the MPI that runs it."""
    found, mpi = project(folder / "p"), find_mpi(scripted_mpi(folder / "mpi", bench))
    build_project(found, mpi)
    return found, mpi


def test_rows_are_timings_of_the_projects_they_are_of(tmp_path: Path) -> None:
    rows = "\n".join(json.dumps(ROW | {"contender": who}) for who in ("sccl", "with-1", "mpi"))
    ours, mpi = built(tmp_path, f"echo \"$@\" > told\ncat <<'.'\n{rows}\n.")
    other = project(tmp_path / "other")
    found = list(time_projects([ours, other], mpi, TRIAL))
    names = [str(ours.directory), str(other.directory), "mpi"]
    assert found == [ContenderTiming("allgather", 4, name, (2.0, 1.0, 4.0)) for name in names]
    assert found[0].median_us == 2.0
    told = (ours.directory / "told").read_text().split()
    assert told == ["allgather", "--json", "--repeat", "3", "--sizes", "4:8", "--with",
                    str(other.directory / "libsccl.so")]  # fmt: skip


@pytest.mark.parametrize(
    ("bench", "says"),
    [
        ("echo {}", "bench printed '{}.n', expected a line of JSON"),
        ("echo 'rank 1: WRONG' >&2; exit 3", "exit code 3:\nrank 1: WRONG"),
        ("echo; echo '= KILLED'; echo; exit 9", "exit code 9:\n= KILLED"),
    ],
)
def test_wrong_data_and_other_output_are_failures(bench: str, says: str, tmp_path: Path) -> None:
    project, mpi = built(tmp_path, bench)
    with pytest.raises(ToolError, match=says):
        list(time_projects([project], mpi, TRIAL))


def test_compiler_that_fails_is_told_in_its_words(tmp_path: Path) -> None:
    mpi = find_mpi(scripted_mpi(tmp_path / "mpi", ""))
    script(mpi.folder / "mpicxx", "echo 'no such register' >&2; exit 1")
    with pytest.raises(ToolError, match=r"building .*/p failed:\n(.*\n)*no such register"):
        build_project(project(tmp_path / "p"), mpi)


def test_build_says_what_it_compiles_and_compiles_it_once(tmp_path: Path) -> None:
    own, mpi = project(tmp_path / "p"), find_mpi(scripted_mpi(tmp_path / "mpi", ""))
    told: list[str] = []
    build_project(own, mpi, told.append)
    assert told.count("compiling communicator.cpp") == 1
    assert told[-1].startswith("linking ")
    again: list[str] = []
    build_project(own, mpi, again.append)
    assert again == []


@pytest.mark.parametrize("tool", ["mpicxx", "made"])
def test_interrupt_ends_all_that_was_started(tool: str, tmp_path: Path) -> None:
    """The signal goes to sccl alone, unlike a terminal's: children of a compiler or a rank remain.

    Scripts end at a signal without ending their children, like MPI's compilers.
    """
    pipe, mpi = Pipe(tmp_path / "pipe"), scripted_mpi(tmp_path / "mpi", "")
    os.mkfifo(tmp_path / "never")
    script(mpi / tool, f"sh -c 'echo $$ > {pipe.path}; read line < {tmp_path / 'never'}'; true")
    words = ["project", "run", str(project(tmp_path / "p").directory), "--mpi", str(mpi)]
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
    wait_for_end(begun)


def test_incomparable_measurements_are_rejected(tmp_path: Path) -> None:
    four, mpi = built(tmp_path, "")
    with pytest.raises(InputError, match=r"/3 is for 3 ranks \(host\), .*/p for 4"):
        list(time_projects([four, project(tmp_path / "3", "ring:3")], mpi, TRIAL))
    with pytest.raises(ParameterError, match=r"sizes is '4\.\.8', and no size was measured"):
        list(iterate_timings([four], mpi, TRIAL))
