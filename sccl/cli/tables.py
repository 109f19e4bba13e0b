"""Tables and numbers as people read them."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.table import Table


def matrix(nodes: int, values: Mapping[tuple[int, int], float]) -> Table:
    """Return a table of ``values`` by (src, dst): rows send, columns receive."""
    table = Table("", *(str(n) for n in range(nodes)), box=box.SIMPLE_HEAD)
    for column in table.columns:
        column.justify = "right"
    for src in range(nodes):
        cells = (f"{values[src, dst]:.3g}" if (src, dst) in values else "." for dst in range(nodes))
        table.add_row(str(src), *cells)
    return table


def size(number_of_bytes: float) -> str:
    """Return a number of bytes with a decimal unit and three digits."""
    value = float(number_of_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"
