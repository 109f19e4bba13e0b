"""The formats that others run, simulate and draw, one file each, found by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from sccl.core.plugins import load_plugin, plugin_names
from sccl.formats.format_contract import (
    MAX_BYTES,
    ForeignPlan,
    Format,
    FormatOptions,
    SizedPlan,
    StepFormat,
    VerifiedTrainingPlan,
    WrittenFiles,
    dependency_arrows,
)

__all__ = [
    "MAX_BYTES",
    "ForeignPlan",
    "Format",
    "FormatOptions",
    "SizedPlan",
    "VerifiedTrainingPlan",
    "WrittenFiles",
    "dependency_arrows",
    "detect_format",
    "load",
    "names",
    "readable_names",
    "step_writer",
    "writable_names",
]

NON_FORMAT_MODULES = frozenset(
    {
        "astra_networks",
        "format_contract",
        "messages",
        "program_check",
        "program_graph",
        "transfer_lists",
    }
)
"""Files that formats share."""

READ_ONLY = frozenset({"forestcoll", "teccl"})
WRITE_ONLY = frozenset({"astra-sim", "chakra", "chrome-trace", "csv", "goal"})
"""Formats of one direction, listed here so that they need not be loaded."""


def names() -> tuple[str, ...]:
    """Return the names of the formats, as ``--format`` takes them. None is loaded."""
    return plugin_names(__path__, NON_FORMAT_MODULES)


def writable_names() -> tuple[str, ...]:
    """Return the names of the formats that plans are written in. None is loaded."""
    return tuple(name for name in names() if name not in READ_ONLY)


def readable_names() -> tuple[str, ...]:
    """Return the names of the formats that are read. None is loaded."""
    return tuple(name for name in names() if name not in WRITE_ONLY)


def load(name: str) -> Format:
    """Return a format, also by the name that it has elsewhere: ``msccl++``.

    Raises:
        UnknownNameError: there is none of that name.
    """
    hint = f"the formats are {', '.join(writable_names())}"
    module = load_plugin(__name__, name.replace("++", "pp"), "format", names(), hint)
    return cast("Format", module)


STEP_WRITERS = frozenset({"chakra", "chrome-trace"})
"""Formats that also hold training plans."""


def step_writer(name: str) -> Callable[[VerifiedTrainingPlan], WrittenFiles]:
    """Return the function that writes training plans in a format of :data:`STEP_WRITERS`."""
    return cast("StepFormat", load(name)).write_step


def detect_format(content: bytes) -> Format | None:
    """Return the format that some bytes are of. None: none that is known."""
    return next((candidate for candidate in map(load, names()) if candidate.sniff(content)), None)
