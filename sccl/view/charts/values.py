"""What charts of frontiers are given: plain numbers, wherever they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, count
from typing import Literal

from sccl.core.words import proved_for

State = Literal["proved", "best found", "approached"]
"""Of a point: nothing dominates it; or that is not known; or a limit of R/C that no algorithm here
attains."""

Cost = tuple[int, Fraction]
"""(S, R/C)."""


@dataclass(frozen=True, slots=True)
class CostPoint:
    """A point of a frontier.

    Attributes:
        steps: S.
        cost: R/C.
        chunks: C of its algorithm; None if there is none.
        rounds: its R.
        within: the k and C that its proof is restricted to, in words; empty: none.
    """

    steps: int
    cost: Fraction
    chunks: int | None
    rounds: int | None
    state: State
    within: str = ""

    @property
    def state_words(self) -> str:
        """Return its state, and what its proof is restricted to."""
        return proved_for(self.within) if self.state == "proved" else self.state

    @property
    def text(self) -> str:
        """Return its algorithm in words."""
        if self.chunks is None:
            return f"S={self.steps} R/C={self.cost}"
        return f"C={self.chunks} S={self.steps} R={self.rounds}"


@dataclass(frozen=True, slots=True)
class FrontierData:
    """A frontier and what is known around it.

    Attributes:
        name: what it is the frontier of, such as ``"allgather on dgx1"``.
        points: by ascending S.
        min_steps: the lower bound of S; None if it is not known here.
        bandwidth: the lower bound of R/C; None if it is not known here.
        limits: what R/C no algorithm with S steps can go below.
        refuted: candidates without an algorithm.
        open: candidates that were not decided.
        scope: the class that bounds and limits are about; empty: all algorithms.
        question: of which ``of_class`` is one class of several, and whose bounds these are.
        alpha_us: latency of a step; None if it is not known here.
        gb_per_s: bandwidth of a lane, 10^9 bytes per second; None if it is not known here.
        slowest_link: whether these are the slowest link's, and others are faster.
    """

    name: str
    points: tuple[CostPoint, ...]
    min_steps: int | None = None
    bandwidth: Fraction | None = None
    limits: tuple[Cost, ...] = ()
    refuted: tuple[Cost, ...] = ()
    open: tuple[Cost, ...] = ()
    scope: str = ""
    question: str = ""
    of_class: str = ""
    alpha_us: float | None = None
    gb_per_s: float | None = None
    slowest_link: bool = False


def classes_of(frontiers: Sequence[FrontierData]) -> str:
    """Return the one question that frontiers are classes of; empty: they are of several."""
    questions = {one.question for one in frontiers}
    return questions.pop() if len(questions) == 1 else ""


def named_by_class(frontiers: Sequence[FrontierData]) -> list[FrontierData]:
    """Return frontiers named by their classes, where all are of one question."""
    if not classes_of(frontiers):
        return distinct(frontiers)
    return distinct([replace(one, name=one.of_class) for one in frontiers])


def distinct(frontiers: Sequence[FrontierData]) -> list[FrontierData]:
    """Return frontiers of which no two have one name: charts tell them apart by it."""
    found: dict[str, FrontierData] = {}
    for one in frontiers:
        numbered = (f"{one.name} ({i})" for i in count(2))
        name = next(n for n in chain([one.name], numbered) if n not in found)
        found[name] = replace(one, name=name)
    return list(found.values())
