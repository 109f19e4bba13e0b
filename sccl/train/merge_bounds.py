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

from sccl.core.merges import with_merged
from sccl.core.training_plan import Option, OptionMotif
from sccl.core.workload import Workload
from sccl.core.workload_ops import CommOp
from sccl.errors import InputError
from sccl.train.jobs import Job
from sccl.train.merging import Row, offered_rows
from sccl.train.options import OptionBook


def as_merged(workload: Workload, row: Row) -> CommOp:
    """Return the collective that stands for those of a row."""
    return next(op for op in with_merged(workload, (row,)).collectives() if op.merged)


def offerable(workload: Workload, most_bytes: int, book: OptionBook) -> list[Row]:
    """Return the rows that may be merged and for which there is an option as one.

    Args:
        most_bytes: of a row. 0: none are merged.
    """
    found = []
    for row in offered_rows(workload, most_bytes):
        try:
            book.options([as_merged(workload, row)])
        except InputError:  # such as too many cells, or none that keeps the order
            continue
        found.append(row)
    return found


def loosened(workload: Workload, rows: Sequence[Row], book: OptionBook) -> Job:
    """Return a job of which every plan with merged collectives is one.

    Args:
        rows: which may be merged, any of them that have none in common.

    Raises:
        InputError: a collective has no option.
    """
    merged = [as_merged(workload, row) for row in rows]
    options = book.options([*workload.collectives(), *merged]).of
    found = {op.id: dict.fromkeys(options[op.id]) for op in workload.collectives()}
    for one in merged:
        whole = sum(part.count for part in one.merged)
        for part in one.merged:
            weight = Fraction(part.count, whole) if whole else Fraction(1, len(one.merged))
            found[part.id] |= dict.fromkeys(map(partial(_share, weight), options[one.id]))
    rows_of: dict[tuple[Option, ...], tuple[Option, ...]] = {}  # those that are alike share one row
    alike = {name: rows_of.setdefault(tuple(own), tuple(own)) for name, own in found.items()}
    return Job(workload, alike)


def _share(weight: Fraction, option: Option) -> Option:
    """Return an option with a fraction of its loads."""
    return replace(option, motifs=tuple(map(partial(_lighter, weight), option.motifs)))


def _lighter(weight: Fraction, motif: OptionMotif) -> OptionMotif:
    loads = ((name, int(load * weight)) for name, load in motif.loads)
    return replace(motif, loads=tuple((name, load) for name, load in loads if load))
