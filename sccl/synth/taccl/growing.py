"""Routes to begin from: trees that grow along what is least loaded.

A tree of a chunk grows by the nearest rank that still wants it, from wherever it is by then; near
is what takes little of links that carry little so far. So each chunk crosses slow links as seldom
as can be, and crossings are shared out. The model of routes begins with these, and where it is too
large they are the routes.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from sccl.synth.intervals.model import Action
from sccl.synth.intervals.posed import Posed


def grown(
    posed: Posed, action: Action, chosen: Mapping[int, frozenset[int]]
) -> dict[int, tuple[int, ...]]:
    """Return of each first chunk the ways of a tree from where it is held to all who want it.

    Args:
        chosen: of each first chunk the ways that it may go, which lead to all who want it.
    """
    loads = [0] * len(posed.room)
    shares = [
        [(hop.thing, -(-hop.busy * hop.weight // posed.room[hop.thing])) for hop in hops]
        for hops in posed.hops
    ]
    found = {}
    for chunk in action.firsts:
        out: dict[int, list[int]] = {}
        for way in sorted(chosen[chunk]):
            out.setdefault(posed.src[way], []).append(way)
        tree = _tree(posed, chunk, out, shares, loads)
        found[chunk] = tuple(sorted(tree))
        for way in tree:
            for ways in action.ways:
                for thing, share in shares[ways[way]]:
                    loads[thing] += share
    return found


def _tree(
    posed: Posed,
    chunk: int,
    out: Mapping[int, list[int]],
    shares: list[list[tuple[int, int]]],
    loads: list[int],
) -> list[int]:
    """Return the ways of one chunk's tree."""
    wanted, inside = set(posed.wanted[chunk]), set(posed.holders[chunk])
    best: dict[int, int] = dict.fromkeys(inside, 0)
    by: dict[int, int] = {}
    heap = [(0, rank) for rank in sorted(inside)]
    found: list[int] = []
    while wanted:
        far, rank = heapq.heappop(heap)
        if far > best[rank]:
            continue
        if rank in wanted:  # it is taken in, with all on the way there, and begins anew from them
            at = rank
            while at not in inside:
                inside.add(at)
                found.append(by[at])
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
            longer = far + max(share + loads[thing] for thing, share in shares[way]) + 1
            if longer < best.get(there, longer + 1):
                best[there], by[there] = longer, way
                heapq.heappush(heap, (longer, there))
    return found


def relaxed(posed: Posed, action: Action, ways: Mapping[int, tuple[int, ...]]) -> int:
    """Return the relaxed time of routes: of the fullest link, or the longest way."""
    loads = [0] * len(posed.room)
    latest = 0
    for chunk, own in ways.items():
        at = dict.fromkeys(posed.holders[chunk], 0)
        left = set(own)
        costs = posed.cost_of(chunk)
        while left:
            for way in sorted(left):
                if posed.src[way] in at:
                    at[posed.dst[way]] = at[posed.src[way]] + costs[way]
                    left.discard(way)
        latest = max(latest, *at.values())
        for images in action.ways:
            stems = set()
            for way in own:
                for hop in posed.hops[images[way]]:
                    if hop.stem not in stems:
                        stems.add(hop.stem)
                        loads[hop.thing] += hop.busy * hop.weight
    full = max(-(-load // room) for load, room in zip(loads, posed.room, strict=True))
    return max(full, latest)
