"""Allreduce as chains of demands: each chunk is reduced on its way to a root, then copied from it.

TE-CCL, section 8: ALLREDUCE is several demands, each a stage of the other. The stages are separate
for each chunk: a send of a chunk waits for arrivals of that chunk, and for its links, and never for
other chunks. No rank wants a chunk between the stages, so any rank may be its root.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sccl.synth.intervals.placing import together
from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.synth.network.sends import Sends
from sccl.synth.teccl.waiting import Waiting


@dataclass(frozen=True, slots=True)
class ChainSend(ChunkSend):
    """A chunk that goes a way, to be reduced there or stored."""

    reduce: bool = False


Chain = tuple[ChainSend, ...]


def chain_of(sends: Sends) -> Chain:
    """Return sends as those of chains. Their starts are in ticks, and give the order alone."""
    columns = (sends.start, sends.chunk, sends.link, sends.reduce)
    return tuple(ChainSend(*row) for row in zip(*(c.tolist() for c in columns), strict=True))


def sends_of(posed: Posed, chain: Iterable[ChunkSend]) -> Sends:
    """Return chains in ticks and by columns."""
    rows = [(s.start * posed.unit, s.chunk, s.way, is_reduced(s)) for s in chain]
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Sends(
        start=table[:, 0].copy(),
        chunk=table[:, 1].astype(np.int32),
        link=table[:, 2].astype(np.int32),
        reduce=table[:, 3].astype(np.bool_),
    ).ordered()


def finish_of(posed: Posed, sends: Iterable[ChunkSend]) -> int:
    """Return the units after which all has arrived."""
    return max((s.start + posed.cost[s.way] for s in sends), default=0)


def is_reduced(send: ChunkSend) -> bool:
    """Return whether a send carries a partial result."""
    return isinstance(send, ChainSend) and send.reduce


def tightened(posed: Posed, chain: Sequence[ChunkSend]) -> Chain:
    """Return chains whose sends each start as early as possible in their order, then reversed.

    A rank sends its partial result once all contributions that it reduces have come, and copies the
    result that it got. The root copies the result that it reduced.
    """
    order = sorted(chain, key=lambda s: (s.start, s.chunk, s.way))
    groups = _groups(posed, order)
    reduced: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    stored: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for send, (chunk, ways, reduce) in enumerate(groups):
        for way in ways:
            if reduce:
                reduced[chunk, posed.dst[way]].append((send, way))
            else:
                stored.setdefault((chunk, posed.dst[way]), [(send, way)])
    needs = []
    for chunk, ways, reduce in groups:
        here = (chunk, posed.src[ways[0]])
        comes = reduced.get(here, [])
        needs.append(comes if reduce else stored.get(here, comes))
    waiting = Waiting(posed, [ways for _, ways, _ in groups], needs)
    starts = waiting.tightened(range(len(groups)))
    return tuple(
        ChainSend(start, chunk, way, reduce)
        for start, (chunk, ways, reduce) in zip(starts, groups, strict=True)
        for way in ways
    )


def _groups(posed: Posed, chain: Sequence[ChunkSend]) -> list[tuple[int, list[int], bool]]:
    """Return the chunk and the ways of sends that go together, and whether they reduce.

    Reductions go each way separately, and count as separate chunks here.
    """
    rows = [ChunkSend(s.start, s.chunk + posed.chunks * is_reduced(s), s.way) for s in chain]
    return [(n % posed.chunks, ways, n >= posed.chunks) for _, n, ways in together(posed, rows)]
