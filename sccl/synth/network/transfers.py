"""Define demands and results of matching, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.errors import UnreachableError

Pause = Callable[[int, bool], None]
"""Called after each piece of work with the transfers found in it, and whether that was the last;
where it was not, it may raise to stop."""


class Demand(NamedTuple):
    """The sources and destinations of chunks.

    Attributes:
        chunks: Number of chunks.
        held_by: Ranks that hold a chunk at the beginning.
        held: Their chunks.
        wanted_by: Ranks that must hold a chunk at the end. None: all ranks, all chunks.
        wanted: Their chunks.
    """

    chunks: int
    held_by: NDArray[np.int64]
    held: NDArray[np.int64]
    wanted_by: NDArray[np.int64] | None = None
    wanted: NDArray[np.int64] | None = None

    def is_unicast(self) -> bool:
        """Return whether each chunk has one source and one destination."""
        if self.wanted is None:
            return False
        all_chunks = np.arange(self.chunks)
        return all(np.array_equal(np.sort(of), all_chunks) for of in (self.held, self.wanted))

    def min_sends(self, nodes: int) -> int:
        """Return a lower bound on the number of transfers. It is exact if all ranks need all."""
        if self.wanted is None:
            return nodes * self.chunks - len(self.held)
        return len(self.wanted)


class Sends(NamedTuple):
    """Transfers, sorted by (start, chunk, link).

    Attributes:
        start: Start, ticks.
        chunk: Chunk number.
        link: Link or route number.
        reduce: Whether the receiver reduces the chunk.
    """

    start: NDArray[np.int64]
    chunk: NDArray[np.int32]
    link: NDArray[np.int32]
    reduce: NDArray[np.bool_]

    def sorted_sends(self) -> Sends:
        """Return the transfers, sorted."""
        order = np.lexsort((self.link, self.chunk, self.start))
        return Sends(self.start[order], self.chunk[order], self.link[order], self.reduce[order])


TimedSends = tuple[int, Sends]
"""The tick by which transfers have arrived, and these."""


def stalled_error() -> UnreachableError:
    """Return the error for a rank without a path from a chunk's source."""
    return UnreachableError(
        "a chunk has a destination that no path from any of its sources reaches: 'sccl topo show' "
        "names two ranks without a path; add links"
    )
