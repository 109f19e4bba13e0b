"""Schedules as text."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from sccl.core.cost import format_bytes, format_us
from sccl.core.formatting import format_count
from sccl.core.packed_schedule import link_usage, transfer_rows
from sccl.judge import violations

if TYPE_CHECKING:
    from sccl.core.packed_schedule import AnySchedule
    from sccl.core.topology import Topology

MAX_ROWS = 40
"""Limit for a readable table. ``sccl export --format csv`` writes all transfers."""


def print_schedule(console: Console, plan: AnySchedule, *, intact: bool) -> None:
    """Print the first transfers of a schedule, and the load of its busiest links.

    Args:
        intact: whether its file is unchanged since sccl wrote it.
    """
    name = f"{plan.collective.name} on {plan.topology.name}".replace("\n", "\\n")
    console.print(
        f"{name}: C={plan.collective.chunks} {cost_text(plan)}", style="bold", markup=False
    )
    if wrong := len(violations(plan)):
        console.print(
            f"[red]it fails verification: {format_count(wrong, 'violation')}[/], see 'sccl check'"
        )
    elif not intact:
        console.print("edited since sccl wrote it (its digest does not match)")
    console.print(_transfers_table(plan))
    if plan.num_sends > MAX_ROWS:
        console.print(
            f"these are the first {MAX_ROWS}; 'sccl export FILE --format csv -o FILE.csv' has all"
        )
    console.print(_links_table(plan))


def cost_text(plan: AnySchedule) -> str:
    """Return the size of a schedule's chunks, its transfers, its finish and its model of alpha."""
    sizes = plan.clock.sizes
    size = " to ".join(map(format_bytes, sorted({sizes[0], sizes[-1]})))
    finish = format_us(plan.clock.us(plan.finish))
    return f"of {size}, {format_count(plan.num_sends, 'transfer')}, {finish} (alpha {plan.model})"


def _transfers_table(plan: AnySchedule) -> Table:
    table = Table()
    for name in ("Start us", "End us", "Arrives us", "Chunk", "From", "To"):
        table.add_column(name, justify="right")
    table.add_column("What")
    for *times, chunk, src, dst, reduces in islice(transfer_rows(plan, MAX_ROWS), MAX_ROWS):
        ends = (_node_text(plan.topology, node) for node in (src, dst))
        action = "reduces" if reduces else "copies"
        table.add_row(*(f"{t:.6g}" for t in times), str(chunk), *ends, action)
    return table


def _links_table(plan: AnySchedule) -> Table:
    finish = plan.clock.us(plan.finish) or 1.0
    busiest = sorted(link_usage(plan), key=lambda row: (-row[2], row[1]))
    table = Table("Link", title="Busiest links")
    for name in ("Transfers", "Busy us", "Share of the time"):
        table.add_column(name, justify="right")
    for count, link, busy in busiest[:10]:
        ends = (_node_text(plan.topology, node) for node in plan.topology.links[link].edge)
        table.add_row("->".join(ends), str(count), f"{busy:.6g}", f"{busy / finish:.1%}")
    return table


def _node_text(topology: Topology, node: int) -> str:
    """Return the number of a rank, or the name of a switch."""
    return str(node) if node < topology.ranks else f"switch {node - topology.ranks}"
