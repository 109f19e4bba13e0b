"""An algorithm several times beside itself, each time on a part of every chunk.

Where one thread block does not fill a link, several do: TACCL (NSDI 2023, section 6.2) lowers its
algorithms to n *instances*, each with thread blocks and channels of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sccl.core.algorithm import Algorithm, Send
from sccl.core.ids import ChunkId


@dataclass(frozen=True, slots=True)
class Instances:
    """An algorithm that is several, which share nothing.

    Attributes:
        algorithm: all of them at once. Chunk c of instance i is chunk ``i * each + c``, so that
            what lies beside one another in a block of a buffer does so in each instance.
        together: of sends that are one transfer with others, which; never of two instances.
        count: how many there are.
    """

    algorithm: Algorithm
    together: Mapping[Send, int]
    count: int

    @property
    def chunks_per_instance(self) -> int:
        """Return how many chunks an instance has."""
        return self.algorithm.collective.num_chunks // self.count

    def locate(self, chunk: int) -> tuple[int, int]:
        """Return which instance a chunk is of, and which chunk of it."""
        return divmod(chunk, self.chunks_per_instance)


def replicate(algorithm: Algorithm, together: Mapping[Send, int], count: int) -> Instances:
    """Return an algorithm so many times beside itself: C and its rounds grow, R/C and S do not.

    Raises:
        CollectiveError: there would be more chunks than are counted.
    """
    base = algorithm.collective
    total = base.num_chunks
    collective = replace(base, chunks=base.chunks * count, num_chunks=total * count)
    parties = 1 + max(together.values(), default=0)

    def moved(send: Send, i: int) -> Send:
        """Return the send of an instance."""
        return replace(send, chunk=ChunkId(send.chunk + i * total))

    several = replace(
        algorithm,
        collective=collective,
        rounds_per_step=tuple(r * count for r in algorithm.rounds_per_step),
        sends=tuple(moved(send, i) for i in range(count) for send in algorithm.sends),
    )
    more = {moved(s, i): i * parties + n for i in range(count) for s, n in together.items()}
    return Instances(several, more, count)
