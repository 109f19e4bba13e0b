"""Find the paths between ranks in an InfraGraph device: the XPU fabric, and exits from the box.

If links that join only XPUs and switches (NVLink, xGMI, ICI) connect all XPUs, then the rest of the
box leads only out of it. Each exit belongs to the XPUs nearest to it. If several exits are equally
near, the XPUs are divided among them. Otherwise all parts of the box forward data, including CPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from sccl.core.graphs import connected_components
from sccl.core.topology import check_cost
from sccl.errors import FormatError
from sccl.topo.importers.common import gpus
from sccl.topo.importers.common.infragraph_nodes import SWITCH, XPU, Amount, EdgeKind, Parts

_PCIE = re.compile(r"pci", re.IGNORECASE)
_GENERATION = re.compile(r"gen[\s_-]*([1-6])", re.IGNORECASE)
_LANES = re.compile(r"\bx(1|2|4|8|16)\b", re.IGNORECASE)

NodePair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an edge or path: GB/s per direction (infinite: no limit), and microseconds."""

    gb_per_s: float
    alpha_us: float

    def followed_by(self, after: Cost) -> Cost:
        """Return the cost of this path followed by another."""
        return Cost(min(self.gb_per_s, after.gb_per_s), self.alpha_us + after.alpha_us)


@dataclass(slots=True)
class EdgePricing:
    """The costs of edges, and the assumptions made for them, in order.

    Attributes:
        gpu: GPU model of the XPUs from the user. None: unknown.
        alpha_us: Latency of links that state none, microseconds.
        gpu_cache: GPU model of a device's XPUs, by device.
    """

    gpu: str | None
    alpha_us: float
    assumed: dict[str, None] = field(default_factory=dict)
    alphas: set[float] = field(default_factory=set)
    without_alpha: bool = False
    gpu_cache: dict[str, gpus.Gpu | None] = field(default_factory=dict)

    def stated_costs(self, kind: EdgeKind) -> tuple[float | None, float | None]:
        """Return the GB/s and the us that a link states.

        Raises:
            FormatError: They are invalid.
        """
        physical, where = kind.link.physical, f"link {kind.link.name!r}: "
        if physical is None:
            return None, None
        speed = _gb_per_s(physical.bandwidth, kind)
        alpha = _alpha_us(physical.latency)
        names = ("its latency in us", "its bandwidth in GB/s")
        check_cost(
            where, alpha or 0.0, 1.0 if speed is None else speed, error=FormatError, names=names
        )
        return speed, alpha

    def host_cost(self, kind: EdgeKind, parts: Parts) -> Cost:
        """Return the cost of an edge on an exit path, where a missing value means no limit."""
        speed, alpha_us = self.stated_costs(kind)
        text = f"{kind.link.name} {kind.link.description or ''}"
        if speed is None and _PCIE.search(text):
            match = _GENERATION.search(text)
            gpu = self.identify_gpu(parts)
            generation = int(match[1]) if match else (gpu.pcie if gpu else 4)
            speed = gpus.pcie_gb_per_s(generation)
            self.add_assumption(
                f"link {kind.link.name!r} is 16 lanes of PCIe {generation}, {speed:g} GB/s per "
                "direction"
            )
        return Cost(inf if speed is None else speed, alpha_us or 0.0)

    def network_cost(self, kind: EdgeKind) -> Cost:
        """Return the cost of an edge between boxes."""
        speed, alpha_us = self.stated_costs(kind)
        if speed is None:
            speed = 50.0
            self.add_assumption(
                f"link {kind.link.name!r} is 50 GB/s (a NIC of 400 Gb/s): the file has none"
            )
        return Cost(speed, self.alpha(alpha_us))

    def alpha(self, alpha_us: float | None) -> float:
        """Return a stated latency, or else the default."""
        if alpha_us is None:
            self.without_alpha = True
            return self.alpha_us
        return alpha_us

    def add_assumption(self, line: str) -> None:
        """Record an assumption, once."""
        self.assumed[" ".join(line.split())] = None

    def identify_gpu(self, parts: Parts) -> gpus.Gpu | None:
        """Return the GPU model of a device's XPUs, from the user or from its descriptions."""
        name = parts.device.name
        if name not in self.gpu_cache:
            candidates = (gpus.find_gpu(parts.about[node]) for node in parts.xpus())
            user_gpu = None if self.gpu is None else gpus.parse_gpu(self.gpu)
            self.gpu_cache[name] = user_gpu or next(filter(None, candidates), None)
        return self.gpu_cache[name]


