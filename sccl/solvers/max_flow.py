"""Greatest flows of whole numbers, and the two extreme least cuts, by OR-Tools' push-relabel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.graph.python.max_flow import SimpleMaxFlow

from sccl.errors import SolverError

Whole = NDArray[np.int64]
Inside = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class GreatestFlow:
    """A maximum flow.

    Attributes:
        value: its total.
        near: by node, whether it is on the source's side of the minimum cut nearest the source.
        far: by node, whether it is on the source's side of the minimum cut nearest the sink.
        on: flow on each arc.
    """

    value: int
    near: Inside
    far: Inside
    on: Whole


class Network:
    """Arcs whose capacities may change from one flow to the next.

    Args:
        nodes: numbered from 0.
        tails: of the arcs.
        heads: of the arcs.
    """

    def __init__(self, nodes: int, tails: Whole, heads: Whole) -> None:
        self.nodes, self._solver = nodes, SimpleMaxFlow()
        zero = np.zeros(len(tails), np.int64)
        self._arcs = self._solver.add_arcs_with_capacity(tails, heads, zero)

    def flow(self, capacities: Whole, source: int, sink: int) -> GreatestFlow:
        """Return a greatest flow from one node to another.

        Raises:
            SolverError: the capacities add up to more than 64 bits hold.
        """
        self._solver.set_arcs_capacity(self._arcs, capacities)
        status = self._solver.solve(source, sink)
        if status != SimpleMaxFlow.OPTIMAL:
            raise SolverError(f"the solver returned no maximum flow ({status.name})")
        near, far = np.zeros(self.nodes, np.bool_), np.ones(self.nodes, np.bool_)
        near[self._solver.get_source_side_min_cut()] = True
        far[self._solver.get_sink_side_min_cut()] = False
        return GreatestFlow(
            int(self._solver.optimal_flow()), near, far, self._solver.flows(self._arcs)
        )
