"""The limit frontier: for every S the infimum of R/C over all k and all C, and what attains it."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.collectives import Spec
from sccl.core.algorithm import Algorithm
from sccl.core.bounds import Bounds
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology


@dataclass(frozen=True, slots=True)
class LimitPoint:
    """A point of the limit frontier.

    Attributes:
        algorithm: attains ``limit.upper`` if it can be found or written down, else is near it.
        attains: whether it does.
        optimal: ``"latency"``, ``"bandwidth"``, as far as the lower bounds are met.
        proved: whether no algorithm of the class with as many steps has a smaller R/C.
        seconds: for the limit and the algorithm together.
        stopped: why there is no algorithm, unless it would be too large: ``"timeout"``, here or
            with fewer steps, or ``"interrupted"``.
    """

    limit: StepLimit
    algorithm: Algorithm | None
    optimal: tuple[str, ...]
    seconds: float
    file: str | None = None
    stopped: str = ""

    @property
    def attains(self) -> bool:
        """Return whether the algorithm attains the limit's upper bound."""
        return self.algorithm is not None and self.algorithm.bandwidth_cost == self.limit.upper

    @property
    def proved(self) -> bool:
        """Return whether the limit is known."""
        return self.limit.known


@dataclass(frozen=True, slots=True)
class LimitFrontier:
    """The limit frontier, as far as it was computed.

    Attributes:
        points: by ascending S, each with a smaller R/C than the one before.
        limits: of every S that was looked at.
        complete: whether nothing of the class is missing: every limit is known, and the last meets
            the bandwidth bound.
        stopped: ``"bandwidth-bound"``, ``"max-steps"`` or ``"interrupted"``.
    """

    topology: Topology
    spec: Spec
    bounds: Bounds
    points: tuple[LimitPoint, ...]
    limits: tuple[StepLimit, ...]
    complete: bool
    stopped: str
    scope: str
    seconds: float
