"""Track shared resources over time, when motifs start in order of time.

For each resource only the ends of its current users are needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, compiled_in_place, number
from sccl.core.arrays import IntArray
from sccl.training.scheduling.step_problem import FULL_SHARE


class ResourceProfile(NamedTuple):
    """The current users of resources.

    Attributes:
        ends: By resource: ends of its users.
        parts: By resource: their shares, in units of 1/:data:`FULL_SHARE`.
        holder_count: For each resource: number of its users.
        last_start: For each resource: start of the last of them.
    """

    ends: NDArray[np.int64]
    parts: NDArray[np.int64]
    holder_count: IntArray
    last_start: IntArray


@compiled
def empty_profile(resources: int, shares: IntArray) -> ResourceProfile:
    """Return that nobody has any of them.

    Args:
        shares: that motifs have of them.
    """
    smallest_share = number(FULL_SHARE)
    for share in shares:
        smallest_share = min(smallest_share, share)
    capacity = FULL_SHARE // smallest_share + 1
    return ResourceProfile(
        np.empty((resources, capacity), dtype=np.int64),
        np.empty((resources, capacity), dtype=np.int64),
        np.zeros(resources, dtype=np.int64),
        np.zeros(resources, dtype=np.int64),
    )


@compiled_in_place
def _first_free(room: ResourceProfile, resource: int, start: int, part: int) -> int:
    """Return the first tick from a start on at which a resource has a part that is free."""
    while True:
        used, soonest = 0, start
        for k in range(room.holder_count[resource]):
            end = room.ends[resource, k]
            if end > start:
                used += room.parts[resource, k]
                if soonest == start or end < soonest:
                    soonest = end
        if used + part <= FULL_SHARE:
            return start
        start = soonest


@compiled_in_place
def earliest_fit(  # noqa: PLR0913, PLR0917 - loops
    room: ResourceProfile, use: IntArray, share: IntArray, first: int, last: int, at: int
) -> int:
    """Return the first tick from one on at which a motif's shares of resources are free.

    Args:
        use: resources. The motif's from the first on, before the last.
        share: of these.
    """
    for k in range(first, last):
        at = max(at, room.last_start[use[k]])
    moved = True
    while moved:
        moved = False
        for k in range(first, last):
            then = _first_free(room, use[k], at, share[k])
            if then > at:
                at, moved = then, True
    return at


@compiled_in_place
def reserve(  # noqa: PLR0913, PLR0917 - loops
    room: ResourceProfile,
    use: IntArray,
    share: IntArray,
    first: int,
    last: int,
    start: int,
    end: int,
) -> None:
    """Record the shares of a motif, and drop motifs that have ended."""
    for k in range(first, last):
        resource, kept = use[k], 0
        for slot in range(room.holder_count[resource]):
            if room.ends[resource, slot] > start:
                room.ends[resource, kept] = room.ends[resource, slot]
                room.parts[resource, kept] = room.parts[resource, slot]
                kept += 1
        room.ends[resource, kept], room.parts[resource, kept] = end, share[k]
        room.holder_count[resource] = kept + 1
        room.last_start[resource] = start
