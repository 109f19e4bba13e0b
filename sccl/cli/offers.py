"""Options that a fabric offers for a workload, in tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from sccl.cli.report import on_a_line
from sccl.core.cost import bytes_text, duration_text
from sccl.core.training_plan import WHOLE_LOAD
from sccl.core.words import counted
from sccl.tasks.offering import OfferedKind, offered_kinds

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.core.training_plan import OfferedOptions, Option

_SHOWN = 3
"""Names, or kinds of links, in a line: JSON has all."""


def print_offered(console: Console, offered: OfferedOptions) -> None:
    """Print a table for equal collectives: their options, and the rejected ones."""
    title = f"{offered.workload.name} on {offered.fabric.name}: options of collectives"
    console.print(on_a_line(title), markup=False, soft_wrap=True)
    if offered.costs:
        console.print("not verified: times come from a table of costs", markup=False)
    for kind in offered_kinds(offered):
        console.print(_table(kind))
        for one in kind.refused:
            line = f"refused: {one.recipe}: {one.why}"
            console.print(on_a_line(line), markup=False, soft_wrap=True)


def _table(kind: OfferedKind) -> Table:
    names = ", ".join(kind.names[:_SHOWN]) + (", ..." if len(kind.names) > _SHOWN else "")
    title = (
        f"{kind.collective} of {bytes_text(kind.bytes)} among {kind.group_ranks} ranks: "
        f"{counted(len(kind.names), 'operation')} ({names})"
    )
    table = Table("Recipe", title=escape(on_a_line(title)), title_justify="left")
    for name in ("motifs", "alone"):
        table.add_column(name, justify="right")
    for name in ("carried by", "takes of links meanwhile", "order of sums"):
        table.add_column(name)
    for option in kind.options:
        channels = ", ".join(dict.fromkeys(motif.channel for motif in option.motifs))
        carriers = ", ".join(dict.fromkeys(motif.carrier for motif in option.motifs))
        table.add_row(
            escape(on_a_line(option.recipe)),
            *(str(len(option.motifs)), duration_text(option.alone_ns / 1000)),
            escape(on_a_line(f"{channels}: {carriers}")),
            escape(on_a_line(_taken(option))),
            "as it is" if option.bitwise else "another",
        )
    return table


def _taken(option: Option) -> str:
    """Return the average load of links by an option while it runs, in descending order."""
    whole = WHOLE_LOAD * max(1, option.alone_ns)
    rows = sorted(option.work.items(), key=lambda row: (-row[1], row[0]))
    told = [f"{work / whole:.0%} of {name}" for name, work in rows[:_SHOWN]]
    return ", ".join(told) + (", ..." if len(rows) > _SHOWN else "")
