"""Network flows with OR-Tools: integral, in polynomial time, and deterministic."""

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
        value: total flow.
        source_side: whether each node is on the source's side of the minimum cut nearest to the
            source, shape (nodes,).
        sink_side: whether each node is on the source's side of the minimum cut nearest to the sink,
            shape (nodes,).
        arc_flows: flow on each arc, shape (arcs,).
    """

    value: int
    source_side: BoolArray
    sink_side: BoolArray
    arc_flows: IntArray


class FlowNetwork:
    """A network whose capacities may change from one maximum flow to the next.

    Args:
        nodes: number of nodes.
        tails: tail of each arc, shape (arcs,).
        heads: head of each arc, shape (arcs,).
    """

    def __init__(self, nodes: int, tails: IntArray, heads: IntArray) -> None:
        self.nodes, self._solver = nodes, SimpleMaxFlow()
        zero = np.zeros(len(tails), np.int64)
        self._arcs = self._solver.add_arcs_with_capacity(tails, heads, zero)

    def max_flow(self, capacities: IntArray, source: int, sink: int) -> MaxFlow:
        """Return a maximum flow from ``source`` to ``sink``.

        Raises:
            SolverError: the sum of capacities exceeds 64 bits.
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
    """Return the arc flows of a maximum flow with minimum cost, shape (arcs,).

    Args:
        arcs: tail and head of each arc, shape (arcs, 2).
        capacities: capacity of each arc, shape (arcs,).
        costs: cost per unit of flow on each arc, shape (arcs,).
        ends: source and sink.

    Raises:
        SolverError: the solver fails.
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
