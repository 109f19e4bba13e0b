"""Print workloads in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from sccl.core.cost import format_bytes, format_us
from sccl.core.formatting import format_count, single_line

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.training.workload_outputs import WorkloadPart


MAX_SHOWN = 16
"""Lines of each kind that are printed at most: --json has all."""


def print_workload(console: Console, part: WorkloadPart) -> None:
    """Print a workload in numbers."""
    traced = "" if part.iteration_us is None else f", {format_us(part.iteration_us)} per iteration"
    if part.left_out_us:
        traced += f", {format_us(part.left_out_us)} of which devices were idle and is left out"
    of = f" ({part.source})" if part.source else ""
    line = f"{part.name}: {format_count(part.ranks, 'rank')}{traced}{of}"
    console.print(single_line(line), markup=False, soft_wrap=True)
    console.print(_collectives_table(part))
    if part.computation:
        console.print(_computation_table(part))
    for role in part.roles[:MAX_SHOWN]:
        activity = f"{role.submits} submits, {role.waits} waits"
        if role.waits_across:
            activity += f", {role.waits_across} of them for the iteration before"
        line = f"role {role.name}: {format_count(role.ranks, 'rank')}, {activity}"
        if not role.submits and not role.waits:
            line = f"role {role.name}: {format_count(role.ranks, 'rank')}, calls unknown"
        console.print(single_line(line), markup=False, soft_wrap=True)
    console.print(f"{part.dependencies} dependencies, {len(part.across)} across iterations")
    for dep in part.across[:MAX_SHOWN]:
        line = (
            f"  {dep.after} waits for {dep.before} of {format_count(dep.lag, 'iteration')} before"
        )
        console.print(single_line(line), markup=False, soft_wrap=True)
    if max(len(part.across), len(part.roles)) > MAX_SHOWN:
        console.print("and more (--json has all)")


def _collectives_table(part: WorkloadPart) -> Table:
    table = Table("Collective", title="Collectives", title_justify="left")
    for name in ("operations", "ranks", "groups", "bytes of all", "least", "most", "uneven"):
        table.add_column(name, justify="right")
    for collective in part.collectives:
        counts = collective.operations, collective.group_ranks, collective.groups
        sizes = map(format_bytes, (collective.bytes, collective.least_bytes, collective.most_bytes))
        table.add_row(
            collective.collective, *map(str, counts), *sizes, str(collective.uneven or "")
        )
    return table


def _computation_table(part: WorkloadPart) -> Table:
    table = Table("Role", "Stream", title="Computation", title_justify="left")
    for name in ("operations", "time"):
        table.add_column(name, justify="right")
    for row in part.computation[:MAX_SHOWN]:
        names = escape(single_line(row.role)), escape(single_line(row.stream))
        table.add_row(*names, str(row.operations), format_us(row.us))
    if len(part.computation) > MAX_SHOWN:
        table.add_row("...", f"{len(part.computation) - MAX_SHOWN} more (--json has all)", "", "")
    return table
