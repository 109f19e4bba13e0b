"""Step timeline: when computations and motifs of training steps start and end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepSpan:
    """The duration of an operation.

    Attributes:
        op: the id of an operation.
        motif: motif of its option; 0 for a computation.
        iteration: from 0.
        lane: a role's stream of computation, or a channel of the fabric.
        start_ns: start, nanoseconds from the beginning.
        end_ns: end, nanoseconds from the beginning.
        computes: whether it is a computation.
    """

    op: str
    motif: int
    iteration: int
    lane: str
    start_ns: int
    end_ns: int
    computes: bool


@dataclass(frozen=True, slots=True)
class StepTimeline:
    """A plan, as it runs.

    Attributes:
        spans: by start.
        period_ns: from an iteration to the next, once they repeat.
        is_steady: whether they were seen to repeat.
        first_periodic: the iteration from which on they repeat.
    """

    spans: tuple[StepSpan, ...]
    period_ns: int
    is_steady: bool
    first_periodic: int

    @property
    def iterations(self) -> int:
        """Return how many it has."""
        return 1 + max((span.iteration for span in self.spans), default=-1)

    @property
    def prologue_ns(self) -> int:
        """Return by how much more the first iterations take than as many that repeat, or less."""
        return self.finish_ns(self.first_periodic + 1) - (self.first_periodic + 1) * self.period_ns

    def finish_ns(self, iterations: int = 2) -> int:
        """Return when so many iterations have ended, the first ones."""
        return max(span.end_ns for span in self.spans if span.iteration < iterations)


def lane_rows(spans: Iterable[StepSpan]) -> list[int]:
    """Return, of spans by start, on which row of its lane each has room: 0 if it is alone there."""
    free: dict[tuple[str, int], int] = {}
    slots = []
    for span in spans:
        slot = 0
        while free.get((span.lane, slot), 0) > span.start_ns:
            slot += 1
        free[span.lane, slot] = span.end_ns
        slots.append(slot)
    return slots
