"""Turn a packing into a schedule: each share of a tree becomes chunks, and each chunk is sent.

A packing assigns a slot to each send, and all shares of a slot pass it side by side. In a schedule
whole chunks pass one after the other, in the order of planned times. The planned time is the begin
of the slot plus a fraction of its length, which is the same for all slots of a chunk. Each send
starts as soon as its chunk has arrived and its link is free. So a schedule may be faster than its
packing, which sends nothing before the slot.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np

from sccl.collectives import Dual
from sccl.core.arrays import FloatArray, IntArray
from sccl.core.clock import Clock
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.synth.limits import MIN_SHARE, SENDS_PER_CALL
from sccl.synth.network.routes import Routes, build_routes
from sccl.synth.packing.flow_problem import FlowProblem, RouteImages
from sccl.synth.packing.placement_loops import place_sends
from sccl.synth.packing.slots import TimedPacking, TreePart


@dataclass(frozen=True, slots=True)
class PlannedSend:
    """A planned send. ``member`` is the number of its chunk class."""

    time: float
    member: int
    chunk: int
    link: int


@dataclass(frozen=True, slots=True)
class SendPlan:
    """A plan of sends without times.

    Attributes:
        chunks: C of the dual.
        sizes: Bytes of each chunk.
        sends: Sends in an order in which each chunk arrives before it is forwarded.
    """

    chunks: int
    sizes: tuple[int, ...]
    sends: tuple[PlannedSend, ...]


TransferRow = tuple[int, int, int, int]
"""Start, end, chunk and link of a transfer."""


class PlacedSend(NamedTuple):
    """A placed send over a path.

    Attributes:
        start: Start, picoseconds.
        arrival: Arrival, picoseconds.
        chunk: Chunk number.
        route: Path from rank to rank.
    """

    start: int
    arrival: int
    chunk: int
    route: int


def plan_sends(
    problem: FlowProblem, packing: TimedPacking | None, dual: Dual, pieces: int
) -> SendPlan:
    """Return the sends of a packing.

    Args:
        problem: The problem.
        packing: The packing. None: nothing is sent.
        dual: Collective of the phase.
        pieces: Approximate number of chunks per share.
    """
    if packing is None:
        collective = dual.spec.at(dual.spec.unit)
        return SendPlan(collective.chunks, _chunk_sizes(problem, collective), ())
    classes = problem.collective.chunk_classes()
    shares = _shares_by_commodity(problem, packing)
    several = max(
        ceil(pieces * len(commodity_shares) / len(classes[problem.commodities[c].members[0][0]]))
        for c, commodity_shares in shares.items()
    )
    smallest_chunk = min(c.size / len(classes[c.members[0][0]]) for c in problem.commodities)
    several = max(1, min(several, int(smallest_chunk)))
    collective = dual.spec.at(dual.spec.unit * several)
    chunks_of = collective.chunk_classes()
    begins = packing.slots.begins(packing.lengths)
    path_images = RouteImages(problem)
    # a chunk that starts at its destination is not sent, but has a size, too
    sizes = list(_chunk_sizes(problem, collective))
    sends: list[PlannedSend] = []
    for c, commodity in enumerate(problem.commodities):
        commodity_shares = shares[c]
        count = len(chunks_of[commodity.members[0][0]])
        size = ceil(commodity.size)
        cuts = _cut_chunks(commodity_shares, count, size)
        for turn, (chunk_class, image) in enumerate(commodity.members):
            images = path_images.images(image)
            for turned, (chunk, (share, amount)) in enumerate(
                zip(chunks_of[chunk_class], cuts, strict=True)
            ):
                sizes[chunk] = amount
                part = (turned + 0.5) / count
                for link, slot in share.tree:
                    time = float(begins[slot] + part * packing.lengths[slot])
                    sends.append(
                        PlannedSend(time, c * len(commodity.members) + turn, chunk, images[link])
                    )
    return SendPlan(collective.chunks, tuple(sizes), tuple(sends))


def _chunk_sizes(problem: FlowProblem, collective: Collective) -> tuple[int, ...]:
    """Return the bytes of each chunk, if the pieces of a chunk of the problem have equal sizes."""
    pieces = collective.num_chunks // problem.collective.num_chunks
    each = [
        max(1, ceil(problem.chunk_bytes * problem.collective.amount([chunk]) / pieces))
        for chunk in range(problem.collective.num_chunks)
    ]
    return tuple(each * pieces)


def _shares_by_commodity(problem: FlowProblem, packing: TimedPacking) -> dict[int, list[TreePart]]:
    """Return the shares of each commodity without the very small ones, in descending order."""
    shares: dict[int, list[TreePart]] = {c: [] for c in range(len(problem.commodities))}
    for share in packing.shares:
        shares[share.commodity].append(share)
    for c, parts in shares.items():
        parts.sort(key=lambda s: (-s.part, sorted(s.tree)))
        shares[c] = [s for s in parts if s.part >= MIN_SHARE] or parts[:1]
    return shares


def _cut_chunks(shares: Sequence[TreePart], count: int, size: int) -> list[tuple[TreePart, int]]:
    """Divide shares into ``count`` chunks of ``size`` bytes together. Return (share, bytes).

    The share with the largest chunks is divided again and again. If there are fewer chunks than
    shares, the smallest shares are left out. Chunks of a share are spaced as evenly as possible.
    """
    shares = shares[: min(count, size)]
    times = [1] * len(shares)
    queue = [(-share.part, i) for i, share in enumerate(shares)]
    heapq.heapify(queue)
    for _ in range(count - len(shares)):
        _, i = heapq.heappop(queue)
        times[i] += 1
        heapq.heappush(queue, (-shares[i].part / times[i], i))
    total = sum(share.part for share in shares)
    each = [
        max(1, int(share.part / total * size / n)) for share, n in zip(shares, times, strict=True)
    ]
    positions = [((k + 0.5) / n, i) for i, n in enumerate(times) for k in range(n)]
    positions.sort()
    bytes_ = [each[i] for _, i in positions]
    left = size - sum(bytes_)
    for k in range(abs(left)) if abs(left) <= len(bytes_) else ():
        bytes_[k] += 1 if left > 0 else -1
    if abs(left) > len(bytes_):
        bytes_[bytes_.index(max(bytes_))] += left
    return [(shares[i], amount) for (_, i), amount in zip(positions, bytes_, strict=True)]


class _RouteCosts:
    """Costs of paths, for chunks of each size."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._of_size: dict[int, Routes] = {}

    def hops(self, path: int, size: int) -> tuple[list[tuple[int, int, int]], int]:
        """Return (link, offset, ticks) of the links of a path, and the arrival of the chunk."""
        if path < 0:
            return [], 0
        costs = self.routes_of_size(size)
        rows = range(int(costs.first[path]), int(costs.first[path + 1]))
        links = [(int(costs.link[r]), int(costs.offset[r]), int(costs.busy[r])) for r in rows]
        return links, int(costs.cost[path])

    def routes_of_size(self, size: int) -> Routes:
        if size not in self._of_size:
            self._of_size[size] = build_routes(
                self.topology, Clock.from_topology(self.topology, size)
            )
        return self._of_size[size]


