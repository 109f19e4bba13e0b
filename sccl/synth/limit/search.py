"""Cheapest timed trees where there are too many ranks for sets of them: greedy, then CP-SAT."""

from __future__ import annotations

import math
import time

from sccl.errors import TooLargeError
from sccl.solvers.cpsat import CpModel, Strategy, solve
from sccl.solvers.effort import Effort
from sccl.synth.limit.problem import Tree, Use
from sccl.synth.limit.window import INFINITE, STEP, PriceArray, Window

_EFFORT = 30.0  # units for a tree
_SEED = 1  # CP-SAT's own
_STRATEGY = Strategy(workers=1, linear=2)
_WORK = 20_000_000  # ranks times steps times links: beyond, a single tree takes minutes


class TreeSearch:
    """CP-SAT on the time-indexed model of one chunk."""

    def __init__(self, window: Window, deadline: float = math.inf) -> None:
        self.window, self.deadline, self.spent = window, deadline, 0.0
        self.useful = [(e, uv) for e, uv in enumerate(window.edges) if window.usable[e].any()]
        if window.ranks * window.steps * len(self.useful) > _WORK:
            raise TooLargeError(
                f"a limit over all k for {window.ranks} ranks, {len(self.useful)} links and "
                f"{window.steps} steps is too large to compute; the bounds and a sweep over k work"
            )
        self.into: list[list[int]] = [[] for _ in range(window.ranks)]
        for e, (_, v) in self.useful:
            self.into[v].append(e)

    def exact(self, prices: PriceArray) -> tuple[int, Tree]:
        """Return a cheapest tree and its cost.

        Raises:
            TimeoutError: it was not found with the effort for a tree, or before the deadline.
        """
        seconds = self.deadline - time.perf_counter()
        if seconds <= 0:
            raise TimeoutError("no time is left for a cheapest timed tree")
        model = CpModel()
        window, holders = self.window, self.window.commodity.holders
        x = {
            (e, s): model.new_bool_var("")
            for e in range(len(window.edges))
            for s in range(window.steps)
            if window.usable[e, s]
        }
        for rank in range(window.ranks):
            arriving = [
                x[e, s] for e in self.into[rank] for s in range(window.steps) if (e, s) in x
            ]
            if rank in window.commodity.wanted and rank not in holders:
                model.add_exactly_one(arriving)
            elif arriving:
                model.add_at_most_one(arriving)
        for (e, s), used in x.items():
            src = window.edges[e][0]
            if src not in holders:
                earlier = [x[f, t] for f in self.into[src] for t in range(s) if (f, t) in x]
                model.add_bool_or([~used, *earlier])
        weights = window.weights(prices)
        model.minimize(sum(int(weights[use]) * used for use, used in x.items()))
        _, hint = self.quick(prices)
        for use, used in x.items():
            model.add_hint(used, use in hint)
        timeout_s = seconds if seconds < math.inf else None
        result = solve(model, Effort(timeout_s, _SEED, _EFFORT), _STRATEGY)
        self.spent += result.units
        if not result.optimal:
            raise TimeoutError("a cheapest timed tree was not found in time")
        tree = frozenset(use for use, used in x.items() if result.value(used))
        return window.cost(prices, tree), tree

    def quick(self, prices: PriceArray) -> tuple[int, Tree]:
        """Reach the rank that is cheapest to reach, through time, until all are reached."""
        window = self.window
        self.spent += STEP * len(window.commodity.wanted) * window.steps * len(self.useful)
        weights = window.weights(prices).tolist()
        since = dict.fromkeys(window.commodity.holders, 0)
        uses: set[Use] = set()
        while missing := set(window.commodity.wanted) - set(since):
            far, through = self._walk(since, weights)
            at, step = min(missing, key=lambda r: (far[r], r)), window.steps
            path = []
            while not (at in since and since[at] <= step):
                if at in through[step]:
                    path.append((through[step][at], step - 1))
                    at = window.edges[path[-1][0]][0]
                step -= 1
            for edge, when in path:
                dst = window.edges[edge][1]
                if since.get(dst, window.steps + 1) > when + 1:  # sooner than it had it before
                    uses -= {use for use in uses if window.edges[use[0]][1] == dst}
                    since[dst] = when + 1
                    uses.add((edge, when))
        tree = frozenset(uses)
        return window.cost(prices, tree), tree

    def _walk(
        self, since: dict[int, int], weights: list[list[int]]
    ) -> tuple[list[int], list[dict[int, int]]]:
        """Return the cost of reaching each rank from a tree, and by which link at which time."""
        far = [0 if since.get(r) == 0 else INFINITE for r in range(self.window.ranks)]
        through: list[dict[int, int]] = [{}]
        for step in range(self.window.steps):
            then = list(far)
            through.append({})
            for e, (u, v) in self.useful:
                there = far[u] + weights[e][step]
                if there < then[v]:
                    then[v], through[-1][v] = there, e
            for rank, when in since.items():
                if when == step + 1:
                    then[rank] = 0
            far = then
        return far, through
