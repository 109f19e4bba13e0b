"""Collectives merged into one where that is allowed: fewer launches, and one that is released late.

It is what frameworks call buckets. One collective stands for several of the same kind that follow
one another: it begins when the last of their inputs is there, and ends for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from sccl.core.workload import Workload
from sccl.core.workload_ops import (
    AnyOp,
    CommOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
)
from sccl.errors import ParameterError
from sccl.train.jobs import waits_of

SIZES = tuple(2**k for k in range(20, 31, 2))
"""Bytes up to which collectives are merged, of candidates: 1 MiB to 1 GiB."""

_NAMED = 3
"""Ids that the id of one that was merged has whole."""


def merge_candidates(workload: Workload) -> Iterator[tuple[int, Workload]]:
    """Yield the workload merged up to each of :data:`SIZES`, those that differ."""
    last = workload
    for size in SIZES:
        found = merged(workload, size)
        if found != last:
            yield size, found
            last = found


def merged(workload: Workload, most_bytes: int) -> Workload:
    """Return a workload in which collectives that follow one another are one.

    Those are merged that have collective, groups, type, root and reduction in common, and of which
    none waits for another one, be it by what others do, or by the program of a host.

    Args:
        most_bytes: of what is merged, of the largest buffer of a rank.

    Raises:
        ParameterError: that is not a size.
    """
    if most_bytes < 1:
        raise ParameterError(f"merge is {most_bytes} bytes, expected 1 or more")
    graph = _Graph(workload)
    open_: dict[tuple[object, ...], list[CommOp]] = {}
    rows: list[list[CommOp]] = []
    for op in workload.collectives():
        key = (op.collective, op.groups, op.dtype, op.root, op.reduce)
        row = open_.get(key)
        if (
            row is not None
            and sum(one.size_bytes for one in row) + op.size_bytes <= most_bytes
            and graph.merges(row[0].id, op.id)
        ):
            row.append(op)
            continue
        open_[key] = [op]
        rows.append(open_[key])
    into = {op.id: _as_one(row) for row in rows if len(row) > 1 for op in row}
    return _rewritten(workload, into) if into else workload


class _Graph:
    """What waits for what within an iteration, some of it contracted into one."""

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


def _as_one(row: list[CommOp]) -> CommOp:
    """Return one collective in place of several."""
    names = [op.id for op in row]
    if len(names) > _NAMED:
        names[1:-1] = [f"{len(names) - 2} more"]
    splits: tuple[tuple[int, ...], ...] = ()
    if any(op.splits for op in row):
        tables = [op.splits or _even(op) for op in row]
        splits = tuple(
            tuple(map(sum, zip(*rows, strict=True))) for rows in zip(*tables, strict=True)
        )
    count = max(map(sum, splits)) if splits else sum(op.count for op in row)
    held = sum(op.holds_bytes for op in row)
    return replace(row[0], id="+".join(names), count=count, splits=splits, holds_bytes=held)


def _even(op: CommOp) -> tuple[tuple[int, ...], ...]:
    ranks = len(op.group)
    return ((op.count // ranks,) * ranks,) * ranks


def _rewritten(workload: Workload, into: Mapping[str, CommOp]) -> Workload:
    """Return a workload with some of its collectives as others, each in the place of its last."""
    last = {into[name].id: name for name in (op.id for op in workload.ops) if name in into}
    name_of = {op.id: into[op.id].id if op.id in into else op.id for op in workload.ops}
    ops: list[AnyOp] = []
    for op in workload.ops:
        if op.id not in into:
            ops.append(op)
        elif last[into[op.id].id] == op.id:
            ops.append(into[op.id])
    deps = dict.fromkeys(
        Dependency(name_of[dep.before], name_of[dep.after], dep.lag) for dep in workload.deps
    )
    submits = tuple(_program(program, name_of) for program in workload.submits)
    return replace(workload, ops=tuple(ops), deps=tuple(deps), submits=submits)


def _program(program: HostProgram, name_of: Mapping[str, str]) -> HostProgram:
    """Return a program that submits what was merged where it submitted the last of it."""
    renamed = [replace(event, op=name_of[event.op]) for event in program.events]
    last = {
        event.op: place for place, event in enumerate(renamed) if event.action is HostAction.SUBMIT
    }
    events: dict[HostEvent, None] = {}
    for place, event in enumerate(renamed):
        if event.action is HostAction.WAIT or last[event.op] == place:
            events.setdefault(event)
    return replace(program, events=tuple(events))
