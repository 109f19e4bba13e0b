"""Ctrl-C in native code: it is noticed, the exit code is 130, and results are kept."""

from __future__ import annotations

import _thread
import signal
import subprocess
import sys
import threading

import pytest

from sccl.solvers.effort import run_interruptible
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S


def interrupted(module: str, count: int, words: str) -> str:
    """Return the output of a command that is interrupted in native code of a module."""
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
    (
        "sccl.synth.syncoll.solve_cpsat",
        f"{SOLVE} broadcast --topo dgx1 --chunks 14 --steps 3 --rounds 5",
    ),
    (
        "sccl.synth.syncoll.symmetric_search",
        f"{SOLVE} broadcast --topo torus:4x4 --chunks 8 --steps 5 --rounds 5",
    ),
    ("sccl.prove.bounds.flow_lp", "bound --collective alltoall --topo dgx1"),
    ("sccl.synth.packing.master", "bound --collective broadcast --topo dgx1 --steps 3"),
    ("sccl.synth.packing.master", "pareto --collective alltoall --topo dgx1 --no-store"),
]


BY_NIGHT = ("sccl.synth.syncoll.symmetric_search", "pareto")
"""Modules and verbs of the nightly run, for which others show Ctrl-C by day."""


@pytest.mark.parametrize(
    ("module", "words"),
    [
        pytest.param(
            *each,
            marks=[pytest.mark.nightly] * (not {each[0], each[1].split()[0]}.isdisjoint(BY_NIGHT)),
        )
        for each in FIRST
    ],
)
def test_first_native_work_of_a_module_is_stopped(module: str, words: str) -> None:
    interrupted(module, 1, words)


def test_limit_sweep_shows_what_was_found_and_the_limit_it_was_about_to_attain() -> None:
    words = "pareto --collective broadcast --topo dgx1 --limit --max-steps 3"
    late = interrupted("sccl.synth.packing.master", 20, words)
    assert "C=2 R=2" in late
    attaining = interrupted("sccl.synth.packing.by_steps.round_steps", 2, words)
    assert "9/22" in attaining
    assert "interrupted" in attaining


@pytest.mark.parametrize(
    ("module", "count", "asked"),
    [
        (
            "sccl.synth.packing.master",
            2,
            "ring:4 --max-steps 4",
        ),  # its first work is of halves
        pytest.param(
            *("sccl.synth.packing.by_steps.round_steps", 10, "dgx1 --max-steps 5"),
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_trees_that_are_interrupted_leave_the_other_classes(
    module: str, count: int, asked: str
) -> None:
    said = interrupted(module, count, f"pareto --collective allreduce --limit --topo {asked}")
    assert "composed: reducescatter-then-allgather compositions" in said
    assert "trees: allreduce by timed trees" in said
    assert "reduces the buffers" in said
    assert "Interrupted: these are partial results." in said


def test_interrupt_stops_the_solver() -> None:
    stopped = threading.Event()

    def work() -> None:
        _thread.interrupt_main()
        assert stopped.wait(timeout=30)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            run_interruptible(work, stopped.set)
    finally:
        signal.signal(signal.SIGINT, before)
    assert stopped.is_set()


def test_interrupt_before_the_solver_has_begun_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_: threading.Thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(int, lambda: None)
