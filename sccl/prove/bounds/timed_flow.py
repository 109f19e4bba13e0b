"""Flows through time: the data that have to arrive within S steps, for given rounds per step.

The graph has a node (rank, time) for each time 0 .. S, an arc from (u, s) to (v, s+1) for each link
u->v, and an arc of unlimited capacity from (u, s) to (u, s+1), since ranks keep their chunks. If a
flow falls short, a minimum cut proves it. Since ranks keep chunks, the cut is a *label* for each
rank: the time from which the rank is inside, S+1 if it never is.

Ranks of one orbit under symmetries that preserve the ends of a flow are merged into one node: a
flow can be spread evenly over images without loss, and images have equal labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import FloatArray, IntArray
from sccl.core.collective import Collective, FlowEnds, RelationKind, root_relation, single_flow_ends
from sccl.core.graphs import UNREACHED, distances
from sccl.core.topology import Topology
from sccl.solvers.network_flow import FlowNetwork
from sccl.topo.symmetry.automorphisms import automorphisms
from sccl.topo.symmetry.permutations import Permutation, closure, rank_orbits

Labels = tuple[int, ...]
IntegralFlow = tuple[tuple[int, int, int, int], ...]
"""(from, to, step, amount). An amount that a rank keeps has equal ends."""

_CAPACITY_SCALE = 10**9  # capacities are scaled to integers
_TOLERANCE = 1e-6
_MAX_SIZE = 1_500_000  # links times steps, or chunks
_MANY_SOURCES = 128  # ranks
_MAX_ARCS = 6_000_000  # of all flows of a program: more would take gigabytes


def is_applicable(topology: Topology, collective: Collective, steps: int) -> bool:
    """Return whether such flows give useful bounds, and are not too large.

    They are useless if chunks have separate ends: one flow cannot express data of several sources,
    each for several ranks. For many sources on large machines, as in an allgather, the bandwidth
    bound is mostly better, in much less time.
    """
    if len(topology.links) * steps > _MAX_SIZE or collective.num_chunks > _MAX_SIZE:
        return False
    if RelationKind.TRANSPOSE in (collective.pre.kind, collective.post.kind):
        return False  # alltoall: decided without listing its chunks
    classes = collective.chunk_classes()
    if any(len(wanted - holders) > 1 for holders, wanted in classes):
        return len(classes) == 1 or topology.ranks <= _MANY_SOURCES
    return single_flow_ends(collective) is not None


class TimedFlow:
    """A flow through time on a machine.

    Args:
        apart: Indices of the links with individual capacities. If there are any, ranks are not
            merged.
    """

    def __init__(
        self,
        topology: Topology,
        steps: int,
        ends: FlowEnds,
        symmetries: Sequence[Permutation],
        apart: Sequence[int] = (),
    ) -> None:
        self.ends, self.steps = ends, steps
        forwards, backwards = topology.successors(), _predecessors(topology)
        holders = {rank for ranks, _ in ends.sources for rank in ranks}
        first = distances(forwards, holders)
        after = distances(backwards, [rank for rank, _ in ends.sinks])
        never = steps + 1
        self.first = np.array([never if d == UNREACHED else min(d, never) for d in first], np.int64)
        self.after = np.array([never if d == UNREACHED else d for d in after], np.int64)
        self.last = int(self.first[[rank for rank, _ in ends.sinks]].max())
        self.node = np.arange(topology.ranks)
        if not apart:
            for number, members in enumerate(rank_orbits(topology, symmetries).values()):
                self.node[members] = number
        self._apart = {place: i for i, place in enumerate(apart)}
        self._build(topology)

    def _build(self, topology: Topology) -> None:
        """Build the graph: links of merged ranks, arcs within each time, then source arcs."""
        steps, nodes = self.steps, int(self.node.max()) + 1
        pairs: dict[tuple[int, int, int], int] = {}
        for place, link in enumerate(topology.links):
            u, v = int(self.node[link.src]), int(self.node[link.dst])
            if u != v:
                key = (u, v, self._apart.get(place, -1))
                pairs[key] = pairs.get(key, 0) + link.lanes
        self.representative = np.zeros(nodes, np.int64)
        self.representative[self.node[::-1]] = np.arange(topology.ranks)[::-1]
        first, after = self.first[self.representative], self.after[self.representative]
        keys = np.array(list(pairs), np.int64).reshape(-1, 3)
        lanes = np.array(list(pairs.values()), np.int64)
        when = np.arange(steps)[None, :]
        tails, heads = keys[:, 0], keys[:, 1]
        useful = (first[tails][:, None] <= when) & (when + 1 + after[heads][:, None] <= steps)
        arc, step = np.nonzero(useful)
        self.arc_step, self.arc_lanes, self.arc_apart = step, lanes[arc], keys[arc, 2]
        self.arc_tail, self.arc_head = (
            self.representative[tails[arc]],
            self.representative[heads[arc]],
        )
        at, then = steps + 1, np.arange(steps)
        keep = (np.arange(nodes)[:, None] * at + then[None, :]).ravel()
        source, extra = nodes * at, nodes * at + 2
        leading: list[tuple[int, int, int]] = []
        for number, (ranks, amount) in enumerate(self.ends.sources):
            leading.append((source, extra + number, amount))
            leading += [(extra + number, int(self.node[r]) * at, amount) for r in sorted(ranks)]
        leading += [
            (int(self.node[r]) * at + steps, source + 1, amount) for r, amount in self.ends.sinks
        ]
        more = np.array(leading, np.int64).reshape(-1, 3)
        self.source, self.sink, self.waiting_arc_count = source, source + 1, len(keep)
        self.fixed = more[:, 2] * _CAPACITY_SCALE
        self.network = FlowNetwork(
            extra + len(self.ends.sources),
            np.concatenate([tails[arc] * at + step, keep, more[:, 0]]),
            np.concatenate([heads[arc] * at + step + 1, keep + 1, more[:, 1]]),
        )
        self.times = nodes * at

    @property
    def work(self) -> int:
        """Return the number of arcs."""
        return len(self.arc_step) + self.waiting_arc_count + len(self.fixed)

    def violated_cuts(
        self, rounds: FloatArray, loads: FloatArray | None = None
    ) -> Iterator[Labels]:
        """Yield the labels of minimum cuts if the flow falls short.

        Args:
            rounds: Rounds of each step, shape (steps,).
            loads: Capacity of the ``apart`` links, shape (links, steps). None: there are none.
        """
        room = self.arc_lanes * rounds[self.arc_step]
        if loads is not None:
            is_apart = self.arc_apart >= 0
            room[is_apart] = loads[self.arc_apart[is_apart], self.arc_step[is_apart]]
        integral_room = np.minimum(
            np.floor(room * _CAPACITY_SCALE), self.ends.amount * _CAPACITY_SCALE
        ).astype(np.int64)
        kept = np.full(self.waiting_arc_count, self.ends.amount * _CAPACITY_SCALE, np.int64)
        cut = self.network.max_flow(
            np.concatenate([integral_room, kept, self.fixed]), self.source, self.sink
        )
        if cut.value >= self.ends.amount * _CAPACITY_SCALE * (1 - _TOLERANCE):
            return
        near = self._labels(cut.source_side)
        yield near
        if (far := self._labels(cut.sink_side)) != near:
            yield far

    def integral_flow(self, rounds: IntArray, times: int) -> IntegralFlow | None:
        """Return an integral flow of ``times`` the demand, or None if there is none.

        Ranks must not be merged.

        Args:
            rounds: Rounds of each step, shape (steps,).
        """
        amount = self.ends.amount * times
        room = np.minimum(self.arc_lanes * rounds[self.arc_step], amount)
        kept = np.full(self.waiting_arc_count, amount, np.int64)
        fixed = self.fixed // _CAPACITY_SCALE * times
        flow = self.network.max_flow(np.concatenate([room, kept, fixed]), self.source, self.sink)
        if flow.value < amount:
            return None
        on = flow.arc_flows[: len(room)]
        links = zip(self.arc_tail, self.arc_head, self.arc_step, on, strict=True)
        held = flow.arc_flows[len(room) : len(room) + self.waiting_arc_count].reshape(
            -1, self.steps
        )
        stays = ((r, r, s, held[r, s]) for r, s in zip(*np.nonzero(held), strict=True))
        moves = [*(each for each in links if each[3]), *stays]
        return tuple((int(u), int(v), int(s), int(n)) for u, v, s, n in moves)

    def _labels(self, inside: NDArray[np.bool_]) -> Labels:
        """Return a cut as labels, such that links no chunk can use do not count as crossing."""
        by_time = inside[: self.times].reshape(-1, self.steps + 1)
        return self.tighten_labels((self.steps + 1 - by_time.sum(axis=1))[self.node])

    def tighten_labels(self, labels: IntArray) -> Labels:
        """Clip labels to the times at which data can arrive at ranks and can still be useful."""
        latest = self.steps - self.after + 1
        settled = np.maximum(self.first, np.minimum(labels, np.maximum(latest, 0)))
        return tuple(settled.tolist())

    def distance_layers(self) -> Iterator[Labels]:
        """Yield initial cuts: between the ranks within a distance and all others."""
        never = self.steps + 1
        for far in range(self.last):
            yield self.tighten_labels(np.where(self.first <= far, 0, never))
            yield self.tighten_labels(np.where(self.after > far, 0, never))


def demand_flows(
    topology: Topology,
    collective: Collective,
    steps: int,
    apart: Sequence[int],
    symmetries: Sequence[Permutation] = (),
) -> Iterator[TimedFlow]:
    """Yield flows that every algorithm contains, one of each orbit, the farthest first.

    If all chunks form one flow (:func:`single_flow_ends`), this flow is the only one. Otherwise
    there is a flow to each rank, up to the memory limit.

    Args:
        apart: Links with individual capacities, as in :class:`TimedFlow`.
        symmetries: Symmetries that preserve the capacities of these links.
    """
    joint_ends = single_flow_ends(collective)
    if not apart:
        symmetries = automorphisms(topology, collective)
    if joint_ends is not None:
        yield TimedFlow(topology, steps, joint_ends, symmetries, apart)
        return
    arcs, all_symmetries = 0, None if apart else closure(symmetries, topology.ranks)
    for ends in _rank_demands(topology, collective, symmetries):
        ((sink, _),), parts = ends.sinks, ends.sources
        kept: Sequence[Permutation] = ()
        if not apart and len(parts) == 1 and len(parts[0][0]) == 1:
            root = min(parts[0][0])
            if all_symmetries and all(image[root] == root for image in symmetries):
                kept = [image for image in all_symmetries if image[sink] == sink]
            else:
                kept = automorphisms(topology, _single_chunk_demand(topology.ranks, root, sink))
        flow = TimedFlow(topology, steps, ends, kept, apart)
        arcs += flow.work
        yield flow
        if arcs > _MAX_ARCS:
            return


def flows_of_collectives(
    topology: Topology, collectives: Iterable[Collective], steps: int, apart: Sequence[int]
) -> list[TimedFlow]:
    """Return the flows of several collectives, equally many of each, up to the memory limit.

    The nearest flows of each are omitted first.
    """
    waiting = {
        n: demand_flows(topology, collective, steps, apart)
        for n, collective in enumerate(collectives)
    }
    by_collective: dict[int, list[TimedFlow]] = {number: [] for number in waiting}
    arcs = 0
    while waiting:
        for number in list(waiting):
            flow = next(waiting[number], None)
            if flow is None:
                del waiting[number]
                continue
            by_collective[number].append(flow)
            arcs += flow.work
            if arcs > _MAX_ARCS:
                waiting.clear()
                break
    return [flow for batch in by_collective.values() for flow in batch]


def group_flows(
    topology: Topology,
    reduced: Collective,
    sources: Iterable[int],
    steps: int,
    apart: Sequence[int],
) -> Iterator[TimedFlow]:
    """Yield flows of an allreduce in groups: of one pair of ranks, and of a pair in each group.

    Their number is limited by memory. The pairs of all groups form one flow. If it falls short, its
    minimum cut is a valid cut.

    Args:
        sources: One rank of each orbit under symmetries.
    """
    groups = {
        (tuple(sorted(map(int, held))), len(chunks))
        for (held, _), chunks in reduced.chunk_classes().items()
    }
    arcs = 0
    for source in sources:
        for group, amount in sorted(groups):
            place = group.index(source) if source in group else -1
            for ahead in range(1, len(group)) if place >= 0 else ():
                pairs = [(source, group[(place + ahead) % len(group)], amount)]
                for other_group, more in sorted(groups):
                    to = (place + ahead) % len(group)
                    u, v = other_group[place % len(other_group)], other_group[to % len(other_group)]
                    ranks = {rank for pair in pairs for rank in pair[:2]}
                    if u != v and other_group != group and ranks.isdisjoint({u, v}):
                        pairs.append((u, v, more))
                for subset in (pairs[:1], pairs) if len(pairs) > 1 else (pairs,):
                    ends = FlowEnds(
                        tuple((frozenset([u]), n) for u, _, n in subset),
                        tuple((v, n) for _, v, n in subset),
                    )
                    flow = TimedFlow(topology, steps, ends, (), apart)
                    arcs += flow.work
                    yield flow
                    if arcs > _MAX_ARCS:
                        return


def _predecessors(topology: Topology) -> tuple[tuple[int, ...], ...]:
    """Return the predecessors of each rank, faster than by reversing the machine."""
    into: list[list[int]] = [[] for _ in range(topology.ranks)]
    for link in topology.links:
        into[link.dst].append(link.src)
    return tuple(map(tuple, into))


def _rank_demands(
    topology: Topology, collective: Collective, symmetries: Sequence[Permutation]
) -> list[FlowEnds]:
    """Return the demand of one rank of each orbit, the farthest first."""
    successors = topology.successors()
    classes = [
        (frozenset(map(int, holders)), frozenset(map(int, wanted)), len(chunks))
        for (holders, wanted), chunks in collective.chunk_classes().items()
    ]
    far = {holders: distances(successors, holders) for holders, _, _ in classes}
    by_distance: list[tuple[int, FlowEnds]] = []
    for rank in rank_orbits(topology, symmetries):
        parts = tuple(
            (holders, amount)
            for holders, wanted, amount in classes
            if rank in wanted and rank not in holders
        )
        if parts:
            ends = FlowEnds(parts, ((rank, sum(amount for _, amount in parts)),))
            by_distance.append((max(far[holders][rank] for holders, _ in parts), ends))
    return [ends for _, ends in sorted(by_distance, key=lambda each: -each[0])]


def _single_chunk_demand(ranks: int, source: int, sink: int) -> Collective:
    """Return the demand of a single chunk. Its symmetries fix the source and the sink."""
    return Collective("flow", ranks, 1, 1, root_relation(source), root_relation(sink))
