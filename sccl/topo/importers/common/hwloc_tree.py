"""Read the tree of hwloc's XML: the places of GPUs and NICs, and the matrices of GPU links."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from sccl.core.ids import Edge
from sccl.core.topology import normalize_bus_id
from sccl.errors import FormatError, TooLargeError
from sccl.topo.chassis_network import Nic
from sccl.topo.importers.common.gpu_pairs import (
    BRIDGE,
    NODE,
    SOCKETS,
    SWITCH,
    SWITCHES,
    check_cards,
    check_gpus,
    nearest_nics,
)
from sccl.topo.importers.common.plain_xml import Element
from sccl.topo.importers.common.unused_fields import unused_attributes

MAX_OBJECTS = 512
"""Maximum number of objects in a matrix."""

MATRICES = frozenset({"NVLinkBandwidth", "XGMIBandwidth", "XGMIHops", "XeLinkBandwidth"})
"""The matrices of links between GPUs."""

_DISTANCES = frozenset({"distances2", "distances2hetero"})
_SETS = frozenset(
    f"{prefix}{of}"
    for prefix in ("", "complete_", "allowed_", "online_")
    for of in ("cpuset", "nodeset")
)
_ATTRIBUTES = {
    "topology": frozenset({"version"}),
    "object": frozenset(
        {"type", "os_index", "gp_index", "name", "subtype", "depth", "kind", "subkind"}
        | _SETS
        | {"cache_size", "cache_linesize", "cache_associativity", "cache_type", "local_memory"}
        | {"bridge_type", "bridge_pci", "pci_busid", "pci_type", "pci_link_speed", "osdev_type"}
        | {"dont_merge", "collapse"}
    ),
    "info": frozenset({"name", "value"}),
    "page_type": frozenset({"size", "count"}),
    "distances2": frozenset({"type", "nbobjs", "kind", "name", "indexing"}),
    "distances2hetero": frozenset({"nbobjs", "kind", "name"}),
    "indexes": frozenset({"length"}),
    "u64values": frozenset({"length"}),
}
"""The attributes of each element (open-mpi/hwloc, hwloc2.dtd and topology-xml.c)."""

_IGNORED_TAGS = frozenset({"support", "memattr", "cpukind", "userdata", "diff"})
"""Elements that do not concern GPUs and their links."""

NVSWITCH, CPU = -1, -2
"""Numbers of matrix rows that are not GPUs."""

_SOCKETS = frozenset({"Package", "Socket"})
_ON_PCI = frozenset({"Bridge", "PCIDev", "OSDev"})

_NUMBERED = ("nvml", "rsmi", "amdsmi", "cuda", "ze")
"""Prefixes of hwloc's GPU names by library. Libraries that count all GPUs come first."""

_GPU = re.compile(rf"({'|'.join(_NUMBERED)})([0-9]{{1,4}})|opencl[0-9]{{1,4}}d[0-9]{{1,4}}")
_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):")
_GPU_CLASSES = frozenset({"0302", "0380", "1200"})
_DISPLAY, _GPU_VENDORS = "0300", frozenset({"10de", "1002"})
"""Displays by NVIDIA or AMD count as GPUs if there are no others. Other boards have displays for
their consoles.
"""

_NIC_CLASS = "0207"
_RAW_GB_PER_S = {1: 4.0, 2: 8.0, 3: 15.75, 4: 31.5, 5: 63.0, 6: 121.0}
"""Bandwidth that hwloc reports for 16 lanes of PCIe, 10^9 bytes per second, by generation: the wire
rate without the coding.
"""

