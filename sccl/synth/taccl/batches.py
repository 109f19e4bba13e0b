"""Chunks that go over a way together, and pay one alpha (TACCL, NSDI 2023, section 5.1).

If alpha occupies links, n chunks one after the other take n alphas of a link's time, and together
one, but none of them continues before the last has come. (If alpha travels, it takes no time of the
link, and each is sent by itself.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sccl.core.clock import AlphaModel
from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.synth.intervals.ways import Hop


@dataclass(frozen=True, slots=True)
class Batch:
    """Chunks that go a way together. By their start, which is in units."""

    start: int
    way: int
    chunks: tuple[int, ...]


def alone(sends: Iterable[ChunkSend]) -> tuple[Batch, ...]:
    """Return sends as batches of one chunk each."""
    return tuple(Batch(s.start, s.way, (s.chunk,)) for s in sends)


class BatchCosts:
    """The costs of batches on each way, for chunks of one size."""

    def __init__(self, posed: Posed) -> None:
        self.posed = posed
        occupies = posed.clock.model is AlphaModel.OCCUPIES
        alphas = posed.clock.alpha
        self._more = [
            [
                hop.busy - (alphas[hop.thing] // posed.unit if hop.thing < len(alphas) else 0)
                for hop in hops
            ]
            for hops in posed.hops
        ]
        passes = [True] * posed.ranks + [one.cut_through for one in posed.topology.switches]
        edges = [link.edge for link in posed.topology.links]
        self.joins = [
            occupies and not posed.copied and all(passes[edges[link][1]] for link in path[:-1])
            for path in posed.paths
        ]

    def more(self, way: int) -> int:
        """Return the units that each chunk but the first adds: those of the slowest link."""
        links = len(self.posed.topology.links)
        return max(
            more
            for hop, more in zip(self.posed.hops[way], self._more[way], strict=True)
            if hop.thing < links
        )

    def hops(self, way: int, count: int) -> list[Hop]:
        """Return the use of resources by a batch on a way, each for as long as the link is busy."""
        own = self.posed.hops[way]
        if count == 1:
            return list(own)
        extra = (count - 1) * self.more(way)
        return [Hop(h.thing, h.offset, h.busy + extra, h.weight, h.stem) for h in own]

    def cost(self, way: int, count: int) -> int:
        """Return the units until so many chunks have arrived."""
        return self.posed.cost[way] + (count - 1) * (self.more(way) if count > 1 else 0)

    def arrives(self, batch: Batch) -> int:
        """Return the unit by which a batch has arrived."""
        return batch.start + self.cost(batch.way, len(batch.chunks))

    def finish(self, batches: Iterable[Batch]) -> int:
        """Return the units after which all batches have arrived."""
        return max((self.arrives(b) for b in batches), default=0)


def sends_of(batches: Iterable[Batch]) -> tuple[ChunkSend, ...]:
    """Return the sends of each chunk, without batches."""
    sends = (ChunkSend(b.start, chunk, b.way) for b in batches for chunk in b.chunks)
    return tuple(sorted(sends, key=lambda s: (s.start, s.chunk, s.way)))
