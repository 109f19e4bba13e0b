"""Replicate an algorithm into instances: parallel copies, each on one part of every chunk.

One thread block may not saturate a link, but several do. TACCL (NSDI 2023, section 6.2) lowers its
algorithms to n *instances*, each with its own thread blocks and channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sccl.core.algorithm import Algorithm, Send
from sccl.core.ids import ChunkId


@dataclass(frozen=True, slots=True)
class Instances:
    """Independent instances of one algorithm.

    Attributes:
        algorithm: All instances in one algorithm. Chunk c of instance i is chunk ``i * each + c``,
            so neighbors in a buffer's block are also neighbors in each instance.
        together: Transfer number of each send that shares a transfer, always within one instance.
    """

    algorithm: Algorithm
    together: Mapping[Send, int]
    count: int

    @property
    def chunks_per_instance(self) -> int:
        """Return the number of chunks of an instance."""
        return self.algorithm.collective.num_chunks // self.count

    def locate(self, chunk: int) -> tuple[int, int]:
        """Return the instance of a chunk and its number within the instance."""
        return divmod(chunk, self.chunks_per_instance)


def replicate(algorithm: Algorithm, together: Mapping[Send, int], count: int) -> Instances:
    """Replicate an algorithm into instances: C and R are multiplied, R/C and S are unchanged.

    Raises:
        CollectiveError: The result would have more chunks than the limit.
    """
    base = algorithm.collective
    total = base.num_chunks
    collective = replace(base, chunks=base.chunks * count, num_chunks=total * count)
    parties = 1 + max(together.values(), default=0)

    def moved(send: Send, i: int) -> Send:
        return replace(send, chunk=ChunkId(send.chunk + i * total))

    several = replace(
        algorithm,
        collective=collective,
        rounds_per_step=tuple(r * count for r in algorithm.rounds_per_step),
        sends=tuple(moved(send, i) for i in range(count) for send in algorithm.sends),
    )
    more = {moved(s, i): i * parties + n for i in range(count) for s, n in together.items()}
    return Instances(several, more, count)
