"""Cheapest timed trees by CP-SAT, for too many sets of ranks for tables.

A rank has one way in, or none if it does not want the chunk. It forwards only after the arrival.
CP-SAT's bound within its effort is returned as well, so that prices give a bound even then.
"""

from __future__ import annotations

import numpy as np

from sccl.core.arrays import IntArray
from sccl.solvers.cpsat import CpModel, IntVar, LinearExpr, Result, Strategy, solve
from sccl.solvers.effort import Effort
from sccl.synth.packing.flow_problem import FlowCommodity, FlowProblem, SlotTree

TREE_EFFORT_UNITS = 0.5
"""Effort for a tree: sixteen ranks take a tenth of it. Without searched trees, the lower bound of
an allgather of 4 KB per rank on torus:4x4@50,25GB falls from 2.84 to 2.83 us.
"""

_COST_SCALE = 10**6
"""The largest cost of a send as an integer: larger sums make the search longer."""

_STRATEGY = Strategy(linear=2)
"""Linear relaxations of trees are nearly tight: 0.17 s for each of 16 ranks in 11 slots."""


class ArborescencePricer:
    """A model for each commodity, for as long as slots stay the same."""

    def __init__(self, problem: FlowProblem) -> None:
        self.problem = problem
        self._arrive: IntArray = np.zeros((0, 0), np.int64)
        self._models: dict[int, _ArborescenceModel] = {}

    def cheapest(
        self, commodity: int, cost: IntArray, arrive: IntArray, hint: SlotTree | None
    ) -> tuple[SlotTree | None, float]:
        """Return a cheap tree (None: it found none), and a lower bound on the cost of trees.

        Args:
            cost: shape (links, slots).
            arrive: shape (links, slots): slot from which on it is there. -1: it is not sent.
            hint: a tree to begin with.

        Raises:
            KeyboardInterrupt: the user interrupted.
        """
        if not np.array_equal(self._arrive, arrive):
            self._arrive, self._models = arrive, {}
        if commodity not in self._models:
            demand = self.problem.commodities[commodity]
            self._models[commodity] = _ArborescenceModel(self.problem, demand, arrive)
        return self._models[commodity].cheapest(cost, hint)


class _ArborescenceModel:
    def __init__(self, problem: FlowProblem, commodity: FlowCommodity, arrive: IntArray) -> None:
        self.model = model = CpModel()
        self.sent: dict[tuple[int, int], IntVar] = {}
        ranks, slots = problem.topology.ranks, arrive.shape[1]
        into: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
        for link, (_, v) in enumerate(problem.edges):
            for k in range(slots) if v not in commodity.holders else ():
                if arrive[link, k] >= 0:
                    self.sent[link, k] = model.new_bool_var("")
                    into[v].append((link, k))
        turn = [model.new_int_var(0, ranks, "") for _ in range(ranks)]
        arrived: dict[tuple[int, int], LinearExpr | int] = {}
        for v, uses in enumerate(into):
            if v not in commodity.holders:
                send_vars = [self.sent[use] for use in uses]
                add = model.add_exactly_one if v in commodity.wanted else model.add_at_most_one
                add(send_vars)
                before: LinearExpr | int = 0
                for k in range(slots):
                    now = [self.sent[use] for use in uses if arrive[use] == k]
                    if now:
                        is_present = model.new_bool_var("")
                        model.add(before + LinearExpr.sum(now) == is_present)
                        before = is_present
                    arrived[v, k] = before
        for (link, k), sent in self.sent.items():
            u, v = problem.edges[link]
            if u not in commodity.holders:
                model.add(arrived[u, k] >= sent)
                if arrive[link, k] == k:  # within a slot nothing goes round
                    model.add(turn[v] > turn[u]).only_enforce_if(sent)

    def cheapest(self, cost: IntArray, hint: SlotTree | None) -> tuple[SlotTree | None, float]:
        dearest = max(1, int(cost.max(initial=1)))
        part = max(1, dearest // _COST_SCALE)
        uses = list(self.sent)
        weights = [int(cost[use]) // part for use in uses]
        sent = list(self.sent.values())
        self.model.minimize(LinearExpr.weighted_sum(sent, weights))
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        for use, variable in self.sent.items():
            if hint is not None:
                self.model.add_hint(variable, use in hint)
        result: Result = solve(self.model, Effort(units=TREE_EFFORT_UNITS), _STRATEGY)
        if not result.has_solution:
            return None, 0.0
        tree = frozenset(uses[i] for i in result.true_variables(sent))
        return tree, float(result.bound * part)
