"""Frontiers of one family, for tests of their views."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sccl.core.bound import AlgorithmBounds
from sccl.core.frontier import ClassFrontier, OpenCandidate, Point, RefutedCandidate, SweepFrontier
from sccl.core.instance import Candidate, SweepRange
from sccl.core.step_limit import StepLimit
from sccl.core.stop import StopReason

Shape = tuple[int, int, int, str]
"""(C, S, R) of a candidate, and why it is refuted or open."""

TRIVIAL = AlgorithmBounds(1, Fraction(0))


def known(
    question: tuple[str, str, int | None],
    *,
    refuted: tuple[Shape, ...] = (),
    open: tuple[Shape, ...] = (),  # noqa: A002 - as the field is called
    limits: tuple[tuple[int, Fraction], ...] = (),
    points: tuple[Point, ...] = (),
    bounds: AlgorithmBounds | None = TRIVIAL,
    **of_class: Any,
) -> SweepFrontier:
    """Return the known frontier of (topology, collective, root)."""
    given: dict[str, Any] = {"scope": "", "steps": None, "bandwidth": None, "is_complete": True}
    part = ClassFrontier(
        name="",
        points=points,
        limits=tuple(StepLimit(steps, cost, cost) for steps, cost in limits),
        **given | of_class,
    )
    return SweepFrontier(
        *question,
        costs=None,
        bounds=bounds,
        classes=(part,),
        covered=SweepRange(),
        refuted=tuple(RefutedCandidate(_candidate(one), one[3], 0.0) for one in refuted),
        open=tuple(OpenCandidate(_candidate(one), StopReason.parse(one[3])) for one in open),
    )


def _candidate(shape: Shape) -> Candidate:
    chunks, steps, rounds, _ = shape
    return Candidate(Fraction(rounds, chunks), chunks, steps, rounds)