def _gb_per_s(amount: Amount | None, kind: EdgeKind) -> float | None:
    if amount is None:
        return None
    if amount.gigabytes_per_second is not None:
        return amount.gigabytes_per_second
    if amount.gigabits_per_second is not None:
        return amount.gigabits_per_second / 8
    if amount.gigatransfers_per_second is not None:
        match = _LANES.search(f"{kind.link.name} {kind.link.description or ''}")
        return amount.gigatransfers_per_second * int(match[1] if match else 16) / 8
    return None


def _alpha_us(amount: Amount | None) -> float | None:
    if amount is None:
        return None
    if amount.us is not None:
        return amount.us
    if amount.ns is not None:
        return amount.ns / 1000
    return None if amount.ms is None else amount.ms * 1000


@dataclass(frozen=True, slots=True)
class ExitRoute:
    """A path to a node of a device: a rank, or a node that forwards."""

    node: int
    cost: Cost


@dataclass(frozen=True, slots=True)
class Enclosure:
    """The part of a device that paths between ranks use.

    Attributes:
        edges: Edges that forward, with their cost.
        exits: Paths from each node at which outside edges end. Nodes may share a path.
        has_fabric: Whether XPUs reach one another without the rest of the box.
    """

    edges: dict[NodePair, Cost]
    exits: dict[int, tuple[ExitRoute, ...]]
    has_fabric: bool


def build_enclosure(parts: Parts, exits: Iterable[int], costs: EdgePricing) -> Enclosure:
    """Return the part of a device that paths use, if ``exits`` are joined to other devices."""
    xpus, ends = parts.xpus(), sorted(set(exits))
    if not xpus:
        first = _first_nodes(range(len(parts.paths)), parts.edges)
        inside = _forwarding_cost(parts, costs)
        return Enclosure({}, {e: (ExitRoute(first[e], inside),) for e in ends}, has_fabric=False)
    fabric = _fabric_edges(parts)
    group = _first_nodes(range(len(parts.paths)), fabric)
    if len({group[xpu] for xpu in xpus}) == 1:
        edges = _fabric_costs(parts, fabric, costs)
        return Enclosure(edges, _shared_exits(parts, ends, fabric, costs), has_fabric=True)
    edges = _fabric_costs(parts, fabric, costs)
    for pair, kind in parts.edges.items():
        if pair not in edges:
            cost = costs.host_cost(kind, parts)
            edges[pair] = Cost(cost.gb_per_s, costs.alpha(costs.stated_costs(kind)[1]))
    through = Cost(inf, 0.0)
    return Enclosure(edges, {e: (ExitRoute(e, through),) for e in ends}, has_fabric=False)


def _forwarding_cost(parts: Parts, costs: EdgePricing) -> Cost:
    """Return the cost of a box without XPUs: the lowest stated bandwidth, and no latency."""
    speeds = [
        costs.stated_costs(kind)[0]
        for kind in {k.link.name: k for k in parts.edges.values()}.values()
    ]
    return Cost(min((speed for speed in speeds if speed is not None), default=inf), 0.0)


def _fabric_edges(parts: Parts) -> dict[NodePair, EdgeKind]:
    """Return the edges whose link joins only XPUs and switches, and at least one XPU."""
    ends: dict[tuple[str | None, str], set[str]] = {}
    for (a, b), kind in parts.edges.items():
        ends.setdefault((kind.device, kind.link.name), set()).update(
            (parts.kinds[a], parts.kinds[b])
        )
    names = {key for key, kinds in ends.items() if XPU in kinds and kinds <= {XPU, SWITCH}}
    return {
        pair: kind for pair, kind in parts.edges.items() if (kind.device, kind.link.name) in names
    }


def _first_nodes(nodes: Iterable[int], edges: Iterable[NodePair]) -> dict[int, int]:
    """Return the first node of each node's connected component."""
    components = connected_components(nodes, edges).items()
    return {node: first for first, members in components for node in members}


def _fabric_costs(
    parts: Parts, fabric: dict[NodePair, EdgeKind], costs: EdgePricing
) -> dict[NodePair, Cost]:
    """Return the costs of edges between XPUs and their switches.

    If a link states no bandwidth, the links of the GPU are spread evenly over its edges, and
    switches forward between them at the full input rate.
    """
    degree: dict[tuple[str, int], int] = {}
    trunks: dict[tuple[str, int], int] = {}
    for (a, b), kind in fabric.items():
        between = parts.kinds[a] == parts.kinds[b] == SWITCH
        for node in (a, b):
            count = trunks if between else degree
            count[kind.link.name, node] = count.get((kind.link.name, node), 0) + 1
    xpus, max_degrees = set(parts.xpus()), dict[str, int]()
    for (name, node), edges in degree.items():
        if node in xpus:
            max_degrees[name] = max(edges, max_degrees.get(name, 0))
    edge_costs = {}
    for pair, kind in fabric.items():
        speed, alpha_us = costs.stated_costs(kind)
        if speed is None:
            each = _gpu_link_speed(parts, kind.link.name, max_degrees[kind.link.name], costs)
            speed = _assumed_speed(parts, pair, kind.link.name, (degree, trunks), costs, each)
        edge_costs[pair] = Cost(speed, costs.alpha(alpha_us))
    return edge_costs


