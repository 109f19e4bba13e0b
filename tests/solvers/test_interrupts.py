"""Ctrl-C while native code works, wherever that is: heard, exit code 130, and what was found."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S


def interrupted(module: str, count: int, words: str) -> str:
    """Return all that a command says that is interrupted while native code works for a module."""
    program = [sys.executable, "-m", "tests.programs.interrupted", module, str(count)]
    done = subprocess.run(
        [*program, *words.split()],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=ROOT,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 130, said
    assert "nterrupted" in said
    assert "Traceback" not in said
    assert "defect" not in said
    return said


SOLVE = "solve --no-store --collective"
FIRST = [
    ("sccl.synth.ksync.cpsat", f"{SOLVE} allgather --topo dgx1 --chunks 6 --steps 3 --rounds 7"),
    (
        "sccl.synth.ksync.orbits",
        f"{SOLVE} alltoall --topo torus:4x4 --chunks 16 --steps 4 --rounds 8",
    ),
    ("sccl.prove.bounds.flow_lp", "bounds --collective alltoall --topo dgx1"),
    ("sccl.synth.limit.master", "bounds --collective broadcast --topo dgx1 --steps 3"),
    ("sccl.synth.limit.search", "bounds --collective broadcast --topo line:13 --steps 13"),
    ("sccl.synth.limit.master", "pareto --collective allgather --topo dgx1 --no-store"),
]


@pytest.mark.parametrize(("module", "words"), FIRST)
def test_the_first_native_work_of_a_module_is_stopped(module: str, words: str) -> None:
    interrupted(module, 1, words)


def test_a_limit_sweep_shows_what_was_found_and_the_limit_it_was_about_to_attain() -> None:
    words = "pareto --collective broadcast --topo dgx1 --limit --max-steps 3"
    late = interrupted("sccl.synth.limit.master", 20, words)
    assert "C=2 R=2" in late
    attaining = interrupted("sccl.synth.ksync.cpsat", 2, words)
    assert "9/22" in attaining
    assert "interrupted" in attaining


def test_trees_that_are_interrupted_leave_the_other_classes() -> None:
    words = "pareto --collective allreduce --topo dgx1 --limit --max-steps 5"
    said = interrupted("sccl.synth.limit.palindrome", 1, words)
    assert "reduces what it has" in said
    assert "7/24" in said
    assert "Interrupted: this is the part that was found." in said
