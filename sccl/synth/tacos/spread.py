"""What enters a group of ranks late has no time left to be passed on there.

Where every rank wants every chunk, a chunk that enters a group over one of the links into it has
to get from there to all ranks of the group, or to enter once more. Within t ticks it gets from a
rank to no more ranks of the group, itself among them, than are within t of it. So by T the chunks
that entered at ticks t_1, t_2, .. have got to no more places than all T - t_k allow together; and
the k-th chunk enters no earlier than links can have brought k.
"""

from __future__ import annotations

import numpy as np

from sccl.synth.tacos.groups import Ticks
from sccl.synth.tacos.paths import FAR, Ways
from sccl.synth.tacos.pipes import Pipes

MAX_PAIRS = 2**22
"""Of ranks, whose distances are worked out."""


class Spread:
    """How far chunks get within groups."""

    def __init__(self, ways: Ways) -> None:
        every = range(ways.nodes)
        self.far = np.stack([ways.from_any([rank]) for rank in every])  # from each to each

    def ticks(self, pipes: Pipes, links: Ticks, inside: Ticks, chunks: int) -> int:
        """Return the first tick by which so many chunks can have come to all of a group.

        Args:
            links: those into the group.
            inside: its ranks.
        """
        ends = pipes.dst[links]
        entries = inside if ends.max() >= len(self.far) else np.unique(ends)
        near = np.sort(self.far[np.ix_(entries, inside)], axis=1).min(axis=0)
        low = pipes.ticks(links, chunks)
        high = low + int(near[-1])
        if high >= FAR:
            return low
        while low < high:
            middle = (low + high) // 2
            reached = _reached(pipes.times(links, middle), near, middle)
            enough = reached >= chunks * len(inside)
            low, high = (low, middle) if enough else (middle + 1, high)
        return low


def _reached(times: Ticks, near: Ticks, tick: int) -> int:
    """Return to how many places what enters at some ticks can get by another."""
    return int(np.searchsorted(near, tick - times, side="right").sum())
