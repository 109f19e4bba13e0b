"""Convert topologies to files and back."""

from __future__ import annotations

from dataclasses import asdict
from itertools import permutations
from pathlib import Path

import msgspec

from sccl.core.files.disk import read_text, write_atomically
from sccl.core.files.json_text import parse, to_text
from sccl.core.files.shapes import BudgetWire, LinkWire, SwitchWire, TopologyWire
from sccl.core.topology import (
    MAX_FULL_MESH_RANKS,
    MAX_RANKS,
    Budget,
    Link,
    Switch,
    Topology,
    per_rank_budgets,
)
from sccl.errors import FormatError, InputError, ParameterError, TooLargeError

_MAX_UNLINKED = 2**10
"""Number of ranks that a machine may have in addition to twice the number of its links."""


def load_topology(path: Path) -> Topology:
    """Return the topology in a file.

    Raises:
        InputError: the file cannot be read, or is not a topology.
    """
    where = str(path)
    return topology_from_wire(parse(read_text(path), TopologyWire, where), where)


def write_topology(path: Path, topology: Topology) -> None:
    """Write the file of a topology atomically.

    Raises:
        InputError: The file cannot be written.
    """
    write_atomically(path, to_text(topology_to_wire(topology)))


def topology_to_wire(topology: Topology) -> TopologyWire:
    """Return the file shape of a topology."""
    t = topology
    return TopologyWire(
        name=t.name,
        source=t.source,
        ranks=t.ranks,
        alpha_us=t.alpha_us,
        gb_per_s=t.gb_per_s,
        links=tuple(
            LinkWire(
                src=k.src,
                dst=k.dst,
                lanes=k.lanes,
                alpha_us=None if k.alpha_us == t.alpha_us else k.alpha_us,
                gb_per_s=None if k.gb_per_s == t.gb_per_s else k.gb_per_s,
            )
            for k in t.links
        ),
        budgets=tuple(
            BudgetWire(
                name=b.name,
                edges=b.edges,
                chunks_per_round=b.chunks_per_round,
                gb_per_s=b.gb_per_s,
            )
            for b in t.budgets
        ),
        switches=tuple(map(_switch_to_wire, t.switches)),
        chassis=t.chassis,
        labels=t.labels,
        pci_bus_ids=t.pci_bus_ids,
    )


def topology_from_wire(wire: TopologyWire, where: str) -> Topology:
    """Return the topology of a file shape.

    Raises:
        FormatError: It is inconsistent, or has far more ranks than links.
    """
    try:
        links = _all_links_from_wire(wire)
        _check_linked(wire.ranks, len(links))
        budgets = [Budget(b.name, b.edges, b.chunks_per_round, b.gb_per_s) for b in wire.budgets]
        return Topology(
            name=wire.name,
            source=wire.source,
            ranks=wire.ranks,
            alpha_us=wire.alpha_us,
            gb_per_s=wire.gb_per_s,
            links=links,
            budgets=(*budgets, *_sides_from_wire(wire, links)),
            switches=tuple(map(_switch_from_wire, wire.switches)),
            chassis=wire.chassis,
            labels=wire.labels,
            pci_bus_ids=wire.pci_bus_ids,
        )
    except InputError as error:
        raise FormatError(f"{where}: {error}") from error


def _switch_to_wire(switch: Switch) -> str | SwitchWire:
    return switch.name if switch.is_plain else SwitchWire(**asdict(switch))


def _switch_from_wire(wire: str | SwitchWire) -> Switch:
    return Switch(wire) if isinstance(wire, str) else Switch(*msgspec.structs.astuple(wire))


def _all_links_from_wire(wire: TopologyWire) -> tuple[Link, ...]:
    """Return the links of a file. Without a list but with 'egress', they are those of a switch."""
    if wire.links or wire.egress is None:
        return tuple(link for k in wire.links for link in _links_from_wire(k, wire))
    if not 2 <= wire.ranks <= MAX_FULL_MESH_RANKS:
        raise ParameterError(
            f"topology {wire.name!r}: 'egress' without 'links' joins every rank to every other, "
            f"and ranks is {wire.ranks}, expected 2 to {MAX_FULL_MESH_RANKS}"
        )
    lanes = min(_egress_and_ingress(wire))
    pairs = permutations(range(wire.ranks), 2)
    return tuple(Link(u, v, lanes, wire.alpha_us, wire.gb_per_s) for u, v in pairs)


def _sides_from_wire(wire: TopologyWire, links: tuple[Link, ...]) -> list[Budget]:
    if wire.egress is None and wire.ingress is None:
        return []
    if wire.switches:
        raise ParameterError(
            f"topology {wire.name!r}: 'egress' and 'ingress' limit links between ranks; for ranks "
            "at switches the lanes of their links do this, so leave them out"
        )
    return per_rank_budgets([link.edge for link in links], *_egress_and_ingress(wire))


def _egress_and_ingress(wire: TopologyWire) -> tuple[int, int]:
    """Return egress and ingress. If one is missing, it equals the other.

    Raises:
        ParameterError: One is below 1.
    """
    sides = [n for n in (wire.egress, wire.ingress) if n is not None]
    for n in sides:
        if n < 1:
            raise ParameterError(
                f"topology {wire.name!r}: 'egress' and 'ingress' are chunks per round, expected at "
                f"least 1, not {n}"
            )
    return sides[0], sides[-1]


def _check_linked(ranks: int, links: int) -> None:
    max_ranks = _MAX_UNLINKED + 2 * links
    if max_ranks < ranks <= MAX_RANKS:  # the topology itself complains of more
        raise TooLargeError(
            f"{ranks} ranks and {links} links, so most ranks have no links; with so few links, "
            f"this version reads up to {max_ranks} ranks: remove ranks without links"
        )


def _links_from_wire(wire: LinkWire, topology: TopologyWire) -> tuple[Link, ...]:
    alpha = topology.alpha_us if wire.alpha_us is None else wire.alpha_us
    bandwidth = topology.gb_per_s if wire.gb_per_s is None else wire.gb_per_s
    forward = Link(wire.src, wire.dst, wire.lanes, alpha, bandwidth)
    back = Link(wire.dst, wire.src, wire.lanes, alpha, bandwidth)
    return (forward, back) if wire.both_ways else (forward,)