@dataclass(frozen=True, slots=True)
class PlacementDirection:
    """A direction in which placed sends are read: forwards, or backwards from a phase's end.

    Forwards a chunk occupies a link some time after its start. Backwards it is the same time before
    its arrival. If alphas differ, sends that do not meet on a bus in one direction may meet in the
    other.

    Attributes:
        topology: Machine on which the sends are read.
        reversed_routes: Path of this machine for each path. -1: none, because nothing is sent.
            None: the same paths.
        is_backwards: Whether the sends are read backwards.
    """

    topology: Topology
    reversed_routes: tuple[int, ...] | None = None
    is_backwards: bool = False


_PlacementTable = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, FloatArray]
"""Costs and uses of pairs of a path and a size, as :func:`.place_sends` takes them."""


_ResourceUse = tuple[int, int, float]
"""Begin after the start of a send, length, and pace at which its bytes pass a link or a budget."""


def _merge_uses(uses: list[_ResourceUse]) -> list[_ResourceUse]:
    """Divide the uses of a resource into disjoint ones, each at the sum of the paces during it.

    A message through a cut-through switch passes two links at the same time. A budget of both links
    carries its bytes twice.
    """
    if len(uses) == 1:
        return uses
    borders = sorted({border for begin, busy, _ in uses for border in (begin, begin + busy)})
    sums = [
        (since, until - since, sum(p for b, busy, p in uses if b <= since and until <= b + busy))
        for since, until in pairwise(borders)
    ]
    return [use for use in sums if use[2]]


