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
from sccl.solvers.effort import Effort, Spending
from sccl.synth.intervals.model import Action, IntervalModel
from sccl.synth.intervals.posed import ChunkSend, Posed

_UNITS = 0.15
"""Effort for one neighbourhood."""

_INTERVALS = 1500
"""That a neighbourhood has about."""

_TARGET = 8
"""Targets are nearer the bound than the finish is by one part of so many."""


@dataclass
class Neighbours:
    """A search that starts from a schedule.

    Attributes:
        sends: sends of the first chunks of the best.
        enough: value at which it ends.
        least: lower bounds on the finishes of tenants, units.
        told: called with each best.
        kind: kind of model.
        intervals: intervals per chunk and way in it.
        made: minimum effort for building one.
        routes: the allowed (chunk, way). None: any.
    """

    posed: Posed
    action: Action
    sends: tuple[ChunkSend, ...]
    enough: int
    least: tuple[int, ...]
    strategy: cpsat.Strategy
    told: Callable[[tuple[ChunkSend, ...]], None]
    kind: type[IntervalModel] = IntervalModel
    intervals: int = 1
    made: float = 1e-3
    routes: Collection[tuple[int, int]] | None = None

    @property
    def value(self) -> int:
        """Return the value to minimise."""
        return self.posed.value(self.sends)

    def run(self, spending: Spending) -> None:
        """Go on until the effort is spent, or it finishes early enough.

        Raises:
            KeyboardInterrupt: the user interrupted; ``sends`` is the best by then.
        """
        rng = random.Random(spending.effort.seed)  # noqa: S311 - no secret
        firsts = self.action.firsts
        count = max(2, _INTERVALS // max(1, self.intervals * len(self.posed.src)))
        while self.value > self.enough and (left := _some(spending)):
            free = self._chosen(rng, firsts, min(count, len(firsts)))
            before, horizon = self.value, self._horizon()
            model = self._model(horizon, free)
            model.least_late(self._targets())
            found = model.solved(
                Effort(left.timeout_s, rng.randrange(10**6), left.units), self.strategy
            )
            spending.units += max(found.units, self.made)
            if found.sends is not None and self._is_no_worse(found.sends):
                self.sends = found.sends
                if self.value < before:
                    self.told(self.sends)

    def _model(self, horizon: int, free: list[int]) -> IntervalModel:
        if self.routes is None:
            return self.kind(self.posed, self.action, horizon, self.sends, free)
        return self.kind(self.posed, self.action, horizon, self.sends, free, self.routes)

    def _targets(self) -> list[int]:
        """Return the units by which each tenant would better have finished."""
        finishes = self.posed.finishes(self.sends)
        if len(finishes) == 1:
            return [self.value - max(1, (self.value - self.enough) // _TARGET)]
        pairs = zip(finishes, self.least, strict=True)
        return [finish - max(1, (finish - least) // _TARGET) for finish, least in pairs]

    def _horizon(self) -> int:
        """Return by when all has to arrive: of several tenants one may finish later than now."""
        finish = self.posed.finish(self.sends)
        return finish if len(self.posed.priorities) == 1 else finish + finish // 2

    def _is_no_worse(self, sends: tuple[ChunkSend, ...]) -> bool:
        """Return whether sends are to be gone on with; lateness says so of one tenant alone."""
        return len(self.posed.priorities) == 1 or self.posed.value(sends) <= self.value

    def _chosen(self, rng: random.Random, firsts: tuple[int, ...], count: int) -> list[int]:
        """Return some chunks: one that is late, and others."""
        late: dict[int, int] = {}
        for send in self.sends:
            late[send.chunk] = max(late.get(send.chunk, 0), self.posed.arrives(send))
        order = sorted(late, key=lambda chunk: (-late[chunk], chunk))
        first = rng.choice(order[: max(1, len(order) // 3)])
        others = [chunk for chunk in firsts if chunk != first]
        return [first, *rng.sample(others, min(count - 1, len(others)))]


def _some(spending: Spending) -> Effort | None:
    """Return the effort for a neighbourhood. None: all is spent."""
    return None if spending.used_up() else spending.left(_UNITS)
