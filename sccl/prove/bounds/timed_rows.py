"""Cuts through time as rows: the links that cross in each step, and the data that have to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.prove.bounds.timed_flow import Labels


@dataclass(frozen=True, slots=True)
class CutRow:
    """A cut: rounds by step, times lanes, are at least the demand. Links with budgets apart.

    Attributes:
        lanes: by step, of the links that cross it and are in no shared budget.
        demand: chunks that have to cross it.
    """

    lanes: tuple[int, ...]
    demand: int


class CutRows:
    """Make rows from labels, for a machine, a collective and a number of steps.

    In an allreduce the contributions to a chunk may travel as one: the chunk has to cross once if
    one of them does.

    Attributes:
        lanes: lanes of every link.
        apart: indices of links that share budgets.
    """

    def __init__(self, topology: Topology, collective: Collective, steps: int) -> None:
        self.steps, self._starts = steps, any if collective.combining else all
        self._classes = [
            (tuple(map(int, holders)), tuple(map(int, wanted)), len(chunks))
            for (holders, wanted), chunks in collective.chunk_classes().items()
        ]
        edges = [link.edge for link in topology.links]
        shared = {edge for budget in topology.budgets for edge in budget.edges}
        self._ends: IntArray = np.array(edges, np.int64).reshape(-1, 2).T
        self._owners = np.array([edge not in shared for edge in edges], np.bool_)
        self.lanes: IntArray = np.array([link.lanes for link in topology.links], np.int64)
        self.apart: list[int] = np.flatnonzero(~self._owners).tolist()

    def row(self, labels: Labels) -> CutRow:
        """Return the row of a cut."""
        begin, end = self.crossing_steps(labels)
        crossed = np.zeros(self.steps + 1, np.int64)
        mask = self._owners & (begin < end)
        np.add.at(crossed, begin[mask], self.lanes[mask])
        np.add.at(crossed, end[mask], -self.lanes[mask])
        return CutRow(tuple(crossed.cumsum()[: self.steps].tolist()), self._demand(labels))

    def crossing_steps(self, labels: Labels) -> tuple[IntArray, IntArray]:
        """Return in which steps each link leads outside: from one on, and up to another."""
        time = np.array(labels, np.int64)
        return time[self._ends[0]], time[self._ends[1]] - 1

    def _demand(self, labels: Labels) -> int:
        """Return how many chunks only ranks of label 0 hold, and one never inside wants."""
        return sum(
            chunks
            for holders, wanted, chunks in self._classes
            if self._starts(labels[r] == 0 for r in holders)
            and any(labels[r] > self.steps for r in wanted)
        )
