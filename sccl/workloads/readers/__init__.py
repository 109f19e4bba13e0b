"""Traces of training jobs, one file per format, found by its name."""

from __future__ import annotations

from typing import cast

from sccl.core.modules import module_names, named_module
from sccl.errors import FormatError
from sccl.workloads.readers.contract import MAX_BYTES, MAX_RANKS, TraceReader, WantedStep

__all__ = ["MAX_BYTES", "MAX_RANKS", "TraceReader", "WantedStep", "load", "names", "who_reads"]

NO_READERS = frozenset(
    {
        "chakra_json",
        "chakra_nodes",
        "contract",
        "group_list",
        "kineto_calls",
        "kineto_events",
        "kineto_host",
        "protocol_buffers",
        "recorded_steps",
        "rank_trace",
        "torch_names",
    }
)
"""Files that readers share."""


def names() -> tuple[str, ...]:
    """Return the names of the formats, as ``--format`` takes them. None is loaded."""
    return module_names(__path__, NO_READERS)


def load(name: str) -> TraceReader:
    """Return the reader of a format.

    Raises:
        UnknownNameError: there is none of that name.
    """
    hint = f"the formats are auto, {', '.join(names())}"
    module = named_module(__name__, name, "format", names(), hint)
    return cast("TraceReader", module)


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
