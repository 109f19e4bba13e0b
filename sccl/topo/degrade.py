"""Remove failed parts from machines, and add links to machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sccl.core.formatting import format_count
from sccl.core.ids import Edge
from sccl.core.topology import ASCENDING, BusIds, Link, Topology, link_name
from sccl.errors import ParameterError, TopologyError


def remove_parts(
    topology: Topology,
    links: Iterable[Edge] = (),
    ranks: Iterable[int] = (),
    lanes: Mapping[Edge, int] | None = None,
) -> Topology:
    """Return the machine without failed parts, ready for synthesis.

    Remaining ranks keep their order and are renumbered from 0. If a rank is removed, ``labels``
    contains the former numbers. Budgets lose the removed edges. GPUs keep their bus ids. If a rank
    is removed, the machine no longer states that GPUs are numbered in the order of bus ids, because
    the system may or may not still count the removed GPU.

    Args:
        lanes: Number of lost lanes by link. A link without lanes is removed.

    Raises:
        ParameterError: A link, lane or rank to remove does not exist.
    """
    dead_links, fewer = _remove_lanes(topology, lanes or {})
    gone, lost = {*links, *dead_links}, set(ranks)
    _check_present(topology, gone, lost)
    nodes = range(topology.ranks + len(topology.switches))
    number = {node: i for i, node in enumerate(n for n in nodes if n not in lost)}
    alive = {
        (src, dst): (number[src], number[dst])
        for src, dst in topology.edges - gone
        if src in number and dst in number
    }
    fewer = {edge: n for edge, n in fewer.items() if edge in alive}
    tags, failed = _describe_failures(gone, fewer, lost)
    return replace(
        topology,
        name=f"{topology.name}-without-{tags}",
        ranks=topology.ranks - len(lost),
        links=tuple(
            replace(k, src=ends[0], dst=ends[1], lanes=k.lanes - fewer.get(k.edge, 0))
            for k in topology.links
            if (ends := alive.get(k.edge))
        ),
        budgets=tuple(
            replace(b, edges=left)
            for b in topology.budgets
            if (left := tuple(alive[e] for e in b.edges if e in alive))
        ),
        chassis=tuple(
            survivors
            for members in topology.chassis
            if (survivors := tuple(number[r] for r in members if r in number))
        ),
        labels=_remaining_labels(topology, lost),
        pci_bus_ids=_remaining_bus_ids(topology, lost),
        source=f"{topology.source}; {failed}" if topology.source else failed,
    )


def _check_present(topology: Topology, links: set[Edge], ranks: set[int]) -> None:
    """Check that a machine has the links and ranks to remove.

    Raises:
        ParameterError: A link or rank is missing.
    """
    for src, dst in sorted(links - topology.edges):
        raise ParameterError(
            f"topology {topology.name!r} has no link {src}->{dst} to take out; "
            "see its links with 'sccl topo show'"
        )
    for rank in sorted(ranks):
        if not 0 <= rank < topology.ranks:
            raise ParameterError(
                f"topology {topology.name!r} has no rank {rank} to take out, "
                f"expected 0 to {topology.ranks - 1}"
            )


def _describe_failures(
    links: set[Edge], fewer: Mapping[Edge, int], ranks: set[int]
) -> tuple[str, str]:
    """Describe the failed parts: as a suffix of the machine's name, and for its source."""
    tags = [f"{a}to{b}" for a, b in sorted(links)]
    tags += [f"{a}to{b}x{n}" for (a, b), n in fewer.items()]
    tags += [f"rank{r}" for r in sorted(ranks)]
    parts = [link_name(edge) for edge in sorted(links)]
    parts += [f"{format_count(n, 'lane')} of {link_name(edge)}" for edge, n in fewer.items()]
    parts += [f"rank {r}" for r in sorted(ranks)]
    return "-".join(tags), f"without {', '.join(parts)}"


def _remaining_labels(topology: Topology, gone: set[int]) -> tuple[str, ...]:
    """Return the labels of the remaining ranks, empty if there are none and none is needed."""
    if not topology.labels and not gone:
        return ()
    return tuple(topology.label(r) for r in range(topology.ranks) if r not in gone)


def _remaining_bus_ids(topology: Topology, gone: set[int]) -> BusIds:
    if not gone:
        return topology.pci_bus_ids
    if topology.pci_bus_ids == ASCENDING:
        return ()
    return tuple(bus_id for rank, bus_id in enumerate(topology.pci_bus_ids) if rank not in gone)


def _remove_lanes(
    topology: Topology, lanes: Mapping[Edge, int]
) -> tuple[set[Edge], dict[Edge, int]]:
    """Return the links that lose all lanes, and the number of lanes that other links lose.

    Raises:
        ParameterError: A link does not exist or has fewer lanes.
    """
    have = topology.lanes()
    for edge, n in sorted(lanes.items()):
        where = f"topology {topology.name!r}, {link_name(edge)}"
        if edge not in have:
            raise ParameterError(
                f"{where}: there is no such link to take lanes from; see its links with "
                "'sccl topo show'"
            )
        if not 1 <= n <= have[edge]:
            raise ParameterError(
                f"{where}: {format_count(n, 'lane')} to take out, expected 1 to {have[edge]}"
            )
    dead_links = {edge for edge, n in lanes.items() if n == have[edge]}
    return dead_links, {edge: n for edge, n in sorted(lanes.items()) if edge not in dead_links}


def add_links(topology: Topology, lanes: Mapping[Edge, int]) -> Topology:
    """Return the machine with added links. Existing links get more lanes.

    Args:
        lanes: Number of added lanes by edge. New links have the machine's latency and bandwidth.

    Raises:
        TopologyError: A link is invalid for the machine.
    """
    link_by_edge = {link.edge: link for link in topology.links}
    for edge, more in lanes.items():
        if more < 1:
            where = f"topology {topology.name!r}, {link_name(edge)}"
            raise TopologyError(f"{where}: {more} lanes to add, expected at least 1")
        old = link_by_edge.get(edge) or Link(*edge, 0, topology.alpha_us, topology.gb_per_s)
        link_by_edge[edge] = replace(old, lanes=old.lanes + more)
    several = {edge: n for edge, n in lanes.items() if n > 1}
    parts = [
        link_name(edge) + (f" ({several[edge]} lanes)" if edge in several else "")
        for edge in sorted(lanes)
    ]
    added = f"{', '.join(parts)} added"
    tag = "-".join(
        f"{src}to{dst}" + (f"x{several[src, dst]}" if (src, dst) in several else "")
        for src, dst in sorted(lanes)
    )
    return replace(
        topology,
        name=f"{topology.name}-with-{tag}",
        links=tuple(link_by_edge.values()),
        source=f"{topology.source}; {added}" if topology.source else added,
    )
