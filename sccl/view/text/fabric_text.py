"""Print fabrics."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from sccl.core.fabric import Channel, Fabric, SharedBudget
from sccl.core.formatting import format_count, single_line
from sccl.core.topology import link_name

_MAX_BUDGET_LINKS = 8


def channels_table(loaded_fabric: Fabric) -> Table:
    """Return the channels of a fabric as a table."""
    title = escape(
        f"{single_line(loaded_fabric.name)}: {format_count(loaded_fabric.ranks, 'rank')}"
    )
    table = Table("Channel", "Links", "us", "GB/s", title=title, title_justify="left")
    for column in ("Streams", "Launch, us", "Slows computing by"):
        table.add_column(column)
    for c in loaded_fabric.channels:
        slower = f"{c.slowdown:.1%}" if c.slowdown else "-"
        row = (str(c.streams), f"{c.launch_us:g}", slower)
        table.add_row(escape(single_line(c.name)), *_link_cells(c), *row)
    return table


def _link_cells(channel: Channel) -> tuple[str, str, str]:
    """Return how many links there are, and the range of their latencies and bandwidths."""
    links = channel.topology.links
    ranges = [
        sorted({link.alpha_us for link in links}),
        sorted({link.lanes * link.gb_per_s for link in links}),
    ]
    spans = [f"{r[0]:g}" if len(r) == 1 else f"{r[0]:g} to {r[-1]:g}" for r in ranges]
    return str(len(links)), spans[0], spans[1]


def budget_text(budget: SharedBudget) -> str:
    """Return a budget that channels share as text."""
    links = ", ".join(f"{name} {link_name(edge)}" for name, edge in budget.links[:_MAX_BUDGET_LINKS])
    more = ", .." if len(budget.links) > _MAX_BUDGET_LINKS else ""
    return single_line(f"{budget.name}: {budget.gb_per_s:g} GB/s for {links}{more}")
