"""Find a cause of a start that only a release determines: another transfer that ended just then.

A schedule states the start of each transfer but no reason. If the transfer's chunk arrived, or its
link became free, at that very tick, then that is the reason for not starting earlier.
"""

from __future__ import annotations

import numpy as np

from sccl.core.arrays import IntArray
from sccl.sim.start_reasons import StartReason

NONE = -1


class Causes:
    """Looks up, by row of a timeline, which row ended as it began."""

    def __init__(  # noqa: PLR0913, PLR0917 - columns of a timeline
        self,
        row: IntArray,
        chunk: IntArray,
        ends: IntArray,
        link: IntArray,
        start: IntArray,
        free: IntArray,
        arrive: IntArray,
    ) -> None:
        """Sort the ends of all transfers.

        Args:
            row: of the timeline, once for each chunk that it carries. They ascend.
            chunk: which it carries, in columns of the same length.
            ends: of each link, source and destination.
            link: of each.
            start: ticks.
            free: ticks at which links are free again.
            arrive: ticks.
        """
        nodes = int(ends.max(initial=0)) + 1
        src, dst = ends[link].T
        places, place = np.unique(
            np.concatenate((chunk * nodes + src, chunk * nodes + dst)), return_inverse=True
        )
        ticks, at = np.unique(np.concatenate((start, free, arrive)), return_inverse=True)
        self._row, rows = row, len(link)
        begins, frees, arrives = at[:rows], at[rows : 2 * rows], at[2 * rows :]
        self._wanted = np.stack((place[:rows] * len(ticks) + begins, link * len(ticks) + begins))
        self._ended = (place[rows:] * len(ticks) + arrives, link * len(ticks) + frees)
        self._order = tuple(np.argsort(key, kind="stable") for key in self._ended)
        assert len(places) * len(ticks) < 2**62  # of 2 and 3 keys a row: so rows < 10^9

    def find_cause(self, row: int) -> tuple[int, StartReason]:
        """Return the row that ended as another began, and the kind of cause. -1: none."""
        first, end = np.searchsorted(self._row, (row, row + 1))
        for which, why in enumerate((StartReason.ARRIVAL, StartReason.LINK)):
            key, order = self._ended[which], self._order[which]
            for wanted in self._wanted[which, first:end]:
                at = np.searchsorted(key, wanted, sorter=order)
                if at < len(order) and key[order[at]] == wanted:
                    return int(self._row[order[at]]), why
        return NONE, StartReason.RELEASE
