"""Model a machine for synthesis: lanes of one speed, and links instead of switches.

A round is the time in which a lane carries one chunk, so synthesis needs equally fast lanes on the
whole machine. Their speed is the greatest common divisor of the stated speeds, taken as written
decimals: a lane of 100, 25 or 12.5 GB/s becomes 8, 2 or 1 lanes of 12.5 GB/s. The replacement is
exact.

Switches are replaced by links between ranks with shared budgets, if that is exactly equivalent. A
switch forwards every chunk within a step and stores nothing (SCCL section 3.2.1). With a_i lanes
from rank i to it and b_j lanes from it to rank j, chunks x_ij can pass in r rounds if and only if

    sum over j of x_ij <= a_i r and sum over i of x_ij <= b_j r.

So the switch is replaced by links i->j of min(a_i, b_j) lanes, an egress budget a_i and an ingress
budget b_j. Parallel switches (planes) over the same ranks, in plane p with k_p a_i and k_p b_j
lanes, are equivalent to one switch with the sums of their lanes. Proof: let K be the sum of k_p. A
bipartite multigraph whose degrees are at most K d_v has an edge coloring with K colors that splits
each degree as evenly as integers allow (de Werra 1971), so each node has at most d_v edges of each
color. Plane p takes k_p colors. Conversely, the loads of planes fit the sums.

There is no such equivalence if a pair of ranks has two paths with separate lanes, or if switches
lead to switches. Such machines are rejected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sccl.core.formatting import format_count
from sccl.core.ids import Edge
from sccl.core.topology import Budget, Link, Topology, link_name
from sccl.errors import TopologyError

MAX_LANES = 10_000
"""Maximum number of lanes of a link or a budget. Speeds of 900 and 1.25 GB/s need 720. Unrounded
speeds need more lanes, and then algorithms have too many chunks for any solver.
"""


@dataclass(frozen=True, slots=True)
class MachineModel:
    """The machine model that synthesis, bounds and limits use.

    Attributes:
        topology: The model, which is the machine itself if all lanes are equally fast and it has
            no switches.
        notes: Descriptions of the changes, which are also in the model's ``source``.
    """

    topology: Topology
    notes: tuple[str, ...]


def machine_model(topology: Topology) -> MachineModel:
    """Return the model of a machine for k-synchronous synthesis, with exactly the same rates.

    Raises:
        TopologyError: Links with lanes of one speed and budgets cannot model the machine.
    """
    even, speeds = unify_lane_speeds(topology)
    direct, switches = expand_switches(even)
    return MachineModel(direct, tuple(filter(None, (speeds, switches))))


def unify_lane_speeds(topology: Topology) -> tuple[Topology, str]:
    """Return the machine with equally fast lanes, and a note on the change (empty: no change).

    A budget counts chunks at its stated speed. Without a stated speed, it counts them at the speed
    of its links, or, if these differ, at the speed of the machine.

    Raises:
        TopologyError: A link or budget would have more than :data:`MAX_LANES` lanes.
    """
    stated = set(_stated_speeds(topology))
    if len(stated) == 1:
        return topology, ""
    of_budgets = topology.budget_speeds()
    unit = _common_divisor(map(_parse_decimal, stated.union(of_budgets)))
    fits = _LaneCounts(topology, unit)
    links = tuple(
        replace(k, lanes=fits.lanes(k.lanes, k.gb_per_s), gb_per_s=float(unit))
        for k in topology.links
    )
    budgets = tuple(
        replace(b, chunks_per_round=fits.lanes(b.chunks_per_round, speed), gb_per_s=None)
        for b, speed in zip(topology.budgets, of_budgets, strict=True)
    )
    note = _lanes_note(unit, stated) + _mixed_budgets_note(topology)
    source = f"{topology.source}; {note}" if topology.source else note
    made = replace(topology, links=links, budgets=budgets, gb_per_s=float(unit), source=source)
    return made, note


def _stated_speeds(topology: Topology) -> dict[float, str]:
    """Return every stated speed, with the name of the first link or budget that states it."""
    speeds: dict[float, str] = {}
    for link in topology.links:
        speeds.setdefault(link.gb_per_s, link_name(link.edge))
    for budget in topology.budgets:
        if budget.gb_per_s is not None:
            speeds.setdefault(budget.gb_per_s, f"budget {budget.name!r}")
    return speeds


def _parse_decimal(speed: float) -> Fraction:
    """Return a speed as the decimal that was written: 12.1 is 121/10, not the nearest double."""
    return Fraction(str(speed))


def _common_divisor(values: Iterable[Fraction]) -> Fraction:
    """Return the greatest common divisor of rational values."""
    divisor = Fraction(0)
    for value in values:
        scale = math.lcm(divisor.denominator, value.denominator)
        divisor = Fraction(math.gcd(int(divisor * scale), int(value * scale)), scale)
    return divisor


class _LaneCounts:
    """Conversion of a machine's lanes to lanes of the unit speed."""

    def __init__(self, topology: Topology, unit: Fraction) -> None:
        self._topology = topology
        self._unit = unit

    def lanes(self, lanes: int, speed: float) -> int:
        """Return the number of lanes of the unit speed that replace lanes of a speed."""
        count = lanes * _parse_decimal(speed) / self._unit
        if count > MAX_LANES:
            raise TopologyError(self._refusal())
        return int(count)

    def _refusal(self) -> str:
        stated = _stated_speeds(self._topology)
        slow, fast = _incommensurable_pair(stated)
        return (
            f"topology {self._topology.name!r}: a lane of {stated[slow]} has "
            f"{format_number(slow)} GB/s, one of {stated[fast]} {format_number(fast)} GB/s; in "
            "lanes of one "
            f"speed, {format_number(float(self._unit))} GB/s, some link or budget would have more "
            "than "
            f"{MAX_LANES}, the most that is taken: round gb_per_s so that each is a small multiple "
            "of the same number, as in 100, 25 and 12.5"
        )


