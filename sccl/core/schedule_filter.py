"""Excerpt: which transfers of a schedule are meant, where not all are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.collective import Collective
from sccl.core.schedule import MAX_TIME, Schedule, TransferColumns
from sccl.core.topology import Topology
from sccl.errors import ParameterError


@dataclass(frozen=True, slots=True)
class ScheduleFilter:
    """Which transfers of a schedule are meant. All, where nothing is said.

    Attributes:
        chunk: those of this chunk.
        rank: those from or to this rank.
        begin: those that start at this tick or later.
        until: those that start before this tick.
    """

    chunk: int | None = None
    rank: int | None = None
    begin: int = 0
    until: int | None = None

    def link_mask(self, topology: Topology, links: IntArray) -> NDArray[np.bool_]:
        """Return of each of some links whether transfers over it are meant."""
        if self.rank is None:
            return np.ones(len(links), dtype=np.bool_)
        ends = np.array([link.edge for link in topology.links], dtype=np.int64)
        touched: NDArray[np.bool_] = (ends == self.rank).any(axis=1)[links]
        return touched

    def check(self, topology: Topology, collective: Collective) -> None:
        """Check that the selected steps, chunks and ranks exist.

        Raises:
            ParameterError: one does not.
        """
        for name, value, limit in (
            ("chunk", self.chunk, collective.num_chunks - 1),
            ("rank", self.rank, topology.ranks - 1),
            ("begin", self.begin, MAX_TIME),
            ("until", self.until, MAX_TIME),
        ):
            if value is not None and not 0 <= value <= limit:
                raise ParameterError(f"{name} is {value}, expected 0 to {limit}")

    def apply(self, schedule: Schedule) -> Schedule:
        """Return the transfers of an ordinary schedule that are meant.

        Raises:
            ParameterError: there is no such chunk, rank or time.
        """
        self.check(schedule.topology, schedule.collective)
        taken = self.link_mask(schedule.topology, schedule.link.astype(np.int64))
        taken &= schedule.start >= self.begin
        if self.until is not None:
            taken &= schedule.start < self.until
        if self.chunk is not None:
            taken &= schedule.chunk == self.chunk
        columns = {name: getattr(schedule, name)[taken] for name in TransferColumns._fields[:5]}
        message = None if schedule.message is None else schedule.message[taken]
        return replace(schedule, **columns, message=message)
