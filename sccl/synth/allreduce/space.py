"""The search space of allreduce, for sweeps and limit frontiers: halves, classes and steps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.bounds import Bounds
from sccl.core.candidate import Range
from sccl.core.cost import Costs
from sccl.core.frontier import GATHERED, ClassFrontier, Frontier, Unswept
from sccl.core.topology import Topology
from sccl.prove.bounds import any_bounds
from sccl.synth.allreduce.classes import exchanged, gathered
from sccl.synth.allreduce.composed import Compositions, Side
from sccl.synth.allreduce.every import bounds_of_every
from sccl.synth.candidates import EXTRA_STEPS, check_enough
from sccl.synth.folder import Folder
from sccl.synth.limit.trees import MAX_RANKS

INTERRUPTED = "interrupted"
FEW_CHUNKS = "--max-chunks is given"
"""Why a class is not looked at: its algorithms are not counted in the chunks of an allreduce."""
UNEQUAL = "groups of different sizes, or with ranks in common"
"""Why gathering is not looked at: the allgathers of compositions have other chunks."""


@dataclass(frozen=True, slots=True)
class AllreduceSpace:
    """The halves to search on a machine, and their numbers of steps.

    Attributes:
        bounds: bounds for every allreduce there.
        asked: the last S requested. None: a few more than the fewest.
        alike: whether a reversed allgather is a reducescatter there, so that it is both halves.
    """

    topology: Topology
    spec: Spec
    bounds: Bounds
    asked: int | None
    alike: bool

    @classmethod
    def of(cls, topology: Topology, spec: Spec, asked: int | None) -> AllreduceSpace:
        """Return the space of an allreduce on a machine.

        Raises:
            InputError: some rank cannot be reached, or no allreduce takes as few steps as asked.
        """
        bounds = any_bounds(topology, spec)
        if asked is not None:
            check_enough(asked, spec, bounds)
        return cls(topology, spec, bounds, asked, topology.reversed().carries_like(topology))

    @property
    def dual(self) -> Dual:
        """Return the dual of the allreduce, with the allgather that is one half."""
        return dual_of(self.spec)

    def gathered(self, gather: Frontier) -> list[ClassFrontier]:
        """Return the class of gathering, if the allgather that is a half does it."""
        return [gathered(gather)] if self.dual.gathers else []

    def exchanged(
        self, folder: Folder | None, most_chunks: int | None = None
    ) -> list[ClassFrontier]:
        """Return the class of halving and doubling, if the machine has dimensions for that."""
        of = (self.topology, self.spec, self.bounds, self.asked, most_chunks, folder)
        return exchanged(*of)

    def why_not_gathered(self) -> list[Unswept]:
        """Return that gathering is not looked at, if it is not."""
        return [] if self.dual.gathers else [Unswept(GATHERED, UNEQUAL)]

    @property
    def fewest(self) -> int:
        """Return the fewest steps of a composition."""
        # Turned round, each chunk goes the same ways: the greatest distance is that of both halves.
        return 2 * self.bounds.steps

    @property
    def last(self) -> int:
        """Return the last S of a composition."""
        return self.fewest + 2 * EXTRA_STEPS if self.asked is None else self.asked

    @property
    def last_scatter(self) -> int | None:
        """Return the last S of a reducescatter: the steps that the shortest allgather leaves."""
        return None if self.asked is None else self.asked - self.bounds.steps

    def wants_scatter(self, gather: Frontier) -> bool:
        """Return whether a reducescatter is looked for once the allgather is."""
        reaches = self.last >= self.fewest
        return not self.alike and reaches and gather.stopped != INTERRUPTED

    def why_no_trees(self, halves: Iterable[Frontier], covered: Range | None) -> str:
        """Return why trees are not looked at. Empty: they are.

        Args:
            covered: of a sweep. None: of limits.
        """
        if any(half.stopped == INTERRUPTED for half in halves):
            return INTERRUPTED
        if self.topology.ranks > MAX_RANKS:
            return f"more than {MAX_RANKS} ranks"
        return FEW_CHUNKS if covered and covered.max_chunks is not None else ""

    def composed(self, halves: Sequence[Frontier], folder: Folder | None) -> Compositions | None:
        """Return the compositions of halves. None: one of them was not searched.

        Args:
            halves: of a reducescatter and an allgather, or only of the latter if these are alike.
            folder: where to keep the algorithms. None: nowhere.
        """
        if not self.alike and len(halves) == 1:
            return None
        of = partial(Side, topology=self.topology, dual=self.dual)
        first = of(halves[0], gathers=self.alike, backwards=self.alike)
        then = of(halves[-1], gathers=True, backwards=False)
        return Compositions(self.spec, first, then, self.last, folder)

    def frontier(
        self, classes: Sequence[ClassFrontier], unswept: Iterable[Unswept], begin: float
    ) -> Frontier:
        """Return the frontier over classes, as one of limits.

        Args:
            begin: when its first half did, by ``time.perf_counter``.
        """
        left = tuple(unswept)
        ended = all(one.complete for one in classes)
        stopped = "bandwidth-bound" if ended else "max-steps"
        if any(one.why == INTERRUPTED for one in left):
            stopped = INTERRUPTED
        found = Frontier(
            self.topology.name,
            self.spec.name,
            self.spec.root,
            Costs.of(self.topology),
            self.bounds,
            tuple(map(self._bounded, classes)),
            unswept=left,
            stopped=stopped,
        )
        if stopped != INTERRUPTED:
            points = [(point.steps, point.cost) for point in found.points]
            try:
                every = bounds_of_every(self.topology, self.spec, self.bounds, points)
                found = replace(found, every=every)
            except KeyboardInterrupt:
                found = replace(found, stopped=INTERRUPTED)
            classes = tuple(_proved(one, found) for one in found.classes)
            found = replace(found, classes=classes)
        return replace(found, seconds=time.perf_counter() - begin).require_consistent()

    def _bounded(self, one: ClassFrontier) -> ClassFrontier:
        """Return a class with bounds that are no weaker than those of all algorithms."""
        steps = max(one.steps or 0, self.bounds.steps)
        bandwidth = max(one.bandwidth or self.bounds.bandwidth, self.bounds.bandwidth)
        return replace(one, steps=steps, bandwidth=bandwidth)


def _proved(one: ClassFrontier, found: Frontier) -> ClassFrontier:
    """Return a class with the points marked that no allreduce of any class dominates."""
    return replace(
        one,
        points=tuple(
            replace(point, proved=True, within=None, rests_on=())
            if found.undominated(point)
            else point
            for point in one.points
        ),
    )