def _incommensurable_pair(speeds: Iterable[float]) -> tuple[float, float]:
    """Return the pair of speeds with the smallest common divisor."""
    ascending = sorted(speeds)
    pairs = [(a, b) for a in ascending[:64] for b in ascending[-64:] if a < b]
    return min(pairs, key=lambda pair: _common_divisor(map(_parse_decimal, pair)))


def _lanes_note(unit: Fraction, stated: Iterable[float]) -> str:
    each = [
        f"{'a lane' if i == 0 else 'one'} of {format_number(speed)} GB/s is "
        f"{_parse_decimal(speed) / unit}"
        for i, speed in enumerate(sorted(stated, reverse=True))
    ]
    shown = each if len(each) <= 6 else [*each[:5], f"and {len(each) - 5} more speeds"]
    return f"lanes of {format_number(float(unit))} GB/s: {', '.join(shown)}"


def _mixed_budgets_note(topology: Topology) -> str:
    """Return a note on the speed assumed for budgets over links of different speeds, or empty."""
    speeds = {link.edge: link.gb_per_s for link in topology.links}
    silent = [b for b in topology.budgets if b.gb_per_s is None]
    mixed = [b for b in silent if len({speeds[edge] for edge in b.edges}) > 1]
    if not mixed:
        return ""
    which = "a budget" if len(mixed) == 1 else "budgets"
    return (
        f"; {which} over links of different speed in chunks of {format_number(topology.gb_per_s)} "
        f"GB/s"
    )


