"""Compute lower bounds on the completion time of any plan, with any chunks, for any buffer size.

They hold for any movement of the data, in steps or not, in pieces of any size.

- *A cut.* Take a set of nodes, and all data that have to leave it. Each link out of it is useful
  only within a time window. The window begins when the first such data can arrive at the link from
  the nearest rank that holds them. It ends when data on the link become too late to reach their
  destination. Within their windows all links together must carry all these data, within the budgets
  (:mod:`sccl.core.capacity`).
- *Groups.* For allreduce, divide a machine into G groups. Each byte is sent at least 2 (G - 1)
  times between them, since a group acts at best like one rank that has all its data
  (:mod:`sccl.prove.bounds.any_class`). If ranks reduce in groups, G counts the groups with their
  ranks.
- *All links.* The lower bound on R/C also bounds the time for bytes on links of equal speed
  (:mod:`sccl.prove.bounds.lower_bounds`), and no link is useful in the last alpha.

The search tries cuts that are usually tight: the nodes within a distance from or to a rank, each
chassis, and the components of links with at least a given speed. The data of a cut may be
restricted to sources and destinations far from it, or to a single rank. This counts fewer bytes but
more alphas. Any cut is valid, and the bound is the maximum over all cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import lcm
from typing import Literal

from sccl.collectives import Spec, is_allreduce
from sccl.core.capacity import LinkWindow, SlopeChange, capacity_changes, completion_time
from sccl.core.clock import AlphaModel
from sccl.core.graphs import shortest_paths
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.errors import TooLargeError, UnreachableError
from sccl.prove.bounds.any_class import any_class_bandwidth, exchange_demand
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.prove.bounds.switch_sides import narrowest_sides
from sccl.topo.symmetry.automorphisms import automorphisms
from sccl.topo.symmetry.permutations import rank_orbits

MAX_CENTERS = 32
"""Maximum number of ranks around which cuts are tried. Larger machines try one of each orbit."""

MAX_RANKS = 1024
"""Maximum number of ranks. Beyond, distances take minutes."""

MAX_SPEEDS = 16
"""Number of fastest link speeds whose components are tried as groups."""

MAX_DISTANCES = 6
"""Number of minimum distances from a cut to which its sources and destinations are restricted."""

MAX_PRICED_RANKS = 64
"""Maximum number of ranks for the bound on R/C, which may need a large linear program."""

AlphaDistances = dict[int, dict[int, int]]
"""Distances from node to node in alphas, as integers in a common unit."""

SizedChunkClass = tuple[frozenset[int], frozenset[int], int]
"""The holders of chunks, their destinations, and their number."""


@dataclass(frozen=True, slots=True)
class CutSides:
    """A cut of nodes.

    Attributes:
        left: The nodes that data have to leave.
        sources: Ranks whose data count: only data that they alone hold, or contribute to.
        goals: Destinations whose data count.
    """

    left: frozenset[int]
    sources: frozenset[int]
    goals: frozenset[int]


@dataclass(frozen=True, slots=True)
class TimeCut:
    """The data that have to cross a cut, and the capacity over it.

    Attributes:
        share: Bytes, relative to a rank's buffer.
        changes: changes of the slope of the capacity over time (:mod:`sccl.core.capacity`).
        cut: the cut, or the groups of nodes between which an allreduce has to send.
    """

    share: Fraction
    changes: tuple[SlopeChange, ...]
    cut: CutSides | tuple[frozenset[int], ...] = field(compare=False)

    def us(self, size_bytes: int | Fraction) -> Fraction:
        """Return the earliest time at which the links can have carried all data, microseconds."""
        return completion_time(self.changes, self.share * size_bytes)[0]

    def us_per_byte(self, size_bytes: int | Fraction) -> Fraction:
        """Return the minimum increase of the time per additional byte of a rank's buffer."""
        return self.share / completion_time(self.changes, self.share * size_bytes)[1]


@dataclass(frozen=True, slots=True)
class PriceLine:
    """A lower bound on time for all sizes by prices of links in slots.

    Attributes:
        begin: Smallest time at which the prices are valid, microseconds.
        end: Largest time at which the prices are valid, microseconds.
        us_per_byte: Slope per byte of a rank's buffer between ``begin`` and ``end``.
        before_us: Part of the cost of slots that does not depend on the time, microseconds. The
            line subtracts it.
    """

    begin: Fraction
    end: Fraction
    us_per_byte: Fraction
    before_us: Fraction

    def us(self, size_bytes: int | Fraction) -> Fraction:
        """Return the lower bound for a rank's buffer of a size, microseconds."""
        line = self.us_per_byte * size_bytes - self.before_us
        if line < self.begin:
            return self.begin * size_bytes * self.us_per_byte / (self.begin + self.before_us)
        return min(line, self.end)


