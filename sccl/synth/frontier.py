"""What a sweep found, what it proved, and what it left open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sccl.collectives import Spec
from sccl.core.bounds import Bounds
from sccl.core.candidate import Candidate, Range
from sccl.core.frontier import Open, Refuted
from sccl.core.limit import StepLimit
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.core.words import proved_for


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the frontier with its algorithm.

    Attributes:
        optimal: ``"latency"`` and ``"bandwidth"``, as far as it meets the lower bounds; ``"limit"``
            if it does not meet that of R/C, but no k and no C gives less with as many steps.
        proved: whether every candidate that would dominate it has been refuted. If not, it is the
            best found; the open candidates of the frontier say what is missing.
        seconds: for the query that found it.
        from_store: whether that was earlier, and its answer was kept.
        within: the k and C that the proof is restricted to; None: nothing dominates it for any.
    """

    candidate: Candidate
    algorithm: AnyAlgorithm
    optimal: tuple[str, ...]
    proved: bool
    seconds: float
    file: Path | None
    from_store: bool = False
    within: Range | None = None

    @property
    def state(self) -> str:
        """Return what is known of it, in words."""
        return proved_for(self.within.words if self.within else "") if self.proved else "best found"


@dataclass(frozen=True, slots=True)
class Frontier:
    """The result of a sweep.

    Attributes:
        points: by ascending S, each with a smaller R/C than the one before.
        complete: whether this is the whole frontier of the class, which ``covered`` restricts
            unless ``every_k``: the bandwidth bound is met and nothing is open.
        limits: what no k and no C can beat, by number of steps, as far as that was computed.
        every_k: whether it is so for every k, not only the one that was searched.
        stopped: ``"bandwidth-bound"``, ``"max-steps"`` or ``"interrupted"``.
        scope: the class within which points are optimal.
        seconds: of the whole sweep.
    """

    topology: Topology
    spec: Spec
    covered: Range
    solver: str
    bounds: Bounds
    points: tuple[Point, ...]
    open: tuple[Open, ...]
    refuted: tuple[Refuted, ...]
    limits: tuple[StepLimit, ...]
    complete: bool
    every_k: bool
    stopped: str
    scope: str
    seconds: float