def format_number(value: float) -> str:
    """Return the shortest text of a number that reads back as the same number."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else str(value)


_MAX_LINKS = 1 << 20  # that of 1,024 ranks around one switch

Lanes = tuple[tuple[int, int], ...]
"""(rank, lanes), by ascending rank."""


@dataclass(frozen=True, slots=True)
class _Plane:
    """Parallel switches, each with a multiple of the same lanes.

    Attributes:
        nodes: The switches.
        up: Total lanes from ranks to these switches.
        down: Total lanes from these switches to ranks.
    """

    nodes: tuple[int, ...]
    up: Lanes
    down: Lanes

    def edges(self) -> Iterable[Edge]:
        """Yield the pairs of ranks that the plane joins."""
        return ((u, v) for u, _ in self.up for v, _ in self.down if u != v)


def expand_switches(topology: Topology) -> tuple[Topology, str]:
    """Return the machine with links instead of switches, and a note (empty: no change).

    All lanes must have one speed (:func:`sccl.topo.machine_model.unify_lane_speeds`). The latency
    of a new link is the sum of the latencies of the two links over the switch, or the largest such
    sum if there are parallel switches.

    Raises:
        TopologyError: Links and budgets cannot model the switches.
    """
    if not topology.switches:
        return topology, ""
    _check_plain(topology)
    _check_cascades(topology)
    planes = _planes(topology)
    _check_parallel_routes(topology, planes)
    links = [k for k in topology.links if max(k.edge) < topology.ranks]
    replaced: dict[Edge, tuple[Edge, ...]] = {k.edge: (k.edge,) for k in links}
    budgets: list[Budget] = []
    for plane in planes:
        more, shared = _expand_plane(topology, plane)
        links += more
        budgets += shared
        replaced |= _pairs_through_links(plane)
    if not links:
        raise TopologyError(
            f"topology {topology.name!r}: its switches join no two ranks; give each switch links "
            "from ranks and links to ranks"
        )
    budgets += _remap_budgets(topology, replaced, planes)
    note = _switches_note(topology, planes)
    source = f"{topology.source}; {note}" if topology.source else note
    direct = replace(
        topology, links=tuple(links), budgets=tuple(budgets), switches=(), source=source
    )
    return direct, note


def _check_plain(topology: Topology) -> None:
    for switch in topology.switches:
        if not switch.is_plain:
            raise TopologyError(
                f"topology {topology.name!r}: switch {switch.name!r} copies or stores chunks, and "
                "links with budgets between ranks cannot express its load; give only its name, "
                "for a switch that forwards and stores nothing"
            )


def _check_cascades(topology: Topology) -> None:
    for link in topology.links:
        if min(link.edge) >= topology.ranks:
            first, second = (_name(topology, node) for node in link.edge)
            raise TopologyError(
                f"topology {topology.name!r}: switch {first} leads to switch {second}, and links "
                "with budgets between ranks cannot express the load of such a cascade; if the "
                "cascade is non-blocking, model it as one switch with a link to every rank, "
                "otherwise as links between the ranks with a budget for each trunk"
            )


def _planes(topology: Topology) -> list[_Plane]:
    """Return the planes: groups of switches whose lanes are multiples of the same lanes."""
    alike: dict[tuple[Lanes, Lanes], list[tuple[int, int]]] = {}
    for node in range(topology.ranks, topology.ranks + len(topology.switches)):
        up = tuple((k.src, k.lanes) for k in topology.links if k.dst == node)
        down = tuple((k.dst, k.lanes) for k in topology.links if k.src == node)
        if up or down:
            times = math.gcd(*(lanes for _, lanes in (*up, *down)))
            key = _divide_lanes(up, times), _divide_lanes(down, times)
            alike.setdefault(key, []).append((node, times))
    planes = []
    for (up, down), members in alike.items():
        times = sum(n for _, n in members)
        nodes = tuple(node for node, _ in members)
        planes.append(_Plane(nodes, _multiply_lanes(up, times), _multiply_lanes(down, times)))
    if sum(len(p.up) * len(p.down) for p in planes) > _MAX_LINKS:
        raise TopologyError(
            f"topology {topology.name!r}: its switches join more than {_MAX_LINKS} pairs of ranks, "
            "the most that is taken; model fewer ranks"
        )
    return planes


def _divide_lanes(lanes: Lanes, by: int) -> Lanes:
    return tuple((rank, n // by) for rank, n in lanes)


def _multiply_lanes(lanes: Lanes, by: int) -> Lanes:
    return tuple((rank, n * by) for rank, n in lanes)


def _check_parallel_routes(topology: Topology, planes: Sequence[_Plane]) -> None:
    """Check that no two ranks are joined by two routes with separate lanes.

    Raises:
        TopologyError: Two ranks are.
    """
    hops = {k.edge: "a link" for k in topology.links if max(k.edge) < topology.ranks}
    for plane in planes:
        name = f"switch {_name(topology, plane.nodes[0])}"
        for edge in plane.edges():
            if edge in hops:
                raise TopologyError(
                    f"topology {topology.name!r}: rank {edge[0]} reaches rank {edge[1]} through "
                    f"{hops[edge]} and through {name}, which have separate lanes; links with "
                    "budgets cannot express that exactly: remove one of the routes, or write "
                    "links between the ranks with the budgets that hold"
                )
            hops[edge] = name


def _expand_plane(topology: Topology, plane: _Plane) -> tuple[list[Link], list[Budget]]:
    """Return the links between ranks and the budgets that are equivalent to a plane."""
    up, down = dict(plane.up), dict(plane.down)
    costs = {k.edge: k for k in topology.links}
    speed = topology.links[0].gb_per_s
    links = []
    for u, v in plane.edges():
        alphas = [costs[u, s].alpha_us + costs[s, v].alpha_us for s in plane.nodes]
        links.append(Link(u, v, min(up[u], down[v]), max(alphas), speed))
    budgets = []
    for end, side, sides in ((0, "egress of", up), (1, "ingress of", down)):
        for rank, lanes in sides.items():
            rank_links = [k for k in links if k.edge[end] == rank]
            if sum(k.lanes for k in rank_links) > lanes:  # else implied by the links
                switch = topology.switches[plane.nodes[0] - topology.ranks].name
                name = f"{side} rank {rank} at switch {switch}"
                budgets.append(Budget(name, tuple(k.edge for k in rank_links), lanes))
    return links, budgets


def _pairs_through_links(plane: _Plane) -> dict[Edge, tuple[Edge, ...]]:
    """Map every link of a plane to the pairs of ranks whose chunks pass it or a parallel link."""
    pairs = list(plane.edges())
    users = {(u, s): tuple(e for e in pairs if e[0] == u) for u, _ in plane.up for s in plane.nodes}
    return users | {
        (s, v): tuple(e for e in pairs if e[1] == v) for v, _ in plane.down for s in plane.nodes
    }


def _remap_budgets(
    topology: Topology, replaced: dict[Edge, tuple[Edge, ...]], planes: Sequence[_Plane]
) -> Iterable[Budget]:
    """Yield the machine's budgets, on the links that replace the links of switches.

    Raises:
        TopologyError: A budget counts a chunk twice, or limits some but not all parallel switches.
    """
    plane_nodes = {node: plane.nodes for plane in planes for node in plane.nodes}
    for budget in topology.budgets:
        likes = {edge: _parallel_links(edge, plane_nodes) for edge in budget.edges}
        # A chunk may take any plane, so a budget has to limit all planes or none.
        if not set(budget.edges).issuperset(edge for like in likes.values() for edge in like):
            raise TopologyError(_refusal(topology, budget, "limits some of several like switches"))
        edges = [new for first in sorted(set(map(min, likes.values()))) for new in replaced[first]]
        if len(set(edges)) != len(edges):
            raise TopologyError(_refusal(topology, budget, "counts a chunk into and out of one"))
        if edges:
            yield replace(budget, edges=tuple(edges))


def _parallel_links(edge: Edge, plane_nodes: dict[int, tuple[int, ...]]) -> list[Edge]:
    """Return the parallel links of a link, which chunks may take instead, including itself."""
    src, dst = edge
    return [(a, b) for a in plane_nodes.get(src, (src,)) for b in plane_nodes.get(dst, (dst,))]


def _refusal(topology: Topology, budget: Budget, why: str) -> str:
    return (
        f"topology {topology.name!r}, budget {budget.name!r}: it {why}, which budgets of links "
        "between ranks cannot express exactly; take it out, or model the switches as links"
    )


def _name(topology: Topology, node: int) -> str:
    return repr(topology.switches[node - topology.ranks].name)


def _switches_note(topology: Topology, planes: Sequence[_Plane]) -> str:
    names = [_name(topology, node) for plane in planes for node in plane.nodes]
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    links = format_count(sum(1 for plane in planes for _ in plane.edges()), "link")
    which = "switch" if len(names) == 1 else "switches"
    return f"{which} {shown} as {links} between ranks with egress and ingress budgets"
