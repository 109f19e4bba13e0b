"""Foreign formats for running, simulating and drawing plans, one module per format."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from sccl.core.plugins import load_plugin, plugin_names
from sccl.formats.common.contract import Format, StepFormat, VerifiedTrainingPlan, WrittenFiles

READ_ONLY = frozenset({"forestcoll", "teccl"})
WRITE_ONLY = frozenset({"astra-sim", "chakra", "chrome-trace", "csv", "goal"})
"""Formats of one direction, listed here so that they need not be loaded."""


def names() -> tuple[str, ...]:
    """Return the names of the formats for ``--format``, without loading their modules."""
    return plugin_names(__path__)


def writable_names() -> tuple[str, ...]:
    """Return the names of the formats for writing plans, without loading their modules."""
    return tuple(name for name in names() if name not in READ_ONLY)


def readable_names() -> tuple[str, ...]:
    """Return the names of the formats for reading, without loading their modules."""
    return tuple(name for name in names() if name not in WRITE_ONLY)


def load(name: str) -> Format:
    """Return a format by its name. ``++`` stands for ``pp``, as in ``msccl++``.

    Raises:
        UnknownNameError: There is no such format.
    """
    hint = f"the formats are {', '.join(writable_names())}"
    module = load_plugin(__name__, name.replace("++", "pp"), "format", names(), hint)
    return cast("Format", module)


STEP_WRITERS = frozenset({"chakra", "chrome-trace"})
"""Formats that can also contain training plans."""


def step_writer(name: str) -> Callable[[VerifiedTrainingPlan], WrittenFiles]:
    """Return the function that writes training plans in a format of :data:`STEP_WRITERS`."""
    return cast("StepFormat", load(name)).write_step


def detect_format(content: bytes) -> Format | None:
    """Return the format of a file's content, None if it is unknown."""
    return next((candidate for candidate in map(load, names()) if candidate.sniff(content)), None)
