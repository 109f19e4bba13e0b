"""Print the options of collectives of a training step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from sccl.core.cost import format_bytes, format_duration
from sccl.core.formatting import format_count, single_line
from sccl.core.training_plan import FULL_LOAD
from sccl.training.offered_options import OptionGroup, group_options

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.core.training_plan import OfferedOptions, Option


_MAX_OPTION_NAMES = 3
"""Names, or kinds of links, in a line: JSON has all."""


def print_training_options(console: Console, offered: OfferedOptions) -> None:
    """Print a table for equal collectives: their options, and the rejected ones."""
    title = f"{offered.workload.name} on {offered.fabric.name}: options of collectives"
    console.print(single_line(title), markup=False, soft_wrap=True)
    if offered.costs:
        console.print("not verified: times come from a table of costs", markup=False)
    for kind in group_options(offered):
        console.print(_options_table(kind))
        for refusal in kind.refused:
            line = f"refused: {refusal.recipe}: {refusal.why}"
            console.print(single_line(line), markup=False, soft_wrap=True)


def _options_table(kind: OptionGroup) -> Table:
    names = ", ".join(kind.names[:_MAX_OPTION_NAMES]) + (", ..." if len(kind.names) > _MAX_OPTION_NAMES else "")
    title = (
        f"{kind.collective} of {format_bytes(kind.bytes)} among {kind.group_ranks} ranks: "
        f"{format_count(len(kind.names), 'operation')} ({names})"
    )
    table = Table("Recipe", title=escape(single_line(title)), title_justify="left")
    for name in ("motifs", "alone"):
        table.add_column(name, justify="right")
    for name in ("carried by", "takes of links meanwhile", "order of sums"):
        table.add_column(name)
    for option in kind.options:
        channels = ", ".join(dict.fromkeys(motif.channel for motif in option.motifs))
        carriers = ", ".join(dict.fromkeys(motif.carrier for motif in option.motifs))
        table.add_row(
            escape(single_line(option.recipe)),
            *(str(len(option.motifs)), format_duration(option.isolated_ns / 1000)),
            escape(single_line(f"{channels}: {carriers}")),
            escape(single_line(_load_text(option))),
            "as it is" if option.bitwise else "another",
        )
    return table


def _load_text(option: Option) -> str:
    """Return the average load of links by an option while it runs, in descending order."""
    total = FULL_LOAD * max(1, option.isolated_ns)
    rows = sorted(option.work.items(), key=lambda row: (-row[1], row[0]))
    texts = [f"{work / total:.0%} of {name}" for name, work in rows[:_MAX_OPTION_NAMES]]
    return ", ".join(texts) + (", ..." if len(rows) > _MAX_OPTION_NAMES else "")
