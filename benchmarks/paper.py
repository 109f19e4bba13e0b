"""Rows of the SCCL paper's tables, as data with their source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent / "data" / "sccl_paper.json"

SMOKE_ROWS = 3


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One algorithm of a table.

    Attributes:
        topology: Name of the machine in sccl's catalog.
        optimal: Lower bounds that the row meets according to the paper: ``latency``,
            ``bandwidth``, ``both``, or none (empty).
        seconds: Published synthesis time.
    """

    topology: str
    collective: str
    chunks: int
    steps: int
    rounds: int
    optimal: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.collective} ({self.chunks}, {self.steps}, {self.rounds})"


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of the paper."""

    title: str
    topology: str
    source: str
    rows: tuple[PaperRow, ...]

    def smallest(self) -> tuple[PaperRow, ...]:
        """Return the fastest published row of each of the :data:`SMOKE_ROWS` fastest collectives.

        The collectives differ, so that a smoke run also covers composition and inversion.
        """
        first: dict[str, PaperRow] = {}
        for row in sorted(self.rows, key=lambda r: r.seconds):
            first.setdefault(row.collective, row)
        return tuple(first.values())[:SMOKE_ROWS]


def load_table(name: str) -> PaperTable:
    """Return ``table4`` (DGX-1) or ``table5`` (Z52)."""
    data: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    table = data["tables"][name]
    topology = table["topology"]
    rows = tuple(PaperRow(topology=topology, **row) for row in table["rows"])
    return PaperTable(table["title"], topology, data["source"], rows)
