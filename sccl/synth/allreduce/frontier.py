"""Allreduce over all of its classes: what a sweep and a limit frontier find, in one shape."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from sccl.collectives import Spec
from sccl.core.algorithm import Algorithm
from sccl.core.bounds import Bounds
from sccl.core.candidate import Candidate, Range
from sccl.core.frontier import Open
from sccl.core.topology import Topology
from sccl.synth.allreduce.classes import COMPOSED, ClassFrontier, staircase
from sccl.synth.frontier import Frontier, Point
from sccl.synth.limit.allreduce import TreeFrontier
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint


@dataclass(frozen=True, slots=True)
class AllreduceFrontier:
    """What is known of allreduce on a machine.

    Attributes:
        covered: k and C of the sweep; None: the limits, over all of them.
        bounds: what holds for every class.
        classes: those that were looked at, each with its own frontier and bounds.
        unswept: the names of those that were not, and why.
        halves: the sweeps of which the first class is composed.
        trees: as its certificate wants it.
    """

    topology: Topology
    spec: Spec
    covered: Range | None
    solver: str
    bounds: Bounds
    classes: tuple[ClassFrontier, ...]
    unswept: tuple[tuple[str, str], ...]
    halves: tuple[Frontier | LimitFrontier, ...]
    trees: TreeFrontier | None
    stopped: str
    seconds: float

    @property
    def stairs(self) -> tuple[tuple[str, Point | LimitPoint], ...]:
        """Return what no point of any class dominates, with the names of classes."""
        return staircase(self.classes, self.bounds)

    @property
    def points(self) -> tuple[Point | LimitPoint, ...]:
        """Return what no point of any class dominates."""
        return tuple(point for _, point in self.stairs)

    @property
    def complete(self) -> bool:
        """Return whether every class was looked at, and nothing of any is missing."""
        return not self.unswept and all(one.complete for one in self.classes)

    @property
    def every_k(self) -> bool:
        """Return whether that is so for all k and C."""
        return self.complete and all(one.within is None for one in self.classes)

    @property
    def scope(self) -> str:
        """Return the classes in words."""
        return "; ".join(one.scope for one in self.classes)

    @property
    def compositions(self) -> tuple[Algorithm, ...]:
        """Return the compositions that are written out."""
        parts = (one for one in self.classes if one.name == COMPOSED)
        found = (point.algorithm for one in parts for point in one.points)
        return tuple(a for a in found if isinstance(a, Algorithm))

    @property
    def swept(self) -> tuple[Frontier, ...]:
        """Return the halves that are of a sweep."""
        return tuple(half for half in self.halves if isinstance(half, Frontier))

    @property
    def open(self) -> tuple[Open, ...]:
        """Return what was not decided: candidates of a half, with the quickest other half."""
        halves = self.swept
        found = []
        for half, other in zip(halves, reversed(halves), strict=True):
            for one in half.open:
                best = other.points[0].candidate if other.points else one.candidate
                found.append(Open(_together(one.candidate, half, best, other), one.reason))
        return tuple(sorted(found, key=lambda one: one.candidate))

    @property
    def refuted(self) -> int:
        """Return how many candidates of the halves have no algorithm."""
        return sum(len(half.refuted) for half in self.swept)


def _together(a: Candidate, first: Frontier, b: Candidate, then: Frontier) -> Candidate:
    """Return two halves as a candidate of allreduce."""
    ranks = first.topology.ranks
    chunks = [
        c.chunks * (ranks if half.spec.name == "allgather" else 1)
        for c, half in ((a, first), (b, then))
    ]
    both = lcm(*chunks)
    rounds = a.rounds * both // chunks[0] + b.rounds * both // chunks[1]
    return Candidate(Fraction(rounds, both), both, a.steps + b.steps, rounds)
