"""Cheapest timed trees by dual ascent and branching, for too many ranks for tables of sets.

A timed tree is a Steiner arborescence in the network of (rank, time), where holding is free. So a
cut for a rank that wants a chunk is given by a time for each rank, until which it is inside. Sends
enter it to a rank that is inside from one that is not. Prices for entering cuts are a dual
solution, whose sum is a lower bound on the cost of every tree. It is raised cut by cut, each from
one rank's side, until an entering send has no reduced cost left (Wong, A dual ascent approach for
Steiner tree problems on a directed graph, Mathematical Programming 28, 1984).

The lower bound is mostly equal, or close, to the cost of a greedy tree. Few branches decide the
rest: the most expensive send of the tree is the only one into its rank, or is not taken. Either way
sends are left out, so the next dual solution is larger. If that takes too many nodes, CP-SAT
continues from the cheapest tree so far, without the sends that no cheaper tree uses.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import IntArray
from sccl.errors import TooLargeError
from sccl.solvers.cpsat import CpModel, LinearExpr, Strategy, solve
from sccl.solvers.effort import Effort
from sccl.synth.packing.price_steps import ELEMENT_EFFORT, INFINITE, PricedTimeWindow
from sccl.synth.packing.problem import LinkStep, StepTree


@compiled
def dual_ascent_bound(  # noqa: PLR0912, PLR0913, PLR0917 - compiled code works on arrays, and is one loop
    reduced: Any, src: Any, dst: Any, held: Any, wanted: Any, until: Any, size: Any, never: int
) -> tuple[int, int]:
    """Return a lower bound on the cost of trees, and the number of cuts in it.

    Args:
        reduced: costs of sends, by link and step. Out: the reduced costs.
        held: by rank, whether it holds the chunk before.
        wanted: by rank, whether it wants it and does not hold it.
        until: scratch, by rank.
        size: scratch, by rank.
        never: cost of a useless send.
    """
    links, steps = reduced.shape
    ranks = len(held)
    total, sets = 0, 0
    size[:] = 0
    while True:
        target = -1  # small sets first: they are entered by few
        for rank in range(ranks):
            if wanted[rank] and size[rank] >= 0 and (target < 0 or size[rank] < size[target]):
                target = rank
        if target < 0:
            return total, sets
        until[:] = -1
        until[target] = steps
        for step in range(steps - 1, -1, -1):
            for link in range(links):
                inside = until[dst[link]] > step and until[src[link]] < step
                if inside and reduced[link, step] == 0:
                    until[src[link]] = step
        inside = 0
        for rank in range(ranks):
            inside += until[rank] + 1
            if held[rank] and until[rank] >= 0:
                inside = -1
                break
        size[target] = inside
        if inside < 0:
            continue
        min_cost = never
        for link in range(links):
            for step in range(until[src[link]] + 1, until[dst[link]]):
                min_cost = min(min_cost, reduced[link, step])
        if min_cost >= never:
            return never, sets
        for link in range(links):
            for step in range(until[src[link]] + 1, until[dst[link]]):
                if reduced[link, step] < never:
                    reduced[link, step] -= min_cost
        total += min_cost
        sets += 1


@compiled
def grow_tree(  # noqa: PLR0912, PLR0913, PLR0917 - likewise
    weights: Any, src: Any, dst: Any, since: Any, into: Any, wanted: Any, far: Any, through: Any
) -> bool:
    """Reach the rank that is cheapest to reach, through time, until all are; return False if not.

    Args:
        weights: of sends, by link and step.
        since: by rank, 0: it holds the chunk before, else more than there are steps; out: from when
            on it does.
        into: out: by rank, the link by which it is reached. -1: by none.
        wanted: by rank, whether it is to be reached.
        far, through: scratch, by time and rank.
    """
    links, steps = weights.shape
    ranks = len(since)
    into[:] = -1
    while True:
        for time in range(steps + 1):
            for rank in range(ranks):
                kept = time > 0 and far[time - 1, rank] < INFINITE
                far[time, rank] = far[time - 1, rank] if kept else INFINITE
                if since[rank] == time:
                    far[time, rank] = 0
                through[time, rank] = -1
            if time > 0:
                for link in range(links):
                    if far[time - 1, src[link]] >= INFINITE:
                        continue
                    arrival_cost = far[time - 1, src[link]] + weights[link, time - 1]
                    at = dst[link]
                    if arrival_cost < far[time, at] and since[at] != time:
                        far[time, at], through[time, at] = arrival_cost, link
        nearest = -1
        for rank in range(ranks):
            missing = wanted[rank] and since[rank] > steps
            if missing and (nearest < 0 or far[steps, rank] < far[steps, nearest]):
                nearest = rank
        if nearest < 0:
            return True
        if far[steps, nearest] >= INFINITE:
            return False
        at, time = nearest, steps
        while since[at] > time:
            if through[time, at] >= 0:
                since[at], into[at] = time, through[time, at]
                at = src[through[time, at]]
            time -= 1


@compiled
def solve_branch_and_bound(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    left: Any, src: Any, dst: Any, held: Any, wanted: Any, below: int, never: int, max_nodes: int,
    scratch: Any, rank_scratch: Any, through: Any, best: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Return the minimum weight of a tree below a limit, the number of cuts, and of nodes.

    The weight is ``below`` itself if no tree is below, and the nodes are -1 if there were too many:
    then a tree of less weight may exist.

    Args:
        left: shape (nodes that wait, links, steps): the first has the weights of sends.
        held: by rank, whether it holds the chunk before.
        wanted: by rank, whether it wants it and does not hold it.
        never: weight of a useless send.
        max_nodes: limit on nodes.
        scratch: shape (2, links, steps).
        rank_scratch: scratch, shape (4, ranks).
        through: scratch, shape (2, steps + 1, ranks).
        best: shape (2, ranks). Out: by rank of the tree the link by which it is reached, or -1, and
            the time.
    """
    reduced, doubled, far = scratch[0], scratch[1], through[0]
    until, size, since, into = rank_scratch[0], rank_scratch[1], rank_scratch[2], rank_scratch[3]
    waiting, nodes, paid = 1, 0, 0
    while waiting > 0:
        if nodes == max_nodes or waiting == len(left):
            return below, paid, -1
        nodes, waiting = nodes + 1, waiting - 1
        weights = left[waiting]
        reduced[:] = weights
        bound, sets = dual_ascent_bound(reduced, src, dst, held, wanted, until, size, never)
        paid += sets + 1
        if bound >= below:
            continue
        _exclude_sends(weights, reduced, below - bound, never, doubled)
        since[:] = len(far)
        for rank in range(len(held)):
            if held[rank]:
                since[rank] = 0
        if not grow_tree(doubled, src, dst, since, into, wanted, far, through[1]):
            continue
        cost = 0
        for rank in range(len(held)):
            cost += weights[into[rank], since[rank] - 1] if into[rank] >= 0 else 0
        if cost < below:
            below = cost
            best[0], best[1] = into, since
        rank = _most_expensive_rank(weights, dst, into, since, never) if bound < below else -1
        if rank >= 0:
            link, step = into[rank], since[rank] - 1
            left[waiting + 1] = weights
            for other_link in range(len(dst)):
                if dst[other_link] == rank:
                    left[waiting + 1, other_link] = never
            left[waiting + 1, link, step] = weights[link, step]
            weights[link, step] = never
            waiting += 2
    return below, paid, nodes


@compiled
def _exclude_sends(weights: Any, reduced: Any, room: int, never: int, doubled: Any) -> None:
    """Leave out sends that no tree has which is cheap enough; double those not wholly paid for."""
    links, steps = weights.shape
    for link in range(links):
        for step in range(steps):
            if reduced[link, step] >= room:
                weights[link, step] = never
            dear = reduced[link, step] > 0 and weights[link, step] < never
            doubled[link, step] = weights[link, step] * (2 if dear else 1)


@compiled
def _most_expensive_rank(weights: Any, dst: Any, into: Any, since: Any, never: int) -> int:
    """Return the rank that a tree's dearest send reaches, of those with others into them, or -1."""
    choices = [0] * len(into)
    links, steps = weights.shape
    for link in range(links):
        for step in range(steps):
            if weights[link, step] < never:
                choices[dst[link]] += 1
    dearest, max_weight = -1, -1
    for rank in range(len(into)):
        if into[rank] >= 0 and choices[rank] > 1:
            weight = weights[into[rank], since[rank] - 1]
            if weight > max_weight:
                dearest, max_weight = rank, weight
    return dearest


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
        seconds = self.deadline - perf_counter()
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