class _PlannedSends:
    """The sends of a plan in order, with the resources that they occupy in each direction."""

    def __init__(
        self, problem: FlowProblem, plan: SendPlan, directions: Sequence[PlacementDirection]
    ) -> None:
        self._directions = directions
        self._costs = [_RouteCosts(direction.topology) for direction in directions]
        self.chunk, self.routes = np.array(_ordered_sends(problem, plan), dtype=np.int64).T
        edges = np.array(problem.edges, dtype=np.int64)
        self._nodes = int(edges.max()) + 1
        self._source, self._target = edges[self.routes].T
        size = np.array(plan.sizes, dtype=np.int64)[self.chunk]
        keys = np.stack([self.routes, size], axis=1)
        self._pairs, self._pair = np.unique(keys, axis=0, return_inverse=True)
        self._pair = self._pair.reshape(-1)
        self._chunks = len(plan.sizes)
        self._resources, self._rate = _resources_of_links(directions)
        self._tables: dict[bool, _PlacementTable] = {}
        forwards = self._table(mirrored=False)
        uses = np.bincount(self._pair, minlength=len(self._pairs))
        held = np.bincount(
            forwards[2],
            weights=np.repeat(uses, np.diff(forwards[1])),
            minlength=len(self._rate),
        )
        self._base = np.concatenate([[0], np.cumsum(held.astype(np.int64))])
        self.cost = forwards[0][self._pair]

    def _table(self, *, mirrored: bool) -> _PlacementTable:
        if mirrored not in self._tables:
            self._tables[mirrored] = self._build_table(mirrored=mirrored)
        return self._tables[mirrored]

    def _build_table(self, *, mirrored: bool) -> _PlacementTable:
        cost, first, rows = [], [0], []
        for path, size in self._pairs.tolist():
            costs = []
            for r, (direction, cost_cache) in enumerate(
                zip(self._directions, self._costs, strict=True)
            ):
                route = (
                    path if direction.reversed_routes is None else direction.reversed_routes[path]
                )
                hops, took = cost_cache.hops(route, size)
                costs.append(took)
                uses: dict[int, list[_ResourceUse]] = {}
                for link, offset, busy in hops:
                    begins = offset
                    if mirrored != direction.is_backwards:
                        begins = took - offset - busy
                    pace = size / busy if busy else 0.0
                    for resource in self._resources[r][link]:
                        uses.setdefault(resource, []).append((begins, busy, pace))
                rows += [
                    (resource, *use)
                    for resource, resource_uses in uses.items()
                    for use in _merge_uses(resource_uses)
                ]
            cost.append(max(costs))
            first.append(len(rows))
        *held, paces = zip(*rows, strict=True)
        columns = [np.array(column, dtype=np.int64) for column in (cost, first, *held)]
        return (*columns, np.array(paces, dtype=np.float64))  # type: ignore[return-value]

    def starts(self, order: IntArray, *, backwards: bool = False) -> IntArray:
        """Return the start of each send if they are placed in an order, each as soon as possible.

        Args:
            order: Order of the sends. Each comes after the send that brings its chunk. Backwards:
                before.
            backwards: Whether time runs backwards. Then a rank must receive a chunk before it
                forwards it.

        Raises:
            KeyboardInterrupt: The user interrupted.
        """
        ends = (self._source, self._target)
        source, target = ends[::-1] if backwards else ends
        about = (self.chunk[order], self._pair[order], source[order], target[order])
        intervals, resources = int(self._base[-1]), len(self._rate)
        count, longest = np.zeros(resources, np.int64), np.zeros(resources, np.int64)
        begin, end = np.zeros(intervals, np.int64), np.zeros(intervals, np.int64)
        held = (self._base, count, begin, end, np.zeros(intervals), self._rate, longest)
        available = np.zeros((self._chunks, self._nodes), np.int64)
        start, table = np.zeros(len(order), np.int64), self._table(mirrored=backwards)
        for first in range(0, len(order), SENDS_PER_CALL):
            last = min(first + SENDS_PER_CALL, len(order))
            place_sends(first, last, about, table, held, available, start)
        send_starts = np.zeros(len(order), np.int64)
        send_starts[order] = start
        return send_starts


