"""Model machines whose messages pass several links in one step, along fixed routes.

A step costs one latency, however far a message goes, and the message loads each link that it
passes. This is the usual cost model of Swing, Bine trees, and recursive doubling. The model needs
only links and shared budgets. Each pair of ranks with a route gets a link, with as many lanes as
the narrowest link of the route. Each link of the machine becomes a budget over all pairs whose
routes pass it. So synthesis, bounds, limits, verification, and pictures need no special case.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from math import prod
from pathlib import Path

from sccl.core.graphs import UNREACHED, distances
from sccl.core.ids import Edge
from sccl.core.topology import MAX_FULL_MESH_RANKS, Budget, Link, Topology
from sccl.errors import FormatError, ParameterError
from sccl.topo.route_files import load_routes

Route = tuple[int, ...]
"""The nodes that a message passes, from its source rank to its destination."""

_MAX_RANKS = 256  # each pair of ranks has a link, and budgets have an edge for each link of a route
_GRID = re.compile(r"(ring|line|mesh|torus|hypercube|hyperx):([0-9]{1,5}(?:x[0-9]{1,5})*)(?:@.*)?")

XY, SHORTEST = "xy", "shortest"


def multihop_machine(topology: Topology, how: str = "") -> Topology:
    """Return a machine whose messages pass several links in one step.

    Args:
        how: ``"xy"``: dimension by dimension, on grids, tori and hypercubes that their names
            identify; on tori in the shorter direction, and upwards if both are equally long.
            ``"shortest"``: shortest paths, chosen greedily by the least load. A path that ends in
            ``.json``: the routes of this file. Empty: ``"xy"`` if possible, else ``"shortest"``.

    Raises:
        InputError: The machine has too many ranks, is no grid, or has a rank that cannot be
            reached, or the routes of a file do not fit.
    """
    _check_size(topology)
    sides = _grid_sides(topology.name)
    if how.endswith(".json"):
        routes = load_checked_routes(Path(how), topology)
    elif how == XY or (not how and sides):
        routes = _dimension_order_routes(topology, sides)
    elif how in {"", SHORTEST}:
        routes = _shortest_routes(topology)
    else:
        raise ParameterError(
            f"routes are {how!r}, expected {XY}, {SHORTEST} or the .json file of your own"
        )
    name = f"routed:{how}:{topology.name}" if how in {XY, SHORTEST} else f"routed:{topology.name}"
    return machine_from_routes(topology, routes, name)


def machine_from_routes(topology: Topology, routes: Mapping[Edge, Route], name: str) -> Topology:
    """Return a machine whose links are routes over the links of another machine.

    A link's latency is the largest on its route, and its speed is that of the slowest lane there.

    Raises:
        ParameterError: A route passes a shared budget twice, which a set of links cannot express.
    """
    links = {link.edge: link for link in topology.links}
    passing: dict[Edge, list[Edge]] = defaultdict(list)
    for ends, route in sorted(routes.items()):
        for hop in _route_edges(route):
            passing[hop].append(ends)
    joined = tuple(
        _link(ends, [links[hop] for hop in _route_edges(r)]) for ends, r in routes.items()
    )
    wires = tuple(
        Budget(f"wire {src}->{dst}", tuple(passing[src, dst]), link.lanes, gb_per_s=link.gb_per_s)
        for (src, dst), link in sorted(links.items())
        if len(passing[src, dst]) > 1
    )
    speeds = topology.budget_speeds()
    shared = tuple(
        replace(budget, edges=_pairs_through_budget(topology, budget, passing), gb_per_s=speed)
        for budget, speed in zip(topology.budgets, speeds, strict=True)
        if any(passing[edge] for edge in budget.edges)
    )
    return replace(
        topology,
        name=name,
        links=joined,
        budgets=(*wires, *shared),
        switches=(),
        source=f"messages pass several links of {topology.name} in a step; {topology.source}",
    )


def _link(ends: Edge, hops: Sequence[Link]) -> Link:
    return Link(
        *ends,
        min(hop.lanes for hop in hops),
        max(hop.alpha_us for hop in hops),
        min(hop.gb_per_s for hop in hops),
    )


def _pairs_through_budget(
    topology: Topology, budget: Budget, passing: Mapping[Edge, Sequence[Edge]]
) -> tuple[Edge, ...]:
    """Return the pairs of ranks whose routes pass a shared budget."""
    pairs: list[Edge] = [ends for edge in budget.edges for ends in passing[edge]]
    if len(set(pairs)) < len(pairs):
        twice = next(ends for ends in pairs if pairs.count(ends) > 1)
        raise ParameterError(
            f"topology {topology.name!r}: the route from {twice[0]} to {twice[1]} passes budget "
            f"{budget.name!r} twice, which links that share it cannot express: give other routes"
        )
    return tuple(pairs)


def _route_edges(route: Route) -> Iterator[Edge]:
    return pairwise(route)


def _check_size(topology: Topology) -> None:
    if topology.ranks > min(_MAX_RANKS, MAX_FULL_MESH_RANKS):
        raise ParameterError(
            f"topology {topology.name!r} has {topology.ranks} ranks, and routes are printed for "
            f"at most {_MAX_RANKS}: give a smaller machine"
        )


# --- dimension by dimension ----------------------------------------------------------------------


def _grid_sides(name: str) -> tuple[int, ...]:
    """Parse the sides of a grid from its name, empty if the name is not that of a grid."""
    match = _GRID.fullmatch(name)
    if not match:
        return ()
    numbers = tuple(int(number) for number in match[2].split("x"))
    return (2,) * min(numbers[0], 16) if match[1] == "hypercube" else numbers


def _dimension_order_routes(topology: Topology, sides: tuple[int, ...]) -> dict[Edge, Route]:
    """Return dimension-order routes.

    Raises:
        ParameterError: The machine is no grid, or a link is missing.
    """
    if not sides or prod(sides) != topology.ranks:
        raise ParameterError(
            f"topology {topology.name!r} is no grid, torus or hypercube by its name, in which "
            f"messages could go dimension by dimension: give {SHORTEST}, or a file of routes"
        )
    edges = topology.edges
    lines = _GridRoutes(edges, sides)
    routes = {ends: lines.route(*ends) for ends in permutations(range(topology.ranks), 2)}
    for route in routes.values():
        missing = next((hop for hop in _route_edges(route) if hop not in edges), None)
        if missing is not None:
            raise ParameterError(
                f"topology {topology.name!r} has no link {missing[0]}->{missing[1]}, which "
                f"messages would pass dimension by dimension: give {SHORTEST}"
            )
    return routes


@dataclass(frozen=True, slots=True)
class _GridRoutes:
    """Dimension-order routes on a grid whose last coordinate varies fastest."""

    edges: frozenset[Edge]
    sides: tuple[int, ...]

    def route(self, src: int, dst: int) -> Route:
        """Return the ranks of a route, dimension by dimension, with the fewest links in each."""
        path = [src]
        for dimension, side in enumerate(self.sides):
            stride = prod(self.sides[dimension + 1 :])
            coordinate, goal = (rank // stride % side for rank in (src, dst))
            start = path[-1]
            path += [
                start + (at % side - coordinate) * stride
                for at in self._coordinates_passed(start, goal, side, stride)
            ]
        return tuple(path)

    def _coordinates_passed(self, start: int, goal: int, side: int, stride: int) -> range:
        """Return the coordinates passed on a line, not reduced modulo its length."""
        coordinate = start // stride % side
        if coordinate == goal:
            return range(0)
        if (start, start + (goal - coordinate) * stride) in self.edges:
            return range(goal, goal + 1)
        first = start - coordinate * stride
        wraps = (first, first + (side - 1) * stride) in self.edges
        ahead = (goal - coordinate) % side
        upwards = ahead <= side - ahead if wraps else goal > coordinate
        if upwards:
            return range(coordinate + 1, coordinate + ahead + 1)
        return range(coordinate - 1, coordinate - (coordinate - goal) % side - 1, -1)


# --- shortest paths ------------------------------------------------------------------------------


def _shortest_routes(topology: Topology) -> dict[Edge, Route]:
    """Return shortest routes, chosen greedily by the least load per lane, short routes first.

    Raises:
        ParameterError: A rank cannot be reached.
    """
    back = topology.reversed().successors()
    far = {rank: distances(back, [rank]) for rank in range(topology.ranks)}
    pairs = sorted(permutations(range(topology.ranks), 2), key=lambda e: (far[e[1]][e[0]], e))
    successors, lanes = topology.successors(), topology.lanes()
    load: dict[Edge, int] = defaultdict(int)
    routes = {}
    for src, dst in pairs:
        if far[dst][src] == UNREACHED:
            raise ParameterError(
                f"topology {topology.name!r}: no links lead from rank {src} to rank {dst}"
            )
        route = [src]
        while route[-1] != dst:
            node = route[-1]
            nearer = [n for n in successors[node] if far[dst][n] == far[dst][node] - 1]
            route.append(min(nearer, key=lambda n: (load[node, n] / lanes[node, n], n)))
            load[node, route[-1]] += 1
        routes[src, dst] = tuple(route)
    return routes


# --- files ---------------------------------------------------------------------------------------


def load_checked_routes(file: Path, topology: Topology) -> dict[Edge, Route]:
    """Load routes from a file and check them on a machine. Pairs without a route are not joined.

    Raises:
        InputError: The file cannot be read, or a route uses a missing link, occurs twice, or ends
            at a switch.
    """
    routes: dict[Edge, Route] = {}
    for number, route in enumerate(load_routes(file)):
        where = f"{file}, $.routes[{number}]"
        if len(route) < 2 or len(set(route)) < len(route):
            raise FormatError(f"{where}: expected two nodes or more, none of them twice")
        missing = next((hop for hop in _route_edges(route) if hop not in topology.edges), None)
        if missing is not None:
            raise FormatError(
                f"{where}: topology {topology.name!r} has no link {missing[0]}->{missing[1]}"
            )
        ends = (route[0], route[-1])
        if max(ends) >= topology.ranks:
            raise FormatError(f"{where}: it starts or ends at a switch, expected ranks")
        if ends in routes:
            raise FormatError(f"{where}: there is another route from {ends[0]} to {ends[1]}")
        routes[ends] = route
    if not routes:
        raise FormatError(f"{file}: there are no routes")
    return routes
