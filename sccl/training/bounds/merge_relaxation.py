"""Bound the period of plans in which some collectives may be merged.

The bound for separate collectives does not cover merged ones, which are launched once. So each
collective is offered, in addition to its own options, its share of every option of a merged one:
all the motifs of that option with their lengths, with loads in proportion to its bytes, rounded
down. A plan with merged collectives is then a plan of the separate ones: all parts start and end
with the motifs of the merged one, and their loads add up to at most its loads. It depends on
everything that any part depends on, and vice versa. So a lower bound with these options also covers
plans with merged collectives. Memory limits are left out, because merging changes the order in
which results are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from sccl.core.merges import merge_collectives
from sccl.core.training_plan import Option, OptionMotif
from sccl.core.workload import Workload
from sccl.core.workload_ops import CommOp
from sccl.errors import InputError
from sccl.training.options.merge_candidates import MergeGroup, list_merge_groups
from sccl.training.options.option_catalog import OptionCatalog
from sccl.training.scheduling.workload_problem import PlanningJob


def merge_ops(workload: Workload, row: MergeGroup) -> CommOp:
    """Return the collective that stands for those of a row."""
    return next(op for op in merge_collectives(workload, (row,)).collectives() if op.merged)


def groups_with_options(
    workload: Workload, most_bytes: int, book: OptionCatalog
) -> list[MergeGroup]:
    """Return the rows that may be merged and for which there is an option as one.

    Args:
        most_bytes: of a row. 0: none are merged.
    """
    rows = []
    for row in list_merge_groups(workload, most_bytes):
        try:
            book.job_options([merge_ops(workload, row)])
        except InputError:  # such as too many cells, or none that keeps the order
            continue
        rows.append(row)
    return rows


def relax_merges(
    workload: Workload, rows: Sequence[MergeGroup], book: OptionCatalog
) -> PlanningJob:
    """Return a job of which every plan with merged collectives is one.

    Args:
        rows: which may be merged, any of them that have none in common.

    Raises:
        InputError: a collective has no option.
    """
    merged = [merge_ops(workload, row) for row in rows]
    options = book.job_options([*workload.collectives(), *merged]).by_collective
    choices = {op.id: dict.fromkeys(options[op.id]) for op in workload.collectives()}
    for merged_op in merged:
        total = sum(part.count for part in merged_op.merged)
        for part in merged_op.merged:
            weight = Fraction(part.count, total) if total else Fraction(1, len(merged_op.merged))
            choices[part.id] |= dict.fromkeys(
                map(partial(_scale_option, weight), options[merged_op.id])
            )
    rows_of: dict[tuple[Option, ...], tuple[Option, ...]] = {}  # those that are alike share one row
    alike = {
        name: rows_of.setdefault(tuple(choice), tuple(choice)) for name, choice in choices.items()
    }
    return PlanningJob(workload, alike)


def _scale_option(weight: Fraction, option: Option) -> Option:
    return replace(option, motifs=tuple(map(partial(_scale_motif, weight), option.motifs)))


def _scale_motif(weight: Fraction, motif: OptionMotif) -> OptionMotif:
    loads = ((name, int(load * weight)) for name, load in motif.loads)
    return replace(motif, loads=tuple((name, load) for name, load in loads if load))