def _resources_of_links(
    directions: Sequence[PlacementDirection],
) -> tuple[list[list[list[int]]], FloatArray]:
    """Return the resources of each link in each direction, and their rates. Rate 0: a pipe."""
    room: list[float] = []
    number: list[list[list[int]]] = []
    for direction in directions:
        topology = direction.topology
        number.append([[len(room) + i] for i in range(len(topology.links))])
        room += [0.0] * len(topology.links)
        place_of = {link.edge: i for i, link in enumerate(topology.links)}
        for budget, speed in zip(topology.budgets, topology.budget_speeds(), strict=True):
            for edge in budget.edges:
                number[-1][place_of[edge]].append(len(room))
            pace = float(budget.chunks_per_round * Fraction(str(speed)) / 1000)
            room.append(pace * (1 + 1e-12))
    return number, np.array(room)


def place_plan(
    problem: FlowProblem, plan: SendPlan, directions: Sequence[PlacementDirection], passes: int = 0
) -> list[PlacedSend]:
    """Return the sends of a plan, each as soon as possible in the planned order.

    Args:
        problem: The problem.
        plan: The plan.
        directions: Directions in each of which the result must be valid.
        passes: Number of repetitions that place all sends as late as possible and then as soon as
            possible, each in the order of the previous result. The best result counts.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    sends = _PlannedSends(problem, plan, directions)
    indices = np.arange(len(sends.chunk))
    best = start = sends.starts(indices)
    order = indices
    for _ in range(passes):
        ends = start + sends.cost
        backwards = sends.starts(np.lexsort((-indices, -ends)), backwards=True)
        order = np.lexsort((indices, -backwards - sends.cost))
        start = sends.starts(order)
        if (start + sends.cost).max() < (best + sends.cost).max():
            best = start
        else:
            break
    rows = np.stack([best, best + sends.cost, sends.chunk, sends.routes], axis=1)
    return [PlacedSend(*row) for row in rows.tolist()]


def schedule_rows(
    topology: Topology, sizes: Sequence[int], sent: Sequence[PlacedSend]
) -> tuple[list[TransferRow], list[int]]:
    """Return placed sends as rows of a schedule, and the message of each row."""
    costs = _RouteCosts(topology)
    rows: list[TransferRow] = []
    messages = []
    for number, (start, _, chunk, path) in enumerate(sent):
        hops, _ = costs.hops(path, sizes[chunk])
        for link, offset, busy in hops:
            rows.append((start + offset, start + offset + busy, chunk, link))
            messages.append(number)
    return rows, messages


def _ordered_sends(problem: FlowProblem, plan: SendPlan) -> list[tuple[int, int]]:
    """Return (chunk, path) by planned time, each after the send that brings its chunk.

    The sends of a slot over links without alpha have the same planned time. They are ordered by
    their distance from the start of the chunk.
    """
    brings = {(send.chunk, problem.edges[send.link][1]): send for send in plan.sends}
    depth: dict[tuple[int, int], int] = {}

    def deep(chunk: int, rank: int) -> int:
        path = []
        while (chunk, rank) in brings and (chunk, rank) not in depth:
            path.append(rank)
            rank = problem.edges[brings[chunk, rank].link][0]
        far = depth.get((chunk, rank), 0)
        for rank in reversed(path):
            far += 1
            depth[chunk, rank] = far
        return far

    ordered = sorted(
        plan.sends,
        key=lambda s: (s.time, deep(s.chunk, problem.edges[s.link][1]), s.member, s.chunk, s.link),
    )
    return [(send.chunk, send.link) for send in ordered]
