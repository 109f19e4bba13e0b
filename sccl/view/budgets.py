"""Shared budgets of a machine, in words and as links that are drawn apart from others."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from sccl.core.ids import Edge
from sccl.core.topology import Budget, Topology

_LINE = 84  # characters that fit beneath a title
_MOST_EDGES, _MOST_LINES = 6, 4


def binding(topology: Topology) -> list[Budget]:
    """Return the budgets that permit less than the lanes of their links do."""
    lanes = topology.lanes()
    return [
        budget
        for budget in topology.budgets
        if sum(lanes[edge] for edge in budget.edges) > budget.chunks_per_round
    ]


def shared(topology: Topology) -> frozenset[Edge]:
    """Return the links that share a budget, other than with all that leave or enter a rank."""
    return frozenset(
        edge for budget in binding(topology) if not _side(topology, budget) for edge in budget.edges
    )


def limited(topology: Topology) -> frozenset[int]:
    """Return the nodes all of whose links out, or in, share a budget."""
    found = set()
    for budget in binding(topology):
        side = _side(topology, budget)
        if side:
            found.add(budget.edges[0][0 if side == "out of" else 1])
    return frozenset(found)


def words(topology: Topology) -> list[str]:
    """Return what budgets say, in a few lines."""
    found = binding(topology)
    sides = list(_of_sides(topology, found))
    buses = [budget for budget in found if not _side(topology, budget)]
    told = [f"{b.name}: {_chunks(b.chunks_per_round)} over {_links(b.edges)}" for b in buses]
    if len(told) > _MOST_LINES:
        told = _in_kinds(buses)
    lines = [line for text in (*sides, *told) for line in textwrap.wrap(text, _LINE)]
    return lines if len(lines) <= 2 * _MOST_LINES else [*lines[: 2 * _MOST_LINES - 1], "\u2026"]


def _side(topology: Topology, budget: Budget) -> str:
    """Return whether a budget is that of all links ``out of`` a node, or ``into`` one, or empty."""
    for end, side in ((0, "out of"), (1, "into")):
        nodes = {edge[end] for edge in budget.edges}
        every = {link.edge for link in topology.links if link.edge[end] in nodes}
        if len(nodes) == 1 and every == set(budget.edges):
            return side
    return ""


def _of_sides(topology: Topology, budgets: Sequence[Budget]) -> Iterator[str]:
    """Yield what holds for all that leaves, or enters, single nodes."""
    groups: dict[tuple[str, int], list[int]] = {}
    for budget in budgets:
        side = _side(topology, budget)
        if side:
            node = budget.edges[0][0 if side == "out of" else 1]
            groups.setdefault((side, budget.chunks_per_round), []).append(node)
    for (side, count), nodes in sorted(groups.items(), reverse=True):
        if sorted(nodes) == list(range(topology.ranks)):
            where = "each rank"
        else:
            where = f"node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, sorted(nodes)))}"
        yield f"all links {side} {where}: {_chunks(count)}"


def _in_kinds(buses: Sequence[Budget]) -> list[str]:
    """Return a line for each kind of budget, with one of them as the example."""
    kinds: dict[tuple[int, int], list[Budget]] = {}
    for budget in buses:
        kinds.setdefault((budget.chunks_per_round, len(budget.edges)), []).append(budget)
    return [
        f"{len(group)} budgets of {_chunks(count)} over {size} links, such as "
        f"'{group[0].name}' ({_links(group[0].edges)})"
        for (count, size), group in sorted(kinds.items())
    ]


def _chunks(count: int) -> str:
    return f"{count} chunk{'' if count == 1 else 's'} per round"


def _links(edges: Sequence[Edge]) -> str:
    """Return links, both directions of a pair as one."""
    pairs = dict.fromkeys(
        f"{src}\u2194{dst}" if src < dst else "" for src, dst in edges if (dst, src) in edges
    )
    one_way = [f"{src}\u2192{dst}" for src, dst in edges if (dst, src) not in edges]
    names = [*(name for name in pairs if name), *one_way]
    more = f" and {len(names) - _MOST_EDGES} more" if len(names) > _MOST_EDGES else ""
    return ", ".join(names[:_MOST_EDGES]) + more
