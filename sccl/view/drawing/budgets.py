"""Show the shared budgets of a machine: as text, as dashed links, or as nodes.

Budgets that model a switch are drawn as a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sccl.core.formatting import format_count
from sccl.core.ids import Edge
from sccl.core.topology import Budget, Switch, Topology
from sccl.view.theme import wrap_notes

_MAX_EDGES, _MAX_LINES = 6, 4


def binding_budgets(topology: Topology) -> list[Budget]:
    """Return the budgets that permit fewer chunks than the lanes of their links."""
    lanes = topology.lanes()
    return [
        budget
        for budget in topology.budgets
        if sum(lanes[edge] for edge in budget.edges) > budget.chunks_per_round
    ]


def shared_links(topology: Topology) -> frozenset[Edge]:
    """Return the links in budgets, except budgets of all links that leave, or enter, a node."""
    return frozenset(edge for budget in _split_budgets(topology)[1] for edge in budget.edges)


def budgeted_nodes(topology: Topology) -> frozenset[int]:
    """Return the nodes with a budget for all links that leave, or all that enter, the node."""
    return frozenset(node for _, node, _ in _split_budgets(topology)[0])


def budget_lines(topology: Topology) -> list[str]:
    """Return a description of budgets in a few lines."""
    sides, buses = _split_budgets(topology)
    names = [*map(str, range(topology.ranks)), *(switch.name for switch in topology.switches)]
    descriptions = [
        f"{b.name}: {_chunks_text(b.chunks_per_round)} over {_links_text(b.edges, names)}"
        for b in buses[: _MAX_LINES + 1]
    ]
    if len(descriptions) > _MAX_LINES:
        descriptions = _kind_lines(buses, names)
    texts = [*_side_lines(topology.ranks, sides, names), *descriptions]
    lines = wrap_notes(*texts)
    return lines if len(lines) <= 2 * _MAX_LINES else [*lines[: 2 * _MAX_LINES - 1], "\u2026"]


def _split_budgets(topology: Topology) -> tuple[list[tuple[str, int, int]], list[Budget]]:
    """Split budgets into those of all links out of, or into, a node, and others.

    Returns:
        Triples of side (``out of`` or ``into``), node, and chunks per round. Then other budgets.
    """
    edges = [link.edge for link in topology.links]
    degrees = [Counter(edge[end] for edge in edges) for end in (0, 1)]
    sides, others = [], []
    for budget in binding_budgets(topology):
        for end, side in enumerate(("out of", "into")):
            node = budget.edges[0][end]
            is_shared = all(edge[end] == node for edge in budget.edges)
            if is_shared and degrees[end][node] == len(budget.edges):
                sides.append((side, node, budget.chunks_per_round))
                break
        else:
            others.append(budget)
    return sides, others


def _side_lines(
    ranks: int, sides: Sequence[tuple[str, int, int]], names: Sequence[str]
) -> Iterator[str]:
    """Yield descriptions of budgets out of, or into, single nodes."""
    alike: dict[tuple[str, int], list[int]] = {}
    for side, node, chunks in sides:
        alike.setdefault((side, chunks), []).append(node)
    for (side, chunks), nodes in sorted(alike.items(), reverse=True):
        if sorted(nodes) == list(range(ranks)):
            where = "each rank"
        else:
            listed = ", ".join(names[node] for node in sorted(nodes))
            where = f"node{'' if len(nodes) == 1 else 's'} {listed}"
        yield f"all links {side} {where}: {_chunks_text(chunks)}"


def _kind_lines(buses: Sequence[Budget], names: Sequence[str]) -> list[str]:
    """Return a line for each kind of budget, with one budget as an example."""
    kinds: dict[tuple[int, int], list[Budget]] = {}
    for budget in buses:
        kinds.setdefault((budget.chunks_per_round, len(budget.edges)), []).append(budget)
    return [
        f"{len(alike)} budgets of {_chunks_text(count)} over {size} links, such as "
        f"'{alike[0].name}' ({_links_text(alike[0].edges, names)})"
        for (count, size), alike in sorted(kinds.items())
    ]


def _chunks_text(count: int) -> str:
    return f"{format_count(count, 'chunk')} per round"


def _links_text(edges: Sequence[Edge], names: Sequence[str]) -> str:
    """Return links as text, with both directions of a pair as one item."""
    edge_set = set(edges)
    pairs = [edge for edge in edges if edge[::-1] in edge_set and edge[0] < edge[1]]
    labels = [f"{names[src]}\u2194{names[dst]}" for src, dst in pairs]
    labels += [f"{names[u]}\u2192{names[v]}" for u, v in edges if (v, u) not in edge_set]
    more = f" and {len(labels) - _MAX_EDGES} more" if len(labels) > _MAX_EDGES else ""
    return ", ".join(labels[:_MAX_EDGES]) + more


_MIN_RANKS = 3  # minimum number of ranks at a switch


def with_hubs(topology: Topology) -> Topology:
    """Return the machine with a switch in place of each clique of ranks that models one.

    A clique models a switch if one budget limits all that each rank sends to the others, another
    budget limits all that it receives from them, and no link has fewer lanes than these budgets. A
    link between a rank and the switch replaces the rank's links to all others. It has as many lanes
    as the budget.
    """
    links, budgets = {link.edge: link for link in topology.links}, {*topology.budgets}
    hubs = topology.ranks + len(topology.switches)
    for sides in _cliques(topology):
        edges = {edge for budget in sides.values() for edge in budget.edges}
        others = budgets - {*sides.values()}
        if not edges <= links.keys() or any(edges & {*budget.edges} for budget in others):
            continue
        if min(links[e].lanes - b.chunks_per_round for b in sides.values() for e in b.edges) < 0:
            continue
        joined = {edge: links.pop(edge) for edge in edges}
        budgets = others
        for (end, node), budget in sides.items():
            edge = (hubs, node) if end else (node, hubs)
            link = joined[budget.edges[0]]
            links[edge] = replace(link, src=edge[0], dst=edge[1], lanes=budget.chunks_per_round)
        hubs += 1
    added = hubs - topology.ranks - len(topology.switches)
    names = ["switch"] if added == 1 else [f"sw {i}" for i in range(added)]
    return replace(
        topology,
        links=tuple(links.values()),
        budgets=tuple(budgets),
        switches=(*topology.switches, *map(Switch, names)),
    )


def _cliques(topology: Topology) -> Iterator[dict[tuple[int, int], Budget]]:
    """Yield cliques of ranks, as the budget of each (direction, rank). Direction 0: out, 1: in."""
    cliques: dict[frozenset[int], dict[tuple[int, int], Budget]] = {}
    for budget in binding_budgets(topology):
        members = frozenset(node for edge in budget.edges for node in edge)
        for end in (0, 1):
            nodes = {edge[end] for edge in budget.edges}
            if len(nodes) == 1 and len(budget.edges) == len(members) - 1:
                cliques.setdefault(members, {})[end, nodes.pop()] = budget
    for members, sides in cliques.items():
        is_complete = len(sides) == 2 * len(members) and len(members) >= _MIN_RANKS
        if is_complete and max(members) < topology.ranks:
            yield sides
