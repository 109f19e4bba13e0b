"""Z3: the functions that models are built with, and one way to solve them.

Z3 cannot be interrupted reliably: it may preprocess for minutes without a reaction, and a
KeyboardInterrupt raised inside one of its finalizers is lost. So interruptible callers run it in a
child process. Each model has a separate Z3 context.
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

_RESOURCES_PER_UNIT = 2_000_000  # of Z3's own, in a unit of effort
_MAX_RESOURCES = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Result:
    """The result of Z3.

    Attributes:
        model: the values, if there are some.
        is_infeasible: whether it is proved that there are none.
        reason: why the result is unknown, if it is.
    """

    model: ModelRef | None
    is_infeasible: bool
    reason: str


_REMINDER_S = 0.25


@contextmanager
def _interrupt_on_timeout(solver: Solver, timeout_s: float | None) -> Iterator[None]:
    """Interrupt a solver when its time is over, again and again until it has ended.

    Z3's own timer is lost where it rings before the search has begun: then the search has no end.
    """
    if timeout_s is None:
        yield
        return
    ended = threading.Event()

    def remind() -> None:
        """Wait, and interrupt the solver if it still runs."""
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
    """Solve the constraints of a Z3 solver in this process."""
    solver.set("random_seed", effort.seed)
    if effort.units is not None:
        solver.set("rlimit", max(1, min(int(effort.units * _RESOURCES_PER_UNIT), _MAX_RESOURCES)))
    if effort.timeout_s is not None:
        solver.set("timeout", max(1, int(effort.timeout_s * 1000)))
    with _interrupt_on_timeout(solver, effort.timeout_s):
        verdict = solver.check()
    if verdict == z3.sat:
        return Result(solver.model(), is_infeasible=False, reason="")
    if verdict == z3.unsat:
        return Result(None, is_infeasible=True, reason="")
    reason = solver.reason_unknown()
    return Result(
        None, is_infeasible=False, reason="timeout" if reason == "interrupted" else reason
    )
