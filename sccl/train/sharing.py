"""Track shared resources over time, when motifs start in order of time.

For each resource only the ends of its current users are needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, compiled_in_place, number
from sccl.train.problem import WHOLE, Whole


class SharedUse(NamedTuple):
    """The current users of resources.

    Attributes:
        ends: By resource: ends of its users.
        parts: By resource: their shares, in units of 1/:data:`WHOLE`.
        having: For each resource: number of its users.
        served: For each resource: start of the last of them.
    """

    ends: NDArray[np.int64]
    parts: NDArray[np.int64]
    having: Whole
    served: Whole


@compiled
def nobody_has(resources: int, shares: Whole) -> SharedUse:
    """Return that nobody has any of them.

    Args:
        shares: that motifs have of them.
    """
    least = number(WHOLE)
    for share in shares:
        least = min(least, share)
    most = WHOLE // least + 1
    return SharedUse(
        np.empty((resources, most), dtype=np.int64),
        np.empty((resources, most), dtype=np.int64),
        np.zeros(resources, dtype=np.int64),
        np.zeros(resources, dtype=np.int64),
    )


@compiled_in_place
def _free_from(room: SharedUse, own: int, start: int, part: int) -> int:
    """Return the first tick from a start on at which a resource has a part that is free."""
    while True:
        used, soonest = 0, start
        for k in range(room.having[own]):
            end = room.ends[own, k]
            if end > start:
                used += room.parts[own, k]
                if soonest == start or end < soonest:
                    soonest = end
        if used + part <= WHOLE:
            return start
        start = soonest


@compiled_in_place
def free_for(  # noqa: PLR0913, PLR0917 - loops
    room: SharedUse, use: Whole, share: Whole, first: int, last: int, at: int
) -> int:
    """Return the first tick from one on at which a motif's shares of resources are free.

    Args:
        use: resources. The motif's from the first on, before the last.
        share: of these.
    """
    for k in range(first, last):
        at = max(at, room.served[use[k]])
    moved = True
    while moved:
        moved = False
        for k in range(first, last):
            then = _free_from(room, use[k], at, share[k])
            if then > at:
                at, moved = then, True
    return at


@compiled_in_place
def take(  # noqa: PLR0913, PLR0917 - loops
    room: SharedUse, use: Whole, share: Whole, first: int, last: int, start: int, end: int
) -> None:
    """Record the shares of a motif, and drop motifs that have ended."""
    for k in range(first, last):
        own, kept = use[k], 0
        for other in range(room.having[own]):
            if room.ends[own, other] > start:
                room.ends[own, kept] = room.ends[own, other]
                room.parts[own, kept] = room.parts[own, other]
                kept += 1
        room.ends[own, kept], room.parts[own, kept] = end, share[k]
        room.having[own] = kept + 1
        room.served[own] = start