_INDEX = re.compile(r"(?:[A-Za-z0-9]{1,20}:)?([0-9]{1,19})")
_VALUE = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A PCI device.

    Attributes:
        bus_id: PCI bus id such as ``0000:0a:00.0``. Empty: unknown.
        kind: PCI class such as ``0302``. Empty: unknown.
        vendor: PCI vendor number such as ``10de``.
        ancestors: Its socket, or else the element that contains it in the file, then the bridges
            above it.
    """

    element: Element
    bus_id: str
    kind: str
    vendor: str
    ancestors: tuple[Element, ...]

    @property
    def socket_key(self) -> str:
        """Return a key that distinguishes its socket from others."""
        return f"{self.ancestors[0].get('type')} {self.ancestors[0].line}"

    def os_devices(self) -> list[Element]:
        """Return its operating system devices, one for each library or driver that reports it."""
        return [child for child in self.element.children if child.get("type") == "OSDev"]

    def is_reported_gpu(self) -> bool:
        """Return whether a library reports it as a GPU."""
        return any(_GPU.fullmatch(part.get("name")) for part in self.os_devices())

    def number(self, library: str) -> int | None:
        """Return its number in a library, None if the library does not report it."""
        matches = (_GPU.fullmatch(part.get("name")) for part in self.os_devices())
        return next((int(m[2]) for m in matches if m is not None and m[1] == library), None)

    def model(self) -> str:
        """Return its model name, empty if the file has none."""
        names = [_info(part, "GPUModel") for part in self.os_devices()]
        return next(filter(None, (*names, _info(self.element, "PCIDevice"))), "")

    def generation(self) -> int:
        """Return the PCIe generation whose 16 lanes match the slowest link above the device."""
        path = (
            self.element,
            *(bridge for bridge in self.ancestors if bridge.get("type") == "Bridge"),
        )
        return min(filter(None, map(_generation, path)), default=0)


@dataclass(frozen=True, slots=True)
class Distances:
    """A matrix with a number for each pair of objects.

    Attributes:
        name: Name such as ``NVLinkBandwidth``.
        objects: GPU of each row, or :data:`NVSWITCH` or :data:`CPU`. None: not in the file.
        values: The rows.
    """

    name: str
    line: int
    objects: tuple[int | None, ...]
    values: tuple[tuple[int, ...], ...]

    def between_gpus(self) -> dict[Edge, int]:
        """Return the numbers of ordered pairs of GPUs."""
        return {
            (a, b): value
            for a, row in zip(self.objects, self.values, strict=True)
            for b, value in zip(self.objects, row, strict=True)
            if a is not None and b is not None and min(a, b) >= 0 and a != b
        }

    def sums_to(self, target: int | None) -> dict[int, int]:
        """Return the nonzero sums of each GPU's numbers over all objects of a kind."""
        sums = {
            gpu: sum(n for n, peer in zip(row, self.objects, strict=True) if peer == target)
            for gpu, row in zip(self.objects, self.values, strict=True)
            if gpu is not None and gpu >= 0
        }
        return {gpu: total for gpu, total in sums.items() if total}


@dataclass(frozen=True, slots=True)
class Hardware:
    """The content of a file.

    Attributes:
        gpus: The GPUs, by rank.
        order: Description of the order of ranks.
        cards: NICs that MPI or NCCL can use.
        matrices: The matrices, by name.
        unused: names of matrices, elements, and attributes that are not read.
    """

    gpus: tuple[PciDevice, ...]
    order: str
    cards: tuple[Nic, ...]
    matrices: Mapping[str, Distances]
    unused: tuple[str, ...]

    def paths(self) -> dict[Edge, int]:
        """Return the distance class of the PCIe path of each pair of GPUs."""
        return {
            (a, b): path_kind(first.ancestors, second.ancestors)
            for (a, first), (b, second) in combinations(enumerate(self.gpus), 2)
        }


def path_kind(first: tuple[Element, ...], second: tuple[Element, ...]) -> int:
    """Return the distance class of the path between two devices, from the elements above each."""
    shared = _shared_ancestors(first, second)
    if shared <= 2:
        return (SOCKETS, NODE, BRIDGE)[shared]
    return SWITCH if max(len(first), len(second)) <= shared + 1 else SWITCHES


