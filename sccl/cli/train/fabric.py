"""The fabrics of ``sccl train show``: the channels of training jobs."""

from __future__ import annotations

from rich.table import Table

from sccl.cli.report import out, print_file, print_output
from sccl.core.files.json_text import to_text
from sccl.core.formatting import format_count
from sccl.training.fabric_names import FABRIC_NAMES as FABRICS
from sccl.training.fabric_names import list_output, resolve_fabric
from sccl.training.files.fabrics import fabric_to_wire
from sccl.view.text.training_text import budget_text, channels_table

_MAX_SHOWN = 8
"""Maximum number of shared budgets that are printed."""


def list_fabrics(*, json: bool) -> None:
    """Print the known fabrics: the channels over which the ranks of a job move data."""
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
