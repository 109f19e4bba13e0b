"""Sweeping allreduce: its halves by sweeps of their own, then the classes that they make."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Protocol

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.candidate import Candidate, Range
from sccl.core.events import Begun, Event
from sccl.core.frontier import GATHERED, TREES, ClassFrontier, Frontier, Open, Unswept
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.prove.bounds import lower_bounds
from sccl.synth.allreduce.quick_trees import quick_trees
from sccl.synth.allreduce.space import FEW_CHUNKS, INTERRUPTED, AllreduceSpace
from sccl.synth.candidates import EXTRA_STEPS, settled
from sccl.synth.folder import Folder


class SweepHalf(Protocol):
    """Sweeps a collective on the machine: all else is settled."""

    def __call__(self, spec: Spec, *, covered: Range, folder: Folder | None) -> Frontier:
        """Return its frontier, as far as it was found."""
        ...


def sweep_allreduce(  # noqa: PLR0913 - a question, who answers it, and how it reports
    topology: Topology,
    spec: Spec,
    sweep: SweepHalf,
    *,
    covered: Range,
    folder: Folder | None = None,
    notify: Callable[[Event], None] = lambda _: None,
) -> Frontier:
    """Return the frontier of allreduce over its classes, as far as it is found.

    Args:
        spec: allreduce.
        sweep: finds the frontiers of the halves.
        covered: k of each half, last S, largest C.
        folder: where to keep the algorithms. None: nowhere.
        notify: called when a part of the work begins, and with results for trees.

    Raises:
        InputError: some rank cannot be reached, or the range is empty.
    """
    begin = time.perf_counter()
    space = AllreduceSpace.of(topology, spec, covered.max_steps)
    _refuse_few_chunks(spec, covered)
    if folder:
        folder.prepare()
    run = _Run(space, sweep, covered, folder, notify)
    return run.frontier(run.halves(), begin)


@dataclass(frozen=True, slots=True)
class _Run:
    """A sweep of allreduce: its search space and its arguments."""

    space: AllreduceSpace
    sweep: SweepHalf
    covered: Range
    folder: Folder | None
    notify: Callable[[Event], None]

    @property
    def gathers(self) -> bool:
        """Return whether gathering is looked at: the allgather is swept for all numbers of chunks.

        With the chunks of an allreduce limited it is swept for those of a half alone.
        """
        return self.covered.max_chunks is None

    def halves(self) -> tuple[Frontier, ...]:
        """Return the sweeps of the halves; where links carry alike, that of the allgather alone."""
        covered = self.covered
        k = covered.k if self.space.alike else _common_k(self.space, covered)
        dual = self.space.dual
        few = None if self.gathers else (covered.max_chunks or 0) // dual.chunk_factor
        also = " and for gathering" if dual.gathers else ""
        self.notify(Begun(f"{dual.spec.name}, as a half of allreduce{also}:"))
        folder = self.folder if self.gathers and dual.gathers else None
        gather = self.half(dual.spec, Range(k, self.space.asked, few), folder)
        if not self.space.wants_scatter(gather):
            return (gather,)
        self.notify(Begun(f"{dual.scattered.name}, as a half of allreduce:"))
        wanted = Range(k, self.space.last_scatter, covered.max_chunks)
        return (self.half(dual.scattered, wanted, None), gather)

    def half(self, spec: Spec, covered: Range, folder: Folder | None) -> Frontier:
        """Return the sweep of a half."""
        return self.sweep(spec, covered=covered, folder=folder)

    def frontier(self, halves: tuple[Frontier, ...], begin: float) -> Frontier:
        """Return the frontier over the classes that halves make, and trees.

        Args:
            begin: when the first sweep did, by ``time.perf_counter``.
        """
        covered = halves[-1].covered and replace(self.covered, k=halves[-1].covered.k)
        assert covered is not None
        both = self.space.composed(halves, self.folder)
        classes = [both.swept(covered)] if both else []
        classes += self.space.exchanged(self.folder, covered.max_chunks)
        classes += self.space.gathered(halves[-1]) if self.gathers else []
        few = Unswept(GATHERED, FEW_CHUNKS)
        unswept = self.space.why_not_gathered() if self.gathers else [few]
        why = self.space.why_no_trees(halves, covered)
        try:
            trees = [] if why else [self.trees(classes)]
        except KeyboardInterrupt:
            trees, why = [], INTERRUPTED
        unswept += [Unswept(TREES, why)] if why else []
        return replace(
            self.space.frontier([*classes[:1], *trees, *classes[1:]], unswept, begin),
            covered=covered,
            solver=halves[-1].solver,
            open=_open(halves, self.space.dual),
            halves=halves,
        )

    def trees(self, others: Sequence[ClassFrontier]) -> ClassFrontier:
        """Return the class of trees, where it improves on others.

        Raises:
            KeyboardInterrupt: the user interrupted.
        """
        self.notify(Begun("trees:"))
        last = min(self.space.last, 2 * self.space.bounds.steps + 2 * EXTRA_STEPS)
        costs = [(point.steps, point.cost) for one in others for point in one.points]
        space = self.space
        return quick_trees(space.topology, space.spec, last, costs, self.folder, self.notify)


def _open(halves: Sequence[Frontier], dual: Dual) -> tuple[Open, ...]:
    """Return the undecided candidates of a half, each with the fastest other half.

    If an allgather is both halves, that is the other one, too.
    """
    found = []
    for half, other in zip(halves, reversed(halves), strict=True):
        for one in half.open:
            best = other.points[0].candidate if other.points else one.candidate
            sides = ((one.candidate, half), (best, other))
            found.append(Open(_together(sides, dual), one.reason, one.origin))
    return tuple(sorted(found, key=lambda one: one.candidate))


def _together(sides: Iterable[tuple[Candidate, Frontier]], dual: Dual) -> Candidate:
    """Return two halves as a candidate of allreduce."""
    gathers, factor = dual.spec.name, dual.chunk_factor
    each = [(c, c.chunks * (factor if half.collective == gathers else 1)) for c, half in sides]
    both = lcm(*(chunks for _, chunks in each))
    rounds = sum(c.rounds * both // chunks for c, chunks in each)
    return Candidate(Fraction(rounds, both), both, sum(c.steps for c, _ in each), rounds)


def _common_k(space: AllreduceSpace, covered: Range) -> int | None:
    """Return a k for both halves: that of the one whose bandwidth bound takes the larger."""
    found = []
    for spec in (space.dual.spec, space.dual.scattered):
        bounds = lower_bounds(space.topology, spec)
        found.append(settled(Range(covered.k), dual_of(spec), bounds).k)
    return max(k for k in found if k is not None)


def _refuse_few_chunks(spec: Spec, covered: Range) -> None:
    if covered.max_chunks is not None and covered.max_chunks < spec.unit:
        raise ParameterError(
            f"max-chunks is {covered.max_chunks}, but the chunks of {spec.name} come in multiples "
            f"of {spec.unit}: give at least that many"
        )
