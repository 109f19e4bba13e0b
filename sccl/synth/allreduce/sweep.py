"""Sweep allreduce: its halves separately, then the families."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import lcm
from typing import Protocol

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.frontier import (
    GATHERED,
    TREES,
    ClassFrontier,
    Frontier,
    OpenCandidate,
    SkippedClass,
    SweepFrontier,
)
from sccl.core.instance import Candidate, SweepRange
from sccl.core.stop import INTERRUPTED
from sccl.core.topology import Topology
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.allreduce.search_space import CHUNKS_LIMITED, AllreduceSpace
from sccl.synth.allreduce.tree_family import quick_tree_family
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.candidates import EXTRA_STEPS, check_max_chunks, choose_k
from sccl.synth.common.sweep_events import PartStarted, SweepEvent


class HalfSweeper(Protocol):
    """Sweeps a collective on a fixed machine with fixed settings."""

    def __call__(
        self, spec: Spec, *, covered: SweepRange, folder: AlgorithmFolder | None
    ) -> SweepFrontier:
        """Return the frontier, as far as it was found."""
        ...


def sweep_allreduce(  # noqa: PLR0913 - a question, who answers it, and how it reports
    topology: Topology,
    spec: Spec,
    sweep: HalfSweeper,
    *,
    covered: SweepRange,
    folder: AlgorithmFolder | None = None,
    notify: Callable[[SweepEvent], None] = lambda _: None,
) -> SweepFrontier:
    """Return the frontier of allreduce over its families, as far as it is found.

    Args:
        topology: The machine.
        spec: The allreduce.
        sweep: Function that sweeps a half.
        covered: k of each half, last S, largest C.
        folder: Folder for the algorithms. None: none.
        notify: Called when a part of the work starts, and with results for trees.

    Raises:
        InputError: A rank cannot be reached, or the range is empty.
    """
    begin = time.perf_counter()
    space = AllreduceSpace.of(topology, spec, covered.max_steps)
    check_max_chunks(spec, covered)
    if folder:
        folder.prepare()
    run = _AllreduceSweep(space, sweep, covered, folder, notify)
    return run.frontier(run.sweep_halves(), begin)


@dataclass(frozen=True, slots=True)
class _AllreduceSweep:
    space: AllreduceSpace
    sweep: HalfSweeper
    covered: SweepRange
    folder: AlgorithmFolder | None
    notify: Callable[[SweepEvent], None]

    @property
    def includes_gathering(self) -> bool:
        """Return whether the family *gathered* is included.

        If the chunks of the allreduce are limited, the allgather is swept only with the chunks of a
        half, which are too few.
        """
        return self.covered.max_chunks is None

    def sweep_halves(self) -> tuple[SweepFrontier, ...]:
        """Return the sweeps of the halves. With symmetric links, only that of the allgather."""
        covered = self.covered
        k = covered.k if self.space.is_reversible else _common_k(self.space, covered)
        dual = self.space.dual
        few = None if self.includes_gathering else (covered.max_chunks or 0) // dual.chunk_factor
        also = " and for gathering" if dual.is_gathering else ""
        self.notify(PartStarted(f"{dual.spec.name}, as a half of allreduce{also}:"))
        folder = self.folder if self.includes_gathering and dual.is_gathering else None
        gather = self.sweep_half(dual.spec, SweepRange(k, self.space.requested_steps, few), folder)
        if not self.space.needs_scatter(gather):
            return (gather,)
        self.notify(PartStarted(f"{dual.first_phase.name}, as a half of allreduce:"))
        wanted = SweepRange(k, self.space.max_scatter_steps, covered.max_chunks)
        return (self.sweep_half(dual.first_phase, wanted, None), gather)

    def sweep_half(
        self, spec: Spec, covered: SweepRange, folder: AlgorithmFolder | None
    ) -> SweepFrontier:
        return self.sweep(spec, covered=covered, folder=folder)

    def frontier(self, halves: tuple[SweepFrontier, ...], begin: float) -> SweepFrontier:
        """Return the frontier over the families, from the halves and trees.

        Args:
            halves: Sweeps of the halves.
            begin: Start of the first sweep, by ``time.perf_counter``.
        """
        covered = replace(self.covered, k=halves[-1].covered.k)
        both = self.space.compose_halves(halves, self.folder)
        classes = [both.frontier_of_sweeps(covered)] if both else []
        classes += self.space.exchange_families(self.folder, covered.max_chunks)
        classes += self.space.gathered_families(halves[-1]) if self.includes_gathering else []
        few = SkippedClass(GATHERED, CHUNKS_LIMITED)
        unswept = self.space.gathered_exclusions() if self.includes_gathering else [few]
        why = self.space.tree_exclusion_reason(halves, covered)
        try:
            trees = [] if why else [self.tree_family(classes)]
        except KeyboardInterrupt:
            trees, why = [], INTERRUPTED
        unswept += [SkippedClass(TREES, why)] if why else []
        make = partial(
            SweepFrontier,
            covered=covered,
            solver=halves[-1].solver,
            open=_open_candidates(halves, self.space.dual),
            halves=halves,
        )
        return self.space.frontier(make, [*classes[:1], *trees, *classes[1:]], unswept, begin)

    def tree_family(self, others: Sequence[ClassFrontier]) -> ClassFrontier:
        """Return the family of trees. Values that other families attain are not searched for long.

        Raises:
            KeyboardInterrupt: The user interrupted.
        """
        self.notify(PartStarted("trees:"))
        last = min(self.space.max_steps, 2 * self.space.bounds.steps + 2 * EXTRA_STEPS)
        costs = [
            (point.steps, point.cost)
            for class_frontier in others
            for point in class_frontier.points
        ]
        space = self.space
        return quick_tree_family(space.topology, space.spec, last, costs, self.folder, self.notify)


def _open_candidates(halves: Sequence[Frontier], dual: Dual) -> tuple[OpenCandidate, ...]:
    """Return the undecided candidates of each half, composed with the fastest other half.

    If an allgather is both halves, it is also the other half.
    """
    undecided = []
    for half, other_half in zip(halves, reversed(halves), strict=True):
        for entry in half.open:
            best = other_half.points[0].candidate if other_half.points else entry.candidate
            sides = ((entry.candidate, half), (best, other_half))
            undecided.append(
                OpenCandidate(_composed_candidate(sides, dual), entry.reason, entry.origin)
            )
    return tuple(sorted(undecided, key=lambda entry: entry.candidate))


def _composed_candidate(sides: Iterable[tuple[Candidate, Frontier]], dual: Dual) -> Candidate:
    gathers, factor = dual.spec.name, dual.chunk_factor
    each = [(c, c.chunks * (factor if half.collective == gathers else 1)) for c, half in sides]
    both = lcm(*(chunks for _, chunks in each))
    rounds = sum(c.rounds * both // chunks for c, chunks in each)
    return Candidate(Fraction(rounds, both), both, sum(c.steps for c, _ in each), rounds)


def _common_k(space: AllreduceSpace, covered: SweepRange) -> int | None:
    """Return a k for both halves: the larger of the k that their bandwidth bounds need."""
    k_values = []
    for spec in (space.dual.spec, space.dual.first_phase):
        bounds = lower_bounds(space.topology, spec)
        k_values.append(choose_k(SweepRange(covered.k), dual_of(spec), bounds).k)
    return max(k for k in k_values if k is not None)
