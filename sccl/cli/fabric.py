"""``sccl train fabrics``: the channels of training jobs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import out, print_file, print_output, report_errors
from sccl.core.files.json_text import to_text
from sccl.core.formatting import format_count, single_line
from sccl.training.fabric_names import FABRIC_NAMES as FABRICS
from sccl.training.fabric_names import check_output, list_output, resolve_fabric
from sccl.training.files.fabrics import fabric_to_wire
from sccl.view.text.training_text import budget_text, channels_table

_MAX_SHOWN = 8
"""Shared budgets that are shown."""


@report_errors
def list_fabrics(json: options.Json = False) -> None:
    """List the fabrics: the channels over which the ranks of a job move data."""
    if json:
        print_output(list_output())
        return
    table = Table("Name", "Ranks", "Channels", "Source", title="Fabrics", title_justify="left")
    for name in FABRICS:
        loaded_fabric = resolve_fabric(name)
        channels = ", ".join(channel.name for channel in loaded_fabric.channels)
        table.add_row(name, str(loaded_fabric.ranks), channels, loaded_fabric.source.split(": ")[0])
    console = out()
    console.print(table)
    console.print("hgx2xN has N nodes; 'sccl doctor schema fabric' describes custom files.")


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A name of 'sccl train fabrics' or a .json file.",
        autocompletion=options.complete_file,
    ),
]


def show_fabric(name: str, *, json: bool) -> None:
    """Print the channels of a fabric and their shared budgets. As JSON it is a file."""
    loaded_fabric = resolve_fabric(name)
    if json:
        print_file(to_text(fabric_to_wire(loaded_fabric)))
        return
    console = out()
    console.print(channels_table(loaded_fabric))
    for budget in loaded_fabric.shared[:_MAX_SHOWN]:
        console.print(budget_text(budget), markup=False, soft_wrap=True)
    if (more := len(loaded_fabric.shared) - _MAX_SHOWN) > 0:
        console.print(f"and {format_count(more, 'shared budget')} more")
    if loaded_fabric.source:
        console.print(loaded_fabric.source, markup=False)


@report_errors
def check(name: Name, json: options.Json = False) -> None:
    """Check that a file is a fabric: the same ranks in each channel, and links that exist."""
    loaded_fabric = resolve_fabric(name)
    if json:
        print_output(check_output(name, loaded_fabric))
        return
    channels = format_count(len(loaded_fabric.channels), "channel")
    line = (
        f"{single_line(name)}: a fabric of {channels} over "
        f"{format_count(loaded_fabric.ranks, 'rank')}"
    )
    out().print(line, markup=False, soft_wrap=True)
