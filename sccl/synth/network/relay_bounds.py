"""Bound the completion time by the spread of late chunks within a group of ranks.

If every rank needs every chunk, a chunk that enters a group over one of its incoming links must
spread from there to all ranks of the group, or enter once more. Within t ticks it spreads from a
rank to at most the ranks of the group within distance t, including itself. So by T, chunks that
entered at ticks t_1, t_2, ... have reached at most the number of places that all T - t_k allow
together. The k-th chunk enters no earlier than links can bring k chunks.

Within the last t ticks before T, links within the group can deliver a limited number of chunks. Of
all D chunks, at most E(T - t) entered before that. Each of the others must reach all n ranks within
the t ticks, over a link within the group or as it enters. At most E(T) - E(T - t) enter in that
time, so

    n (D - E(T - t)) <= S(t) + E(T) - E(T - t),

where S(t) is the capacity of links within the group in t ticks. If more chunks entered before,
fewer remained.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sccl.core.arrays import IntArray
from sccl.synth.limits import INFINITE
from sccl.synth.network.cut_capacity import CutCapacity
from sccl.synth.network.shortest_paths import ShortestPaths


class RelayDistances:
    """Distances within groups."""

    def __init__(self, paths: ShortestPaths) -> None:
        all_nodes = range(paths.nodes)
        self.far = np.stack(
            [paths.distances_from([rank]) for rank in all_nodes]
        )  # between all ranks

    def nearest(self, ends: IntArray, inside: IntArray) -> IntArray:
        """Return, for k = 1, 2, .., the least distance to the k nearest ranks of a group.

        Args:
            ends: Nodes of the group at which chunks enter.
            inside: Ranks of the group.
        """
        entries = inside if ends.max() >= len(self.far) else np.unique(ends)
        near: IntArray = np.sort(self.far[np.ix_(entries, inside)], axis=1).min(axis=0)
        return near


def spread_ticks(
    pipes: CutCapacity, links: IntArray, near: IntArray, chunks: int, lower_bound: int
) -> int:
    """Return a lower bound on the tick by which chunks have reached all ranks of a group.

    Args:
        pipes: Links of the machine.
        links: Links into the group.
        near: Distances to its nearest ranks.
        chunks: Number of chunks.
        lower_bound: Another lower bound, which is returned if this one is not larger.
    """
    places = chunks * len(near)
    low = max(pipes.carry_ticks(links, chunks), lower_bound)
    high = pipes.carry_ticks(links, chunks) + int(near[-1])
    if high >= INFINITE or high <= low:
        return low
    times = pipes.carry_times(links, high, places)
    while low < high:
        middle = low if low == lower_bound else (low + high) // 2
        reached = _reachable_counts(times, near, middle)
        low, high = (low, middle) if reached >= places else (middle + 1, high)
    return low


def first_feasible_tick(  # noqa: PLR0913, PLR0917 - independent inputs
    pipes: CutCapacity, into: IntArray, within: IntArray, ranks: int, chunks: int, low: int
) -> int:
    """Return the first tick, ``low`` or later, by which links can bring chunks to a whole group.

    Args:
        pipes: Links of the machine, without waiting ticks for first and last bytes.
        into: Links into the group.
        within: Links between nodes of the group that end at its ranks.
        ranks: Number of ranks of the group.
        chunks: Number of chunks.
        low: Lower bound on the tick.
    """
    high, step = low, max(low // 16, 1)
    while True:
        times = [pipes.carry_times(links, high, ranks * chunks) for links in (into, within)]
        if _is_feasible(times, (ranks, chunks), high):
            break
        low, high, step = high + 1, high + step, 2 * step
        if high >= INFINITE:
            return low
    while low < high:
        middle = (low + high) // 2
        by_then = [
            link_times[: np.searchsorted(link_times, middle, side="right")] for link_times in times
        ]
        is_enough = _is_feasible(by_then, (ranks, chunks), middle)
        low, high = (low, middle) if is_enough else (middle + 1, high)
    return low


def _is_feasible(times: Sequence[IntArray], of: tuple[int, int], tick: int) -> bool:
    """Return whether the inequality of this module holds at a tick, for all t.

    It suffices that n D chunks enter or are carried within the group.

    Args:
        times: Ticks up to ``tick`` by which links into the group, and links within it, can have
            carried 1, 2, .. chunks.
        of: Number of ranks n, and number of chunks D.
        tick: The tick T.
    """
    ranks, chunks = of
    entries, within = times
    before = np.searchsorted(entries, entries)  # E(T - t), for each t that starts at an entry
    missing = np.maximum(chunks - np.append(before, len(entries)), 0)
    whiles = np.append(tick - entries + 1, 0)
    carried = np.searchsorted(within, whiles, side="right")
    room = carried + len(entries) - np.append(before, len(entries))
    return bool((ranks * missing <= room).all())


def _reachable_counts(times: IntArray, near: IntArray, tick: int) -> int:
    """Return the number of places that chunks entering at given ticks reach by another tick.

    Chunks that enter later reach none.
    """
    return int(np.searchsorted(near, tick - times, side="right").sum())
