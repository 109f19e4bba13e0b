"""Flows on OR-Tools: whole numbers, polynomial, one thread, the same on every run."""

from __future__ import annotations

import numpy as np
from ortools.graph.python import max_flow, min_cost_flow

from sccl.core.arrays import IntArray
from sccl.errors import SolverError


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


class MaxFlowSolver:
    """The largest flows from one node, through arcs whose capacities change.

    Args:
        arcs: shape (arcs, 2): tail and head of each.
    """

    def __init__(self, arcs: IntArray) -> None:
        self._solver = max_flow.SimpleMaxFlow()
        ends = np.ascontiguousarray(arcs, np.int32)
        self._numbers = self._solver.add_arcs_with_capacity(
            np.ascontiguousarray(ends[:, 0]),
            np.ascontiguousarray(ends[:, 1]),
            np.zeros(len(arcs), dtype=np.int64),
        )

    def set_capacities(self, capacities: IntArray) -> None:
        """Give the arcs these capacities."""
        self._solver.set_arcs_capacity(self._numbers, capacities)

    def max_flow_value(self, source: int, sink: int) -> int:
        """Return the value of a largest flow.

        Raises:
            SolverError: the solver gave up.
        """
        if self._solver.solve(source, sink) != self._solver.OPTIMAL:
            raise SolverError(
                "OR-Tools returned no maximum flow; this is a defect, please report it"
            )
        return int(self._solver.optimal_flow())

    def min_cut_source_side(self) -> list[int]:
        """Return the nodes on the source's side of a minimum cut of the last flow."""
        return [int(node) for node in self._solver.get_source_side_min_cut()]
