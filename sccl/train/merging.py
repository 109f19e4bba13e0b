"""Find collectives that may be merged, and verify those of a plan.

Mergeable collectives have the same kind, groups, type, root, and reduction, and none depends on
another, through other operations or through a host program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from sccl.core.merges import merged_rows, with_merged
from sccl.core.training_plan import TrainingPlan
from sccl.core.workload import Workload
from sccl.core.workload_ops import CommOp
from sccl.errors import InputError, ParameterError
from sccl.train.jobs import waits_of

_LEAST = 2**16
"""Bytes: smaller rows are not looked for."""

_FINER = 4
"""By so many times rows of the next size are smaller."""

Row = tuple[str, ...]
"""Ids of collectives that may be one, in their order."""


def buckets(workload: Workload, most_bytes: int) -> list[Row]:
    """Return rows of collectives that follow one another, as long as they may be.

    Args:
        most_bytes: of a row, of the largest buffer of a rank.

    Raises:
        ParameterError: that is not a size.
    """
    if most_bytes < 1:
        raise ParameterError(f"merge is {most_bytes} bytes, expected 1 or more")
    graph = _Graph(workload)
    open_: dict[tuple[object, ...], list[CommOp]] = {}
    rows: list[list[CommOp]] = []
    for op in workload.collectives():
        row = open_.get(op.likeness)
        if (
            row is not None
            and sum(one.size_bytes for one in row) + op.size_bytes <= most_bytes
            and graph.merges(row[0].id, op.id)
        ):
            row.append(op)
            continue
        open_[op.likeness] = [op]
        rows.append(open_[op.likeness])
    return [tuple(op.id for op in row) for row in rows if len(row) > 1]


def merge_candidates(workload: Workload, most_bytes: int) -> tuple[tuple[Row, ...], ...]:
    """Return rows of up to a size, and of up to a quarter of it, and so on: all that differ.

    Each of them is offered by itself: a plan may have some of one size, and of another others.
    """
    found: list[tuple[Row, ...]] = []
    size = most_bytes
    while not found or (size >= _LEAST and found[-1]):
        rows = tuple(buckets(workload, size))
        if not found or rows != found[-1]:
            found.append(rows)
        size //= _FINER
    return tuple(rows for rows in found if rows)


def offered_rows(workload: Workload, most_bytes: int) -> tuple[Row, ...]:
    """Return all rows of :func:`merge_candidates`, each once. None where nothing is merged."""
    if not most_bytes:
        return ()
    every = merge_candidates(workload, most_bytes)
    return tuple(dict.fromkeys(row for rows in every for row in rows))


def may_be_merged(workload: Workload, rows: Iterable[Sequence[str]]) -> bool:
    """Return whether of rows, merged together, none waits for itself."""
    graph = _Graph(workload)
    return all(graph.merges(row[0], name) for row in rows for name in row[1:])


def wrong_merges(plan: TrainingPlan) -> Iterator[str]:
    """Yield violations in the merged collectives of a plan."""
    rows = merged_rows(plan.workload)
    if plan.asked is None:
        if rows:
            yield (
                f"{rows[0][0]!r:.60} and others are merged, and the workload that has them "
                "separately is missing"
            )
        return
    offered = set(offered_rows(plan.asked, plan.merge_bytes))
    for row in rows:
        if row not in offered:
            yield (
                f"{', '.join(map(repr, row)):.80} are one, which is none of the {len(offered)} "
                f"rows that may be, of {plan.merge_bytes} bytes at the most"
            )
            return
    if not may_be_merged(plan.asked, rows):
        yield "collectives that were merged wait for one another"
        return
    try:
        if with_merged(plan.asked, rows) != plan.workload:
            yield (
                "the executed workload differs from the requested one: some collectives are merged"
            )
    except InputError as error:
        yield str(error)


class _Graph:
    """The dependencies within an iteration, with some nodes contracted."""

    def __init__(self, workload: Workload) -> None:
        self._after: dict[str, set[str]] = defaultdict(set)
        self._before: dict[str, set[str]] = defaultdict(set)
        for wait in waits_of(workload):
            if not wait.lag:
                self._after[wait.before].add(wait.after)
                self._before[wait.after].add(wait.before)

    def merges(self, one: str, other: str) -> bool:
        """Contract an operation into another one, if neither waits for the other.

        Returns:
            Whether it was done.
        """
        if self._leads(one, other) or self._leads(other, one):
            return False
        for mine, back in ((self._after, self._before), (self._before, self._after)):
            for name in mine.pop(other, set()):
                back[name].discard(other)
                back[name].add(one)
                mine[one].add(name)
        return True

    def _leads(self, one: str, other: str) -> bool:
        seen, left = {one}, [one]
        while left:
            for name in self._after.get(left.pop(), ()):
                if name == other:
                    return True
                if name not in seen:
                    seen.add(name)
                    left.append(name)
        return False
