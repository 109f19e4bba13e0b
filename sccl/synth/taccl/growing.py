"""Initial routes: trees that grow along the least loaded links.

A chunk that one rank wants takes a path with little use of links with low loads. A chunk that many
want spreads from rank to rank, along the way that is least loaded, or that brings it soonest if
links first carry all of their load. Each way counts at once, with its images by the symmetries, so
that branches of one tree avoid each other. The routes with the smallest relaxed time are taken. The
model of routes begins with them, and if it is too large they are the routes.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from enum import Enum, auto

from sccl.synth.intervals.model import Action
from sccl.synth.intervals.posed import Posed

Ways = dict[int, tuple[int, ...]]
"""For each first chunk the ways of its tree, in no order."""


class GrowsBy(Enum):
    """Along which way a tree grows next."""

    NEAREST = auto()
    """Along a path to the nearest rank that wants the chunk, with loads as distances."""
    LEAST_LOADED = auto()
    """Along the way whose fullest link carries the least then."""
    SOONEST = auto()
    """Along the way that brings the chunk the soonest, after all that its links carry so far."""


def grown(posed: Posed, action: Action, chosen: Mapping[int, frozenset[int]]) -> Ways:
    """Return for each first chunk the ways of a tree from its holder to all ranks that want it.

    Args:
        chosen: for each first chunk the allowed ways, which lead to all ranks that want it.
    """
    copied = any(len(posed.wanted[chunk]) > 1 for chunk in action.firsts)
    found: list[tuple[int, int, Ways]] = []
    for by in GrowsBy if copied else (GrowsBy.NEAREST,):
        growing = _Growing(posed, action)
        ways = {chunk: growing.tree(chunk, chosen[chunk], by) for chunk in action.firsts}
        found.append((relaxed(posed, action, ways), len(found), ways))
    return min(found)[2]


class _Growing:
    """Trees, with the loads of links by all earlier trees and branches."""

    def __init__(self, posed: Posed, action: Action) -> None:
        self.posed, self.action = posed, action
        self.loads = [0] * len(posed.room)
        self.shares = [
            [(h.thing, -(-h.busy * h.weight // posed.room[h.thing]), h.stem) for h in hops]
            for hops in posed.hops
        ]
        self.copied, self.stems = posed.copied, set[int]()

    def tree(self, chunk: int, chosen: frozenset[int], by: GrowsBy) -> tuple[int, ...]:
        """Return the ways of a chunk's tree, which count from now on."""
        self.stems.clear()
        out: dict[int, list[int]] = {}
        for way in sorted(chosen):
            out.setdefault(self.posed.src[way], []).append(way)
        if by is GrowsBy.NEAREST:
            found = self._by_paths(chunk, out)
        else:
            found = self._by_ways(chunk, out, soonest=by is GrowsBy.SOONEST)
        return tuple(sorted(found.values()))

    def _count(self, way: int, times: int = 1) -> None:
        """Count a way, and its images. Times -1: it is taken back."""
        own = self.shares[way]
        fresh = [place for place, (_, _, stem) in enumerate(own) if stem not in self.stems]
        for ways in self.action.ways:
            image = self.shares[ways[way]]
            for place in fresh:
                thing, share, _ = image[place]
                self.loads[thing] += times * share
        if self.copied:  # ways that part at a switch share what is before it
            self.stems.update(stem for _, _, stem in own)

    def _load(self, way: int) -> int:
        """Return the maximum load on a way, if it were taken."""
        loads, stems = self.loads, self.stems
        return max(loads[t] + (0 if stem in stems else own) for t, own, stem in self.shares[way])

    def _by_ways(
        self, chunk: int, out: Mapping[int, list[int]], *, soonest: bool
    ) -> dict[int, int]:
        """Return by which way each rank is reached, ways being taken one after the other."""
        posed, costs = self.posed, self.posed.cost_of(chunk)
        wanted, at = set(posed.wanted[chunk]), dict.fromkeys(posed.holders[chunk], 0)
        by: dict[int, int] = {}

        def key(way: int) -> tuple[int, int, int]:
            arrives = at[posed.src[way]] + costs[way]
            if soonest:
                loads = max(self.loads[thing] for thing, _, _ in self.shares[way])
                return max(at[posed.src[way]], loads) + costs[way], arrives, way
            return self._load(way), arrives, way

        heap = [key(way) for rank in sorted(at) for way in out.get(rank, ())]
        heapq.heapify(heap)
        while wanted:
            before = heapq.heappop(heap)
            way = before[2]
            rank = posed.dst[way]
            if rank in at:
                continue
            now = key(way)
            if now > before:  # its links carry more by now
                heapq.heappush(heap, now)
                continue
            at[rank], by[rank] = now[0] if soonest else now[1], way
            self._count(way)
            wanted.discard(rank)
            for then in out.get(rank, ()):
                if posed.dst[then] not in at:
                    heapq.heappush(heap, key(then))
        return self._pruned(chunk, by)

    def _pruned(self, chunk: int, by: dict[int, int]) -> dict[int, int]:
        """Return ways without those that lead to nobody who wants the chunk."""
        posed = self.posed
        served = set()
        for rank in posed.wanted[chunk]:
            at = rank
            while at in by and at not in served:
                served.add(at)
                at = posed.src[by[at]]
        if not self.copied:
            for rank in sorted(set(by) - served):
                self._count(by[rank], -1)
        return {rank: way for rank, way in by.items() if rank in served}

    def _by_paths(self, chunk: int, out: Mapping[int, list[int]]) -> dict[int, int]:
        """Return by which way each rank is reached, the nearest who wants it being the next."""
        posed = self.posed
        wanted, inside = set(posed.wanted[chunk]), set(posed.holders[chunk])
        best: dict[int, int] = dict.fromkeys(inside, 0)
        by: dict[int, int] = {}
        heap = [(0, rank) for rank in sorted(inside)]
        found: dict[int, int] = {}
        while wanted:
            far, rank = heapq.heappop(heap)
            if far > best[rank]:
                continue
            if rank in wanted:  # it is taken in, with all on the way there, and begins anew
                at = rank
                while at not in inside:
                    inside.add(at)
                    found[at] = by[at]
                    best[at] = 0
                    heapq.heappush(heap, (0, at))
                    at = posed.src[by[at]]
                wanted.discard(rank)
                if far:
                    continue
            for way in out.get(rank, ()):
                there = posed.dst[way]
                if there in inside:
                    continue
                longer = far + self._load(way) + 1
                if longer < best.get(there, longer + 1):
                    best[there], by[there] = longer, way
                    heapq.heappush(heap, (longer, there))
        for way in found.values():
            self._count(way)
        return found


def relaxed(posed: Posed, action: Action, ways: Mapping[int, tuple[int, ...]]) -> int:
    """Return the relaxed time of routes: of the fullest link, or the longest way."""
    loads = [0] * len(posed.room)
    latest = 0
    for chunk, own in ways.items():
        costs = posed.cost_of(chunk)
        far = dict.fromkeys(posed.holders[chunk], 0)
        by = {posed.dst[way]: way for way in own}
        for rank in by:
            path = []
            at = rank
            while at not in far:
                path.append(by[at])
                at = posed.src[by[at]]
            for way in reversed(path):
                far[posed.dst[way]] = far[posed.src[way]] + costs[way]
        latest = max(latest, *far.values())
        for images in action.ways:
            stems = set()
            for way in own:
                for hop in posed.hops[images[way]]:
                    if hop.stem not in stems:
                        stems.add(hop.stem)
                        loads[hop.thing] += hop.busy * hop.weight
    full = max(-(-load // room) for load, room in zip(loads, posed.room, strict=True))
    return max(full, latest)
