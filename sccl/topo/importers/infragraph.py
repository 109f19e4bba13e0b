"""Read InfraGraph, the machine description of MLCommons' Chakra: devices, instances and edges.

Ranks are the components of kind ``xpu``, in the order of the file or of ``rank`` annotations.
:mod:`.infragraph_paths` decides which parts of a box forward data. A device without XPUs is a
switch. A node with only two neighbors is treated as a wire.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from math import inf

import msgspec

from sccl.core.formatting import format_count
from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.errors import FormatError, TooLargeError
from sccl.topo.chassis_network import Nic
from sccl.topo.importers.common.contract import Hints, Imported
from sccl.topo.importers.common.infragraph_nodes import (
    MAX_EDGES,
    MAX_NODES,
    NIC,
    Copies,
    Device,
    EdgeKind,
    Endpoint,
    Expansion,
    Infrastructure,
    LinkKind,
    indices,
)
from sccl.topo.importers.common.infragraph_paths import (
    Cost,
    EdgePricing,
    Enclosure,
    build_enclosure,
)
from sccl.topo.importers.common.plain_yaml import Node, parse_yaml, to_struct
from sccl.topo.importers.common.unused_fields import unused_field_paths, unused_line

NAME = "infragraph"
ABOUT = "InfraGraph (YAML or JSON)"
SOURCE = "Keysight/infragraph 3.1.0, infragraph.proto and infragraph_service.py; infragraph.dev"
EXAMPLE = """\
name: two boxes
devices:
- name: box
  components:
  - {name: xpu, choice: xpu, count: 2, description: NVIDIA A100}
  - {name: nvsw, choice: switch, count: 1}
  - {name: nic, choice: nic, count: 2}
  links:
  - {name: nvlink}
  - {name: pcie, description: PCIe gen4}
  edges:
  - {ep1: {component: xpu}, ep2: {component: nvsw}, scheme: many2many, link: nvlink}
  - {ep1: {component: 'xpu[0:2]'}, ep2: {component: nic}, scheme: one2one, link: pcie}
- name: switch
  components:
  - {name: port, choice: port, count: 4}
  - {name: asic, choice: switch, count: 1}
  edges:
  - {ep1: {component: asic}, ep2: {component: port}, scheme: many2many, link: ic}
links:
- name: ethernet
  physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 200}}
instances:
- {name: host, device: box, count: 2}
- {name: rack, device: switch, count: 1}
edges:
- ep1: {instance: host, component: nic}
  ep2: {instance: rack, component: port}
  scheme: one2one
  link: ethernet
