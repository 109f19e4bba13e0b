"""Progress events of a sweep."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.answer import Answer
from sccl.core.bound import AlgorithmBounds
from sccl.core.frontier import Point
from sccl.core.instance import Candidate
from sccl.core.step_limit import StepLimit


@dataclass(frozen=True, slots=True)
class PartStarted:
    """A part of the work begins, such as one half of an allreduce."""

    part: str


@dataclass(frozen=True, slots=True)
class BoundsComputed:
    """The bounds are known, and with them the start of the sweep."""

    bounds: AlgorithmBounds


@dataclass(frozen=True, slots=True)
class LimitStarted:
    """The limit of a number of steps is being computed."""

    steps: int


@dataclass(frozen=True, slots=True)
class LimitComputed:
    """The limit of a number of steps is known, or bounded."""

    limit: StepLimit


@dataclass(frozen=True, slots=True)
class QueryStarted:
    """A candidate is being solved; ``remaining`` more may follow at this number of steps."""

    candidate: Candidate
    remaining: int


@dataclass(frozen=True, slots=True)
class QueryAnswered:
    """A candidate has its answer."""

    candidate: Candidate
    answer: Answer


@dataclass(frozen=True, slots=True)
class PointDecided:
    """The point of a number of steps is known."""

    point: Point


SweepEvent = (
    PartStarted
    | BoundsComputed
    | LimitStarted
    | LimitComputed
    | QueryStarted
    | QueryAnswered
    | PointDecided
)
