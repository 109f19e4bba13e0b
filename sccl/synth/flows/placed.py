"""From a packing to a schedule: each share of a tree becomes chunks, and each chunk is sent.

A packing says in which slot a send is; all shares of a slot pass it side by side. Here chunks pass
whole, in the order of planned times: the slot's begin, and a part of its length that is the same
in all slots of a chunk. Each is sent as soon as it has come and its link is free, so that a
schedule may even be faster than its packing, which sends nothing before the slot.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from sccl.collectives import Dual
from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.synth.flows.problem import FluidProblem, WayImages
from sccl.synth.flows.shares import TimedPacking, TreePart
from sccl.synth.network.crossings import Crossings, crossings_of

_LEAST_PART = 5e-4
"""Of a commodity: smaller shares are left out, and the others get theirs."""


@dataclass(frozen=True, slots=True)
class PlannedSend:
    """A send as it is planned; ascending by time."""

    time: float
    turn: int
    chunk: int
    link: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be sent.

    Attributes:
        chunks: C of the dual.
        sizes: bytes of each chunk.
        sends: in an order in which each chunk has come before it is sent on.
    """

    chunks: int
    sizes: tuple[int, ...]
    sends: tuple[PlannedSend, ...]


Row = tuple[int, int, int, int]
"""Start, end, chunk and link of a transfer."""


class Sent(NamedTuple):
    """What is sent over a way.

    Attributes:
        start: picoseconds.
        arrival: likewise.
        way: from rank to rank.
    """

    start: int
    arrival: int
    chunk: int
    way: int


def planned(
    problem: FluidProblem, packing: TimedPacking | None, dual: Dual, pieces: int
) -> Planned:
    """Return the sends of a packing, each share in about so many chunks.

    Args:
        packing: None: nothing is sent.
    """
    if packing is None:
        collective = dual.spec.at(dual.spec.unit)
        each = max(1, ceil(problem.chunk_bytes))
        return Planned(collective.chunks, (each,) * collective.num_chunks, ())
    classes = problem.collective.classes()
    shares = _by_commodity(problem, packing)
    several = max(
        ceil(pieces * len(own) / len(classes[problem.commodities[c].members[0][0]]))
        for c, own in shares.items()
    )
    several = max(1, min(several, int(problem.chunk_bytes)))
    collective = dual.spec.at(dual.spec.unit * several)
    chunks_of = collective.classes()
    chunk_bytes = problem.chunk_bytes
    begins = packing.slots.begins(packing.lengths)
    ways = WayImages(problem)
    # what is where it is wanted from the start is sent nowhere, and has its bytes too
    sizes = [max(1, ceil(chunk_bytes / several))] * collective.num_chunks
    sends: list[PlannedSend] = []
    for c, commodity in enumerate(problem.commodities):
        own = shares[c]
        count = len(chunks_of[commodity.members[0][0]])
        size = ceil(commodity.size)
        cuts = _cut(own, count, size)
        for turn, (one, image) in enumerate(commodity.members):
            images = ways.of(image)
            for turned, (chunk, (share, some)) in enumerate(zip(chunks_of[one], cuts, strict=True)):
                sizes[chunk] = some
                part = (turned + 0.5) / count
                for link, slot in share.tree:
                    time = float(begins[slot] + part * packing.lengths[slot])
                    sends.append(
                        PlannedSend(time, c * len(commodity.members) + turn, chunk, images[link])
                    )
    return Planned(collective.chunks, tuple(sizes), tuple(sends))


def _by_commodity(problem: FluidProblem, packing: TimedPacking) -> dict[int, list[TreePart]]:
    """Return the shares of each commodity that are not too small, the largest first."""
    found: dict[int, list[TreePart]] = {c: [] for c in range(len(problem.commodities))}
    for share in packing.shares:
        found[share.commodity].append(share)
    for c, own in found.items():
        own.sort(key=lambda s: (-s.part, sorted(s.tree)))
        found[c] = [s for s in own if s.part >= _LEAST_PART] or own[:1]
    return found


def _cut(shares: Sequence[TreePart], count: int, size: int) -> list[tuple[TreePart, int]]:
    """Return so many chunks of so many bytes together, each with the share that it is a part of.

    The largest is cut again and again; where there are fewer chunks than shares, the smallest are
    left out. Chunks of one share lie as far apart as can be.
    """
    shares = shares[: min(count, size)]
    times = [1] * len(shares)
    queue = [(-share.part, i) for i, share in enumerate(shares)]
    heapq.heapify(queue)
    for _ in range(count - len(shares)):
        _, i = heapq.heappop(queue)
        times[i] += 1
        heapq.heappush(queue, (-shares[i].part / times[i], i))
    whole = sum(share.part for share in shares)
    each = [
        max(1, int(share.part / whole * size / n)) for share, n in zip(shares, times, strict=True)
    ]
    found = [((k + 0.5) / n, i) for i, n in enumerate(times) for k in range(n)]
    found.sort()
    bytes_ = [each[i] for _, i in found]
    left = size - sum(bytes_)
    for k in range(abs(left)) if abs(left) <= len(bytes_) else ():
        bytes_[k] += 1 if left > 0 else -1
    if abs(left) > len(bytes_):
        bytes_[bytes_.index(max(bytes_))] += left
    return [(shares[i], some) for (_, i), some in zip(found, bytes_, strict=True)]


