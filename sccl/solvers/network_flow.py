"""Flows on OR-Tools: whole numbers, polynomial, one thread, the same on every run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.graph.python import min_cost_flow
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


def min_cost_max_flow(
    arcs: IntArray, capacities: IntArray, costs: IntArray, ends: tuple[int, int]
) -> IntArray:
    """Return a flow on each arc: of the largest flows one of least cost.

    Args:
        arcs: shape (arcs, 2): tail and head of each.
        ends: source and sink.

    Raises:
        SolverError: the solver gave up.
    """
    source, sink = ends
    solver = min_cost_flow.SimpleMinCostFlow()
    numbers = solver.add_arcs_with_capacity_and_unit_cost(
        np.ascontiguousarray(arcs[:, 0], np.int32),
        np.ascontiguousarray(arcs[:, 1], np.int32),
        capacities,
        costs,
    )
    supply = int(capacities[arcs[:, 0] == source].sum())
    solver.set_node_supply(source, supply)
    solver.set_node_supply(sink, -supply)
    if solver.solve_max_flow_with_min_cost() != solver.OPTIMAL:
        raise SolverError(
            "OR-Tools returned no minimum-cost flow; this is a defect, please report it"
        )
    return np.asarray(solver.flows(numbers), np.int64)
