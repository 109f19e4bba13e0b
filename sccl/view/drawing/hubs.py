"""Switches that a machine's file states as budgets, drawn as nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sccl.core.topology import Budget, Switch, Topology
from sccl.view.drawing.budget_text import binding_budgets

_MIN_RANKS = 3  # ranks at a switch


def with_hubs(topology: Topology) -> Topology:
    """Return a machine whose fully joined ranks meet at a switch.

    Ranks meet at a switch if one budget limits all that each sends to the others, another limits
    all that it receives from them, and no link between two ranks carries less than these. A link
    between a rank and the switch has as many lanes as the budget. It stands for the rank's links to
    all others.
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
    """Yield groups of fully joined ranks: the budget of each rank by direction (0: out, 1: in)."""
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
