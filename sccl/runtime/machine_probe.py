"""Import the topology of this machine from the tool of its GPU vendor (``sccl topo import``)."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sccl.errors import InputError, ToolError
from sccl.formats.files.machines import ImportedMachine
from sccl.runtime.tool_checks import command_output
from sccl.topo import importers
from sccl.topo.importers import Hints, Imported
from sccl.topo.importers.common.gpus import find_gpu


@dataclass(frozen=True, slots=True)
class GpuListing:
    """The data that a tool prints on each GPU, in the order of GPU numbers.

    Attributes:
        bus_ids: PCI bus ids. Empty: unknown.
        names: Product names. Empty: unknown.
    """

    bus_ids: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Vendor:
    """A tool that prints the links of GPUs.

    Attributes:
        tool: Name of the command.
        links: Arguments that print the links.
        gpus: Arguments that print the list of GPUs.
        parse_gpus: Parser of that list.
        reader: Format of the links.
    """

    tool: str
    links: tuple[str, ...]
    gpus: tuple[str, ...]
    parse_gpus: Callable[[str], GpuListing]
    reader: str


def nvidia_gpus(text: str) -> GpuListing:
    """Parse lines such as ``00000000:07:00.0, NVIDIA A100-SXM4-80GB``."""
    matches = re.findall(r"^([0-9A-Fa-f:.]{7,16}), (.{1,100})$", text, re.MULTILINE)
    return GpuListing(tuple(bus for bus, _ in matches), tuple(name.strip() for _, name in matches))


def rocm_gpus(text: str) -> GpuListing:
    """Parse lines such as ``GPU[0] : PCI Bus: 0000:C1:00.0``."""
    line = r"^GPU\[([0-9]{{1,4}})\]\s*: *{}:[ \t]*(\S.*?)[ \t\r]*$"
    bus, name = (
        dict(re.findall(line.format(label), text, re.MULTILINE))
        for label in ("PCI Bus", "Card [Ss]eries")
    )
    return GpuListing(_values_by_number(bus), _values_by_number(name))


def amd_gpus(text: str) -> GpuListing:
    """Parse lines such as ``MARKET_NAME: AMD Instinct MI300X``."""
    return GpuListing(
        (), tuple(re.findall(r"^\s*MARKET_NAME:[ \t]*(\S.*?)[ \t\r]*$", text, re.MULTILINE))
    )


def _values_by_number(by_number: dict[str, str]) -> tuple[str, ...]:
    return tuple(by_number[number] for number in sorted(by_number, key=int))


_VENDORS = (
    _Vendor(
        "nvidia-smi",
        ("topo", "-m"),
        ("--query-gpu=pci.bus_id,name", "--format=csv,noheader"),
        nvidia_gpus,
        "nvidia-smi",
    ),
    _Vendor("rocm-smi", ("--showtopo",), ("--showbus", "--showproductname"), rocm_gpus, "rocm-smi"),
    _Vendor("amd-smi", ("topology",), ("static", "--asic"), amd_gpus, "rocm-smi"),
)


def probe_machine(
    tools: Path | None, name: str | None, gpu: str | None, alpha_us: float | None
) -> ImportedMachine:
    """Return the machine from the output of the first tool that is installed and works.

    Args:
        tools: Folder of the tools. None: PATH.
        name: Name of the machine. None: its host name.
        gpu: GPU model that sets link speeds. None: the model in the output.
        alpha_us: Latency of links in microseconds. None: by kind of link.

    Raises:
        ToolError: No tool is installed, or none works.
        InputError: The output describes no supported machine.
    """
    hints = Hints(name or platform.node() or "probed", gpu, alpha_us)
    failures = []
    for vendor in _VENDORS:
        path = shutil.which(vendor.tool, path=None if tools is None else str(tools))
        if path is None:
            continue
        try:
            return _read_vendor(vendor, path, command_output([path, *vendor.links]), hints)
        except ToolError as error:
            failures.append(str(error))
    if failures:
        raise ToolError("; ".join(failures))
    names = ", ".join(vendor.tool for vendor in _VENDORS)
    where = f"in {tools}" if tools else "on the PATH"
    raise ToolError(
        f"none of {names} is {where}: on the machine itself, write 'nvidia-smi topo -m > "
        "topo.txt' or 'rocm-smi --showtopo > topo.txt', then run 'sccl topo import topo.txt'"
    )


def _read_vendor(vendor: _Vendor, path: str, text: str, hints: Hints) -> ImportedMachine:
    gpus = GpuListing((), ())
    with suppress(ToolError):  # only the links are required, and older tools may lack the rest
        gpus = vendor.parse_gpus(command_output([path, *vendor.gpus]))
    kind = find_gpu(gpus.names[0]) if gpus.names and hints.gpu is None else None
    refined_hints = hints if kind is None else replace(hints, gpu=kind.name)
    where = " ".join((vendor.tool, *vendor.links))
    try:
        importer, imported = importers.read_machine(text, refined_hints, where, vendor.reader)
    except InputError:
        if kind is None:
            raise
        importer, imported = importers.read_machine(text, hints, where, vendor.reader)
    return ImportedMachine(
        importer.NAME, importer.ABOUT, _with_gpus(imported, gpus, f"{where} of {path}")
    )


def _with_gpus(imported: Imported, gpus: GpuListing, asked: str) -> Imported:
    topology = imported.topology
    understood = [f"asked: {asked}", *imported.understood]
    if gpus.names:
        understood.append(f"its GPUs are called {', '.join(sorted(set(gpus.names)))}")
    if len(gpus.bus_ids) == topology.ranks:
        topology = replace(topology, pci_bus_ids=gpus.bus_ids)
        understood.append(f"PCI bus ids of its GPUs: {', '.join(gpus.bus_ids)}")
    return replace(imported, topology=topology, understood=tuple(understood))
