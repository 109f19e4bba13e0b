"""Combining collectives by direct demands: contributions go alone to the ranks that reduce them.

TE-CCL, section 8. A reducescatter is an alltoall of contributions: ranks on the path forward them
and reduce nothing, so that each is one message of several hops. An allreduce is that, and then an
allgather, or all contributions go to all ranks, and each rank reduces separately, which takes no
longer than the longest path while chunks are small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.collective import Collective
from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.synth.network.sends import Sends
from sccl.synth.teccl.waiting import Waiting

MOST_HOPS = 2**15
"""Limit on the hops of all messages: some seconds."""


@dataclass(frozen=True, slots=True)
class DirectSends:
    """Sends over ways.

    Attributes:
        ticks: finish.
        message: by send, the message that it is a hop of.
    """

    ticks: int
    sends: Sends
    message: NDArray[np.int32]


Contribution = tuple[int, int, int]
"""(chunk, who contributes, who reduces)."""


def to_owners(collective: Collective, spread: Collective | None = None) -> list[Contribution]:
    """Return the contributions of a combining collective in which one rank wants each chunk.

    Args:
        spread: of an allreduce: the allgather after it, in which one rank holds each chunk.
    """
    found = []
    for chunk in range(collective.num_chunks):
        goal = min(collective.wanted(chunk) if spread is None else spread.holders(chunk))
        found += [(chunk, int(r), int(goal)) for r in collective.holders(chunk) if r != goal]
    return sorted(found)


def to_all(collective: Collective) -> list[Contribution]:
    """Return the contributions to all ranks that want a chunk."""
    return [
        (chunk, src, dst)
        for chunk in range(collective.num_chunks)
        for src in sorted(map(int, collective.holders(chunk)))
        for dst in sorted(map(int, collective.wanted(chunk)))
        if src != dst
    ]


class _Hop(NamedTuple):
    """A hop of a message.

    Attributes:
        needs: pairs (hop, way) that have to have arrived when it starts. Empty for a first hop.
        reduce: whether it is the last hop of a contribution.
        message: message number.
        rank: order of placement.
    """

    chunk: int
    way: int
    needs: list[tuple[int, int]]
    reduce: bool
    message: int
    rank: tuple[int, ...]


def direct(
    posed: Posed,
    contributions: Sequence[Contribution],
    enough: int,
    copies: Iterable[ChunkSend] = (),
) -> DirectSends | None:
    """Return a schedule. None: there is none within the time.

    Args:
        posed: an allgather on the machine, of chunks of that size.
        enough: ticks.
        copies: sends of the results, each chunk from where it is reduced. Those of one chunk that
            share a stem are sent one by one.
    """
    paths = _paths(posed, contributions)
    if sum(map(len, paths)) > MOST_HOPS or _busiest(posed, paths) * posed.unit >= enough:
        return None
    hops: list[_Hop] = []
    comes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for message, ((chunk, _, goal), path) in enumerate(zip(contributions, paths, strict=True)):
        before: list[tuple[int, int]] = []
        for leg, way in enumerate(path):
            last, rank = leg == len(path) - 1, (leg, leg - len(path), chunk)
            hops.append(_Hop(chunk, way, before, last, message, rank))
            before = [(len(hops) - 1, way)]
        comes[chunk, goal] += before
    stored: dict[tuple[int, int], list[tuple[int, int]]] = {}
    later = sorted(copies, key=lambda s: (s.start, s.chunk, s.way))
    most = max(map(len, paths), default=0)
    for i, send in enumerate(later):
        here = (send.chunk, posed.src[send.way])
        needs, message = stored.get(here, comes[here]), len(paths) + i
        stored.setdefault((send.chunk, posed.dst[send.way]), [(len(hops), send.way)])
        hops.append(
            _Hop(send.chunk, send.way, needs, reduce=False, message=message, rank=(most, i))
        )
    return _placed(posed, hops, enough)


def _placed(posed: Posed, hops: Sequence[_Hop], enough: int) -> DirectSends | None:
    """Return when each hop is, the best that is right of two ways to place them. None: none is."""
    waiting = Waiting(posed, [(hop.way,) for hop in hops], [hop.needs for hop in hops])
    order = sorted(range(len(hops)), key=lambda number: hops[number].rank)
    starts = waiting.soonest(order)
    for found in (waiting.tightened(starts), starts):
        ticks = waiting.finish(found) * posed.unit
        if ticks < enough and _apart(posed, hops, found):
            return DirectSends(ticks, *_columns(posed, hops, found))
    return None


def _apart(posed: Posed, hops: Sequence[_Hop], starts: Sequence[int]) -> bool:
    """Return whether ranks send their contributions before others are reduced into them.

    A rank sends its whole value of a chunk, which would include contributions reduced before.
    """
    comes: dict[tuple[int, int], int] = {}
    for start, hop in zip(starts, hops, strict=True):
        if hop.reduce:
            here, arrives = (hop.chunk, posed.dst[hop.way]), start + posed.cost[hop.way]
            comes[here] = min(arrives, comes.get(here, arrives))
    contributed = (
        (start, (hop.chunk, posed.src[hop.way]))
        for start, hop in zip(starts, hops, strict=True)
        if not hop.needs
    )
    return all(here not in comes or start < comes[here] for start, here in contributed)


def _columns(
    posed: Posed, hops: Sequence[_Hop], starts: Sequence[int]
) -> tuple[Sends, NDArray[np.int32]]:
    start = np.array(starts, dtype=np.int64) * posed.unit
    rows = [(hop.chunk, hop.way, hop.message) for hop in hops]
    chunk, way, message = np.array(rows, dtype=np.int32).reshape(-1, 3).T
    reduce = np.array([hop.reduce for hop in hops], dtype=np.bool_)
    order = np.lexsort((way, chunk, start))
    return Sends(start[order], chunk[order], way[order], reduce[order]), message[order]


def _paths(posed: Posed, contributions: Sequence[Contribution]) -> list[list[int]]:
    """Return over which ways each goes: of the shortest those that are least loaded by then."""
    far, load, found = posed.far_of(0).tolist(), [0] * len(posed.room), []
    for _, src, goal in contributions:
        path, here = list[int](), src
        while here != goal:
            ways = [
                way
                for way in posed.out[here]
                if posed.cost[way] + far[posed.dst[way]][goal] == far[here][goal]
            ]
            way = min(ways, key=lambda way: (_loaded(posed, load, way), way))
            for hop in posed.hops[way]:
                load[hop.thing] += hop.busy * hop.weight
            path.append(way)
            here = posed.dst[way]
        found.append(path)
    return found


def _loaded(posed: Posed, load: Sequence[int], way: int) -> float:
    return max((load[h.thing] + h.busy * h.weight) / posed.room[h.thing] for h in posed.hops[way])


def _busiest(posed: Posed, paths: Iterable[Sequence[int]]) -> int:
    """Return the units for which something is held at the least."""
    load = [0] * len(posed.room)
    for path in paths:
        for way in path:
            for hop in posed.hops[way]:
                load[hop.thing] += hop.busy * hop.weight
    return max((of // room for of, room in zip(load, posed.room, strict=True)), default=0)
