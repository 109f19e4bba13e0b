"""Z3: its words for models, and one way to ask it.

It cannot be interrupted: it may preprocess for minutes without heeding an interrupt, and a
KeyboardInterrupt that falls into one of its many finalizers is lost. So whoever has to be heard
meanwhile asks it in a child process. A model lives in a context of its own, which no other touches.
"""

from __future__ import annotations

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


def solve(solver: Solver, effort: Effort) -> Result:
    """Return what Z3 says of the constraints of a solver, in this process."""
    solver.set("random_seed", effort.seed)
    if effort.units is not None:
        solver.set("rlimit", max(1, min(int(effort.units * _RESOURCES), _MOST_RESOURCES)))
    if effort.timeout_s is not None:
        solver.set("timeout", max(1, int(effort.timeout_s * 1000)))
    verdict = solver.check()
    if verdict == z3.sat:
        return Result(solver.model(), refuted=False, reason="")
    refuted = bool(verdict == z3.unsat)
    return Result(None, refuted, "" if refuted else solver.reason_unknown())
