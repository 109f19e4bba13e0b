"""Find groups of collectives that may be merged, and verify those of a plan.

Collectives may be merged if they have the same kind, groups, data type, root, and reduction, and if
none depends on another, directly, through other operations, or through a host program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from sccl.errors import InputError, ParameterError
from sccl.training.scheduling.workload_problem import workload_waits
from sccl.training.types.merges import merge_collectives, merged_id_rows
from sccl.training.types.training_plan import TrainingPlan
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import CommOp

_MIN_BYTES = 2**16
"""Smallest size limit in bytes for which groups are formed."""

_SIZE_FACTOR = 4
"""Factor between successive size limits."""

MergeGroup = tuple[str, ...]
"""Ids of collectives that may be merged into one, in their order."""


def merge_buckets(workload: Workload, most_bytes: int) -> list[MergeGroup]:
    """Return groups of consecutive mergeable collectives, filled greedily up to a size limit.

    Args:
        most_bytes: Largest size of a group: bytes of a rank's largest buffer.

    Raises:
        ParameterError: The limit is less than 1.
    """
    if most_bytes < 1:
        raise ParameterError(f"merge is {most_bytes} bytes, expected 1 or more")
    graph = _ContractedGraph(workload)
    open_: dict[tuple[object, ...], list[CommOp]] = {}
    rows: list[list[CommOp]] = []
    for op in workload.collectives():
        row = open_.get(op.merge_key)
        if (
            row is not None
            and sum(member.size_bytes for member in row) + op.size_bytes <= most_bytes
            and graph.try_contract(row[0].id, op.id)
        ):
            row.append(op)
            continue
        open_[op.merge_key] = [op]
        rows.append(open_[op.merge_key])
    return [tuple(op.id for op in row) for row in rows if len(row) > 1]


def list_merge_candidates(
    workload: Workload, most_bytes: int
) -> tuple[tuple[MergeGroup, ...], ...]:
    """Return the groups for a size limit, a quarter of it, and so on, without repetitions.

    Each group is a separate candidate, so a plan may combine groups of different limits.
    """
    candidates: list[tuple[MergeGroup, ...]] = []
    size = most_bytes
    while not candidates or (size >= _MIN_BYTES and candidates[-1]):
        rows = tuple(merge_buckets(workload, size))
        if not candidates or rows != candidates[-1]:
            candidates.append(rows)
        size //= _SIZE_FACTOR
    return tuple(rows for rows in candidates if rows)


def list_merge_groups(workload: Workload, most_bytes: int) -> tuple[MergeGroup, ...]:
    """Return all groups of :func:`list_merge_candidates`, each once. Empty: no merging."""
    if not most_bytes:
        return ()
    candidates = list_merge_candidates(workload, most_bytes)
    return tuple(dict.fromkeys(row for rows in candidates for row in rows))


def can_merge(workload: Workload, rows: Iterable[Sequence[str]]) -> bool:
    """Return whether groups can be merged together without a dependency cycle."""
    graph = _ContractedGraph(workload)
    return all(graph.try_contract(row[0], name) for row in rows for name in row[1:])


def find_merge_faults(plan: TrainingPlan) -> Iterator[str]:
    """Yield violations in the merged collectives of a plan."""
    rows = merged_id_rows(plan.workload)
    if plan.unmerged_workload is None:
        if rows:
            yield (
                f"{rows[0][0]!r:.60} and others are merged, and the workload that has them "
                "separately is missing"
            )
        return
    offered = set(list_merge_groups(plan.unmerged_workload, plan.merge_bytes))
    for row in rows:
        if row not in offered:
            yield (
                f"{', '.join(map(repr, row)):.80} are one, which is none of the {len(offered)} "
                f"rows that may be, of {plan.merge_bytes} bytes at the most"
            )
            return
    if not can_merge(plan.unmerged_workload, rows):
        yield "collectives that were merged wait for one another"
        return
    try:
        if merge_collectives(plan.unmerged_workload, rows) != plan.workload:
            yield (
                "the executed workload differs from the requested one: some collectives are merged"
            )
    except InputError as error:
        yield str(error)


class _ContractedGraph:
    """The dependencies within an iteration, with some nodes contracted."""

    def __init__(self, workload: Workload) -> None:
        self._after: dict[str, set[str]] = defaultdict(set)
        self._before: dict[str, set[str]] = defaultdict(set)
        for wait in workload_waits(workload):
            if not wait.lag:
                self._after[wait.before].add(wait.after)
                self._before[wait.after].add(wait.before)

    def try_contract(self, kept_op: str, merged_op: str) -> bool:
        """Contract an operation into another one, if neither waits for the other.

        Returns:
            Whether the operation was contracted.
        """
        if self._is_reachable(kept_op, merged_op) or self._is_reachable(merged_op, kept_op):
            return False
        for mine, back in ((self._after, self._before), (self._before, self._after)):
            for name in mine.pop(merged_op, set()):
                back[name].discard(merged_op)
                back[name].add(kept_op)
                mine[kept_op].add(name)
        return True

    def _is_reachable(self, source: str, target: str) -> bool:
        seen, left = {source}, [source]
        while left:
            for name in self._after.get(left.pop(), ()):
                if name == target:
                    return True
                if name not in seen:
                    seen.add(name)
                    left.append(name)
        return False
