"""Expand InfraGraph's shapes: the nodes and edges of a device and between instances.

A device lists components and their counts. An edge joins the nodes of two endpoints: ``nic[0:2]``
is a Python slice, ``cx5[0].port`` a node within a device that is a component. The scheme
``one2one`` joins the i-th nodes of both ends, ``many2many`` joins all pairs, and ``ring`` joins all
nodes in a cycle. If two edges join the same nodes, the later one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from sccl.errors import FormatError, TooLargeError

MAX_NODES = 2**19
"""Maximum number of nodes of all instances together, and of a device."""
MAX_EDGES = 2**21
MAX_NESTED = 6
"""Maximum nesting depth of devices."""

End = TypeVar("End")

XPU, SWITCH, NIC, DEVICE = "xpu", "switch", "nic", "device"

_Count = Annotated[int, Meta(ge=0, le=MAX_NODES)]


class Amount(msgspec.Struct, frozen=True):
    """A bandwidth or a latency, in one of several units."""

    gigabits_per_second: float | None = None
    gigabytes_per_second: float | None = None
    gigatransfers_per_second: float | None = None
    ms: float | None = None
    us: float | None = None
    ns: float | None = None


class Physical(msgspec.Struct, frozen=True):
    """The bandwidth and latency of a link."""

    bandwidth: Amount | None = None
    latency: Amount | None = None


class LinkKind(msgspec.Struct, frozen=True):
    """A kind of edges."""

    name: str
    description: str | None = None
    physical: Physical | None = None


class Component(msgspec.Struct, frozen=True):
    """A part of a device. ``device``: the device of that name."""

    name: str
    count: _Count
    choice: str = "custom"
    description: str | None = None


class Endpoint(msgspec.Struct, frozen=True):
    """Nodes: of a device, or of instances."""

    component: str
    device: str | None = None
    instance: str | None = None


class Edge(msgspec.Struct, frozen=True):
    """Edges between the nodes of two endpoints."""

    ep1: Endpoint
    ep2: Endpoint
    link: str | None = None
    scheme: str | None = None


class Device(msgspec.Struct, frozen=True):
    """A kind of boxes."""

    name: str
    components: list[Component] = []
    links: list[LinkKind] = []
    edges: list[Edge] = []
    description: str | None = None


class Copies(msgspec.Struct, frozen=True):
    """A number of instances of a device."""

    name: str
    device: str
    count: _Count = 1


class Infrastructure(msgspec.Struct, frozen=True):
    """A whole file."""

    devices: list[Device]
    instances: list[Copies] = []
    name: str | None = None
    links: list[LinkKind] = []
    edges: list[Edge] = []


@dataclass(frozen=True, slots=True)
class EdgeKind:
    """The kind of an edge: its link, and its device (None: between instances)."""

    link: LinkKind
    device: str | None


@dataclass(slots=True)
class Parts:
    """The nodes and edges of a device.

    Attributes:
        paths: Name of each node within the device: ``nic.0``, ``cx5.1.port.0``.
        kinds: Kind of each node: ``xpu``, ``switch``.
        about: Names and descriptions of each node, which may contain the GPU model.
        unresolved: Endpoints that name no component.
    """

    device: Device
    paths: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    about: list[str] = field(default_factory=list)
    edges: dict[tuple[int, int], EdgeKind] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    unresolved: list[str] = field(default_factory=list)

    def xpus(self) -> list[int]:
        """Return the nodes that are ranks."""
        return [node for node, kind in enumerate(self.kinds) if kind == XPU]

    def add(self, path: str, kind: str, about: str) -> None:
        """Add a node.

        Raises:
            FormatError: The device has the node already.
            TooLargeError: There are too many nodes.
        """
        if path in self.numbers:
            raise FormatError(f"device {self.device.name!r} has component {path!r} twice")
        if len(self.paths) >= MAX_NODES:
            raise TooLargeError(f"device {self.device.name!r} has more than {MAX_NODES} components")
        self.numbers[path] = len(self.paths)
        self.paths.append(path)
        self.kinds.append(kind)
        self.about.append(about)


class Expansion:
    """The expanded parts of devices, each computed once."""

    def __init__(self, file: Infrastructure) -> None:
        self.devices = {device.name: device for device in file.devices}
        if len(self.devices) != len(file.devices):
            raise FormatError("two devices have one name, expected a name for each")
        self.cache: dict[str, Parts] = {}
        self.edges = 0

    def parts(self, name: str, nested: int = 0) -> Parts:
        """Return the nodes and edges of a device.

        Raises:
            InputError: There is no such device, or it is nested or large beyond the limits.
        """
        if name in self.cache:
            return self.cache[name]
        if name not in self.devices:
            raise FormatError(f"device {name!r} is not listed in devices")
        if nested > MAX_NESTED:
            raise TooLargeError(f"device {name!r} is nested more than {MAX_NESTED} deep")
        parts = Parts(self.devices[name])
        for component in parts.device.components:
            for i in range(component.count):
                self._add(parts, component, f"{component.name}.{i}", nested)
        links = {link.name: link for link in parts.device.links}
        for i, edge in enumerate(parts.device.edges):
            where = f"device {name!r}, edges[{i}]"
            ends = [self._device_nodes(parts, end, where) for end in (edge.ep1, edge.ep2)]
            kind = EdgeKind(links.get(edge.link or "", LinkKind(edge.link or "")), name)
            for a, b in self.joined_pairs(edge, ends[0], ends[1], where):
                parts.edges[min(a, b), max(a, b)] = kind
        self.cache[name] = parts
        return parts

    def _add(self, parts: Parts, component: Component, path: str, nested: int) -> None:
        if component.choice != DEVICE:
            about = f"{component.description or ''} {component.name} {parts.device.name}"
            parts.add(path, component.choice, about)
            return
        inner = self.parts(component.name, nested + 1)
        first = len(parts.paths)
        for inner_path, kind, about in zip(inner.paths, inner.kinds, inner.about, strict=True):
            parts.add(f"{path}.{inner_path}", kind, about)
        self._count_edges(len(inner.edges), f"device {parts.device.name!r}")
        parts.edges |= {(a + first, b + first): kind for (a, b), kind in inner.edges.items()}

    def _device_nodes(self, parts: Parts, end: Endpoint, where: str) -> list[int]:
        text = f"{end.device}.{end.component}" if end.device else end.component
        return self.nodes_named(parts, text, where)

    def nodes_named(self, parts: Parts, text: str, where: str) -> list[int]:
        """Return the nodes that a name such as ``cx5[0:2].port`` selects, empty if there are none.

        Raises:
            FormatError: A slice is invalid, or the name selects a device instead of a component.
        """
        paths, device = [""], parts.device
        for word in text.split("."):
            components = {component.name: component for component in device.components}
            name = word.split("[")[0]
            component = components.get(name)
            if component is None:
                parts.unresolved.append(text)
                return []
            numbers = indices(word, component.count, where)
            self._count_edges(len(paths) * len(numbers), where)
            paths = [f"{path}{name}.{i}." for path in paths for i in numbers]
            device = self.devices[name] if component.choice == DEVICE else Device(name)
        nodes = [parts.numbers.get(path[:-1]) for path in paths]
        if None in nodes:
            raise FormatError(f"{where}: {text!r} is a device: name a component of it")
        return [node for node in nodes if node is not None]

    def joined_pairs(
        self, edge: Edge, first: Sequence[End], second: Sequence[End], where: str
    ) -> Iterator[tuple[End, End]]:
        """Return the pairs of different nodes that an edge joins.

        Raises:
            InputError: There are too many edges, or the scheme is unknown.
        """
        pairs: Iterable[tuple[End, End]]
        if edge.scheme == "many2many":
            self._count_edges(len(first) * len(second), where)
            pairs = product(first, second)
        elif edge.scheme in {"one2one", None}:
            self._count_edges(min(len(first), len(second)), where)
            pairs = zip(first, second, strict=False)
        elif edge.scheme == "ring":
            around = list(dict.fromkeys([*first, *second]))
            self._count_edges(len(around), where)
            pairs = zip(around, [*around[1:], *around[:1]], strict=True)
        else:
            raise FormatError(
                f"{where}: scheme is {edge.scheme!r}, expected one2one, many2many or ring"
            )
        return ((a, b) for a, b in pairs if a != b)

    def _count_edges(self, more: int, where: str) -> None:
        self.edges += more
        if self.edges > MAX_EDGES:
            raise TooLargeError(f"{where}: more than {MAX_EDGES} edges, the most that is read")


_INDEX = re.compile(r"[^\[\]]*(?:\[(-?\d{0,9}(?::-?\d{0,9}){0,2})\])?")


def indices(word: str, count: int, where: str) -> Sequence[int]:
    """Return the selected numbers of ``nic[0:2]`` among ``count`` components, all without brackets.

    Raises:
        FormatError: The brackets contain no index or slice, or an index out of range.
    """
    match = _INDEX.fullmatch(word)
    inner = (match[1] or ":").split(":") if match else []
    if not inner or "-" in inner or (len(inner) == 3 and inner[2] == "0"):
        raise FormatError(f"{where}: {word!r} has no slice such as [0], [0:2] or [1:] at its end")
    if len(inner) == 1:
        at = int(inner[0]) + (count if int(inner[0]) < 0 else 0)
        if not 0 <= at < count:
            raise FormatError(f"{where}: {word!r} is not there, expected one of {count}")
        return (at,)
    numbers = [int(part) if part else None for part in inner]
    return range(*slice(*numbers).indices(count))
