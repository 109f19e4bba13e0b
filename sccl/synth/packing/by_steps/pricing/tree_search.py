"""Cheapest timed trees by branch and bound, for too many ranks for dynamic programming.

If that takes too many nodes, CP-SAT continues from the cheapest tree so far. By the bounds of a
dual solution its model omits all sends that no cheaper tree uses.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.errors import TooLargeError
from sccl.solvers.cpsat import CpModel, LinearExpr, Strategy, solve
from sccl.solvers.effort import Effort
from sccl.synth.packing.by_steps.packing_problem import LinkStep, StepTree
from sccl.synth.packing.by_steps.pricing.branch_and_bound import solve_branch_and_bound
from sccl.synth.packing.by_steps.pricing.dual_ascent import dual_ascent_bound, grow_tree
from sccl.synth.packing.by_steps.pricing.time_windows import (
    ELEMENT_EFFORT,
    INFINITE,
    PricedTimeWindow,
)

_TREE_EFFORT = 30.0  # units for a tree
_SEED = 1  # CP-SAT's own
_STRATEGY = Strategy(workers=1, linear=2)
_MAX_NODES, _MAX_OPEN_NODES = 2_000, 128
"""Limits on nodes of branch and bound. On two NDv2 it takes 4 on average, 0.1 ms, and CP-SAT 7 ms
for the same.
"""

_MAX_WORK = 20_000_000  # ranks times steps times links: beyond, a single tree takes minutes


class TreeSearch:
    """Branch and bound. Otherwise CP-SAT on the time-indexed model of one chunk."""

    def __init__(self, window: PricedTimeWindow, deadline: float = math.inf) -> None:
        self.window, self.deadline, self.spent = window, deadline, 0.0
        useful = np.flatnonzero(window.usable.any(axis=1))
        if window.ranks * window.steps * len(useful) > _MAX_WORK:
            raise TooLargeError(
                f"a limit over all k for {window.ranks} ranks, {len(useful)} links and "
                f"{window.steps} steps is too large to compute; the bounds and a sweep over k work"
            )
        ends = np.array(window.edges, np.int64).reshape(-1, 2)[useful]
        self.useful, self.src, self.dst = useful, *np.ascontiguousarray(ends.T)
        ranks = np.arange(window.ranks)
        self.held = np.isin(ranks, list(window.commodity.holders))
        self.wanted = np.isin(ranks, list(window.commodity.wanted)) & ~self.held

    def lower_bound(self, prices: IntArray) -> int:
        """Return a lower bound on the cost of trees."""
        return self._ascend_duals(self.window.weights(prices))[0] // (self.window.ranks + 1)

    def exact(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return a cheapest tree and its cost.

        Raises:
            TimeoutError: it was not found with the effort for a tree, or before the deadline.
        """
        cheapest = self.cheapest_below(prices, INFINITE)
        assert cheapest is not None, "each rank can be reached in the steps that there are"
        return cheapest

    def cheapest_below(self, prices: IntArray, below: int) -> tuple[int, StepTree] | None:
        """Return a cheapest tree and its cost. None: that is not below something.

        Raises:
            TimeoutError: it was not found with the effort for a tree, or before the deadline.
        """
        seconds = self.deadline - time.perf_counter()
        if seconds <= 0:
            raise TimeoutError("no time is left for a cheapest timed tree")
        weights = self.window.weights(prices)
        weight_limit = below * (self.window.ranks + 1)  # a tree's weight counts its sends as well
        tree, is_complete = self._branch_and_bound(weights, weight_limit)
        if not is_complete:
            weight_limit = self.window.cost(weights, tree) if tree else weight_limit
            bound, reduced = self._ascend_duals(weights)
            tree = (
                self._solve_cpsat(weights, reduced < weight_limit - bound, weight_limit, seconds)
                or tree
            )
        return None if tree is None else (self.window.cost(prices, tree), tree)

    def quick(self, prices: IntArray) -> tuple[int, StepTree]:
        """Reach the rank that is cheapest to reach, through time, until all are reached."""
        tree = self._grow_greedily(self.window.weights(prices))
        return self.window.cost(prices, tree), tree

    def _branch_and_bound(self, weights: IntArray, below: int) -> tuple[StepTree | None, bool]:
        """Return the cheapest tree of less weight that few nodes find, and whether none is cheaper.

        None: none of less weight is found.
        """
        ranks, steps = self.window.ranks, self.window.steps
        left = np.empty((_MAX_OPEN_NODES, len(self.useful), steps), np.int64)
        left[0] = weights[self.useful]
        scratch = np.empty((2, *left.shape[1:]), np.int64)
        through = np.empty((2, steps + 1, ranks), np.int64)
        best = np.full((2, ranks), -1, np.int64)
        ends = (self.src, self.dst, self.held, self.wanted)
        rank_scratch = np.empty((4, ranks), np.int64)
        cost, paid, nodes = solve_branch_and_bound(
            left, *ends, below, INFINITE, _MAX_NODES, scratch, rank_scratch, through, best
        )
        each = ranks + len(self.window.commodity.wanted)
        self.spent += (
            ELEMENT_EFFORT * (paid + (_MAX_NODES if nodes < 0 else nodes) * each) * scratch[0].size
        )
        return (self._tree(*best) if cost < below else None), nodes >= 0

    def _tree(self, into: NDArray[np.int64], since: NDArray[np.int64]) -> StepTree:
        """Return the tree by which ranks are reached by links since then."""
        reached = np.flatnonzero(into >= 0)
        return frozenset((int(self.useful[into[r]]), int(since[r]) - 1) for r in reached)

    def _solve_cpsat(
        self, weights: IntArray, among: NDArray[np.bool_], below: int, seconds: float
    ) -> StepTree | None:
        """Return a cheapest tree of less weight, by CP-SAT. None: there is none.

        Args:
            among: by link and step, whether such a tree may have the send.
        """
        model, window = CpModel(), self.window
        allowed = among & window.usable
        x = {
            (int(e), int(s)): model.new_bool_var("")
            for e, s in zip(*np.nonzero(allowed), strict=True)
        }
        into: dict[int, list[LinkStep]] = {rank: [] for rank in range(window.ranks)}
        for e, s in x:
            into[window.edges[e][1]].append((e, s))
        for rank, uses in into.items():
            arriving = [x[use] for use in uses]
            if self.wanted[rank]:
                model.add_exactly_one(arriving)
            elif arriving:
                model.add_at_most_one(arriving)
        for (e, s), used in x.items():
            src = window.edges[e][0]
            if not self.held[src]:
                model.add_bool_or([~used, *(x[f, t] for f, t in into[src] if t < s)])
        total = LinearExpr.weighted_sum(list(x.values()), [int(weights[use]) for use in x])
        model.add(total < below)
        model.minimize(total)
        timeout_s = seconds if seconds < math.inf else None
        result = solve(model, Effort(timeout_s, _SEED, _TREE_EFFORT), _STRATEGY)
        self.spent += result.units
        if not (result.is_optimal or result.is_infeasible):
            raise TimeoutError("the search for a cheapest timed tree ran out of time")
        if result.is_infeasible:
            return None
        return frozenset(use for use, used in x.items() if result.value(used))

    def _ascend_duals(self, weights: IntArray) -> tuple[int, IntArray]:
        """Return a lower bound on the weight of trees, and the reduced weights of its proof."""
        ranks = self.window.ranks
        reduced = weights[self.useful]
        scratch = np.zeros((2, ranks), np.int64)
        of = (self.src, self.dst, self.held, self.wanted, scratch[0], scratch[1])
        bound, sets = dual_ascent_bound(reduced, *of, INFINITE)
        self.spent += ELEMENT_EFFORT * (sets + ranks) * reduced.size
        left = np.full_like(weights, INFINITE)
        left[self.useful] = reduced
        return bound, left

    def _grow_greedily(self, weights: IntArray) -> StepTree:
        ranks, steps = self.window.ranks, self.window.steps
        self.spent += ELEMENT_EFFORT * len(self.window.commodity.wanted) * steps * len(self.useful)
        since = np.where(self.held, 0, steps + 1)
        into = np.full(ranks, -1, np.int64)
        far, through = np.zeros((2, steps + 1, ranks), np.int64)
        of = (self.src, self.dst, since, into, self.wanted, far, through)
        is_complete = grow_tree(np.ascontiguousarray(weights[self.useful]), *of)
        assert is_complete, "each rank can be reached in the steps that there are"
        return self._tree(into, since)
