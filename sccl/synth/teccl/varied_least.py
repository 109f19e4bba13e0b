"""Lower bounds for schedules with varying bandwidth, in addition to those at full bandwidth.

- The first tick at which a chunk can be at a rank: a later start on a way never arrives earlier, so
  Dijkstra's search by times of arrival finds it. If there is none, there is no schedule.
- Each chunk that a rank wants and does not hold comes over some link into it, and each chunk that
  it alone holds and others want leaves it. A link passes chunks one after the other, so by a tick
  their number is at most the data that its rate allows by then over a chunk's bytes, rounded down.
  A chunk arrives no earlier than the link's lag after that.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable

from sccl.core.clock import MAX_TICKS
from sccl.core.schedule import MAX_TIME
from sccl.core.words import counted
from sccl.errors import UnreachableError
from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.synth.intervals.varied_ways import VariedWays
from sccl.synth.network.paths import FAR

_MOST_LOOKED_AT = 50_000
"""Ways, times sets of holders, up to which times of arrival are searched for."""


def least_varied(posed: Posed) -> int:
    """Return the ticks that no schedule takes less than. 0: all that is known is told elsewhere.

    Raises:
        UnreachableError: a chunk cannot come to where it is wanted.
    """
    far = farthest(posed, lambda chunk, way, tick: posed.arrives(ChunkSend(tick, chunk, way)))
    return max(far, _busiest(posed))


def farthest(posed: Posed, arrives: Callable[[int, int, int], int]) -> int:
    """Return the time by which each chunk can be where it is wanted, if nothing is in the way.

    Args:
        arrives: says of a chunk, a way and a time when what then sets out arrives, at least FAR if
            it never does; what sets out later arrives no earlier.

    Raises:
        UnreachableError: a chunk cannot come to where it is wanted.
    """
    kinds = list(zip(posed.size, posed.holders, strict=True))
    if len(set(kinds)) * len(posed.src) > _MOST_LOOKED_AT:
        return 0
    known: dict[tuple[int, frozenset[int]], dict[int, int]] = {}
    last = 0
    for chunk, wanted in enumerate(posed.wanted):
        if kinds[chunk] not in known:
            known[kinds[chunk]] = _soonest(posed, chunk, arrives)
        for rank in sorted(wanted):
            if rank not in known[kinds[chunk]]:
                most = posed.clock.us(MAX_TICKS) / 10**6
                raise UnreachableError(
                    f"{posed.varied[0].name}: no data reach rank {rank} from "
                    f"rank {min(posed.holders[chunk])}, where {posed.collective.name} needs chunk "
                    f"{chunk}: each path has a link without bandwidth forever, or for more than "
                    f"{most:.0f} s: set the end ('to_us'), or add links"
                )
            last = max(last, known[kinds[chunk]][rank])
    return last


def _soonest(posed: Posed, chunk: int, arrives: Callable[[int, int, int], int]) -> dict[int, int]:
    """Return the first time at which a chunk can be at each rank to which it can come."""
    found: dict[int, int] = {}
    heap = [(0, rank) for rank in sorted(posed.holders[chunk])]
    while heap:
        time, rank = heapq.heappop(heap)
        if rank in found:
            continue
        found[rank] = time
        for way in posed.out[rank]:
            if posed.dst[way] not in found:
                at = arrives(chunk, way, time)
                if at < FAR:
                    heapq.heappush(heap, (at, posed.dst[way]))
    return found


def _busiest(posed: Posed) -> int:
    """Return the tick by which links can have brought to each rank, or from it, what they must.

    Of chunks of several sizes all are counted as if they had the least.
    """
    last, links, varied = 0, posed.topology.links, posed.varied[0]
    for rank in range(posed.ranks):
        inward = sum(rank in wanted for wanted in posed.wanted)
        outward = sum(
            own == {rank} and bool(wanted)
            for own, wanted in zip(posed.holders, posed.wanted, strict=True)
        )
        into = [i for i, link in enumerate(links) if link.dst == rank]
        out = [i for i, link in enumerate(links) if link.src == rank]
        for chunks, over, where in ((inward, into, "into"), (outward, out, "out of")):
            by = _first_by(posed, varied, over, chunks)
            if by is None:
                name, most = posed.collective.name, sum(varied.chunks(i, MAX_TIME) for i in over)
                raise UnreachableError(
                    f"{varied.name}: {counted(chunks, 'chunk')} of {name} must go {where} rank "
                    f"{rank}, and its links carry {most}, and then nothing forever: set the end "
                    "of that ('to_us'), or add links"
                )
            last = max(last, by)
    return last


def _first_by(posed: Posed, varied: VariedWays, links: list[int], chunks: int) -> int | None:
    """Return the first tick by which some links can have passed so many chunks. None: never."""
    lags = [posed.clock.lag(link) for link in links]

    def enough(tick: int) -> bool:
        """Return whether so many have arrived by a tick."""
        pairs = zip(links, lags, strict=True)
        return sum(varied.chunks(link, tick - lag) for link, lag in pairs if tick > lag) >= chunks

    last = 1
    while not enough(last):
        last *= 2
        if last > MAX_TIME:
            return None
    return bisect_left(range(last + 1), True, key=enough)  # noqa: FBT003 - what is looked for
