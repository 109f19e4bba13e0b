"""Improve a schedule: schedule some chunks at a time again, around all others.

Large-neighborhood search (Shaw 1998) over chunks: a late one and random others. The completion time
is that of the latest of many chunks, so one neighborhood rarely reduces it. Instead the objective
is the total lateness of arrivals after a target between lower bound and completion time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass

from sccl.solvers import cpsat
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.limits import TRIAL_EFFORT
from sccl.synth.scheduling.intervals_cpsat import IntervalModel, SymmetryAction
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem

_INTERVALS_PER_MODEL = 1500
"""Intervals of a neighborhood, of which one budget solves many."""

_TARGET_DIVISOR = 8
"""The target is nearer to the bound than the incumbent by an eighth of the gap."""


@dataclass
class NeighborhoodSearch:
    """A search that starts from a schedule.

    Attributes:
        problem: The problem.
        action: Symmetries of the schedule.
        sends: Sends of the representative chunks in the best schedule.
        target: Objective at which the search ends.
        lower_bounds: Lower bounds on the completion times of the collectives, units.
        strategy: Strategy of CP-SAT.
        on_progress: Called with each better schedule.
        model_type: Class of the models.
        intervals_per_route: Number of intervals per chunk and route in a model.
        min_units: Minimum effort for a neighborhood.
        allowed_routes: Allowed (chunk, route) pairs. None: all.
    """

    problem: SchedulingProblem
    action: SymmetryAction
    sends: tuple[ChunkSend, ...]
    target: int
    lower_bounds: tuple[int, ...]
    strategy: cpsat.Strategy
    on_progress: Callable[[tuple[ChunkSend, ...]], None]
    model_type: type[IntervalModel] = IntervalModel
    intervals_per_route: int = 1
    min_units: float = 1e-3
    allowed_routes: Collection[tuple[int, int]] | None = None

    @property
    def objective(self) -> int:
        """Return the objective of the best schedule, which is minimized."""
        return self.problem.objective(self.sends)

    def run(self, spending: EffortMeter) -> None:
        """Search until the budget is spent, or the target is attained.

        Raises:
            KeyboardInterrupt: The user interrupted. ``sends`` is the best schedule so far.
        """
        rng = random.Random(spending.effort.seed)  # noqa: S311 - no secret
        firsts = self.action.representatives
        count = max(
            2, _INTERVALS_PER_MODEL // max(1, self.intervals_per_route * len(self.problem.src))
        )
        while self.objective > self.target and (left := _next_budget(spending)):
            free = self._choose_chunks(rng, firsts, min(count, len(firsts)))
            before, horizon = self.objective, self._horizon()
            model = self._build_model(horizon, free)
            model.minimize_lateness(self._targets())
            result = model.solve(
                Effort(left.timeout_s, rng.randrange(10**6), left.units), self.strategy
            )
            spending.units += max(result.effort_units, self.min_units)
            if result.sends is not None and self._is_no_worse(result.sends):
                self.sends = result.sends
                if self.objective < before:
                    self.on_progress(self.sends)

    def _build_model(self, horizon: int, free: list[int]) -> IntervalModel:
        if self.allowed_routes is None:
            return self.model_type(self.problem, self.action, horizon, self.sends, free)
        return self.model_type(
            self.problem, self.action, horizon, self.sends, free, self.allowed_routes
        )

    def _targets(self) -> list[int]:
        """Return the target of each collective, a little below its completion time, in units."""
        finishes = self.problem.finishes(self.sends)
        if len(finishes) == 1:
            return [self.objective - max(1, (self.objective - self.target) // _TARGET_DIVISOR)]
        pairs = zip(finishes, self.lower_bounds, strict=True)
        return [
            finish - max(1, (finish - lower_bound) // _TARGET_DIVISOR)
            for finish, lower_bound in pairs
        ]

    def _horizon(self) -> int:
        """Return the latest arrival of a model. One of several collectives may finish later."""
        finish = self.problem.finish(self.sends)
        return finish if len(self.problem.priorities) == 1 else finish + finish // 2

    def _is_no_worse(self, sends: tuple[ChunkSend, ...]) -> bool:
        """Return whether the objective is no larger. A model of one collective ensures this."""
        return len(self.problem.priorities) == 1 or self.problem.objective(sends) <= self.objective

    def _choose_chunks(self, rng: random.Random, firsts: tuple[int, ...], count: int) -> list[int]:
        """Return a random late chunk, and random other representatives."""
        arrivals: dict[int, int] = {}
        for send in self.sends:
            arrivals[send.chunk] = max(arrivals.get(send.chunk, 0), self.problem.arrival(send))
        order = sorted(arrivals, key=lambda chunk: (-arrivals[chunk], chunk))
        first = rng.choice(order[: max(1, len(order) // 3)])
        others = [chunk for chunk in firsts if chunk != first]
        return [first, *rng.sample(others, min(count - 1, len(others)))]


def _next_budget(spending: EffortMeter) -> Effort | None:
    """Return the effort for a neighborhood. None: the budget is spent."""
    return None if spending.is_exhausted() else spending.remaining(TRIAL_EFFORT)
