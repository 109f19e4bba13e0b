"""From a schedule to better ones: some chunks at a time are scheduled anew around all others.

Large-neighbourhood search (Shaw 1998) over chunks: a late one, and others at random. The finish is
that of the latest of many chunks, so a neighbourhood can seldom lessen it; what is lessened is by
how much arrivals are later than a target between bound and finish, in all, until none is.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from sccl.solvers import cpsat
from sccl.solvers.effort import Effort, Spending
from sccl.synth.teccl.intervals import Action, IntervalModel
from sccl.synth.teccl.posed import ChunkSend, Posed

_UNITS = 0.15
"""Of effort for one neighbourhood."""

_INTERVALS = 1500
"""That a neighbourhood has about."""

_TARGET = 8
"""Targets are nearer the bound than the finish is by one part of so many."""


@dataclass
class Neighbours:
    """A search from a schedule on.

    Attributes:
        sends: of the first chunks of the best.
        enough: units: it ends with a finish by then.
        told: called with each best.
        kind: of model.
        intervals: of a chunk and a way in it.
        made: units of effort that making one counts as, at the least.
    """

    posed: Posed
    action: Action
    sends: tuple[ChunkSend, ...]
    enough: int
    strategy: cpsat.Strategy
    told: Callable[[tuple[ChunkSend, ...]], None]
    kind: type[IntervalModel] = IntervalModel
    intervals: int = 1
    made: float = 1e-3

    @property
    def finish(self) -> int:
        """Return the units after which all has arrived."""
        return max((s.start + self.posed.cost[s.way] for s in self.sends), default=0)

    def run(self, spending: Spending) -> None:
        """Go on until the effort is spent, or it finishes early enough.

        Raises:
            KeyboardInterrupt: the user interrupted; ``sends`` is the best by then.
        """
        rng = random.Random(spending.effort.seed)  # noqa: S311 - no secret
        firsts = self.action.firsts
        count = max(2, _INTERVALS // max(1, self.intervals * len(self.posed.src)))
        while self.finish > self.enough and (left := _some(spending)):
            free = self._chosen(rng, firsts, min(count, len(firsts)))
            target = self.finish - max(1, (self.finish - self.enough) // _TARGET)
            before = self.finish
            model = self.kind(self.posed, self.action, before, self.sends, free)
            model.least_late(target)
            found = model.solved(
                Effort(left.timeout_s, rng.randrange(10**6), left.units), self.strategy
            )
            spending.units += max(found.units, self.made)
            if found.sends is not None:
                self.sends = found.sends
                if self.finish < before:
                    self.told(self.sends)

    def _chosen(self, rng: random.Random, firsts: tuple[int, ...], count: int) -> list[int]:
        """Return some chunks: one that is late, and others."""
        late: dict[int, int] = {}
        for send in self.sends:
            arrives = send.start + self.posed.cost[send.way]
            late[send.chunk] = max(late.get(send.chunk, 0), arrives)
        order = sorted(late, key=lambda chunk: (-late[chunk], chunk))
        first = rng.choice(order[: max(1, len(order) // 3)])
        others = [chunk for chunk in firsts if chunk != first]
        return [first, *rng.sample(others, min(count - 1, len(others)))]


def _some(spending: Spending) -> Effort | None:
    """Return what a neighbourhood may take; None: all is spent."""
    return None if spending.used_up() else spending.left(_UNITS)
