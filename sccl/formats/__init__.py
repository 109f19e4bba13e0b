"""The formats that others run, simulate and draw, one file each, found by its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from sccl.core.modules import module_names, named_module
from sccl.formats.contract import MAX_BYTES, Foreign, Format, FormatOptions, SizedPlan, WrittenFiles
from sccl.formats.stepped import SteppedPlan, arrows

__all__ = [
    "MAX_BYTES",
    "Foreign",
    "Format",
    "FormatOptions",
    "SizedPlan",
    "SteppedPlan",
    "WrittenFiles",
    "arrows",
    "load",
    "names",
    "read",
    "step_writer",
    "who_reads",
    "written",
]

NO_FORMATS = frozenset(
    {
        *("contract", "flows", "link_order", "messages", "timed_messages", "traces"),
        *("step_chakra", "step_chrome", "stepped"),
        *("astra_networks", "astra_ns3"),
        *("msccl_collectives", "msccl_graph", "msccl_lowering", "msccl_program", "msccl_rules"),
        "msccl_steps",
        *("mscclpp_blocks", "mscclpp_calls", "mscclpp_demand", "mscclpp_graph", "mscclpp_lanes"),
        *("mscclpp_lines", "mscclpp_lowering", "mscclpp_plan", "mscclpp_rules", "mscclpp_script"),
        "mscclpp_threads",
    }
)
"""Files that formats share."""

READ_ALONE = frozenset({"forestcoll", "teccl"})
WRITTEN_ALONE = frozenset({"astra-sim", "chakra", "chrome-trace", "csv", "goal"})
"""Formats of one direction: told apart without loading them."""


def names() -> tuple[str, ...]:
    """Return the names of the formats, as ``--format`` takes them. None is loaded."""
    return module_names(__path__, NO_FORMATS)


def written() -> tuple[str, ...]:
    """Return the names of the formats that plans are written in. None is loaded."""
    return tuple(name for name in names() if name not in READ_ALONE)


def read() -> tuple[str, ...]:
    """Return the names of the formats that are read. None is loaded."""
    return tuple(name for name in names() if name not in WRITTEN_ALONE)


def load(name: str) -> Format:
    """Return a format, also by the name that it has elsewhere: ``msccl++``.

    Raises:
        UnknownNameError: there is none of that name.
    """
    hint = f"the formats are {', '.join(written())}"
    module = named_module(__name__, name.replace("++", "pp"), "format", names(), hint)
    return cast("Format", module)


OF_STEPS = {"chakra": "step_chakra", "chrome-trace": "step_chrome"}
"""Formats that also hold training plans, with the modules that write these."""


def step_writer(name: str) -> Callable[[SteppedPlan], WrittenFiles]:
    """Return the function that writes training plans in a format of :data:`OF_STEPS`."""
    module = importlib.import_module(f"{__name__}.{OF_STEPS[name]}")
    return cast("Callable[[SteppedPlan], WrittenFiles]", module.write_step)


def who_reads(content: bytes) -> Format | None:
    """Return the format that some bytes are of. None: none that is known."""
    return next((one for one in map(load, names()) if one.sniff(content)), None)