def _shared_ancestors(first: tuple[Element, ...], second: tuple[Element, ...]) -> int:
    """Return the number of common elements above two devices, from the outermost."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a is not b), min(len(first), len(second)))


def parse_tree(root: Element) -> Hardware:
    """Return the content of a file from its root element.

    Raises:
        InputError: Two GPUs have the same bus id, or a matrix is invalid or too large.
    """
    devices = list(_devices(root))
    gpus, order = _order_gpus(_gpus(devices))
    check_gpus(len(gpus))
    _check_distinct(gpus)
    matrices: dict[str, Distances] = {}
    unused: list[str] = []
    objects = _objects(root, gpus)
    for child in root.children:
        name = child.get("name")
        if child.tag in _DISTANCES and name in MATRICES and name not in matrices:
            matrices[name] = _matrix(child, objects)
        elif child.tag in _DISTANCES:
            unused.append(f"{'second ' * (name in matrices)}matrix {name[:40]}")
    ranks = {id(gpu.element) for gpu in gpus}
    others = sum(
        device.kind in _GPU_CLASSES and id(device.element) not in ranks for device in devices
    )
    if others:
        unused.append(f"{others} PCI devices of GPU class that no library names")
    unused += unused_attributes(root, _ATTRIBUTES, _IGNORED_TAGS)
    return Hardware(gpus, order, nearest_nics(list(_cards(devices, gpus))), matrices, tuple(unused))


def _devices(root: Element) -> Iterable[PciDevice]:
    """Yield every PCI device, in the order of the file."""
    waiting: list[tuple[Element, tuple[Element, ...]]] = [(root, (root,))]
    while waiting:
        element, above = waiting.pop()
        kind = element.get("type")
        if kind == "PCIDev":
            match = _PCI_TYPE.match(element.get("pci_type").lower())
            about = (match[1], match[2]) if match else ("", "")
            yield PciDevice(element, normalize_bus_id(element.get("pci_busid")), *about, above)
        below = above
        if kind == "Bridge":
            below = (*above, element)
        elif kind not in _ON_PCI and above[0].get("type") not in _SOCKETS:
            below = (element,)
        objects = (child for child in element.children if child.tag == "object")
        waiting.extend((child, below) for child in reversed(list(objects)))


def _gpus(devices: list[PciDevice]) -> list[PciDevice]:
    """Return the GPUs, identified by libraries, or else by their PCI classes."""
    return (
        [device for device in devices if device.is_reported_gpu()]
        or [device for device in devices if device.kind in _GPU_CLASSES]
        or [
            device
            for device in devices
            if device.kind == _DISPLAY and device.vendor in _GPU_VENDORS
        ]
    )


def _info(element: Element, name: str) -> str:
    infos = (child for child in element.children if child.tag == "info")
    return next((info.get("value") for info in infos if info.get("name") == name), "")


def _generation(element: Element) -> int:
    text = element.get("pci_link_speed")
    speed = float(text) if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,9})?", text) else 0.0
    if not speed:
        return 0
    return max((g for g, raw in _RAW_GB_PER_S.items() if raw <= speed * 1.02), default=1)


def _order_gpus(gpus: list[PciDevice]) -> tuple[tuple[PciDevice, ...], str]:
    """Return GPUs in the order of the first library that numbers all, else of the file."""
    for library in _NUMBERED:
        numbers = [gpu.number(library) for gpu in gpus]
        known_numbers = [number for number in numbers if number is not None]
        if gpus and len(set(known_numbers)) == len(gpus):
            each = sorted(zip(known_numbers, gpus, strict=True), key=lambda pair: pair[0])
            return tuple(gpu for _, gpu in each), f"{library}0, {library}1, ..."
    return tuple(gpus), "the order of the file"


def _check_distinct(gpus: tuple[PciDevice, ...]) -> None:
    seen: set[str] = set()
    for gpu in gpus:
        line, bus_id = gpu.element.line, gpu.bus_id
        if not bus_id:
            raise FormatError(
                f"line {line}: pci_busid of the GPU is {gpu.element.get('pci_busid')[:40]!r}, "
                "expected hexadecimal domain:bus:device.function, such as 0000:0a:00.0"
            )
        if bus_id in seen:
            raise FormatError(
                f"line {line}: two GPUs have the pci_busid {bus_id}, expected one of each: was a "
                "part of the file pasted twice?"
            )
        seen.add(bus_id)


def _cards(
    devices: list[PciDevice], gpus: tuple[PciDevice, ...]
) -> Iterable[tuple[str, None, tuple[tuple[int, int], ...]]]:
    """Yield the NICs other than plain Ethernet, with their distances from the GPUs."""
    seen = 0
    for device in devices:
        parts = device.os_devices()
        names = [part.get("name") for part in parts if _info(part, "NodeGUID")]
        if not names and device.kind == _NIC_CLASS:
            names = [device.bus_id]
        seen += len(names)
        check_cards(seen)
        far = tuple(
            (
                path_kind(device.ancestors, gpu.ancestors),
                -_shared_ancestors(device.ancestors, gpu.ancestors),
            )
            for gpu in gpus
        )
        yield from ((name, None, far) for name in names)


def _objects(root: Element, gpus: tuple[PciDevice, ...]) -> dict[str, int]:
    """Map object numbers of the file to ranks of GPUs, :data:`NVSWITCH` or :data:`CPU`."""
    objects: dict[str, int] = {}
    for element in root.descendants():
        kind, index = element.get("type"), element.get("gp_index")
        if kind == "PCIDev" and element.get("subtype") == "NVSwitch":
            objects[index] = NVSWITCH
        elif kind in _SOCKETS or kind == "NUMANode":
            objects[index] = CPU
    for rank, gpu in enumerate(gpus):
        for element in (gpu.element, *gpu.os_devices()):
            objects[element.get("gp_index")] = rank
    return objects


def _matrix(element: Element, objects: Mapping[str, int]) -> Distances:
    """Return a matrix.

    Raises:
        InputError: The count of numbers differs from its attribute, or exceeds the limit.
    """
    name, text = element.get("name")[:40], element.get("nbobjs")
    where = f"line {element.line}: <{element.tag}> {name!r}"
    size = int(text) if re.fullmatch("[0-9]{1,6}", text) else 0
    if not size:
        raise FormatError(f"{where} has nbobjs {text[:40]!r}, expected the number of its objects")
    if size > MAX_OBJECTS:
        raise TooLargeError(f"{where} has {size} objects, expected at most {MAX_OBJECTS}")
    indexes = [_INDEX.fullmatch(word) for word in _element_words(element, "indexes", size)]
    values = [_VALUE.fullmatch(word) for word in _element_words(element, "u64values", size * size)]
    for said, hits, wanted in (("indexes", indexes, size), ("u64values", values, size * size)):
        if len(hits) != wanted or not all(hits):
            raise FormatError(
                f"{where} has {_count_text(hits, wanted)} numbers in {said}, expected {wanted}: "
                "was "
                "it cut off?"
            )
    of = tuple(objects.get(hits[1]) for hits in indexes if hits)
    flat = [int(hits[0]) for hits in values if hits]
    rows = tuple(tuple(flat[i * size : (i + 1) * size]) for i in range(size))
    return Distances(name, element.line, of, rows)


def _count_text(hits: Sequence[object], wanted: int) -> str:
    return f"more than {wanted}" if len(hits) > wanted else str(sum(map(bool, hits)))


def _element_words(element: Element, tag: str, limit: int) -> Iterator[str]:
    """Yield the words in elements of a kind, up to one more than the limit."""
    texts = (child.text for child in element.children if child.tag == tag)
    words = (match[0] for text in texts for match in re.finditer(r"\S+", text))
    return islice(words, limit + 1)
