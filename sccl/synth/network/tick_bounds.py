"""Compute lower bounds on completion time from cuts, distances, and total link time, in ticks.

Source: the "ideal" of TACOS (MICRO 2024) section V-A: injection and ejection of all chunks at the
slowest rank, and the diameter. This module returns the largest of these bounds:

- Cuts. For a set of ranks: the first tick by which its incoming links can deliver all chunks that
  the set needs and does not hold. Each link carries whole chunks one after the other. Links of a
  bandwidth budget carry no more bytes than the budget allows. The same for outgoing links. The sets
  are single ranks, groups connected by cheap links, groups made of triangles of links, and all
  groups of few ranks.
- Spread. If all ranks need all chunks: time for distribution within a group
  (:mod:`sccl.synth.network.relay_bounds`).
- Distance. The longest shortest path from the nearest source of a chunk to its destination.
- Link time. If each chunk has one source and one destination: the time that all links together need
  if each chunk takes its shortest path.

For every allreduce: each chunk enters and leaves every group. Between G groups it is sent at least
2(G-1) times in all (Harary and Schwenk 1974, for gossip: a group does no more than one gossiper).
Data of every rank reach every other rank. If ranks of the machine reduce in groups, all this holds
for the ranks that reduce a chunk: other ranks may forward data, which shortens no path and saves no
send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.clock import AlphaModel, Clock
from sccl.core.collective import Collective, RelationKind
from sccl.core.topology import Topology
from sccl.synth.limits import INFINITE, MAX_CUT_RANKS, MAX_LINKS, MAX_SUBSET, MAX_TABLE_ROWS
from sccl.synth.network.adjacency import strong_components
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.cut_capacity import CutCapacity, LinkGroup
from sccl.synth.network.relay_bounds import RelayDistances, first_feasible_tick, spread_ticks
from sccl.synth.network.shortest_paths import ShortestPaths
from sccl.synth.network.switch_distances import has_detours, has_overlapping_alphas, nearest_paths
from sccl.synth.network.transfers import Demand, stalled_error


def lower_bound_ticks(  # noqa: PLR0913 - independent inputs
    topology: Topology,
    clock: Clock,
    net: NetworkArrays,
    demand: Demand,
    attained: int,
    *,
    backwards: bool = False,
) -> int:
    """Return a lower bound on the completion time, in ticks.

    The last few results are cached, because a synthesizer and the one that computes its warm start
    need the same bound.

    Args:
        topology: The machine.
        clock: Ticks of links.
        net: Arrays of the machine.
        demand: The demand.
        attained: Completion time of a known schedule. If the cut bound equals it, distances are not
            computed.
        backwards: Whether schedules are reversed in time, on the reversed machine.

    Raises:
        UnreachableError: A chunk cannot reach a destination.
    """
    parts = [None if part is None else part.tobytes() for part in demand[1:]]
    key = topology, clock, backwards, demand.chunks, tuple(parts)
    search = _BoundSearch(key, net, demand, attained)
    if len(demand.held) + len(topology.links) > MAX_LINKS:
        return _search_bound.__wrapped__(search)
    return _search_bound(search)


@dataclass(frozen=True, slots=True)
class _BoundSearch:
    """The arguments of :func:`lower_bound_ticks`. Only ``key`` determines the result.

    A bound that equals ``attained`` is the largest possible, so it holds for any other value, too.
    """

    key: tuple[Topology, Clock, bool, int, tuple[bytes | None, ...]]
    net: NetworkArrays = field(compare=False)
    demand: Demand = field(compare=False)
    attained: int = field(compare=False)


@lru_cache(maxsize=16)
def _search_bound(search: _BoundSearch) -> int:
    (topology, clock, backwards, *_), net, demand = search.key, search.net, search.demand
    paths, lower_bound = nearest_paths(topology, clock, net, backwards=backwards), 0
    pipes = _build_pipes(topology, clock, paths, demand, backwards=backwards)
    groupings, carried = [*_groupings(topology, net)], _CarryBound(pipes)
    for group in groupings:
        crosses = group[pipes.src] != group[pipes.dst]
        needs = _group_demands(demand, group[: net.nodes])
        for needed, ends in zip(needs, (pipes.dst, pipes.src), strict=True):
            carried.add(group[ends], crosses, needed)
    lower_bound = carried.ticks
    if lower_bound == search.attained:
        return lower_bound
    if demand.wanted is None:
        lower_bound = _relay_ticks(groupings, paths, pipes, demand, lower_bound)
        if _detour_bound(paths, net.nodes) <= lower_bound:  # then no shortest path is longer
            return lower_bound
    lower_bound = max(lower_bound, _max_distance(paths, demand))
    planned = not (has_detours(topology) or has_overlapping_alphas(topology, clock))
    if demand.is_unicast() and planned:  # no path is faster than the planned routes
        lower_bound = max(lower_bound, _total_work_ticks(net, demand))
    return lower_bound


def combined_clock(topology: Topology, clock: Clock) -> Clock | None:
    """Return a clock whose bounds also hold for chunks that are sent together.

    If alpha occupies links, n chunks that are sent together take one alpha instead of n. Proof:
    give each chunk its part of the transfer's ticks without alpha, in the order of the bytes, all
    of it one alpha earlier. Each chunk is then sent separately in the model where alpha travels,
    starts no earlier than the transfer, and arrives no later. The rate through a budget is
    unchanged, at times shifted by the same alpha. (With budgets, the part of a chunk may be one
    tick less than its rounded-up time. Otherwise it is equal.)

    Returns:
        The clock. None if this does not hold: switches cut through and pass bytes on during an
        alpha, or links of a budget have different alphas, or a chunk takes one tick.
    """
    place = {link.edge: i for i, link in enumerate(topology.links)}
    alphas = [{clock.alpha[place[edge]] for edge in budget.edges} for budget in topology.budgets]
    if any(len(values) > 1 for values in alphas) or any(s.cut_through for s in topology.switches):
        return None
    travels = replace(clock, model=AlphaModel.TRAVELS)
    if not topology.budgets:
        return travels
    beta, shared = (
        tuple(tuple(ticks - 1 for ticks in values) for values in table)
        for table in (clock.beta, clock.shared)
    )
    if min(min(values) for values in (*beta, *shared)) < 1:
        return None
    return replace(travels, beta=beta, shared=shared)


class _CarryBound:
    """The first tick by which the links that cross into each group can meet its demand.

    Groups with links of the same kinds and the same demand are computed once.

    Attributes:
        ticks: Largest bound of the groups so far.
    """

    def __init__(self, pipes: CutCapacity) -> None:
        self.ticks = 0
        self._pipes, self._kinds = pipes, int(pipes.kind.max(initial=0)) + 1
        self._seen: set[tuple[int, ...]] = set()

    def add(self, group: IntArray, crosses: NDArray[np.bool_], needed: IntArray) -> None:
        """Add the bounds of disjoint groups.

        Args:
            group: Group at the considered end of each link.
            crosses: Whether each link has its ends in two groups.
            needed: Chunks that cross the links of each group.
        """
        pipes, kinds, wanting = self._pipes, self._kinds, np.flatnonzero(needed).tolist()
        if pipes.has_shared_budgets or kinds * len(needed) >= MAX_TABLE_ROWS:
            by_group = _links_by_group(group, crosses, len(needed))
            bounds = [pipes.carry_ticks(by_group[i], int(needed[i])) for i in wanting]
            self.ticks = max(self.ticks, *bounds, 0)
            return
        number = group[crosses] * kinds + pipes.kind[crosses]
        table = np.bincount(number, minlength=len(needed) * kinds)[: len(needed) * kinds]
        rows = np.column_stack([needed, table.reshape(-1, kinds)])
        for chunks, *counts in set(map(tuple, rows[wanting].tolist())) - self._seen:
            self._seen.add((chunks, *counts))
            part = (LinkGroup(None, 0, tuple(counts)),)
            if pipes.carried_chunks(self.ticks, part) < chunks:
                self.ticks = pipes.first_tick(part, chunks)


def _relay_ticks(
    groupings: Sequence[IntArray],
    paths: ShortestPaths,
    pipes: CutCapacity,
    demand: Demand,
    lower_bound: int,
) -> int:
    """Return a lower bound on the tick by which chunks have reached all ranks of each group.

    Args:
        groupings: Group of each node, for each way to divide the nodes.
        paths: Shortest paths.
        pipes: Links of the machine.
        demand: The demand. All ranks need all chunks.
        lower_bound: Another lower bound, returned unless this one is larger.
    """
    topology, ranks = pipes.topology, paths.nodes
    if ranks**2 > MAX_TABLE_ROWS or any(switch.copies for switch in topology.switches):
        return lower_bound
    spread = RelayDistances(paths)
    always = np.zeros(ranks, dtype=np.int64)
    plain = CutCapacity(topology, pipes.clock, always, always, backwards=pipes.backwards)
    to_rank, seen = pipes.dst < ranks, set()
    for group in groupings:
        for part in _group_parts(group, ranks):  # with its switches
            inside, ends, begins = np.flatnonzero(part[:ranks]), part[pipes.dst], part[pipes.src]
            links, held = np.flatnonzero(ends & ~begins), demand.held[part[demand.held_by]]
            chunks = demand.chunks - len(np.unique(held))
            if not chunks:
                continue
            within = np.flatnonzero(ends & begins & to_rank)
            near = spread.nearest(pipes.dst[links], inside)
            groups = (pipes.group_links(links), plain.group_links(links), plain.group_links(within))
            key = (chunks, near.tobytes(), *groups)
            if key in seen:
                continue
            seen.add(key)
            lower_bound = spread_ticks(pipes, links, near, chunks, lower_bound)
            if 1 < len(inside) <= MAX_CUT_RANKS and len(within):
                lower_bound = first_feasible_tick(
                    plain, links, within, len(inside), chunks, lower_bound
                )
    return lower_bound


def _group_parts(group: IntArray, ranks: int) -> Iterator[NDArray[np.bool_]]:
    """Yield the members of each group of ranks, and of the union of the other groups, as masks."""
    groups = int(group[:ranks].max()) + 1
    has_ranks = np.zeros(int(group.max()) + 1, dtype=bool)
    has_ranks[group[:ranks]] = True
    for number in range(groups):
        yield group == number
        if groups > 2:  # with two, the union is the other group
            yield has_ranks[group] & (group != number)


def allreduce_bound_ticks(
    topology: Topology, clock: Clock, net: NetworkArrays, collective: Collective
) -> int:
    """Return a lower bound on the completion time of an allreduce, in ticks.

    Args:
        topology: The machine.
        clock: Ticks of links. If chunks have several sizes, those of the smallest size.
        net: Arrays of the machine.
        collective: Allreduce, possibly in each of several process groups.

    Raises:
        UnreachableError: A rank cannot reach another one of its process group.
    """
    paths, ranks = nearest_paths(topology, clock, net), net.nodes
    reduced = _reduction_groups(collective)
    everywhere = np.zeros(ranks, dtype=np.int64)
    pipes = CutCapacity(topology, clock, everywhere, everywhere)
    around, lower_bound = _detour_bound(paths, ranks), 0
    if around >= INFINITE:  # ranks that reduce together may still reach one another
        lower_bound = _max_pair_distance(paths, reduced)
    for group in _groupings(topology, net):
        crosses, groups = group[pipes.src] != group[pipes.dst], int(group[:ranks].max()) + 1
        arrive = np.flatnonzero(crosses & (group[pipes.dst] < groups))
        transfers, needed = 0, np.zeros(groups, dtype=np.int64)
        for together, chunks in reduced:
            parts = np.unique(group[together])
            transfers += 2 * (len(parts) - 1) * chunks
            if len(parts) > 1:
                needed[parts] += chunks
        lower_bound = max(lower_bound, pipes.carry_ticks(arrive, transfers) if transfers else 0)
        for ends in (pipes.src, pipes.dst):
            by_group = _links_by_group(group[ends], crosses, groups)
            for links, chunks in zip(by_group, needed.tolist(), strict=True):
                lower_bound = max(lower_bound, pipes.carry_ticks(links, chunks) if chunks else 0)
    return (
        lower_bound
        if around <= lower_bound
        else max(lower_bound, _max_pair_distance(paths, reduced))
    )


def _reduction_groups(collective: Collective) -> list[tuple[IntArray, int]]:
    """Return the ranks of each process group, and the number of chunks that they reduce."""
    if collective.post.kind is RelationKind.ALL:
        return [(np.arange(collective.ranks), collective.num_chunks)]
    pattern = Counter(collective.post.pattern)
    pieces = collective.num_chunks // len(collective.post.pattern)
    return [(np.array(sorted(group)), pieces * count) for group, count in pattern.items()]


def _max_pair_distance(paths: ShortestPaths, reduced: list[tuple[IntArray, int]]) -> int:
    """Return the longest shortest path between ranks that reduce together, in ticks."""
    longest = max(
        int(paths.distances_from([rank])[together].max())
        for together, _ in reduced
        for rank in together.tolist()
    )
    if longest >= INFINITE:
        raise stalled_error()
    return longest


def _build_pipes(
    topology: Topology, clock: Clock, paths: ShortestPaths, demand: Demand, *, backwards: bool
) -> CutCapacity:
    """Return the links with their distances from sources and to destinations."""
    come = paths.distances_from(np.unique(demand.held_by).tolist())
    if demand.wanted_by is None:
        return CutCapacity(topology, clock, come, np.zeros_like(come), backwards=backwards)
    go = paths.distances_to(np.unique(demand.wanted_by).tolist())
    return CutCapacity(topology, clock, come, go, backwards=backwards)


def _total_work_ticks(net: NetworkArrays, demand: Demand) -> int:
    """Return the mean ticks per link if every chunk takes its shortest path, rounded up."""
    assert demand.wanted is not None
    assert demand.wanted_by is not None
    goal = np.zeros(demand.chunks, dtype=np.int64)
    goal[demand.wanted] = demand.wanted_by
    paths, busy = ShortestPaths(net._replace(lag=np.zeros_like(net.lag))), 0
    for source in np.unique(demand.held_by).tolist():
        busy += int(
            paths.distances_from([source])[goal[demand.held[demand.held_by == source]]].sum()
        )
    return -(-busy // len(net.src))


def _groupings(topology: Topology, net: NetworkArrays) -> Iterator[IntArray]:
    """Yield the group of every node: single nodes, two groups, triangles, and near ranks by level.

    Switches are groups of their own. For near ranks, another grouping adds each switch to the group
    of its ranks if there is only one.
    """
    nodes = net.nodes + len(topology.switches)
    yield np.arange(nodes)
    yield from _bipartitions(topology, nodes)
    yield from _triangle_groups(net, nodes)
    for row in net.near.reshape(-1, net.nodes)[1:].astype(np.int64):
        group = np.unique(row, return_inverse=True)[1].reshape(-1).astype(np.int64)
        if 0 < group.max() < net.nodes - 1:
            yield np.concatenate([group, np.arange(net.nodes, nodes)])
            if topology.switches:
                yield np.concatenate([group, _switch_groups(topology, group)])


def _bipartitions(topology: Topology, nodes: int) -> Iterator[IntArray]:
    """Yield all divisions of the ranks into two groups, if there are few ranks."""
    ranks = topology.ranks
    if ranks <= MAX_SUBSET and not topology.switches:
        for subset in range(1, 2 ** (ranks - 1) - 1):
            yield (subset >> np.arange(nodes, dtype=np.int64)) & 1


def _triangle_groups(net: NetworkArrays, nodes: int) -> Iterator[IntArray]:
    """Yield the groups that triangles of links connect, such as those of a dragonfly."""
    src, dst = net.src.astype(np.int64), net.dst.astype(np.int64)
    if nodes > net.nodes or len(src) > MAX_LINKS:
        return
    out = np.zeros((nodes, -(-nodes // 64)), dtype=np.uint64)
    np.bitwise_or.at(out, (src, dst >> 6), np.uint64(1) << (dst & 63).astype(np.uint64))
    inner = np.flatnonzero((out[src] & out[dst]).any(axis=1))
    if not len(inner):
        return
    group = strong_components(src[inner], dst[inner], nodes).astype(np.int64)
    if 0 < group.max() < nodes - 1:
        yield np.unique(group, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _switch_groups(topology: Topology, group: IntArray) -> IntArray:
    """Return the group of each switch: that of its ranks if it is unique, else its own number."""
    ranks = topology.ranks
    rank_groups: list[set[int]] = [set() for _ in topology.switches]
    for link in topology.links:
        low, high = sorted(link.edge)
        if low < ranks <= high:
            rank_groups[high - ranks].add(int(group[low]))
    groups = [min(g) if len(g) == 1 else ranks + i for i, g in enumerate(rank_groups)]
    return np.array(groups, dtype=np.int64)


def _links_by_group(group: IntArray, chosen: NDArray[np.bool_], groups: int) -> list[IntArray]:
    links = np.flatnonzero(chosen)
    links = links[np.argsort(group[links], kind="stable")]
    ends = np.searchsorted(group[links], np.arange(groups + 1))
    return [links[a:b] for a, b in pairwise(ends.tolist())]


def _group_demands(demand: Demand, group: IntArray) -> tuple[IntArray, IntArray]:
    """Return the numbers of chunks that must enter and leave each group of ranks."""
    groups, chunks = int(group.max()) + 1, demand.chunks
    held = np.unique(group[demand.held_by] * chunks + demand.held)
    only = np.bincount(held % chunks, minlength=chunks) == 1
    lonely = held[only[held % chunks]]  # held in only one group
    if demand.wanted is None or demand.wanted_by is None:
        into = chunks - np.bincount(held // chunks, minlength=groups)
        return into, np.bincount(lonely // chunks, minlength=groups)
    wanted = np.unique(group[demand.wanted_by] * chunks + demand.wanted)
    missing = np.setdiff1d(wanted, held, assume_unique=True)
    leaving = lonely[np.isin(lonely % chunks, missing % chunks)]
    counts = [np.bincount(pairs // chunks, minlength=groups) for pairs in (missing, leaving)]
    return counts[0], counts[1]


def _detour_bound(paths: ShortestPaths, ranks: int) -> int:
    """Return the longest path through one rank, an upper bound on the longest shortest path.

    Only paths through that rank are computed, because paths of all ranks take longer than the
    matching.
    """
    return int(paths.distances_to([0])[:ranks].max() + paths.distances_from([0])[:ranks].max())


def _max_distance(paths: ShortestPaths, demand: Demand) -> int:
    """Return the longest shortest path from a source of a chunk to its destination, in ticks."""
    longest = 0
    sources: dict[int, list[int]] = {}
    for rank, chunk in zip(demand.held_by.tolist(), demand.held.tolist(), strict=True):
        sources.setdefault(chunk, []).append(rank)
    wanted: dict[tuple[int, ...], set[int]] = {}
    if demand.wanted is None or demand.wanted_by is None:
        wanted = {tuple(ranks): set(range(paths.nodes)) for ranks in sources.values()}
    else:
        for rank, chunk in zip(demand.wanted_by.tolist(), demand.wanted.tolist(), strict=True):
            wanted.setdefault(tuple(sources[chunk]), set()).add(rank)
    for ranks, others in wanted.items():
        longest = max(longest, int(paths.distances_from(list(ranks))[sorted(others)].max()))
    if longest >= INFINITE:
        raise stalled_error()
    return longest