class _Pipe:
    """What a link carries, one transfer after the other: gaps between them are filled."""

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []

    def next(self, start: int, busy: int) -> int:
        """Return the first tick from one on at which it is free for so long."""
        i = bisect_left(self.ends, start + 1)
        while i < len(self.begins) and self.begins[i] < start + busy:
            start = max(start, self.ends[i])
            i += 1
        return start

    def take(self, start: int, busy: int) -> None:
        """Note that it is busy; what follows on something without a gap is one with it."""
        end = start + busy
        i = bisect_left(self.ends, start)
        after = i < len(self.ends) and self.ends[i] == start
        j = i + after
        before = j < len(self.begins) and self.begins[j] == end
        if after and before:
            del self.ends[i], self.begins[j]
        elif after:
            self.ends[i] = end
        elif before:
            self.begins[j] = start
        else:
            self.begins.insert(i, start)
            self.ends.insert(i, end)


class _Shared:
    """What a budget carries: bytes a tick of all transfers at a time."""

    def __init__(self, pace: float) -> None:
        self.pace = pace * (1 + 1e-12)
        self.busy: list[tuple[int, int, float]] = []  # begin, end, bytes a tick; by begin
        self.longest = 0

    def next(self, start: int, busy: int, pace: float) -> int:
        """Return the first tick from one on at which so much more fits in for so long."""
        while True:
            first = bisect_left(self.busy, (start - self.longest,))
            last = bisect_left(self.busy, (start + busy,))
            over = [one for one in self.busy[first:last] if one[1] > start]
            wait = _until(over, start, self.pace - pace)
            if wait == start:
                return start
            start = wait

    def take(self, start: int, busy: int, pace: float) -> None:
        """Note that so much passes."""
        insort(self.busy, (start, start + busy, pace))
        self.longest = max(self.longest, busy)


def _until(over: list[tuple[int, int, float]], start: int, room: float) -> int:
    """Return a tick before which there is too much; ``start``: there is not."""
    times = sorted({start, *(b for b, _, _ in over if b > start)})
    for time in times:
        at = [(e, p) for b, e, p in over if b <= time < e]
        if sum(p for _, p in at) > room:
            return min(e for e, _ in at)
    return start


class _Costs:
    """What ways take, for chunks of each size."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._of_size: dict[int, Crossings] = {}

    def hops(self, way: int, size: int) -> tuple[list[tuple[int, int, int]], int]:
        """Return (link, offset, ticks) of a way's links, and when the chunk has arrived."""
        costs = self.of(size)
        rows = range(int(costs.first[way]), int(costs.first[way + 1]))
        links = [(int(costs.link[r]), int(costs.offset[r]), int(costs.busy[r])) for r in rows]
        return links, int(costs.cost[way])

    def of(self, size: int) -> Crossings:
        """Return the ways of a machine, for chunks of a size."""
        if size not in self._of_size:
            self._of_size[size] = crossings_of(self.topology, Clock.of(self.topology, size))
        return self._of_size[size]


@dataclass(frozen=True, slots=True)
class Reading:
    """How what is placed will be read: as it is, or backwards, from a phase's end.

    Backwards a chunk holds a link as long before it has come as else after it sets out. Where
    alphas differ, what does not meet on a bus the one way may meet there the other way.

    Attributes:
        topology: the machine on which it is read.
        turned: of each way that of this machine; None: it is read as it is.
    """

    topology: Topology
    turned: tuple[int, ...] | None = None


class _Held:
    """What is held on a machine, as it is read."""

    def __init__(self, reading: Reading, *, mirrored: bool = False) -> None:
        topology = reading.topology
        self._backwards = mirrored != (reading.turned is not None)
        self.turned, self._costs = reading.turned, _Costs(topology)
        place = {link.edge: i for i, link in enumerate(topology.links)}
        self._pipes = [_Pipe() for _ in topology.links]
        self._shared: list[list[_Shared]] = [[] for _ in topology.links]
        for budget, speed in zip(topology.budgets, topology.budget_speeds(), strict=True):
            shared = _Shared(float(budget.chunks_per_round * Fraction(str(speed)) / 1000))
            for edge in budget.edges:
                self._shared[place[edge]].append(shared)
        self._known: dict[tuple[int, int], tuple[list[tuple[int, int, int]], int]] = {}

    def hops(self, way: int, size: int) -> tuple[list[tuple[int, int, int]], int]:
        """Return (link, offset, ticks) of a way's links, and when the chunk has arrived."""
        if (way, size) not in self._known:
            turned = way if self.turned is None else self.turned[way]
            hops, cost = self._costs.hops(turned, size)
            if self._backwards:
                hops = [(link, cost - offset - busy, busy) for link, offset, busy in hops]
            self._known[way, size] = hops, cost
        return self._known[way, size]

    def next(self, start: int, way: int, size: int) -> int:
        """Return a tick, this or later, before which a way is not free."""
        for link, offset, busy in self.hops(way, size)[0]:
            start = self._pipes[link].next(start + offset, busy) - offset
            for shared in self._shared[link]:
                start = shared.next(start + offset, busy, size / busy) - offset
        return start

    def take(self, start: int, way: int, size: int) -> None:
        """Note that a chunk passes."""
        for link, offset, busy in self.hops(way, size)[0]:
            self._pipes[link].take(start + offset, busy)
            for shared in self._shared[link]:
                shared.take(start + offset, busy, size / busy)


