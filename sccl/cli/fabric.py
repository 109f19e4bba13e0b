"""``sccl fabric``: the channels of training jobs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import complete, options
from sccl.cli.report import on_a_line, out, print_file, print_output, reported
from sccl.core.fabric import Channel, Fabric, SharedBudget
from sccl.core.files.fabrics import fabric_to_wire
from sccl.core.files.text import text_of
from sccl.core.topology import link_name
from sccl.core.words import counted
from sccl.tasks.fabric import check_output, list_output
from sccl.topo import FABRICS, fabric_of

fabric = typer.Typer(
    name="fabric",
    no_args_is_help=True,
    add_completion=False,
    help="List, show and check fabrics: the channels over which the ranks of a job move data.",
)

_MOST = 8
"""Shared budgets that are shown."""


@fabric.command("list", epilog="Example: sccl fabric list")
@reported
def list_fabrics(json: options.Json = False) -> None:
    """List the fabrics of the catalogue."""
    if json:
        print_output(list_output())
        return
    table = Table("Name", "Ranks", "Channels", "Source", title="Fabrics", title_justify="left")
    for name in FABRICS:
        one = fabric_of(name)
        channels = ", ".join(channel.name for channel in one.channels)
        table.add_row(name, str(one.ranks), channels, one.source.split(": ")[0])
    console = out()
    console.print(table)
    console.print("hgx2xN has N nodes; 'sccl schema fabric' describes custom files.")


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A name of 'sccl fabric list' or a .json file.",
        autocompletion=complete.file,
    ),
]


@fabric.command(epilog="Example: sccl fabric show hgx2x4")
@reported
def show(name: Name, json: options.Json = False) -> None:
    """Show the channels of a fabric, and their shared budgets. With --json, as a file."""
    one = fabric_of(name)
    if json:
        print_file(text_of(fabric_to_wire(one)))
        return
    console = out()
    console.print(_channels(one))
    for budget in one.shared[:_MOST]:
        console.print(_shared(budget), markup=False, soft_wrap=True)
    if (more := len(one.shared) - _MOST) > 0:
        console.print(f"and {counted(more, 'shared budget')} more")
    if one.source:
        console.print(one.source, markup=False)


def _channels(one: Fabric) -> Table:
    title = escape(f"{on_a_line(one.name)}: {counted(one.ranks, 'rank')}")
    table = Table("Channel", "Links", "us", "GB/s", title=title, title_justify="left")
    for column in ("Streams", "Launch, us", "Slows computing by"):
        table.add_column(column)
    for c in one.channels:
        slower = f"{c.slowdown:.1%}" if c.slowdown else "-"
        row = (str(c.streams), f"{c.launch_us:g}", slower)
        table.add_row(escape(on_a_line(c.name)), *_links(c), *row)
    return table


def _links(channel: Channel) -> tuple[str, str, str]:
    """Return how many links there are, and the range of their latencies and bandwidths."""
    links = channel.topology.links
    ranges = [
        sorted({link.alpha_us for link in links}),
        sorted({link.lanes * link.gb_per_s for link in links}),
    ]
    spans = [f"{r[0]:g}" if len(r) == 1 else f"{r[0]:g} to {r[-1]:g}" for r in ranges]
    return str(len(links)), spans[0], spans[1]


def _shared(budget: SharedBudget) -> str:
    links = ", ".join(f"{name} {link_name(edge)}" for name, edge in budget.links[:_MOST])
    more = ", .." if len(budget.links) > _MOST else ""
    return on_a_line(f"{budget.name}: {budget.gb_per_s:g} GB/s for {links}{more}")


@fabric.command(epilog="Example: sccl fabric check my-fabric.json")
@reported
def check(name: Name, json: options.Json = False) -> None:
    """Check that a file is a fabric: the same ranks everywhere, and links that there are."""
    one = fabric_of(name)
    if json:
        print_output(check_output(name, one))
        return
    channels = counted(len(one.channels), "channel")
    line = f"{on_a_line(name)}: a fabric of {channels} over {counted(one.ranks, 'rank')}"
    out().print(line, markup=False, soft_wrap=True)