"""

MAX_RANKS = 16_384

_ALPHA_US = 0.7

_CONNECTIONS = re.compile(
    r"(?:^|[\s{,\"'])connections[\"']?\s*:\s*(?:-|\[)\s*[\"']?"
    r"[A-Za-z][\w-]{0,60}\.\d{1,6}\.[A-Za-z][\w-]{0,60}(?:\.[\w-]{1,60}){2,6}(?:[\s\"',\]]|$)"
)
"""Connections of version 0.1.0, such as ``- xpu.0.pcie.nic.0``."""

_TYPED = re.compile(r"[\s{,\"']type[\"']?\s*:\s*[\"']?(?:xpu|npu)\b")
"""Components of version 0.1.0 that are GPUs."""

_AMBIGUOUS_FIELDS = frozenset({"choice"})
"""Fields that select one of several other fields."""

_NodeKey = tuple[int, int, int]
"""Index of an instance, of its box, and of a node in the box."""


class _Attribute(msgspec.Struct, frozen=True):
    attribute: str | None = None
    value: str | None = None


class _AnnotatedNode(msgspec.Struct, frozen=True):
    name: str
    attributes: list[_Attribute] = []


class _Annotations(msgspec.Struct, frozen=True):
    nodes: list[_AnnotatedNode] = []


class _Response(msgspec.Struct, frozen=True):
    infrastructure: Infrastructure
    annotations: _Annotations | None = None


def sniff(text: str) -> bool:
    """Return whether a text lists components of devices."""
    head = text[:65536]
    listed = all(_has_key(head, word) for word in ("components", "choice", "count"))
    joined = _has_key(head, "ep1") and _has_key(head, "ep2")
    return (listed and ("xpu" in text or joined)) or _is_older(head)


def _has_key(head: str, name: str) -> bool:
    return re.search(rf'(?:^|[\s{{,"\']){name}["\']?\s*:', head) is not None


def _is_older(head: str) -> bool:
    """Return whether a text is of version 0.1.0: a ``type`` or ``connections`` of names."""
    typed = _has_key(head, "components") and not _has_key(head, "choice")
    return _CONNECTIONS.search(head) is not None or (typed and bool(_TYPED.search(head)))


def read(text: str, hints: Hints) -> Imported:
    """Return the machine that a text describes.

    Raises:
        InputError: The text is no InfraGraph, or exceeds the limits.
    """
    if _is_older(text[:65536]):
        raise FormatError(
            "it uses the schema of InfraGraph 0.1.0 (components have a 'type', devices have "
            "'connections'), expected the schema of 0.4.0 or later (components have a 'choice' "
            "and a 'count', devices have 'edges'): write the file anew for a later version"
        )
    node = parse_yaml(text)
    file, ranks = _decode_file(node)
    alpha_us = _ALPHA_US if hints.alpha_us is None else hints.alpha_us
    graph = _Graph(file, EdgePricing(hints.gpu, alpha_us))
    graph.join()
    graph.simplify()
    imported = graph.to_imported(hints, ranks)
    unused = unused_line(unused_field_paths(node, _detect_shape(node), _AMBIGUOUS_FIELDS))
    return replace(imported, understood=(*imported.understood, *unused))


def _detect_shape(node: Node) -> type[msgspec.Struct]:
    """Return the shape of a text: with annotations, a device alone, or an infrastructure."""
    fields = node if isinstance(node, dict) else {}
    if "infrastructure" in fields:
        return _Response
    return Device if "components" in fields else Infrastructure


def _decode_file(node: Node) -> tuple[Infrastructure, dict[str, int]]:
    """Return the infrastructure of a text, and the ranks that annotations give to nodes."""
    expected = "an infrastructure with devices, instances and edges, as InfraGraph has them"
    ranks: dict[str, int] = {}
    if isinstance(node, dict) and "infrastructure" in node:
        response = to_struct(node, _Response, expected)
        for noted in response.annotations.nodes if response.annotations else ():
            for each in noted.attributes:
                if each.attribute == "rank" and re.fullmatch(r"\d{1,6}", each.value or ""):
                    path = re.sub(r"\[(\d+)\]\.?", r".\1.", noted.name).rstrip(".")
                    ranks[path] = int(each.value or "")
        file = response.infrastructure
    elif isinstance(node, dict) and "components" in node:
        file = Infrastructure(devices=[to_struct(node, Device, expected)])
    else:
        file = to_struct(node, Infrastructure, expected)
    if file.instances:
        return file, ranks
    inner = {component.name for device in file.devices for component in device.components}
    outer = [d.name for d in file.devices if d.name not in inner]
    instances = [Copies(name, name) for name in outer]
    return msgspec.structs.replace(file, instances=instances), ranks


@dataclass(slots=True)
class _Edge:
    """The parallel connections of two nodes, with the cost of each."""

    costs: list[Cost] = field(default_factory=list)


class _Graph:
    """The nodes of all instances, and the links between them."""

    def __init__(self, file: Infrastructure, costs: EdgePricing) -> None:
        self.file, self.costs = file, costs
        self.expansion = Expansion(file)
        self.parts = [self.expansion.parts(row.device) for row in file.instances]
        total = sum(
            row.count * len(p.paths) for row, p in zip(file.instances, self.parts, strict=True)
        )
        if total > MAX_NODES:
            raise TooLargeError(f"{total} components, expected at most {MAX_NODES}")
        self.numbers = {row.name: i for i, row in enumerate(file.instances)}
        self.adjacent: dict[_NodeKey, dict[_NodeKey, _Edge]] = {}
        self.shared: list[tuple[list[tuple[_NodeKey, _NodeKey]], float]] = []
        self.ranks = [
            (i, at, node)
            for i, row in enumerate(file.instances)
            for at in range(row.count)
            for node in self.parts[i].xpus()
        ]
        if not 2 <= len(self.ranks) <= MAX_RANKS:
            raise TooLargeError(
                f"{len(self.ranks)} components of choice xpu, expected 2 to {MAX_RANKS}: they are "
                "the ranks"
            )
        self.boxes: dict[int, Enclosure] = {}

    def join(self) -> None:
        """Add all edges of instances and their boxes."""
        pairs: dict[tuple[_NodeKey, _NodeKey], EdgeKind] = {}
        links = {link.name: link for link in self.file.links}
        for i, edge in enumerate(self.file.edges):
            where = f"edges[{i}]"
            first, second = self._ends(edge.ep1, where), self._ends(edge.ep2, where)
            kind = EdgeKind(links.get(edge.link or "", LinkKind(edge.link or "")), None)
            for a, b in self.expansion.joined_pairs(edge, first, second, where):
                pairs[min(a, b), max(a, b)] = kind
        exits: dict[int, set[int]] = {}
        for pair in pairs:
            for i, _, index in pair:
                exits.setdefault(i, set()).add(index)
        for i, row in enumerate(self.file.instances):
            self.boxes[i] = build_enclosure(self.parts[i], exits.get(i, ()), self.costs)
            inside = self.boxes[i].edges
            if row.count * len(inside) > MAX_EDGES:
                raise TooLargeError(
                    f"instance {row.name!r} has {row.count * len(inside)} edges, expected at most "
                    f"{MAX_EDGES}"
                )
            for (low, high), cost in inside.items():
                for at in range(row.count):
                    self._add((i, at, low), (i, at, high), cost)
        for pair, kind in pairs.items():
            self._join_boxes(*pair, self.costs.network_cost(kind))

    def _ends(self, end: Endpoint, where: str) -> list[_NodeKey]:
        name = (end.instance or "").split("[")[0]
        if name not in self.numbers:
            raise FormatError(f"{where}: instance {name!r} is not listed in instances")
        i = self.numbers[name]
        at = indices(end.instance or "", self.file.instances[i].count, where)
        nodes = self.expansion.nodes_named(self.parts[i], end.component, where)
        return [(i, box_at, node) for box_at in at for node in nodes]

    def _join_boxes(self, a: _NodeKey, b: _NodeKey, cost: Cost) -> None:
        """Join two boxes. If several ranks use one exit, they share it."""
        first_exits, second_exits = (self.boxes[end[0]].exits[end[2]] for end in (a, b))
        made = []
        for first in first_exits:
            for second in second_exits:
                ends = (*a[:2], first.node), (*b[:2], second.node)
                path_cost = first.cost.followed_by(cost).followed_by(second.cost)
                self._add(*ends, path_cost)
                made.append((ends, path_cost.gb_per_s))
        if len(made) > 1:
            self.shared.append(([ends for ends, _ in made], max(speed for _, speed in made)))

    def _add(self, a: _NodeKey, b: _NodeKey, cost: Cost) -> None:
        if a != b:
            edge = self.adjacent.setdefault(a, {}).setdefault(b, _Edge())
            self.adjacent.setdefault(b, {})[a] = edge
            edge.costs.append(cost)

    def simplify(self) -> None:
        """Remove nodes on no path between ranks, and nodes with only two neighbors."""
        kept = set(self.ranks).union(*(ends for pairs, _ in self.shared for ends in pairs))
        queue = [node for node in sorted(self.adjacent) if node not in kept]
        for node in queue:  # grows while it is walked
            around = sorted(self.adjacent.get(node, ()))
            if node not in self.adjacent or len(around) > 2:
                continue
            if len(around) == 2:
                first, second = (self.adjacent[node][neighbor].costs for neighbor in around)
                if len(first) > 1 or len(second) > 1:
                    continue
                self._add(around[0], around[1], first[0].followed_by(second[0]))
            for neighbor in around:
                del self.adjacent[neighbor][node]
            del self.adjacent[node]
            queue += [neighbor for neighbor in around if neighbor not in kept]
        reached = self._reachable_nodes()
        for node in [node for node in self.adjacent if node not in reached]:
            del self.adjacent[node]

    def _reachable_nodes(self) -> set[_NodeKey]:
        reached = set(self.ranks)
        queue = list(self.ranks)
        for node in queue:
            for neighbor in self.adjacent.get(node, ()):
                if neighbor not in reached:
                    reached.add(neighbor)
                    queue.append(neighbor)
        return reached

    def to_imported(self, hints: Hints, annotated: dict[str, int]) -> Imported:
        ranks = self._ordered_ranks(annotated)
        switches = sorted(set(self.adjacent) - set(ranks))
        number = {node: i for i, node in enumerate((*ranks, *switches))}
        links = tuple(
            _link(number[a], number[b], edge.costs, self.costs)
            for a, around in sorted(self.adjacent.items())
            for b, edge in sorted(around.items())
        )
        if not links:
            raise FormatError("no edge joins two components of choice xpu: list the edges")
        is_single = len(self.file.instances) == 1 and self.file.instances[0].count == 1
        first = links[0]
        topology = Topology(
            name=self.file.name or hints.name,
            ranks=len(ranks),
            links=links,
            alpha_us=first.alpha_us,
            gb_per_s=first.gb_per_s,
            budgets=self._budgets(number),
            switches=tuple(Switch(self._name(node, is_single=is_single)) for node in switches),
            chassis=() if is_single else self._chassis(ranks),
            labels=tuple(self._name(node, is_single=is_single) for node in ranks),
            source=f"imported: {ABOUT}",
        )
        return Imported(
            topology,
            self._understood_notes(topology, annotated),
            self._assumption_notes(),
            self._nics(number),
        )

    def _ordered_ranks(self, annotated: dict[str, int]) -> list[_NodeKey]:
        numbers = [annotated.get(self._name(node, is_single=False)) for node in self.ranks]
        if None in numbers or len(set(numbers)) != len(numbers):
            if annotated:
                self.costs.add_assumption(
                    "ranks are in the order of the file: not all are annotated"
                )
            return self.ranks
        return [node for _, node in sorted(zip(numbers, self.ranks, strict=True))]

    def _name(self, node: _NodeKey, *, is_single: bool) -> str:
        i, at, index = node
        path = self.parts[i].paths[index]
        return path if is_single else f"{self.file.instances[i].name}.{at}.{path}"

    def _chassis(self, ranks: list[_NodeKey]) -> tuple[tuple[int, ...], ...]:
        boxes: dict[tuple[int, int], list[int]] = {}
        for rank, (i, at, _) in enumerate(ranks):
            boxes.setdefault((i, at), []).append(rank)
        return tuple(map(tuple, boxes.values())) if len(boxes) < len(ranks) else ()

    def _budgets(self, number: dict[_NodeKey, int]) -> tuple[Budget, ...]:
        """Return the budgets of ranks with a shared exit, with equal budgets merged."""
        alike: Counter[tuple[tuple[tuple[int, int], ...], float]] = Counter()
        for pairs, speed in self.shared:
            if all(a in number and b in number for a, b in pairs):
                edges = [(number[a], number[b]) for a, b in pairs]
                alike[tuple(sorted(edges)), speed] += 1
                alike[tuple(sorted((b, a) for a, b in edges)), speed] += 1
        return tuple(
            Budget(f"way {i}", edges, count, speed)
            for i, ((edges, speed), count) in enumerate(sorted(alike.items()))
        )

    def _nics(self, number: dict[_NodeKey, int]) -> tuple[Nic, ...]:
        """Return the network cards of a machine that is a single box."""
        if len(self.file.instances) != 1 or self.file.instances[0].count != 1 or self.file.edges:
            return ()
        parts = self.parts[0]
        nodes = [node for node, kind in enumerate(parts.kinds) if kind == NIC]
        enclosure = build_enclosure(parts, nodes, self.costs)
        if not enclosure.has_fabric:
            return ()
        return tuple(
            Nic(parts.paths[node], tuple(number[0, 0, path.node] for path in paths), None, None)
            for node, paths in enclosure.exits.items()
            if paths
        )

    def _understood_notes(self, topology: Topology, annotated: dict[str, int]) -> tuple[str, ...]:
        lines = [
            f"{row.count} of instance {row.name!r}, each {row.device!r} with "
            + format_count(len(parts.xpus()), "xpu")
            for row, parts in zip(self.file.instances, self.parts, strict=True)
        ]
        lines.append(
            f"{format_count(topology.ranks, 'rank')}, {format_count(len(topology.links), 'link')}, "
            f"{format_count(len(topology.switches), 'switch')} and "
            f"{format_count(len(topology.budgets), 'shared budget')}"
        )
        for i, parts in enumerate(self.parts):
            if self.boxes[i].has_fabric:
                lines.append(
                    f"xpus of {parts.device.name!r} have direct links; CPUs and PCIe lead out of "
                    "the box only"
                )
        if annotated:
            lines.append(f"{len(annotated)} annotations of ranks")
        return tuple(dict.fromkeys(lines))

    def _assumption_notes(self) -> tuple[str, ...]:
        if self.costs.without_alpha:
            self.costs.add_assumption(
                f"alpha of links without one is {self.costs.alpha_us:g} us; --alpha-us overrides it"
            )
        for parts in self.parts:
            for text in dict.fromkeys(parts.unresolved):
                self.costs.add_assumption(
                    f"edges to {text!r} are left out: {parts.device.name!r} has no such component"
                )
        return tuple(self.costs.assumed)


def _link(src: int, dst: int, path_costs: list[Cost], costs: EdgePricing) -> Link:
    alpha_us = max(path_cost.alpha_us for path_cost in path_costs)
    speeds = [path_cost.gb_per_s for path_cost in path_costs]
    if inf in speeds:
        costs.add_assumption("edges of boxes with unknown bandwidth carry 50 GB/s")
        speeds = [min(speed, 50.0) for speed in speeds]
    if len(set(speeds)) == 1:
        return Link(src, dst, len(speeds), alpha_us, speeds[0])
    return Link(src, dst, 1, alpha_us, sum(speeds))
