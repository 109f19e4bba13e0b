"""The search space of allreduce, for sweeps and limit frontiers: halves, families, and steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.bound import AlgorithmBounds
from sccl.core.cost import Costs
from sccl.core.frontier import GATHERED, ClassFrontier, Frontier, SkippedClass
from sccl.core.instance import SweepRange
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopKind, StopReason
from sccl.core.topology import Topology
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.synth.allreduce.any_family_bound import any_family_bounds
from sccl.synth.allreduce.composed import Compositions, HalfFrontier
from sccl.synth.allreduce.families import exchange_family, gathered_family
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.candidates import EXTRA_STEPS, check_min_steps
from sccl.synth.limits import MAX_CUT_RANKS

CHUNKS_LIMITED = StopReason(StopKind.OTHER, "--max-chunks is given")
"""Why a class is not looked at: its algorithms are not counted in the chunks of an allreduce."""
UNEQUAL_GROUPS = StopReason(StopKind.OTHER, "groups of different sizes, or with ranks in common")
"""Why gathering is not looked at: the allgathers of compositions have other chunks."""


FrontierT = TypeVar("FrontierT", bound=Frontier)


@dataclass(frozen=True, slots=True)
class AllreduceSpace:
    """The halves to search on a machine, and their numbers of steps.

    Attributes:
        topology: The machine.
        spec: The allreduce.
        bounds: Lower bounds for every allreduce on the machine.
        requested_steps: Largest requested S. None: a few more than the minimum.
        is_reversible: Whether a reversed allgather is a reducescatter on the machine, so that it is
            both halves.
    """

    topology: Topology
    spec: Spec
    bounds: AlgorithmBounds
    requested_steps: int | None
    is_reversible: bool

    @classmethod
    def of(cls, topology: Topology, spec: Spec, asked: int | None) -> AllreduceSpace:
        """Return the space of an allreduce on a machine.

        Raises:
            InputError: A rank cannot be reached, or no allreduce has as few steps as requested.
        """
        bounds = any_class_bounds(topology, spec)
        if asked is not None:
            check_min_steps(asked, spec, bounds)
        return cls(topology, spec, bounds, asked, topology.reversed().same_capacities(topology))

    @property
    def dual(self) -> Dual:
        """Return the dual of the allreduce. Its collective is the allgather of the second half."""
        return dual_of(self.spec)

    def gathered_families(self, gather: Frontier) -> list[ClassFrontier]:
        """Return the family *gathered*, if the allgather of the second half can be used for it."""
        return [gathered_family(gather)] if self.dual.is_gathering else []

    def exchange_families(
        self, folder: AlgorithmFolder | None, most_chunks: int | None = None
    ) -> list[ClassFrontier]:
        """Return the family of clique exchanges, if the machine is a power of a clique."""
        of = (self.topology, self.spec, self.bounds, self.requested_steps, most_chunks, folder)
        return exchange_family(*of)

    def gathered_exclusions(self) -> list[SkippedClass]:
        """Return the family *gathered* as skipped, if it is not searched."""
        return [] if self.dual.is_gathering else [SkippedClass(GATHERED, UNEQUAL_GROUPS)]

    @property
    def min_steps(self) -> int:
        """Return the minimum number of steps of a composition."""
        # Reversed chunks use the same paths: both halves have the same greatest distance.
        return 2 * self.bounds.steps

    @property
    def max_steps(self) -> int:
        """Return the largest S of a composition."""
        return (
            self.min_steps + 2 * EXTRA_STEPS
            if self.requested_steps is None
            else self.requested_steps
        )

    @property
    def max_scatter_steps(self) -> int | None:
        """Return the largest S of a reducescatter: the rest after the shortest allgather."""
        return None if self.requested_steps is None else self.requested_steps - self.bounds.steps

    def needs_scatter(self, gather: Frontier) -> bool:
        """Return whether a reducescatter must be searched after the allgather."""
        reaches = self.max_steps >= self.min_steps
        return not self.is_reversible and reaches and not gather.is_interrupted

    def tree_exclusion_reason(
        self, halves: Iterable[Frontier], covered: SweepRange | None
    ) -> StopReason:
        """Return why trees are not searched. Empty: they are searched.

        Args:
            halves: Frontiers of the halves.
            covered: Range of a sweep. None: limits.
        """
        if any(half.is_interrupted for half in halves):
            return INTERRUPTED
        if self.topology.ranks > MAX_CUT_RANKS:
            return StopReason(StopKind.TOO_LARGE, f"more than {MAX_CUT_RANKS} ranks")
        is_limited = covered is not None and covered.max_chunks is not None
        return CHUNKS_LIMITED if is_limited else NOT_STOPPED

    def compose_halves(
        self, halves: Sequence[Frontier], folder: AlgorithmFolder | None
    ) -> Compositions | None:
        """Return the compositions of halves. None: one of them was not searched.

        Args:
            halves: Frontiers of a reducescatter and an allgather, or only of the latter if reversal
                gives the former.
            folder: Folder for the algorithms. None: none.
        """
        if not self.is_reversible and len(halves) == 1:
            return None
        of = partial(HalfFrontier, topology=self.topology, dual=self.dual)
        first = of(halves[0], is_allgather=self.is_reversible, is_reversed=self.is_reversible)
        then = of(halves[-1], is_allgather=True, is_reversed=False)
        return Compositions(self.spec, first, then, self.max_steps, folder)

    def frontier(
        self,
        make: Callable[..., FrontierT],
        classes: Sequence[ClassFrontier],
        unswept: Iterable[SkippedClass],
        begin: float,
        *,
        interrupted: bool = False,
    ) -> FrontierT:
        """Return the frontier over all families.

        Args:
            make: Constructor of the frontier, with the fields of its type.
            classes: Frontiers of the families.
            unswept: Skipped families.
            begin: Start of the first half, by ``time.perf_counter``.
            interrupted: Whether the user interrupted the search of a family. Then bounds for all
                families are not computed.
        """
        left = tuple(unswept)
        if interrupted or any(entry.reason.kind is StopKind.INTERRUPTED for entry in left):
            kind = StopKind.INTERRUPTED
        elif all(entry.is_complete for entry in classes):
            kind = StopKind.BANDWIDTH_BOUND
        else:
            kind = StopKind.MAX_STEPS
        frontier = make(
            self.topology.name,
            self.spec.name,
            self.spec.root,
            Costs.from_topology(self.topology),
            self.bounds,
            tuple(map(self._with_bounds, classes)),
            skipped=left,
            stop_reason=StopReason(kind),
        )
        if not frontier.is_interrupted:
            points = [(point.steps, point.cost) for point in frontier.points]
            try:
                limits = any_family_bounds(self.topology, self.spec, self.bounds, points)
                frontier = replace(frontier, any_class_limits=limits)
            except KeyboardInterrupt:
                frontier = replace(frontier, stop_reason=INTERRUPTED)
            classes = tuple(_mark_proved(entry, frontier) for entry in frontier.classes)
            frontier = replace(frontier, classes=classes)
        return replace(frontier, seconds=time.perf_counter() - begin).require_consistent()

    def _with_bounds(self, class_frontier: ClassFrontier) -> ClassFrontier:
        """Return a family with bounds that are at least those of all allreduces."""
        steps = max(class_frontier.steps or 0, self.bounds.steps)
        bandwidth = max(class_frontier.bandwidth or self.bounds.bandwidth, self.bounds.bandwidth)
        return replace(class_frontier, steps=steps, bandwidth=bandwidth)


def _mark_proved(class_frontier: ClassFrontier, frontier: Frontier) -> ClassFrontier:
    """Mark the points of a family that no allreduce of any family dominates as proved."""
    return replace(
        class_frontier,
        points=tuple(
            replace(point, is_proved=True, within=None, proof_origins=())
            if frontier.is_undominated(point)
            else point
            for point in class_frontier.points
        ),
    )
