"""Divide time by the computations of a stream, and locate ops in the spans of every plan.

If the computations of a stream depend on one another in a row, the first on the last of the
previous iteration, they divide time into computations and gaps. Their times are open, but their
order is fixed. An op that depends on one of them, and that a later one depends on, therefore lies
in the gaps and computations between, in every plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sccl.training.scheduling.step_problem import CyclicProblem, LaggedWait


@dataclass(frozen=True, slots=True)
class ComputeSpans:
    """The spans of a stream, by their numbers: gap, computation, gap, computation, and so on.

    Those of the next iteration go on with the numbers, and those of the one before are below 0.

    Attributes:
        row: its computations, by their numbers among ops, in their order.
        windows: of each op: the first and the last span in which it can be. None: it may be in any.
    """

    row: tuple[int, ...]
    windows: tuple[tuple[int, int] | None, ...]

    @property
    def count(self) -> int:
        """Return how many spans an iteration has."""
        return 2 * len(self.row)

    def spans_of_op(self, op: int) -> range:
        """Return the spans in which an op can be. No more than an iteration has."""
        window = self.windows[op]
        if window is None or window[1] - window[0] + 1 >= self.count:
            return range(self.count)
        return range(window[0], window[1] + 1)


def list_compute_spans(problem: CyclicProblem) -> list[ComputeSpans]:
    """Return the spans of all streams whose computations are in a row."""
    ops = problem.step.ops
    streams: dict[int, list[int]] = {}
    for number, op in enumerate(ops):
        motifs = op.options[0].motifs
        if not op.communicates and len(motifs) == 1 and len(motifs[0].uses) == 1:
            streams.setdefault(motifs[0].uses[0], []).append(number)
    all_spans = []
    for row in streams.values():
        early = _last_predecessors(len(ops), problem.waits, row)
        turned = [LaggedWait(after, before, lag) for before, after, lag in reversed(problem.waits)]
        latest = [
            None if k is None else len(row) - 1 - k
            for k in _last_predecessors(len(ops), turned, row[::-1])
        ]
        if len(row) == 1 or all(early[op] == k - 1 for k, op in enumerate(row)):
            windows = [_span_window(*both) for both in zip(early, latest, strict=True)]
            for k, computation in enumerate(row):
                windows[computation] = (2 * k + 1, 2 * k + 1)
            all_spans.append(ComputeSpans(tuple(row), tuple(windows)))
    return all_spans


def _span_window(early: int | None, latest: int | None) -> tuple[int, int] | None:
    return None if early is None or latest is None else (2 * early + 2, 2 * latest)


def _last_predecessors(
    count: int, waits: Sequence[LaggedWait], row: Sequence[int]
) -> list[int | None]:
    """Return of each op the last of a row that it waits for, however indirectly. None: for none.

    That is its place in the row, less the length of the row for each iteration before.
    """
    place = {op: k for k, op in enumerate(row)}
    nearest: list[int | None] = [None] * count
    changed = True
    while changed:
        changed = False
        for before, after, lag in waits:
            then = place.get(before, nearest[before])
            if then is None:
                continue
            then -= lag * len(row)
            current = nearest[after]
            if current is None or then > current:
                nearest[after], changed = then, True
    return nearest