BoundSource = Literal["cuts", "prices"]
"""The kind of proof of a bound."""


@dataclass(frozen=True, slots=True)
class CompletionTimeBound:
    """The lower bound on the time of any plan for a collective on a machine, by size.

    Attributes:
        cuts: Data that cross cuts.
        alpha_us: The smallest alpha.
        us_per_byte: Time per byte of a rank's buffer by the bound on R/C. 0: unknown.
        model: Whether alphas travel or occupy their links.
        prices: Bounds by prices of links, in addition to those of cuts.
    """

    cuts: tuple[TimeCut, ...]
    alpha_us: Fraction
    us_per_byte: Fraction
    model: AlphaModel = AlphaModel.TRAVELS
    prices: tuple[PriceLine, ...] = ()

    def us(self, size_bytes: int | Fraction) -> Fraction:
        """Return the bound for a rank's buffer of a size, in microseconds."""
        return max([self.us_by_cuts(size_bytes), *(line.us(size_bytes) for line in self.prices)])

    def us_by_cuts(self, size_bytes: int | Fraction) -> Fraction:
        """Return the bound without prices, in microseconds."""
        lower_bound = self.alpha_us + self.us_per_byte * size_bytes if self.cuts else Fraction(0)
        return max([lower_bound, *(crossing.us(size_bytes) for crossing in self.cuts)])

    def raise_at(self, size_bytes: int, us: Fraction) -> CompletionTimeBound:
        """Return the bound, raised to at least ``us`` microseconds at a size."""
        if us <= self.us(size_bytes):
            return self
        point = PriceLine(us, us, us / size_bytes, Fraction(0))
        return replace(self, prices=(*self.prices, point))

    def source(self, size_bytes: int | Fraction) -> BoundSource:
        """Return the kind of proof of the bound for a size."""
        return "prices" if self.us(size_bytes) > self.us_by_cuts(size_bytes) else "cuts"


@lru_cache(maxsize=8)
def completion_time_bound(
    topology: Topology,
    spec: Spec,
    model: AlphaModel = AlphaModel.TRAVELS,
    *,
    backwards: bool = False,
) -> CompletionTimeBound:
    """Return a lower bound on the completion time of a collective on a machine, for any size.

    The latest results are cached, since callers evaluate them at many sizes.

    Args:
        topology: the machine.
        spec: the collective at any number of chunks.
        model: whether alphas travel or occupy their links.
        backwards: whether the machine is reversed, and schedules on it are read backwards.

    Raises:
        CollectiveError: the collective is for another number of ranks.
        UnreachableError: A chunk cannot reach a destination.
        TooLargeError: there are more than :data:`MAX_RANKS` ranks.
    """
    if topology.ranks > MAX_RANKS:
        raise TooLargeError(
            f"topology {topology.name!r} has {topology.ranks} ranks; lower bounds on the "
            f"completion time are computed for up to {MAX_RANKS}: give fewer"
        )
    cuts = _CutSearch(topology, spec, model, backwards=backwards)
    crossings = tuple(sorted(set(cuts.time_cuts()), key=lambda c: (c.share, c.changes)))
    alpha = min(Fraction(str(link.alpha_us)) for link in topology.links)
    return CompletionTimeBound(crossings, alpha, _bandwidth_us_per_byte(topology, spec), model)


def _bandwidth_us_per_byte(topology: Topology, spec: Spec) -> Fraction:
    """Return the time per byte by the bound on R/C, or 0 if unknown, e.g. if lanes differ."""
    speeds = {*(link.gb_per_s for link in topology.links), *topology.budget_speeds()}
    sums = is_allreduce(spec)
    too_many = topology.ranks > MAX_PRICED_RANKS and not sums
    if topology.switches or len(speeds) > 1 or too_many:
        return Fraction(0)
    bandwidth = (
        any_class_bandwidth(topology, spec) if sums else lower_bounds(topology, spec).bandwidth
    )
    return bandwidth / (1000 * Fraction(str(speeds.pop())))