def _gpu_link_speed(parts: Parts, name: str, max_degree: int, costs: EdgePricing) -> float:
    """Return the assumed rate of each edge of a link: a GPU's links spread over its edges.

    Args:
        max_degree: maximum number of edges of the link at an XPU.
    """
    gpu = costs.identify_gpu(parts)
    if gpu is None or not gpu.links:
        costs.add_assumption(
            f"link {name!r} is 25 GB/s per direction, because the GPU model is unknown: --gpu "
            "sets it"
        )
        return 25.0
    each = gpu.links * gpu.gb_per_s / max_degree
    costs.add_assumption(
        f"link {name!r} is {each:g} GB/s per direction: {gpu.links} links of a GPU "
        f"({gpu.name}) of {gpu.gb_per_s:g} over the {max_degree} edges of each ({gpu.source})"
    )
    return each


def _assumed_speed(  # noqa: PLR0913, PLR0917 - the properties of an edge
    parts: Parts,
    pair: NodePair,
    name: str,
    counts: tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]],
    costs: EdgePricing,
    each: float,
) -> float:
    if not parts.kinds[pair[0]] == parts.kinds[pair[1]] == SWITCH:
        return each
    degree, trunks = counts
    down = max(degree.get((name, node), 0) for node in pair)
    up = max(trunks[name, node] for node in pair)
    costs.add_assumption(f"switches of link {name!r} pass on all that they take in")
    return each * max(1, down) / up


def _shared_exits(
    parts: Parts, exits: Sequence[int], fabric: dict[NodePair, EdgeKind], costs: EdgePricing
) -> dict[int, tuple[ExitRoute, ...]]:
    """Return the XPUs of each exit, and the costs of their paths to it."""
    near: dict[int, dict[int, tuple[int, Cost]]] = {}
    neighbors: dict[int, list[tuple[int, EdgeKind]]] = {}
    for (a, b), kind in parts.edges.items():
        if (a, b) not in fabric:
            neighbors.setdefault(a, []).append((b, kind))
            neighbors.setdefault(b, []).append((a, kind))
    xpus = [node for node in exits if parts.kinds[node] == XPU]
    for node in exits:
        if parts.kinds[node] != XPU:
            near[node] = _nearest_xpus(parts, node, neighbors, costs)
    best: dict[int, int] = {}
    for nearest in near.values():
        for xpu, (hops, _) in nearest.items():
            best[xpu] = min(hops, best.get(xpu, hops))
    groups: dict[tuple[int, ...], list[int]] = {}
    for node, nearest in near.items():
        group_xpus = tuple(sorted(xpu for xpu, (hops, _) in nearest.items() if hops == best[xpu]))
        groups.setdefault(group_xpus, []).append(node)
    exit_paths: dict[int, tuple[ExitRoute, ...]] = {
        n: (ExitRoute(n, Cost(inf, 0.0)),) for n in xpus
    }
    for group_xpus, nodes in groups.items():
        for i, node in enumerate(nodes):
            mine = _exit_group(group_xpus, len(nodes), i)
            exit_paths[node] = tuple(ExitRoute(xpu, near[node][xpu][1]) for xpu in mine)
    return exit_paths


def _exit_group(xpus: tuple[int, ...], exits: int, i: int) -> tuple[int, ...]:
    """Return the XPUs of the i-th of several exits that are equally near to the same XPUs."""
    if exits >= len(xpus):
        return xpus[i * len(xpus) // exits :][:1]
    return tuple(xpu for j, xpu in enumerate(xpus) if j * exits // len(xpus) == i)


def _nearest_xpus(
    parts: Parts, start: int, neighbors: dict[int, list[tuple[int, EdgeKind]]], costs: EdgePricing
) -> dict[int, tuple[int, Cost]]:
    """Return the nearest XPUs of a node, each with the number of edges and the path's cost."""
    reached = {start: (0, Cost(inf, 0.0))}
    queue, xpus = [start], {}
    for node in queue:  # grows while it is walked: breadth first
        hops, cost = reached[node]
        if parts.kinds[node] == XPU:
            xpus[node] = (hops, cost)
            continue
        if xpus and hops >= min(hop for hop, _ in xpus.values()):
            break
        for neighbor, kind in sorted(neighbors.get(node, ()), key=lambda pair: pair[0]):
            if neighbor not in reached:
                reached[neighbor] = (hops + 1, cost.followed_by(costs.host_cost(kind, parts)))
                queue.append(neighbor)
    return xpus