def placed(
    problem: FluidProblem, plan: Planned, readings: Sequence[Reading], passes: int = 0
) -> list[Sent]:
    """Return when each send is, as soon as may be in the order that is planned.

    Args:
        readings: as each of which it is right.
        passes: how often what was found is placed anew, as late as may be and then as soon as may
            be, each in the order that the one before has found: the best is returned.
    """
    best = sent = _forwards(problem, plan.sizes, _ordered(problem, plan), readings)
    for _ in range(passes):
        late = _as_late(problem, plan.sizes, sent, readings)
        sent = _forwards(problem, plan.sizes, late, readings)
        if max(one.arrival for one in sent) < max(one.arrival for one in best):
            best = sent
        else:
            break
    return best


def _forwards(
    problem: FluidProblem,
    sizes: Sequence[int],
    order: Iterable[tuple[int, int]],
    readings: Sequence[Reading],
) -> list[Sent]:
    """Return when each (chunk, way) of an order is, as soon as may be."""
    held = [_Held(reading) for reading in readings]
    have: dict[tuple[int, int], int] = {}
    sent = []
    for chunk, way in order:
        (src, dst), size = problem.edges[way], sizes[chunk]
        start, cost = _free(held, have.get((chunk, src), 0), way, size)
        have[chunk, dst] = start + cost
        sent.append(Sent(start, start + cost, chunk, way))
    return sent


def _as_late(
    problem: FluidProblem,
    sizes: Sequence[int],
    sent: Sequence[Sent],
    readings: Sequence[Reading],
) -> list[tuple[int, int]]:
    """Return (chunk, way)s by how late each may be, if those that are late are placed first."""
    held = [_Held(reading, mirrored=True) for reading in readings]
    needed: dict[tuple[int, int], int] = {}
    rows = []
    for i, one in sorted(enumerate(sent), key=lambda row: (-row[1].arrival, -row[0])):
        src, dst = problem.edges[one.way]
        start, cost = _free(held, needed.get((one.chunk, dst), 0), one.way, sizes[one.chunk])
        needed[one.chunk, src] = max(start + cost, needed.get((one.chunk, src), 0))
        rows.append((-start - cost, i, one.chunk, one.way))
    return [(chunk, way) for _, _, chunk, way in sorted(rows)]


def _free(held: Sequence[_Held], start: int, way: int, size: int) -> tuple[int, int]:
    """Take a way as soon as it is free; return when that is, and what passing it takes."""
    cost, before = max(one.hops(way, size)[1] for one in held), -1
    while start != before:
        before = start
        for one in held:
            start = one.next(start, way, size)
    for one in held:
        one.take(start, way, size)
    return start, cost


def rows_of(
    topology: Topology, sizes: Sequence[int], sent: Sequence[Sent]
) -> tuple[list[Row], list[int]]:
    """Return what is sent over ways as rows of a schedule, and the message of each."""
    costs = _Costs(topology)
    rows: list[Row] = []
    messages = []
    for number, (start, _, chunk, way) in enumerate(sent):
        hops, _ = costs.hops(way, sizes[chunk])
        for link, offset, busy in hops:
            rows.append((start + offset, start + offset + busy, chunk, link))
            messages.append(number)
    return rows, messages


def _ordered(problem: FluidProblem, plan: Planned) -> Iterator[tuple[int, int]]:
    """Yield (chunk, way)s by planned time, each after the one that brings its chunk.

    Those of a slot are planned at one time where links have no alpha: there, by how far they are
    from where the chunk starts.
    """
    brings = {(send.chunk, problem.edges[send.link][1]): send for send in plan.sends}
    depth: dict[tuple[int, int], int] = {}

    def deep(chunk: int, rank: int) -> int:
        """Return how many sends bring a chunk to a rank."""
        way = []
        while (chunk, rank) in brings and (chunk, rank) not in depth:
            way.append(rank)
            rank = problem.edges[brings[chunk, rank].link][0]
        far = depth.get((chunk, rank), 0)
        for rank in reversed(way):
            far += 1
            depth[chunk, rank] = far
        return far

    ordered = sorted(
        plan.sends,
        key=lambda s: (s.time, deep(s.chunk, problem.edges[s.link][1]), s.turn, s.chunk, s.link),
    )
    yield from ((send.chunk, send.link) for send in ordered)
