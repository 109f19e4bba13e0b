"""The same bytes on every run: under load, and whatever the order of sets of strings is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sccl.collectives import named_spec
from sccl.core.answer import Sat
from sccl.core.instance import Instance
from sccl.synth.syncoll import solve, symmetric_search
from sccl.topo import resolve_topology
from sccl.topo.symmetry.group_choice import candidate_groups
from tests.kit.paths import PROGRAMS


@contextmanager
def keep_cores_busy() -> Iterator[None]:
    """Run a busy process on every core, from before the return to the end of the block."""
    program = "print(flush=True)\nwhile True: pass"
    busy = [
        subprocess.Popen([sys.executable, "-S", "-c", program], stdout=subprocess.PIPE)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        for process in busy:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.communicate()


PROGRAM = PROGRAMS / "synthesisers.py"


def start(folder: Path, hash_seed: str, speed: str, *before: str) -> subprocess.Popen[str]:
    """Start the synthesisers, which write into a folder, by a clock of some speed."""
    return subprocess.Popen(
        [*before, sys.executable, PROGRAM, folder, speed],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def written_by(process: subprocess.Popen[str], folder: Path) -> dict[str, bytes]:
    """Return all files that the synthesisers wrote, by name."""
    output, _ = process.communicate()
    assert process.returncode == 0, output
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): written(path) for path in files}


def written(path: Path) -> bytes:
    """Return what a file holds, but for how long things took and where files were put."""
    text = path.read_bytes()
    if not path.name.endswith(("-frontier.json", "-limits.json")):
        return text
    return json.dumps(json.loads(text, object_hook=without_seconds)).encode()


def without_seconds(plain: dict[str, Any]) -> dict[str, Any]:
    file = {"file": Path(plain["file"]).name} if plain.get("file") else {}
    return {name: value for name, value in plain.items() if name != "seconds"} | file


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return what two runs write at the same time, of which one gets a third of the other's share.

    For that one a second is an hour. It gets no less: beside other tests it would wait for minutes.
    """
    first, last = (tmp_path_factory.mktemp(name) for name in ("first", "last"))
    running = start(first, "1", "1"), start(last, "2", "3600", "nice", "-n", "5")
    return written_by(running[0], first), written_by(running[1], last)


@pytest.mark.nightly
def test_every_synthesiser_writes_the_same_bytes_under_load(
    twice: tuple[dict[str, bytes], dict[str, bytes]],
) -> None:
    first, last = twice
    assert first.keys() == last.keys()
    assert [name for name in first if first[name] != last[name]] == []


@pytest.mark.parametrize(
    ("collective", "machine", "size"),
    [("alltoall", "torus:4x4", (16, 4, 8)), ("allgather", "mesh:4x4", (2, 6, 15))],
)
def test_symmetric_synthesis_finds_one_algorithm_in_twelve_runs(
    collective: str, machine: str, size: tuple[int, int, int]
) -> None:
    """Two free workers found another one in every fourth or fifth."""
    topology, (chunks, steps, rounds) = resolve_topology(machine), size
    instance = Instance(topology, named_spec(collective, topology.ranks).at(chunks), steps, rounds)
    some = candidate_groups(topology, instance.collective, "auto")
    with keep_cores_busy():
        found = [symmetric_search.answer(instance, some, solve.Effort()) for _ in range(12)]
    assert len({one.algorithm for one in found if isinstance(one, Sat)}) == 1
