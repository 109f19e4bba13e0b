"""Merge collectives into one, which saves launches but delays the start.

Frameworks call this bucketing. One collective replaces several equal ones. It begins when the last
of their inputs is ready, and ends for all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sccl.errors import ParameterError
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import (
    MAX_NAME_LENGTH,
    AnyOp,
    CommOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
)

_MAX_IDS_SHOWN = 3
"""Maximum number of ids that the id of a merged collective lists completely."""

IdRows = Sequence[Sequence[str]]
"""Rows of ids of collectives. Those of a row are merged."""


def merge_collectives(workload: Workload, rows: IdRows) -> Workload:
    """Return a workload with merged collectives, each at the position of its last part.

    Raises:
        ParameterError: A row has fewer than two ids, an id is in two rows or does not exist, the
            collectives of a row differ, or the result would wait for itself.
    """
    calls = {op.id: op for op in workload.collectives()}
    into: dict[str, CommOp] = {}
    for row in rows:
        for name in row:
            if name not in calls or name in into or calls[name].merged:
                raise ParameterError(
                    f"{name!r:.60} is to be merged, expected a collective of the workload, in one "
                    "row alone"
                )
        merged = _merge_row([calls[name] for name in row])
        into |= dict.fromkeys(row, merged)
    return _rewrite_workload(workload, into) if into else workload


def merged_id_rows(workload: Workload) -> tuple[tuple[str, ...], ...]:
    """Return the ids of the parts of each merged collective of a workload."""
    return tuple(tuple(part.id for part in op.merged) for op in workload.collectives() if op.merged)


def _merge_row(row: Sequence[CommOp]) -> CommOp:
    """Return the merged collective of several collectives."""
    names = [op.id for op in row]
    if len(set(names)) < max(2, len(names)):
        raise ParameterError(f"merged are {names!s:.60}, expected two or more different ones")
    if len(names) > _MAX_IDS_SHOWN or len("+".join(names)) > MAX_NAME_LENGTH:
        half = MAX_NAME_LENGTH // 3
        names = [names[0][:half], f"{len(names) - 2} more", names[-1][:half]]
    splits: tuple[tuple[int, ...], ...] = ()
    if any(op.splits for op in row):
        tables = [op.splits or _even_splits(op) for op in row]
        splits = tuple(
            tuple(map(sum, zip(*rows, strict=True))) for rows in zip(*tables, strict=True)
        )
    count = max(map(sum, splits)) if splits else sum(op.count for op in row)
    held = sum(op.holds_bytes for op in row)
    return replace(
        row[0],
        id="+".join(names),
        count=count,
        splits=splits,
        holds_bytes=held,
        merged=tuple(row),
    )


def _even_splits(op: CommOp) -> tuple[tuple[int, ...], ...]:
    ranks = len(op.group)
    return ((op.count // ranks,) * ranks,) * ranks


def _rewrite_workload(workload: Workload, into: Mapping[str, CommOp]) -> Workload:
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
    submits = tuple(_rewrite_program(program, name_of) for program in workload.submits)
    return replace(workload, ops=tuple(ops), deps=tuple(deps), submits=submits)


def _rewrite_program(program: HostProgram, name_of: Mapping[str, str]) -> HostProgram:
    """Return a program that submits a merged collective at the position of its last part."""
    renamed = [replace(event, op=name_of[event.op]) for event in program.events]
    last = {event.op: place for place, event in enumerate(renamed) if _is_submit(event)}
    events: Iterable[HostEvent] = (
        event
        for place, event in enumerate(renamed)
        if not _is_submit(event) or last[event.op] == place
    )
    return replace(program, events=tuple(dict.fromkeys(events)))


def _is_submit(event: HostEvent) -> bool:
    return event.action is HostAction.SUBMIT
