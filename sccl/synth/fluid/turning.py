"""Allreduce as one packing: contributions go up a tree to a rank, and the sum down another.

Each plan has its place and time of the turn. So all links can be busy from the first moment to an
alpha before the last one, whereas in each of two phases some are idle for an alpha. A tree up is a
tree down, over reversed links and backwards in time: the same tables price both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf

from sccl.collectives import Spec, dual_of, named
from sccl.core.outcome import Bound, Found, Measure
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.synth.contract import Request
from sccl.synth.flows.placed import Reading
from sccl.synth.flows.problem import FluidCommodity, FluidProblem, Tree, pose
from sccl.synth.flows.schedules import Placing, UpAndDownWays
from sccl.synth.flows.shares import TimedPacking, TreePart
from sccl.synth.flows.slots import TimeSlots
from sccl.synth.fluid.least import Least
from sccl.synth.fluid.rounds import RoundPricing
from sccl.synth.fluid.turns import TurnPricing

_PS_PER_US = 10**6

_FEW = Fraction(3, 2)
"""Multiple of the time to a rank and from it, up to which borders come first."""


def can_turn(topology: Topology, spec: Spec) -> bool:
    """Return whether bytes may turn: all ranks contribute to them, and all want them.

    Every link has an alpha: an arrival and its forwarding are never planned for the same moment.
    """
    alike = spec == named("allreduce", topology.ranks) and not spec.counts
    return alike and topology.ranks > 1 and all(link.alpha_us for link in topology.links)


def pooled(problem: FluidProblem) -> FluidProblem:
    """Return an allgather's problem with one commodity for all of an allreduce's bytes.

    Each class of chunks is any part of these, and its symmetry maps the plan of the first to it.
    """
    ranks = range(problem.topology.ranks)
    every = tuple(member for one in problem.commodities for member in one.members)
    far = [max(problem.distances([rank], hops=True).values()) for rank in ranks]
    middle = min(ranks, key=lambda rank: far[rank])
    size = sum((one.size * len(one.members) for one in problem.commodities), Fraction(0))
    one = FluidCommodity(frozenset([middle]), frozenset(ranks), size / len(every), every)
    return replace(problem, commodities=(one,))


def up_and_down(problem: FluidProblem, rounds: RoundPricing) -> tuple[FluidProblem, UpAndDownWays]:
    """Return an allgather's problem as one of up and down, and the meaning of its ways.

    Each rank occurs twice: while it adds contributions, and once it has the sum. A way leads from
    rank to rank of the first kind, or of the second, or from the first to the second, where ranks
    exchange their sums. Then comes, for each rank, the way from the one to the other, and last, for
    each round, all ways again: from the end of the round before to its end.
    """
    ranks, count = problem.topology.ranks, len(problem.edges)
    steps = [(0, 0), (0, ranks), (ranks, ranks)]
    edges = [(u + up, v + down) for up, down in steps for u, v in problem.edges]
    edges += [(rank, rank + ranks) for rank in range(ranks)]
    ways = (*(problem.ways * len(steps)), *((),) * ranks)
    alpha = (*(problem.alpha * len(steps)), *(Fraction(0),) * ranks)
    every = tuple(range(count))
    turned = (*(every * len(steps)), *(-1,) * ranks)
    levels = rounds.most_adds + rounds.most_tells
    for level in range(levels):
        edges += [(2 * ranks + level, 2 * ranks + level + 1)] * count
    first = [-1] * count + [0] * count + [-1] * (count + ranks)
    exchanged = [*first, *(1 + i // count for i in range(levels * count))]
    adds = [*(i < 2 * count for i in range(len(first)))]
    adds += [i < rounds.most_adds * count for i in range(levels * count)]
    doubled = replace(
        problem,
        edges=tuple(edges),
        ways=ways + problem.ways * levels,
        alpha=alpha + problem.alpha * levels,
    )
    return doubled, UpAndDownWays(turned + every * levels, tuple(adds), tuple(exchanged))


def told_apart(problem: FluidProblem, slots: TimeSlots, tree: Tree, rounds: RoundPricing) -> Tree:
    """Return sends up and down, or in rounds, as sends over the ways of :func:`up_and_down`."""
    count, ranks = len(problem.edges), problem.topology.ranks
    if tree in rounds.known:
        first = 3 * count + ranks
        return frozenset((first + k * count + e, slot) for k, e, slot in rounds.known[tree])
    everyone = (1 << ranks) - 1
    parts = [[(0, 1 << rank)] for rank in range(ranks)]  # since when, of whom
    up: dict[int, tuple[int, int, int]] = {}
    found: set[tuple[int, int]] = set()
    turns: dict[int, int] = {}
    for slot, link in sorted((slot, link) for link, slot in tree):
        u, v = problem.edges[link]
        has = 0
        for since, some in parts[u]:
            has |= some if since <= slot else 0
        parts[v].append((int(slots.arrive[link, slot]), has))
        if has == everyone:
            found.add((2 * count + link, slot))
            turns.setdefault(u, slot)
        else:
            up[u] = (v, link, slot)
    for u, (v, link, slot) in up.items():
        exchanged = v in up and up[v][0] == u
        found.add((count + link if exchanged else link, slot))
    down = {problem.edges[link - 2 * count][1] for link, _ in found if link >= 2 * count}
    found |= {(3 * count + rank, slot) for rank, slot in turns.items() if rank not in down}
    return frozenset(found)


def dealt(problem: FluidProblem, packing: TimedPacking, rounds: RoundPricing) -> TimedPacking:
    """Return a packing of the pooled problem with its trees dealt out to classes, one by one.

    Args:
        problem: an allgather's.
    """
    count = len(problem.commodities)
    shares: list[TreePart] = []
    whole, before = sum(share.part for share in packing.shares), 0.0
    for share in packing.shares:
        tree = told_apart(problem, packing.slots, share.tree, rounds)
        after = before + share.part / whole * count
        for c in range(int(before), min(count, ceil(after))):
            part = min(after, c + 1) - max(before, c)
            if part > 0:
                shares.append(TreePart(c, tree, part))
        before = after
    return replace(packing, shares=tuple(shares))


@dataclass
class TurningLeast(Least):
    """A search for the least time of trees up and down, and of rounds."""

    def _search(
        self,
        slots: TimeSlots,
        *,
        enough: float = 0.0,
        hopeless: float = inf,
        start: Iterable[tuple[int, Tree]] = (),
        most: float = inf,
    ) -> TimedPacking | None:
        assert isinstance(self.engine, TurnPricing)
        first = [*start, *((0, tree) for tree in self.engine.rounds.soonest(slots.arrive))]
        return super()._search(slots, enough=enough, hopeless=hopeless, start=first, most=most)

    def _turns(self) -> tuple[Callable[[], object], ...]:
        if self.floor <= _FEW * self._farthest(hops=False):
            return (self._few_alphas, self._where_none)
        return (self._any_lengths, self._steady, self._few_alphas)

    def _where_none(self) -> None:
        """Look at slots of any lengths, where there are too many borders for all to be looked at.

        Else these are as good as any, or nearly so, and each slot but theirs is an alpha or longer.
        """
        if self.best is None:
            self._any_lengths()
            self._steady()

    def _few_ranks(self) -> bool:
        return False

    def _farthest(self, *, hops: bool) -> Fraction:
        return 2 * super()._farthest(hops=hops)


def turned(  # noqa: PLR0913, PLR0917 - a question, what is known, how well, how long, who is told
    request: Request,
    phases: Found | None,
    floor: Fraction,
    gap: float,
    units: float,
    deadline: float,
    told: Callable[[float, float], None],
) -> tuple[Found | None, bool]:
    """Return the better of two phases and trees up and down, and whether the user interrupted.

    Args:
        phases: None: there are none.
        floor: lower bound, microseconds.
        gap: allowed relative gap to it.
        units: limit on effort.
        deadline: time by ``time.perf_counter()``.
        told: called with (bound, best so far), microseconds.

    Raises:
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    problem = pose(request.topology, dual_of(request.spec), request.size_bytes)
    whole = pooled(problem)
    try:
        pricing = TurnPricing(whole)
    except TooLargeError:
        return phases, False
    late = lambda: time.perf_counter() > deadline  # noqa: E731
    doubled, ways = up_and_down(problem, pricing.rounds)
    readings = (Reading(request.topology, ways.turned),)
    placing = Placing(doubled, dual_of(request.spec), readings, late, ways)

    def place(packing: TimedPacking, enough: float, thorough: bool) -> float:
        """Make schedules of trees that are dealt out to classes of chunks."""
        return placing.place(dealt(problem, packing, pricing.rounds), enough, thorough)

    search = TurningLeast(whole, pricing, floor, gap, units, deadline, told, place)
    search.placed_us = float(phases.bound.attained) if phases is not None else inf
    interrupted = False
    try:
        search.run()
    except TooLargeError:
        pass  # of more slots: what fewer say is kept
    except KeyboardInterrupt:
        if placing.plan is None and phases is None:
            raise
        interrupted = True
    if placing.plan is None:
        return phases, interrupted
    schedule = placing.schedule(request.topology, request.spec)
    attained = Fraction(schedule.finish * schedule.tick_ps, _PS_PER_US)
    found = [
        Found(schedule, Bound(Measure.TIME_US, attained, floor)),
        *([phases] if phases else []),
    ]
    return min(found, key=lambda one: one.bound.attained), interrupted
