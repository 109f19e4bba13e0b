"""Answer: what a solver says of an instance. A timeout is Unknown, never Unsat."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sccl.core.symmetric import AnyAlgorithm


@dataclass(frozen=True, slots=True)
class Sat:
    """An algorithm exists, and here it is.

    Attributes:
        seconds: encoding and solving, wall clock.
        from_store: whether that was earlier, and the answer was kept.
        group: the name of the group of symmetries that it was sought under; empty: none.
    """

    algorithm: AnyAlgorithm
    solver: str
    seconds: float
    from_store: bool = False
    group: str = ""


@dataclass(frozen=True, slots=True)
class Unsat:
    """No algorithm exists.

    Attributes:
        evidence: why that may be believed, in words.
    """

    evidence: str
    solver: str
    seconds: float
    from_store: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The solver gave up; nothing follows from it.

    Attributes:
        reason: why it gave up (``"timeout after 60 s"``).
        best: R/C of what was found instead, below which asking again for as many steps is no use;
            None: that is not known.
    """

    reason: str
    solver: str
    seconds: float
    from_store: bool = False
    best: Fraction | None = None


Answer = Sat | Unsat | Unknown


def made_by(answer: Answer) -> str:
    """Return which solver gave an answer, and under which symmetries, in words."""
    if isinstance(answer, Sat) and answer.group:
        return f"{answer.solver} ({answer.group})"
    return answer.solver


def verdict(answer: Answer) -> Literal["sat", "unsat", "unknown"]:
    """Return ``"sat"``, ``"unsat"`` or ``"unknown"``."""
    match answer:
        case Sat():
            return "sat"
        case Unsat():
            return "unsat"
        case Unknown():
            return "unknown"
