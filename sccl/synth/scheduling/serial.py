"""Place sends in a given order, each as soon as its chunk is there and its route is free.

If routes are links, each send of a valid schedule in epochs starts no later than its epoch: its
chunk has arrived by then, and the sends before it occupy no more than in the epochs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence

from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem
from sccl.synth.scheduling.resource_uses import ResourceUse


class ResourceTimeline:
    """The uses of a resource over time."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._reservations: list[tuple[int, int, int]] = []
        self._longest = self._end = 0

    def earliest_fit(self, start: int, busy: int, weight: int) -> int:
        """Return the first unit, ``start`` or later, with ``weight`` free for ``busy`` units."""
        while busy and start < self._end:
            first = bisect_left(self._reservations, (start - self._longest,))
            last = bisect_left(self._reservations, (start + busy,))
            over = [entry for entry in self._reservations[first:last] if entry[1] > start]
            for at in sorted({start, *(begin for begin, _, _ in over if begin > start)}):
                overlaps = [(end, load) for begin, end, load in over if begin <= at < end]
                if sum(load for _, load in overlaps) + weight > self.capacity:
                    start = min(end for end, _ in overlaps)
                    break
            else:
                break
        return start

    def reserve(self, start: int, busy: int, weight: int) -> None:
        """Mark ``weight`` of the capacity as used for ``busy`` units."""
        if busy:
            insort(self._reservations, (start, start + busy, weight))
            self._longest = max(self._longest, busy)
            self._end = max(self._end, start + busy)


class BusyIntervals:
    """Disjoint intervals in which a resource that serves one send at a time is busy.

    Adjacent intervals are merged. So a dense part of the schedule is skipped in one step, unlike in
    :class:`ResourceTimeline`.
    """

    def __init__(self) -> None:
        self._begin: list[int] = []
        self._end: list[int] = []

    def earliest_fit(self, start: int, busy: int, _weight: int) -> int:
        """Return the first unit, ``start`` or later, from which it is free for ``busy`` units."""
        at = bisect_right(self._end, start)
        while at < len(self._begin) and self._begin[at] < start + busy:
            start = max(start, self._end[at])
            at += 1
        return start

    def reserve(self, start: int, busy: int, _weight: int) -> None:
        """Mark an interval as busy."""
        if not busy:
            return
        end, at = start + busy, bisect_left(self._end, start)
        after = at
        if at < len(self._end) and self._end[at] == start:
            start, after = self._begin[at], at + 1
        if after < len(self._begin) and self._begin[after] == end:
            end, after = self._end[after], after + 1
        self._begin[at:after], self._end[at:after] = [start], [end]


Timeline = BusyIntervals | ResourceTimeline


def earliest_common_fit(held: Sequence[Timeline], hops: Iterable[ResourceUse], start: int) -> int:
    """Return the first unit, ``start`` or later, at which all resources of a route are free."""
    before = -1
    while start != before:
        before = start
        for h in hops:
            start = held[h.resource].earliest_fit(start + h.offset, h.busy, h.demand) - h.offset
    return start


def reserve_uses(held: Sequence[Timeline], hops: Iterable[ResourceUse], start: int) -> None:
    """Mark the resources of a route as used by a send that starts at ``start``."""
    for h in hops:
        held[h.resource].reserve(start + h.offset, h.busy, h.demand)


def serial_schedule(
    problem: SchedulingProblem, sends: Iterable[ChunkSend], length: int
) -> tuple[ChunkSend, ...]:
    """Return the sends with exact starts.

    Args:
        problem: The problem.
        sends: Sends with starts in epochs, each after the send that brings its chunk. Sends of one
            epoch, chunk, and multicast group start together.
        length: Length of an epoch, units: no send starts before its epoch. 0: each send starts as
            early as possible.
    """
    held = [ResourceTimeline(capacity) for capacity in problem.capacity]
    of_several = max if problem.collective.combining else min  # a sum needs all contributions
    available = {(c, r): 0 for c, ranks in enumerate(problem.holders) for r in ranks}
    sent = []
    for epoch, chunk, paths in group_multicasts(problem, sends):
        soonest = max(epoch * length, available[chunk, problem.src[paths[0]]])
        start, hops = _fit_send(problem, held, chunk, paths, soonest)
        reserve_uses(held, hops, start)
        for path in paths:
            sent.append(ChunkSend(start, chunk, path))
            target, arrives = (chunk, problem.dst[path]), problem.arrival(sent[-1])
            available[target] = of_several(arrives, available.get(target, arrives))
    return tuple(sent)


def _fit_send(
    problem: SchedulingProblem,
    held: Sequence[ResourceTimeline],
    chunk: int,
    paths: Sequence[int],
    soonest: int,
) -> tuple[int, list[ResourceUse]]:
    """Return the start of a chunk on routes together, and its uses of resources then."""
    start, before = soonest, -1
    while True:
        hops = {
            hop.multicast_group: hop
            for path in paths
            for hop in problem.uses_at(chunk, path, start)
        }
        if start == before:
            break
        before, start = start, earliest_common_fit(held, list(hops.values()), start)
        if not problem.varying_routes:
            break
    if idle := problem.idle_units(
        chunk, paths[0], start
    ):  # a later start arrives no later, and occupies less before
        start += idle
        hops = {hop.multicast_group: hop for hop in problem.uses_at(chunk, paths[0], start)}
    return start, list(hops.values())


def group_multicasts(
    problem: SchedulingProblem, sends: Iterable[ChunkSend]
) -> list[tuple[int, int, list[int]]]:
    """Return (epoch, chunk, routes). The routes of a multicast group are together."""
    groups: list[tuple[int, int, list[int]]] = []
    place: dict[tuple[int, int, int], int] = {}
    for send in sends:
        keys = [
            (send.start, send.chunk, hop.multicast_group) for hop in problem.route_uses[send.route]
        ]
        at = next((place[key] for key in keys if key in place), len(groups))
        if at == len(groups):
            groups.append((send.start, send.chunk, []))
        groups[at][2].append(send.route)
        place |= dict.fromkeys(keys, at)
    return groups


def prune_sends(problem: SchedulingProblem, sends: Iterable[ChunkSend]) -> tuple[ChunkSend, ...]:
    """Return the sends on the paths of chunks to their destinations.

    TE-CCL, section 3: flows that serve no demand are removed, from the destinations backwards.

    Args:
        problem: The problem.
        sends: Sends of some chunks. Each chunk arrives at a rank at most once.
    """
    rows = tuple(sends)
    trees: dict[int, dict[int, int]] = {}
    for send in rows:
        trees.setdefault(send.chunk, {})[problem.dst[send.route]] = send.route
    useful = {chunk: problem.useful_routes(chunk, tree) for chunk, tree in trees.items()}
    return tuple(send for send in rows if send.route in useful[send.chunk])
