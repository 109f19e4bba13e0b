"""Bound the period of plans in which some collectives may be merged.

A merged collective is launched once, so the bound for separate collectives does not cover it. The
relaxation gives each collective additional options: its share of every option of a merged
collective. This share has all motifs of the option with their durations, and loads in proportion to
the collective's bytes, rounded down.

A plan with merged collectives is then also a plan of the separate ones. All parts start and end
with the motifs of the merged collective, and their loads add up to at most its loads. A merged
collective has the predecessors and successors of all its parts. So a lower bound with these options
also covers plans with merged collectives. Memory limits are left out, because merging changes the
order in which results are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from sccl.errors import InputError
from sccl.training.options.merge_candidates import MergeGroup, list_merge_groups
from sccl.training.options.option_catalog import OptionCatalog
from sccl.training.scheduling.workload_problem import PlanningJob
from sccl.training.types.merges import merge_collectives
from sccl.training.types.training_plan import Option, OptionMotif
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import CommOp


def merge_ops(workload: Workload, row: MergeGroup) -> CommOp:
    """Return the collective into which a group is merged."""
    return next(op for op in merge_collectives(workload, (row,)).collectives() if op.merged)


def groups_with_options(
    workload: Workload, most_bytes: int, book: OptionCatalog
) -> list[MergeGroup]:
    """Return the groups that may be merged and whose merged collective has an option.

    Args:
        most_bytes: Largest size of a merged collective. 0: no merging.
    """
    rows = []
    for row in list_merge_groups(workload, most_bytes):
        try:
            book.job_options([merge_ops(workload, row)])
        except InputError:  # for example too many cells, or no option keeps the order of reduction
            continue
        rows.append(row)
    return rows


def relax_merges(
    workload: Workload, rows: Sequence[MergeGroup], book: OptionCatalog
) -> PlanningJob:
    """Return a job whose plans include all plans with merged collectives.

    Args:
        rows: Groups that may be merged. A plan may merge any disjoint groups.

    Raises:
        InputError: A collective has no option.
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
    rows_of: dict[tuple[Option, ...], tuple[Option, ...]] = {}  # equal collectives share one tuple
    alike = {
        name: rows_of.setdefault(tuple(choice), tuple(choice)) for name, choice in choices.items()
    }
    return PlanningJob(workload, alike)


def _scale_option(weight: Fraction, option: Option) -> Option:
    return replace(option, motifs=tuple(map(partial(_scale_motif, weight), option.motifs)))


def _scale_motif(weight: Fraction, motif: OptionMotif) -> OptionMotif:
    loads = ((name, int(load * weight)) for name, load in motif.loads)
    return replace(motif, loads=tuple((name, load) for name, load in loads if load))
