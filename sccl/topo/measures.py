"""Summarize topologies in numbers, and list machines as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import FileText, NonNegative, Part
from sccl.core.graphs import UNREACHED, distances
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.topo import topology_makers


@dataclass(frozen=True, slots=True)
class Measures:
    """Figures of a topology.

    Attributes:
        diameter: Maximum number of links of a shortest path, None if some pair has no path.
        unreachable: A pair (src, dst) without a path, if there is one.
        out_lanes: Maximum chunks per round that leave each rank, by links and budgets.
        in_lanes: Maximum chunks per round that enter each rank, by links and budgets.
    """

    diameter: int | None
    unreachable: tuple[int, int] | None
    out_lanes: tuple[int, ...]
    in_lanes: tuple[int, ...]


def unreachable_pair(topology: Topology) -> tuple[int, int] | None:
    """Return two ranks with no path from the first to the second, None if all pairs have paths."""
    forward = distances(topology.successors(), [0])[: topology.ranks]
    if UNREACHED in forward:
        return 0, forward.index(UNREACHED)
    back = distances(topology.reversed().successors(), [0])[: topology.ranks]
    return (back.index(UNREACHED), 0) if UNREACHED in back else None


def measure_topology(topology: Topology) -> Measures:
    """Return the :class:`Measures` of a topology."""
    successors = topology.successors()
    diameter, unreachable = 0, None
    for src in range(topology.ranks):
        far = distances(successors, [src])[: topology.ranks]
        diameter = max(diameter, *far)
        if UNREACHED in far and unreachable is None:
            unreachable = (src, far.index(UNREACHED))
    out_lanes, in_lanes = (_node_capacities(topology, end) for end in (0, 1))
    return Measures(None if unreachable else diameter, unreachable, out_lanes, in_lanes)


def _node_capacities(topology: Topology, end: int) -> tuple[int, ...]:
    """Return the total chunks per round of the links that start (0) or end (1) at each rank."""
    nodes = range(topology.ranks + len(topology.switches))
    lanes: list[dict[Edge, int]] = [{} for _ in nodes]
    for edge, count in topology.lanes().items():
        lanes[edge[end]][edge] = count
    shared: list[list[tuple[set[Edge], int]]] = [[] for _ in nodes]
    for budget in topology.budgets:
        parts: dict[int, set[Edge]] = {}
        for edge in budget.edges:
            parts.setdefault(edge[end], set()).add(edge)
        for node, part in parts.items():
            shared[node].append((part, budget.chunks_per_round))
    return tuple(_links_capacity(lanes[rank], shared[rank]) for rank in range(topology.ranks))


def _links_capacity(lanes: Mapping[Edge, int], budgets: Iterable[tuple[set[Edge], int]]) -> int:
    """Return the total chunks per round of some links.

    The result is exact if any two budgets are nested or disjoint, as in real machines, and
    otherwise an upper bound.

    Args:
        lanes: Chunks per round of each link.
        budgets: Sets of links that share a budget, and the budget's chunks per round.
    """
    each = dict(lanes)
    larger = []
    for edges, limit in budgets:
        if len(edges) == 1:
            (edge,) = edges
            each[edge] = min(each[edge], limit)
        else:
            larger.append((edges, limit))
    parts = [({edge}, count) for edge, count in each.items()]
    for edges, limit in sorted(larger, key=lambda budget: len(budget[0])):
        within = [part for part in parts if part[0] <= edges]
        parts = [part for part in parts if not part[0] <= edges]
        if within:
            members = set().union(*(part[0] for part in within))
            parts.append((members, min(limit, sum(count for _, count in within))))
    return sum(count for _, count in parts)


class MachinePart(Part, frozen=True, kw_only=True):
    """A machine of the catalogue."""

    name: str
    ranks: NonNegative
    source: str


class GeneratorPart(Part, frozen=True, kw_only=True):
    """A family of machines."""

    name: str
    arguments: str
    example: str


class TopoListOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl topo list'."""

    kind: Literal["topo-list"] = "topo-list"
    machines: tuple[MachinePart, ...]
    generators: tuple[GeneratorPart, ...]


class ChangedOutput(Output, frozen=True, kw_only=True):
    """A machine that was made of another, and written."""

    file: FileText
    name: str
    ranks: NonNegative
    links: NonNegative
    labels: Annotated[tuple[str, ...], "Previous name of each rank."]
    unreachable: Annotated[tuple[int, int] | None, "Two ranks with no path between them, if any."]


class TopoWithOutput(ChangedOutput, frozen=True, kw_only=True):
    """The JSON output of 'sccl topo edit'."""

    kind: Literal["topo-with"] = "topo-with"


class TopoWithoutOutput(ChangedOutput, frozen=True, kw_only=True):
    """The JSON output of 'sccl topo edit'."""

    kind: Literal["topo-without"] = "topo-without"


def list_output(machines: Iterable[Topology]) -> TopoListOutput:
    """Return the JSON output for machines, with all generators."""
    return build_output(TopoListOutput, inputs={}, machines=machines, generators=topology_makers())


def changed_output(
    kind: type[TopoWithOutput | TopoWithoutOutput], before: Topology, after: Topology, file: Path
) -> ChangedOutput:
    """Return the JSON output for a changed machine."""
    return build_output(
        kind,
        after,
        inputs=question_digests(before),
        file=file,
        links=len(after.links),
        labels=map(after.label, range(after.ranks)),
        unreachable=unreachable_pair(after),
    )
