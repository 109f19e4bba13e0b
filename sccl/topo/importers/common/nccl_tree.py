"""Read the tree of NCCL's XML: the places of GPUs and NICs, and the paths between them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from sccl.core.ids import Edge
from sccl.core.topology import BusIds, normalize_bus_id
from sccl.errors import FormatError
from sccl.topo.chassis_network import Nic
from sccl.topo.importers.common.gpu_pairs import (
    BRIDGE,
    SOCKETS,
    SWITCH,
    SWITCHES,
    check_cards,
    check_gpus,
    nearest_nics,
)
from sccl.topo.importers.common.gpus import PCIE_X16_GB_PER_S
from sccl.topo.importers.common.plain_xml import Element

SWITCH_CLASS, CPU_CLASS = "0x068000", "0x068001"
"""PCI classes of NVSwitches and of CPUs, in the ``tclass`` of links to them (NVIDIA/nccl,
src/graph/topo.cc, kvDictPciClass).
"""

_GPU_CLASSES = ("0x0302", "0x0380", "0x1200")
_NIC_CLASSES = ("0x0200", "0x0207")

_GT_PER_S = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_SPEED = re.compile(r"([0-9]{1,2}(?:\.[0-9])?) GT/s")
_NUMBER = re.compile(r"[0-9]{1,9}|0x[0-9a-f]{1,8}")


ATTRIBUTES = {
    "system": frozenset({"version"}),
    "cpu": frozenset({"numaid", "host_hash", "affinity", "arch", "vendor", "familyid", "modelid"}),
    "pci": frozenset(
        {"busid", "class", "vendor", "device", "subsystem_vendor", "subsystem_device"}
        | {"link_speed", "link_width", "keep"}
    ),
    "gpu": frozenset({"dev", "sm", "gcn", "arch", "rank", "gdr", "keep"}),
    "nvlink": frozenset({"target", "count", "tclass"}),
    "xgmi": frozenset({"target", "count", "tclass"}),
    "c2c": frozenset({"bw", "count"}),
    "nic": frozenset({"keep"}),
    "net": frozenset(
        {"name", "dev", "speed", "latency", "port", "guid", "maxconn", "gdr", "coll", "keep"}
    ),
}
"""The attributes of each element (NVIDIA/nccl and ROCm/rccl, src/graph/xml.cc)."""

Device = tuple[Element, tuple[Element, ...]]
"""A PCI device and the elements above it, from the outermost."""


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """A PCI device that is a GPU.

    Attributes:
        bus_id: PCI bus id such as ``0000:0a:00.0``.
        gpu: Its ``gpu`` element. None: only its PCI class is known.
        ancestors: Its ``cpu`` and the ``pci`` elements above it, from the outermost.
        host: host of its cpu. Empty: unknown.
        speed: speed of the slowest of its slot and the bridges above, as text. Empty: unknown.
        generation: the PCIe generation whose 16 lanes have that speed. 0: unknown.
    """

    bus_id: str
    gpu: Element | None
    ancestors: tuple[Element, ...]
    host: str
    speed: str
    generation: int

    @property
    def numa(self) -> str:
        """Return a key that distinguishes its NUMA node from others."""
        return f"cpu {self.host} {self.ancestors[0].get('numaid')} {self.ancestors[0].line}"

    def gpu_children(self) -> list[Element]:
        """Return the elements in its ``gpu`` element."""
        return self.gpu.children if self.gpu else []

    def links(self) -> list[Element]:
        """Return its NVLinks or xGMI links."""
        return [child for child in self.gpu_children() if child.tag in {"nvlink", "xgmi"}]

    def architecture(self) -> str:
        """Return ``sm_80`` or ``gfx942``. Empty: unknown."""
        if self.gpu is None:
            return ""
        gcn, sm = self.gpu.get("gcn").lower(), self.gpu.get("sm")
        if re.fullmatch("(gfx)?[0-9a-f]{1,6}", gcn):
            return f"gfx{gcn.removeprefix('gfx')}"
        return f"sm_{int(sm)}" if re.fullmatch("[0-9]{1,3}", sm) else ""

    def has_no_rank(self) -> bool:
        """Return whether the file excludes it from the ranks of the communicator."""
        return self.gpu is not None and self.gpu.get("rank") == "-1"

    def number(self, name: str) -> int | None:
        """Return a numeric attribute, None if it is missing or no number of 0 or more."""
        text = self.gpu.get(name).lower() if self.gpu else ""
        return int(text, 0 if "x" in text else 10) if _NUMBER.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class Inventory:
    """The content of a file.

    Attributes:
        gpus: The GPUs, by rank.
        order: Description of the order of ranks.
        cards: NICs that are PCI devices.
        virtual: number of network interfaces that are not PCI devices.
        rankless_gpus: number of GPUs with rank -1, which are left out.
        undescribed_gpus: Number of PCI devices of a GPU's class without a ``gpu`` element, if other
            devices have one.
    """

    gpus: tuple[GpuDevice, ...]
    order: str
    cpus: int
    cards: tuple[Nic, ...]
    virtual: int
    rankless_gpus: int
    undescribed_gpus: int

    def links_to(self, rank: int, tclass: str) -> list[Element]:
        """Return the links of a GPU to devices of a PCI class."""
        return [k for k in self.gpus[rank].links() if k.get("tclass").lower().startswith(tclass)]

    def rank_at(self, place: GpuDevice, target: str) -> int | None:
        """Return the rank of the GPU on the same host with a bus id, None if there is none."""
        bus_id = normalize_bus_id(target)
        ranks = (i for i, g in enumerate(self.gpus) if (g.host, g.bus_id) == (place.host, bus_id))
        return next(ranks, None)

    def count_other_links(self) -> int:
        """Return the number of links that lead neither to a GPU of the file nor to a switch."""
        return sum(
            self.rank_at(place, link.get("target")) is None
            and not link.get("tclass").lower().startswith((SWITCH_CLASS, CPU_CLASS))
            for place in self.gpus
            for link in place.links()
        )

    def paths(self) -> dict[Edge, int]:
        """Return the distance class of the PCIe path of each pair of GPUs of a host."""
        return {
            (a, b): path_kind(first.ancestors, second.ancestors)
            for (a, first), (b, second) in combinations(enumerate(self.gpus), 2)
            if first.host == second.host
        }

    def bus_ids(self) -> BusIds:
        """Return the bus id of each rank, empty if ranks of several hosts have equal ones."""
        ids = tuple(place.bus_id for place in self.gpus)
        return ids if len(set(ids)) == len(ids) else ()


def path_kind(first: tuple[Element, ...], second: tuple[Element, ...]) -> int:
    """Return the distance class of the path between two devices, from the elements above each."""
    shared = sum(a is b for a, b in zip(first, second, strict=False))
    if not shared:
        return SOCKETS
    if shared == 1:
        return BRIDGE
    return SWITCH if shared == len(first) == len(second) else SWITCHES


def parse_tree(system: Element) -> Inventory:
    """Return the content of a file from its root element.

    Raises:
        FormatError: A GPU has no bus id or several ranks, or two GPUs of a host have the same bus
            id.
    """
    cpus = [child for child in system.children if child.tag == "cpu"]
    devices = [device for cpu in cpus for device in _devices(cpu)]
    detailed = any(_find_gpu(pci) for pci, _ in devices)
    all_places = [
        _build_device(pci, above) for pci, above in devices if _is_gpu(pci, detailed=detailed)
    ]
    places = [place for place in all_places if not place.has_no_rank()]
    check_gpus(len(places))
    _check_distinct(places, devices)
    gpus, order = _order_gpus(places)
    cards = _cards(devices, gpus)
    virtual = sum(net.tag == "net" for cpu in cpus for nic in cpu.children for net in _nets(nic))
    untold = sum(_is_gpu(pci, detailed=False) and not _find_gpu(pci) for pci, _ in devices)
    return Inventory(
        gpus,
        order,
        len(cpus),
        cards,
        virtual,
        rankless_gpus=len(all_places) - len(places),
        undescribed_gpus=untold if detailed else 0,
    )


def _devices(cpu: Element) -> list[Device]:
    """Return every PCI device at a cpu, with the elements above it."""
    devices: list[Device] = []
    waiting: list[Device] = [(cpu, (cpu,))]
    while waiting:
        element, above = waiting.pop()
        below = (child for child in reversed(element.children) if child.tag == "pci")
        waiting.extend((child, (*above, child)) for child in below)
        if element.tag == "pci":
            devices.append((element, above[:-1]))
    return devices


def _find_gpu(pci: Element) -> Element | None:
    """Return the ``gpu`` element of a device, None if there is none.

    Raises:
        FormatError: There are several, which are ranks of one GPU.
    """
    gpus = [child for child in pci.children if child.tag == "gpu"]
    if len(gpus) > 1:
        raise FormatError(
            f"line {gpus[1].line}: {len(gpus)} ranks are on the GPU {pci.get('busid')[:40]!r} and "
            "share its links, expected one rank for each GPU: run with one and write the file anew"
        )
    return gpus[0] if gpus else None


def _is_gpu(pci: Element, *, detailed: bool) -> bool:
    if detailed:
        return _find_gpu(pci) is not None
    return pci.get("class").lower().startswith(_GPU_CLASSES)


def _build_device(pci: Element, above: tuple[Element, ...]) -> GpuDevice:
    bus_id = normalize_bus_id(pci.get("busid"))
    if not bus_id:
        raise FormatError(
            f"line {pci.line}: busid of the GPU is {pci.get('busid')[:40]!r}, expected hexadecimal "
            "domain:bus:device.function, such as 0000:0a:00.0"
        )
    slots = [slot for element in (pci, *above[1:]) if (slot := _slot(element))[1]]
    speed, generation = min(slots, key=lambda slot: slot[1], default=("", 0))
    return GpuDevice(bus_id, _find_gpu(pci), above, above[0].get("host_hash"), speed, generation)


def _check_distinct(places: list[GpuDevice], devices: list[Device]) -> None:
    seen: set[tuple[str, str]] = set()
    lines = {normalize_bus_id(pci.get("busid")): pci.line for pci, _ in devices}
    for place in places:
        if (place.host, place.bus_id) in seen:
            raise FormatError(
                f"line {lines[place.bus_id]}: two GPUs have the busid {place.bus_id}, expected one "
                "of each: was a part of the file pasted twice?"
            )
        seen.add((place.host, place.bus_id))


def _order_gpus(places: list[GpuDevice]) -> tuple[tuple[GpuDevice, ...], str]:
    """Return GPUs by rank, or else by ``dev``, or else in the order of the file."""
    for name, said in (("rank", "'rank'"), ("dev", "'dev', because 'rank' is not unique")):
        numbers = [place.number(name) for place in places]
        known_numbers = [number for number in numbers if number is not None]
        if places and len(set(known_numbers)) == len(places):
            each = sorted(zip(known_numbers, places, strict=True), key=lambda pair: pair[0])
            return tuple(place for _, place in each), said
    return tuple(places), "the order of the file"


def _cards(devices: list[Device], gpus: tuple[GpuDevice, ...]) -> tuple[Nic, ...]:
    """Return the NICs, with one entry for each port of a device."""
    cards: list[tuple[str, float | None, tuple[tuple[int, int], ...]]] = []
    for pci, above in devices:
        nets = [net for nic in pci.children for net in _nets(nic)]
        check_cards(len(cards) + len(nets))
        far = tuple(_distance(above, gpu) for gpu in gpus)
        cards += [(net.get("name") or pci.get("busid"), _gb_per_s(net), far) for net in nets]
        if not nets and pci.get("class").lower().startswith(_NIC_CLASSES):
            cards.append((pci.get("busid"), None, far))
    return nearest_nics(cards)


def _distance(above: tuple[Element, ...], gpu: GpuDevice) -> tuple[int, int]:
    """Return the distance of a NIC from a GPU: its class, then minus the shared ancestors."""
    shared = sum(a is b for a, b in zip(above, gpu.ancestors, strict=False))
    return path_kind(above, gpu.ancestors), -shared


def _nets(nic: Element) -> Iterable[Element]:
    return (net for net in nic.children if nic.tag == "nic" and net.tag == "net")


def _gb_per_s(net: Element) -> float | None:
    """Return the speed of a port in GB/s, which the file has in Mbit/s."""
    text = net.get("speed")
    return int(text) / 8000 if re.fullmatch("[1-9][0-9]{0,8}", text) else None


def _slot(pci: Element) -> tuple[str, int]:
    """Describe the slot of a device, and return the generation whose 16 lanes match its speed."""
    match, width = _SPEED.match(pci.get("link_speed")), pci.get("link_width")
    generation = _GT_PER_S.get(float(match[1]), 0) if match else 0
    has_width = width in {"1", "2", "4", "8", "16"}
    lanes = int(width) if has_width else 16
    if match is None or not generation:
        return "", 0
    as_fast = max(1, generation + 1 - (16 // lanes).bit_length())
    carries = PCIE_X16_GB_PER_S[as_fast]
    many = f"{lanes} lanes" if has_width else "16 lanes, since link_width is missing"
    return f"{float(match[1]):g} GT/s of {many}, {carries:g} GB/s", as_fast
