"""Results as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.machine import command_line, describe
from benchmarks.timing import Timing
from sccl.core.files.disk import write_atomically


def wire(value: object) -> Any:
    """Return a result as plain JSON values. A non-finite median becomes null."""
    match value:
        case float():
            plain: Any = round(value, 4) if math.isfinite(value) else None
        case Fraction():
            plain = str(value)
        case Timing():
            names = ("verdict", "seconds", "process_seconds", "runs")
            plain = {name: wire(getattr(value, name)) for name in names}
        case Mapping():
            plain = {str(key): wire(inner) for key, inner in value.items()}
        case list() | tuple():
            plain = [wire(inner) for inner in value]
        case _ if is_dataclass(value):
            plain = {f.name: wire(getattr(value, f.name)) for f in fields(value)}
        case _:
            plain = value
    return plain


@dataclass(frozen=True, slots=True)
class Record:
    """Result file of a benchmark, rewritten after every result so that a long run can be stopped.

    Attributes:
        path: Path of the file. None: No file is written.
        heading: Command, machine, settings and sources of the run.
    """

    path: Path | None
    heading: Mapping[str, object]

    def write(
        self, results: Sequence[object], expected_results: int, summary: object = None
    ) -> None:
        """Write the results so far, whether they are complete, and a summary."""
        if self.path is None:
            return
        document = {
            "schema": 1,
            **self.heading,
            "complete": len(results) == expected_results,
            "summary": summary,
            "results": results,
        }
        write_atomically(self.path, json.dumps(wire(document), indent=1) + "\n")


def begin(
    benchmark: str, path: Path | None, settings: object, facts: Mapping[str, object]
) -> Record:
    """Return the record of a benchmark that starts now.

    Args:
        facts: Further facts for the reader, such as sources and versions of the peer.
    """
    heading = {
        "benchmark": benchmark,
        "command": command_line(),
        "machine": describe(),
        "settings": settings,
        **facts,
    }
    return Record(path, heading)