def _to_bits(nodes: Iterable[int]) -> int:
    """Return a set as a bit mask, for fast intersections."""
    return sum(1 << node for node in nodes)


def _from_bits(bits: int) -> set[int]:
    return {rank for rank in range(bits.bit_length()) if bits >> rank & 1}


class _CutSearch:
    """The cuts of a machine, and the data that have to cross them."""

    def __init__(
        self, topology: Topology, spec: Spec, model: AlphaModel, *, backwards: bool
    ) -> None:
        self.topology, self.collective = topology, (collective := spec.at(spec.unit))
        self.backwards = backwards
        self.occupies = model is AlphaModel.OCCUPIES
        alphas = {k.edge: Fraction(str(k.alpha_us)) for k in topology.links}
        self.scale = lcm(*(alpha.denominator for alpha in alphas.values()))
        self.alpha = {edge: int(alpha * self.scale) for edge, alpha in alphas.items()}
        self.rate = {k.edge: 1000 * k.lanes * Fraction(str(k.gb_per_s)) for k in topology.links}
        self.is_allreduce = is_allreduce(spec)
        self.nodes = range(topology.ranks + len(topology.switches))
        successors = topology.successors()
        self.distances: AlphaDistances = {
            node: {k: int(v) for k, v in shortest_paths(successors, self.alpha, [node]).items()}
            for node in self.nodes
        }
        overlapped = self._overlapped_alphas()
        self.ahead, self.onward = (
            (overlapped, self.distances) if backwards else (self.distances, overlapped)
        )
        self.classes: list[SizedChunkClass] = [
            (frozenset(map(int, held)), frozenset(map(int, wanted)), collective.amount(chunks))
            for (held, wanted), chunks in collective.chunk_classes().items()
            if wanted - held or collective.combining
        ]
        self.demands: dict[int, list[tuple[int, int]]] = {}
        for held, wanted, chunks in self.classes:
            self.demands.setdefault(_to_bits(held), []).append((_to_bits(wanted), chunks))
        self._check_reachable()

    def _check_reachable(self) -> None:
        for held, wanted, _ in self.classes:
            for rank in sorted(wanted):
                missing = [h for h in sorted(held) if rank not in self.distances[h]]
                if len(missing) == len(held) or (missing and self.collective.combining):
                    raise UnreachableError(
                        f"topology {self.topology.name!r}: no path leads from rank {missing[0]} "
                        f"to rank {rank}, where {self.collective.name} needs its data: add links"
                    )

    def _overlapped_alphas(self) -> AlphaDistances:
        """Return the alpha distances that follow the last byte of a transfer, by node.

        If alphas occupy links, a cut-through switch spends the alpha of its outgoing link while the
        bytes still arrive, so the last byte may pass at once. For schedules read backwards, that
        link leads into the switch.
        """
        through = {
            self.topology.ranks + i for i, s in enumerate(self.topology.switches) if s.cut_through
        }
        if not (self.occupies and through):
            return self.distances
        end = 1 if self.backwards else 0
        alpha = {
            edge: 0 if edge[end] in through else link_alpha
            for edge, link_alpha in self.alpha.items()
        }
        successors = self.topology.successors()
        return {
            node: {k: int(v) for k, v in shortest_paths(successors, alpha, [node]).items()}
            for node in self.nodes
        }

    def time_cuts(self) -> Iterator[TimeCut]:
        ranks: Iterable[int] = range(self.topology.ranks)
        if self.topology.ranks > MAX_CENTERS:
            ranks = rank_orbits(self.topology, automorphisms(self.topology, self.collective))
        for center in (centers := list(ranks)[:MAX_CENTERS]):
            yield from self._radius_cuts(center)
        everyone = frozenset(self.nodes)
        if self.is_allreduce:  # single ranks: the R/C bound if links differ in speed
            yield from self._group_cuts([frozenset([rank]) for rank in range(self.topology.ranks)])
        if self.is_allreduce and len(self.classes) > 1:
            from sccl.prove.bounds.network_strength import merged_partition  # noqa: PLC0415 - loads OR-Tools

            if weakest := merged_partition(self.topology, self.collective):
                yield from self._group_cuts(list(weakest))
        for groups in self._groupings():
            if self.is_allreduce:
                yield from self._group_cuts(groups)
            for inside in groups:
                lefts = dict.fromkeys(
                    (inside, everyone - inside, *narrowest_sides(self.topology, self.rate, inside))
                )
                for left in lefts:
                    for sources, goals in self._distant_ranks(left):
                        yield from self._class_cuts(left, sources, goals)
                for center in inside.intersection(centers):  # data from outside pass on
                    for left in lefts:
                        yield from self._root_cuts(left, center)

    def _groupings(self) -> Iterator[list[frozenset[int]]]:
        """Yield partitions of the nodes: by chassis, and by components of fast links."""
        from igraph import Graph  # noqa: PLC0415 - slow to load, and few commands need it

        ranks = self.topology.ranks
        if chassis := [frozenset(map(int, together)) for together in self.topology.chassis]:
            single_ranks = set(range(ranks)).difference(*chassis)
            yield chassis + [frozenset({rank}) for rank in sorted(single_ranks)]
        for speed in sorted(set(self.rate.values()), reverse=True)[:MAX_SPEEDS]:
            fast = [edge for edge, rate in self.rate.items() if rate >= speed]
            graph = Graph(n=len(self.nodes), edges=fast, directed=True)
            joined = map(frozenset, graph.connected_components(mode="strong"))
            groups = sorted((g for g in joined if min(g) < ranks), key=min)
            if len(groups) > 1:
                yield groups

    def _root_cuts(self, left: frozenset[int], center: int) -> Iterator[TimeCut]:
        """Yield crossings of one rank's data over a cut: all, and those of the farthest peer."""
        singleton, is_left = frozenset([center]), center in left
        far = (
            self.distances[center]
            if is_left
            else {r: to.get(center, -1) for r, to in self.distances.items()}
        )
        beyond = [r for r in range(self.topology.ranks) if (r in left) != is_left]
        others = [frozenset(self.nodes)]
        if beyond:
            others.append(frozenset([max(beyond, key=lambda r: (far.get(r, -1), -r))]))
        for peers in others:
            yield from self._class_cuts(
                left, *((singleton, peers) if is_left else (peers, singleton))
            )

    def _group_cuts(self, groups: list[frozenset[int]]) -> Iterator[TimeCut]:
        """Yield the crossings between groups of an allreduce, if data have to cross."""
        group_of = {node: i for i, group in enumerate(groups) for node in group}
        ranks, entering = range(self.topology.ranks), dict[Edge, LinkWindow]()
        for (u, v), alpha in self.alpha.items():
            if v in group_of and group_of.get(u) != group_of[v]:
                before = 0 if u in ranks else min(self.ahead[rank].get(u, 0) for rank in ranks)
                after = 0 if v in ranks else min(self.onward[v].get(rank, 0) for rank in ranks)
                entering[u, v] = self._window(before, alpha, after)
        if share := exchange_demand(self.collective, groups):
            for changes in self._capacities(entering):
                yield TimeCut(share, changes, tuple(groups))

    def _radius_cuts(self, center: int) -> Iterator[TimeCut]:
        """Yield the crossings of all cuts by distance from a rank."""
        out_of = self.distances[center]
        into = {
            node: self.distances[node][center]
            for node in self.nodes
            if center in self.distances[node]
        }
        everyone = frozenset(self.nodes)
        ranks = range(self.topology.ranks)
        for distances, outward in ((out_of, True), (into, False)):
            farthest = max(ranks, key=lambda r: (distances.get(r, -1), -r))
            balls = [
                frozenset([center]),  # the rank alone, in case its links have no alpha
                *(
                    frozenset(node for node, far in distances.items() if far <= radius)
                    for radius in sorted(set(distances.values()))[:-1]
                ),
            ]
            for ball in dict.fromkeys(balls):
                left = ball if outward else everyone - ball
                singleton, farthest_set = frozenset([center]), frozenset([farthest])
                yield from self._class_cuts(left, singleton if outward else everyone, everyone)
                yield from self._class_cuts(left, everyone, everyone if outward else singleton)
                source, goal = (singleton, farthest_set) if outward else (farthest_set, singleton)
                yield from self._class_cuts(left, source, goal)
                for sources, goals in self._distant_ranks(left):  # beyond the ball
                    if outward and ball.intersection(ranks) <= sources:
                        yield from self._class_cuts(left, singleton, goals)
                        yield from self._class_cuts(left, ball, goals)
                    elif not outward and ball.intersection(ranks) <= goals:
                        yield from self._class_cuts(left, sources, singleton)
                        yield from self._class_cuts(left, sources, ball)

    def _distant_ranks(
        self, left: frozenset[int]
    ) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
        """Yield the ranks at minimum distances from a cut, on either side.

        With fewer ranks, fewer data have to cross, but the first data arrive later, or the last
        data travel longer.
        """
        out = [(u, v) for u, v in self.alpha if u in left and v not in left]
        to: dict[int, list[int]] = {}
        ranks = range(self.topology.ranks)
        for rank in ranks:
            ends = (
                [self.distances[rank].get(u) for u, _ in out]
                if rank in left
                else [self.distances[v].get(rank) for _, v in out]
            )
            if reached := [far for far in ends if far is not None]:
                to.setdefault(min(reached), []).append(rank)
        chosen = sorted(to)[:MAX_DISTANCES]
        inside, outside = (
            list(
                dict.fromkeys(
                    frozenset(
                        r
                        for far, group in to.items()
                        if far >= min_distance
                        for r in group
                        if (r in left) == side
                    )
                    for min_distance in chosen
                )
            )
            for side in (True, False)
        )
        for sources in inside:
            for goals in outside:
                if sources and goals:
                    yield sources, goals

    def _class_cuts(
        self, left: frozenset[int], among: frozenset[int], to: frozenset[int]
    ) -> Iterator[TimeCut]:
        """Yield the crossings of the data that have to leave a set of nodes, if there are any.

        Args:
            left: The set of nodes.
            among: Ranks whose data count: only data that they alone hold, or contribute to.
            to: Destinations whose data count.
        """
        source_bits, goal_bits = _to_bits(left & among), _to_bits(to - left)
        count, of, at = 0, 0, 0
        for held, wants in self.demands.items():
            holders = held & source_bits
            if not holders or (holders != held and not self.collective.combining):
                continue
            before = count
            for wanted, chunks in wants:
                if wanters := wanted & goal_bits:
                    count += chunks
                    at |= wanters
            if count > before:
                of |= holders
        sources, goals = _from_bits(of), _from_bits(at)
        if count:
            share = Fraction(count, self.collective.chunks)
            sides = CutSides(left, frozenset(sources), frozenset(goals))
            for changes in self._capacities(self._windows(left, sources, goals)):
                yield TimeCut(share, changes, sides)

    def _windows(
        self, left: frozenset[int], sources: set[int], goals: set[int]
    ) -> dict[Edge, LinkWindow]:
        """Return the time window of each link out of a set, for bytes from sources to goals."""
        out = [(u, v) for u, v in self.alpha if u in left and v not in left]
        before = {u: [self.ahead[s][u] for s in sources if u in self.distances[s]] for u, _ in out}
        after = {v: [self.onward[v][g] for g in goals if g in self.onward[v]] for _, v in out}
        return {
            (u, v): self._window(min(before[u]), self.alpha[u, v], min(after[v]))
            for u, v in out
            if before[u] and after[v]
        }

    def _window(self, before: int, alpha: int, after: int) -> LinkWindow:
        """Return the time window of a link, from the alphas before and after it.

        In schedules read backwards, bytes pass a link alpha after they leave, or before an alpha
        that occupies it. So the windows are those of the machine itself: C(T) is the same from
        either end.
        """
        before, after = (after, before) if self.backwards else (before, after)
        begin, lost = (before + alpha, after) if self.occupies else (before, alpha + after)
        return LinkWindow(Fraction(begin, self.scale), Fraction(lost, self.scale))

    @cached_property
    def _budget_orders(self) -> list[list[tuple[tuple[Edge, ...], Fraction]]]:
        """Return the links and the rate of each budget, in each order to try.

        A link counts in the first budget that binds. The order by fewest sources splits no egress
        budget, and the order by fewest destinations splits no ingress budget.
        """
        budgets = [
            (budget.edges, 1000 * budget.chunks_per_round * Fraction(str(speed)))
            for budget, speed in zip(
                self.topology.budgets, self.topology.budget_speeds(), strict=True
            )
        ]
        orders = [budgets]
        for end in (0, 1):
            ends = sorted(budgets, key=lambda entry: len({edge[end] for edge in entry[0]}))
            orders += [ends] if ends not in orders else []
        return orders

    def _capacities(self, windows: dict[Edge, LinkWindow]) -> set[tuple[SlopeChange, ...]]:
        """Return the capacity of links over time, for each order of budgets."""
        return {tuple(capacity_changes(windows, self.rate, order)) for order in self._budget_orders}
