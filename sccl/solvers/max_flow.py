"""Greatest flows of whole numbers, and the two extreme least cuts, by OR-Tools' push-relabel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.graph.python.max_flow import SimpleMaxFlow

from sccl.core.arrays import BoolArray, IntArray
from sccl.errors import SolverError


@dataclass(frozen=True, slots=True, eq=False)
class MaxFlow:
    """A maximum flow.

    Attributes:
        value: its total.
        source_side: by node, whether it is on the source's side of the minimum cut nearest the
            source.
        sink_side: by node, whether it is on the source's side of the minimum cut nearest the sink.
        arc_flows: flow on each arc.
    """

    value: int
    source_side: BoolArray
    sink_side: BoolArray
    arc_flows: IntArray


class FlowNetwork:
    """Arcs whose capacities may change from one flow to the next.

    Args:
        nodes: numbered from 0.
        tails: of the arcs.
        heads: of the arcs.
    """

    def __init__(self, nodes: int, tails: IntArray, heads: IntArray) -> None:
        self.nodes, self._solver = nodes, SimpleMaxFlow()
        zero = np.zeros(len(tails), np.int64)
        self._arcs = self._solver.add_arcs_with_capacity(tails, heads, zero)

    def max_flow(self, capacities: IntArray, source: int, sink: int) -> MaxFlow:
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
        return MaxFlow(int(self._solver.optimal_flow()), near, far, self._solver.flows(self._arcs))
