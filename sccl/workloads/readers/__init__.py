"""Traces of training jobs, one file per format, found by its name."""

from __future__ import annotations

import importlib
import pkgutil
from typing import cast

from sccl.errors import FormatError, unknown_name
from sccl.workloads.readers.contract import MAX_BYTES, MAX_RANKS, TraceReader, WantedStep

__all__ = ["MAX_BYTES", "MAX_RANKS", "TraceReader", "WantedStep", "load", "names", "who_reads"]

NO_READERS = frozenset(
    {
        "chakra_json",
        "chakra_nodes",
        "contract",
        "kineto_calls",
        "kineto_events",
        "kineto_host",
        "protocol_buffers",
        "rank_trace",
        "torch_names",
    }
)
"""Files that readers share."""


def names() -> tuple[str, ...]:
    """Return the names of the formats, as ``--format`` takes them; none is loaded."""
    files = {module.name for module in pkgutil.iter_modules(__path__)} - NO_READERS
    return tuple(sorted(name.replace("_", "-") for name in files))


def load(name: str) -> TraceReader:
    """Return the reader of a format.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in names():
        hint = f"the formats are auto, {', '.join(names())}"
        raise unknown_name("format", name, names(), hint)
    return cast("TraceReader", importlib.import_module(f"{__name__}.{name.replace('-', '_')}"))


def who_reads(content: bytes, where: str) -> TraceReader:
    """Return the reader that knows bytes as its own.

    Raises:
        FormatError: none does.
    """
    for reader in map(load, names()):
        if reader.sniff(content):
            return reader
    raise FormatError(
        f"{where} is no trace that sccl knows: name its format with --format, one of "
        f"{', '.join(names())}"
    )
