"""Traces of training jobs, one file per format, found by its name."""

from __future__ import annotations

from typing import cast

from sccl.core.plugins import load_plugin, plugin_names
from sccl.errors import FormatError
from sccl.training.traces.readers.reader_contract import (
    MAX_BYTES,
    MAX_RANKS,
    StepSelection,
    TraceReader,
)

__all__ = [
    "MAX_BYTES",
    "MAX_RANKS",
    "StepSelection",
    "TraceReader",
    "detect_reader",
    "load",
    "names",
]

NON_READER_MODULES = frozenset(
    {
        "chakra_nodes",
        "kineto_calls",
        "kineto_events",
        "reader_contract",
        "torch_names",
    }
)
"""Files that readers share."""


def names() -> tuple[str, ...]:
    """Return the names of the formats, as ``--format`` takes them. None is loaded."""
    return plugin_names(__path__, NON_READER_MODULES)


def load(name: str) -> TraceReader:
    """Return the reader of a format.

    Raises:
        UnknownNameError: there is none of that name.
    """
    hint = f"the formats are auto, {', '.join(names())}"
    module = load_plugin(__name__, name, "format", names(), hint)
    return cast("TraceReader", module)


def detect_reader(content: bytes, where: str) -> TraceReader:
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
