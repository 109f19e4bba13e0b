"""Progress events of a sweep."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.answer import Answer
from sccl.core.bounds import Bounds
from sccl.core.candidate import Candidate
from sccl.core.frontier import Point
from sccl.core.limit import StepLimit


@dataclass(frozen=True, slots=True)
class Begun:
    """A part of the work begins, such as one half of an allreduce."""

    part: str


@dataclass(frozen=True, slots=True)
class Bounded:
    """The bounds are known, and with them where the sweep starts."""

    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Limiting:
    """The limit of a number of steps is being computed."""

    steps: int


@dataclass(frozen=True, slots=True)
class Limited:
    """The limit of a number of steps is known, or bounded."""

    limit: StepLimit


@dataclass(frozen=True, slots=True)
class Asking:
    """A candidate is being solved; ``left`` more may follow at this number of steps."""

    candidate: Candidate
    left: int


@dataclass(frozen=True, slots=True)
class Answered:
    """A candidate has its answer."""

    candidate: Candidate
    answer: Answer


@dataclass(frozen=True, slots=True)
class Settled:
    """The point of a number of steps is known."""

    point: Point


Event = Begun | Bounded | Limiting | Limited | Asking | Answered | Settled
