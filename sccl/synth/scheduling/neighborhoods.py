"""Improve a schedule: some chunks at a time are scheduled again around all others.

Large-neighbourhood search (Shaw 1998) over chunks: a late one, and random others. The finish is
that of the latest of many chunks, so a neighbourhood can seldom reduce it. Instead the total
lateness of arrivals relative to a target between bound and finish is reduced, until there is none.
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
        sends: sends of the first chunks of the best.
        target: value at which it ends.
        lower_bounds: lower bounds on the finishes of tenants, units.
        on_progress: called with each best.
        model_type: kind of model.
        intervals_per_route: intervals per chunk and way in it.
        min_units: minimum effort for building one.
        allowed_routes: the allowed (chunk, way). None: any.
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
        """Return the value to minimise."""
        return self.problem.objective(self.sends)

    def run(self, spending: EffortMeter) -> None:
        """Go on until the effort is spent, or it finishes early enough.

        Raises:
            KeyboardInterrupt: the user interrupted; ``sends`` is the best by then.
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
        """Return the units by which each tenant would better have finished."""
        finishes = self.problem.finishes(self.sends)
        if len(finishes) == 1:
            return [self.objective - max(1, (self.objective - self.target) // _TARGET_DIVISOR)]
        pairs = zip(finishes, self.lower_bounds, strict=True)
        return [
            finish - max(1, (finish - lower_bound) // _TARGET_DIVISOR)
            for finish, lower_bound in pairs
        ]

    def _horizon(self) -> int:
        """Return by when all has to arrive: of several tenants one may finish later than now."""
        finish = self.problem.finish(self.sends)
        return finish if len(self.problem.priorities) == 1 else finish + finish // 2

    def _is_no_worse(self, sends: tuple[ChunkSend, ...]) -> bool:
        """Return whether sends are to be gone on with; lateness says so of one tenant alone."""
        return len(self.problem.priorities) == 1 or self.problem.objective(sends) <= self.objective

    def _choose_chunks(self, rng: random.Random, firsts: tuple[int, ...], count: int) -> list[int]:
        """Return some chunks: one that is late, and others."""
        arrivals: dict[int, int] = {}
        for send in self.sends:
            arrivals[send.chunk] = max(arrivals.get(send.chunk, 0), self.problem.arrival(send))
        order = sorted(arrivals, key=lambda chunk: (-arrivals[chunk], chunk))
        first = rng.choice(order[: max(1, len(order) // 3)])
        others = [chunk for chunk in firsts if chunk != first]
        return [first, *rng.sample(others, min(count - 1, len(others)))]


def _next_budget(spending: EffortMeter) -> Effort | None:
    """Return the effort for a neighbourhood. None: all is spent."""
    return None if spending.is_exhausted() else spending.remaining(TRIAL_EFFORT)
