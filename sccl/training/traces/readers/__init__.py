"""Readers of traces of training jobs, one module per format."""

from __future__ import annotations

from typing import cast

from sccl.core.plugins import load_plugin, plugin_names
from sccl.errors import FormatError
from sccl.training.traces.readers.common.contract import (
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


def names() -> tuple[str, ...]:
    """Return the names of the formats for ``--format``, without loading the readers."""
    return plugin_names(__path__)


def load(name: str) -> TraceReader:
    """Return the reader of a format.

    Raises:
        UnknownNameError: There is no such format.
    """
    hint = f"the formats are auto, {', '.join(names())}"
    module = load_plugin(__name__, name, "format", names(), hint)
    return cast("TraceReader", module)


def detect_reader(content: bytes, where: str) -> TraceReader:
    """Return the first reader that recognizes the content.

    Raises:
        FormatError: No reader recognizes it.
    """
    for reader in map(load, names()):
        if reader.sniff(content):
            return reader
    raise FormatError(
        f"{where} is no trace that sccl knows: name its format with --format, one of "
        f"{', '.join(names())}"
    )
