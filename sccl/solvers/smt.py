"""Z3: its words for models, and one way to ask it.

It cannot be interrupted: it may preprocess for minutes without heeding an interrupt, and a
KeyboardInterrupt that falls into one of its many finalizers is lost. So whoever has to be heard
meanwhile asks it in a child process. A model lives in a context of its own, which no other touches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import z3
from z3 import (
    And,
    ArithRef,
    Bool,
    BoolRef,
    BoolVal,
    Context,
    Implies,
    Int,
    ModelRef,
    PbEq,
    PbLe,
    Solver,
    Sum,
    is_true,
)

from sccl.solvers.effort import Effort

__all__ = [
    "And",
    "ArithRef",
    "Bool",
    "BoolRef",
    "BoolVal",
    "Context",
    "Implies",
    "Int",
    "ModelRef",
    "PbEq",
    "PbLe",
    "Result",
    "Solver",
    "Sum",
    "is_true",
    "solve",
]

_RESOURCES = 2_000_000  # of Z3's own, in a unit of effort
_MOST_RESOURCES = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Result:
    """What Z3 says.

    Attributes:
        model: the values, if there are some.
        refuted: whether there are none.
        reason: why it does not know, if neither.
    """

    model: ModelRef | None
    refuted: bool
    reason: str


_REMINDER_S = 0.25


@contextmanager
def _interrupted(solver: Solver, timeout_s: float | None) -> Iterator[None]:
    """Interrupt a solver when its time is over, again and again until it has ended.

    Z3's own timer is lost where it rings before the search has begun: then the search has no end.
    """
    if timeout_s is None:
        yield
        return
    ended = threading.Event()

    def remind() -> None:
        """Wait, and interrupt what has not ended by then."""
        pause_s = timeout_s + _REMINDER_S  # Z3's own timer first: it says that it was the time
        while not ended.wait(pause_s):
            solver.interrupt()
            pause_s = _REMINDER_S

    thread = threading.Thread(target=remind, name="sccl-reminder", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def solve(solver: Solver, effort: Effort) -> Result:
    """Return what Z3 says of the constraints of a solver, in this process."""
    solver.set("random_seed", effort.seed)
    if effort.units is not None:
        solver.set("rlimit", max(1, min(int(effort.units * _RESOURCES), _MOST_RESOURCES)))
    if effort.timeout_s is not None:
        solver.set("timeout", max(1, int(effort.timeout_s * 1000)))
    with _interrupted(solver, effort.timeout_s):
        verdict = solver.check()
    if verdict == z3.sat:
        return Result(solver.model(), refuted=False, reason="")
    if verdict == z3.unsat:
        return Result(None, refuted=True, reason="")
    reason = solver.reason_unknown()
    return Result(None, refuted=False, reason="timeout" if reason == "interrupted" else reason)
