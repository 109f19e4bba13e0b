"""The scheduling problem: chunks, routes from rank to rank, and their costs in integral units.

A route is a link, or links through switches that do not store a chunk between them
(:mod:`sccl.synth.network.routes`). A unit is the greatest common divisor of all costs, so integral
units lose nothing. If switches copy, routes of one chunk that part at a switch use the links before
it once, as a multicast group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.clock import Clock
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.errors import UnreachableError
from sccl.synth.limits import INFINITE
from sccl.synth.network.routes import Routes, build_routes
from sccl.synth.network.shortest_paths import all_pairs
from sccl.synth.scheduling.resource_uses import ResourceUse, common_capacities, find_route_uses
from sccl.synth.scheduling.sketch import MachineSketch
from sccl.synth.scheduling.time_varying_bandwidth import VaryingRoutes
from sccl.topo.symmetry.permutations import Permutation


@dataclass(frozen=True, slots=True)
class ChunkSend:
    """A send of a chunk over a route. Its start is in units.

    ``reduce``: whether the chunk is a partial result, which the receiver reduces.
    """

    start: int
    chunk: int
    route: int
    reduce: bool = False


@dataclass(frozen=True)
class SchedulingProblem:
    """A collective without reductions, on its machine.

    Attributes:
        topology: The machine.
        collective: The collective.
        clock: Tick length, and chunk sizes.
        crossings: Routes for each chunk size.
        unit: Length of a unit, ticks.
        size: Index of each chunk's size in the clock, shape (chunks,).
        src: Source of each route.
        dst: Destination of each route.
        costs: Units from start to arrival, shape (sizes, routes).
        uses: Uses of resources, by size and route. Multicast groups have the same numbers for all
            sizes.
        capacity: Capacity of each resource. Links come first, with capacity 1.
        holders: Ranks that hold each chunk at the start.
        wanted: Ranks that demand each chunk and do not hold it.
        collective_index: Index of each chunk's collective, if there are several.
        priorities: Weight of each collective's completion time.
        varying_routes: Additional time of routes with varying bandwidth, by size. Empty: constant
            bandwidth.
        forbidden_routes: Forbidden routes of each chunk. Empty: none.
        is_backwards: Whether the machine is reversed and the schedule will be reversed in time.
    """

    topology: Topology
    collective: Collective
    clock: Clock
    crossings: tuple[Routes, ...]
    unit: int
    size: tuple[int, ...]
    src: tuple[int, ...]
    dst: tuple[int, ...]
    costs: tuple[tuple[int, ...], ...]
    uses: tuple[tuple[tuple[ResourceUse, ...], ...], ...]
    capacity: tuple[int, ...]
    holders: tuple[frozenset[int], ...]
    wanted: tuple[frozenset[int], ...]
    collective_index: tuple[int, ...]
    priorities: tuple[int, ...]
    varying_routes: tuple[VaryingRoutes, ...] = ()
    forbidden_routes: tuple[frozenset[int], ...] = ()
    is_backwards: bool = False

    @property
    def chunks(self) -> int:
        """Return the number of chunks."""
        return len(self.holders)

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.topology.ranks

    @property
    def has_uniform_chunks(self) -> bool:
        """Return whether all chunks have one size."""
        return len(self.costs) == 1

    @property
    def route_costs(self) -> tuple[int, ...]:
        """Return the cost of each route for a chunk of the smallest size."""
        return self.costs[0]

    @property
    def route_uses(self) -> tuple[tuple[ResourceUse, ...], ...]:
        """Return the use of resources by a chunk of the smallest size on each route."""
        return self.uses[0]

    @cached_property
    def reversed_uses(self) -> list[list[ResourceUse]]:
        """Return ``route_uses`` relative to the end of the send, in reversed time."""
        return [[h.reversed() for h in of] for of in self.route_uses]

    def costs_of_chunk(self, chunk: int) -> tuple[int, ...]:
        """Return the cost of each route for a chunk."""
        return self.costs[self.size[chunk]]

    def uses_of_chunk(self, chunk: int) -> tuple[tuple[ResourceUse, ...], ...]:
        """Return the use of resources by a chunk on each route."""
        return self.uses[self.size[chunk]]

    def problems_by_size(self) -> Iterator[SchedulingProblem]:
        """Yield, for each size, the problem with all chunks of this size."""
        for k in range(len(self.costs)):
            yield replace(
                self,
                crossings=(self.crossings[k],),
                size=(0,) * self.chunks,
                costs=(self.costs[k],),
                uses=(self.uses[k],),
                varying_routes=self.varying_routes[k : k + 1],
            )

    def forbidden_for(self, chunk: int) -> frozenset[int]:
        """Return the forbidden routes of a chunk."""
        return self.forbidden_routes[chunk] if self.forbidden_routes else frozenset()

    def uses_at(self, chunk: int, path: int, start: int) -> tuple[ResourceUse, ...]:
        """Return the use of resources by a chunk that starts on a route at a unit."""
        hops = self.uses_of_chunk(chunk)[path]
        if not self.varying_routes:
            return hops
        delays = self.varying_routes[self.size[chunk]].use_delays(path, start, len(hops))
        pairs = zip(hops, delays, strict=True)
        return tuple(replace(h, offset=h.offset + a, busy=h.busy + b) for h, (a, b) in pairs)

    def idle_units(self, chunk: int, path: int, start: int) -> int:
        """Return the units from a start on a route until the first byte of the chunk passes."""
        return (
            self.varying_routes[self.size[chunk]].idle_ticks(path, start)
            if self.varying_routes
            else 0
        )

    def arrival(self, send: ChunkSend) -> int:
        """Return the unit at which a send arrives."""
        arrives = send.start + self.costs_of_chunk(send.chunk)[send.route]
        if self.varying_routes:
            arrives += self.varying_routes[self.size[send.chunk]].arrival_delay(
                send.route, send.start
            )
        return arrives

    def finish(self, sends: Iterable[ChunkSend]) -> int:
        """Return the completion time of sends, in units."""
        return max((self.arrival(s) for s in sends), default=0)

    def finishes(self, sends: Iterable[ChunkSend]) -> list[int]:
        """Return the completion time of each collective, in units."""
        finishes = [0] * len(self.priorities)
        for s in sends:
            tenant = self.collective_index[s.chunk]
            finishes[tenant] = max(finishes[tenant], self.arrival(s))
        return finishes

    def objective(self, sends: Iterable[ChunkSend]) -> int:
        """Return the objective: the completion times of all collectives, weighted by priority.

        For a single collective this is the completion time.
        """
        return self.weighted_sum(self.finishes(sends))

    def weighted_sum(self, finishes: Iterable[int]) -> int:
        """Return the weighted sum of the completion times of collectives."""
        return sum(p * us for p, us in zip(self.priorities, finishes, strict=True))

    def to_us(self, units: int) -> float:
        """Convert units to microseconds."""
        return self.clock.us(units * self.unit)

    def useful_routes(self, chunk: int, route_into: Mapping[int, int]) -> set[int]:
        """Return the routes of a tree that lie on the path to a destination of the chunk.

        Args:
            chunk: The chunk.
            route_into: Route that enters each rank of the tree.
        """
        useful: set[int] = set()
        for destination in self.wanted[chunk]:
            rank = destination
            while rank not in self.holders[chunk] and route_into[rank] not in useful:
                useful.add(route_into[rank])
                rank = self.src[route_into[rank]]
        return useful

    @property
    def is_link_only(self) -> bool:
        """Return whether routes and their resources model the machine completely.

        Through switches a chunk might wait, be copied, or take a longer path, and it might use a
        smaller part of a budget for longer. With links only, an optimal schedule does none of that:
        each chunk arrives at a rank once, and passes a link at the full rate.
        """
        return not self.topology.switches and not self.topology.budgets

    @cached_property
    def multicast_groups(self) -> dict[int, list[tuple[int, int]]]:
        """Return the routes of each multicast group, each with the index of its use."""
        stems: dict[int, list[tuple[int, int]]] = {}
        for path, hops in enumerate(self.route_uses):
            for place, hop in enumerate(hops):
                stems.setdefault(hop.multicast_group, []).append((path, place))
        return stems

    @cached_property
    def is_multicast(self) -> bool:
        """Return whether a switch copies chunks on some routes."""
        return any(len(paths) > 1 for paths in self.multicast_groups.values())

    @cached_property
    def routes_from(self) -> tuple[tuple[int, ...], ...]:
        """Return the routes from each rank."""
        out_paths: list[list[int]] = [[] for _ in range(self.ranks)]
        for path, rank in enumerate(self.src):
            out_paths[rank].append(path)
        return tuple(map(tuple, out_paths))

    @cached_property
    def routes_to(self) -> tuple[tuple[int, ...], ...]:
        """Return the routes to each rank."""
        in_paths: list[list[int]] = [[] for _ in range(self.ranks)]
        for path, rank in enumerate(self.dst):
            in_paths[rank].append(path)
        return tuple(map(tuple, in_paths))

    @cached_property
    def _distances(self) -> tuple[IntArray, ...]:
        return tuple(all_pairs(self.ranks, self.src, self.dst, cost) for cost in self.costs)

    def distances_of(self, chunk: int) -> IntArray:
        """Return a chunk's time between ranks without contention, units, shape (ranks, ranks)."""
        return self._distances[self.size[chunk]]

    @cached_property
    def earliest_arrival(self) -> IntArray:
        """Return the earliest arrival without contention, in units, shape (chunks, ranks)."""
        earliest: dict[tuple[int, frozenset[int]], IntArray] = {}
        kinds = list(zip(self.size, self.holders, strict=True))
        for size, holders in kinds:
            if (size, holders) not in earliest:
                earliest[size, holders] = self._distances[size][sorted(holders)].min(axis=0)
        return np.array([earliest[kind] for kind in kinds])

    def check_reachable(self) -> None:
        """Check that every chunk can reach its destinations.

        Raises:
            UnreachableError: A chunk cannot reach one.
        """
        for chunk, wanted in enumerate(self.wanted):
            for rank in sorted(wanted):
                if self.earliest_arrival[chunk, rank] >= INFINITE:
                    raise UnreachableError(
                        f"topology {self.topology.name!r}: no path leads from rank "
                        f"{min(self.holders[chunk])} to rank {rank}, where {self.collective.name} "
                        f"needs chunk {chunk}: add links"
                    )

    def symmetry_images(self, image: Permutation) -> tuple[list[int], list[int], list[int]]:
        """Return the images of chunks, routes, and links under a symmetry of the nodes.

        Chunks of a class map to those of its image, in order of their sizes.
        """
        to, (ends, link_order) = np.array(image, dtype=np.int64), self._link_ends
        links = np.empty(len(ends), dtype=np.int64)
        links[_lexicographic_order(to[ends])] = link_order  # the images are a permutation
        rows, way_order = self._padded_route_links
        paths = np.empty(len(rows), dtype=np.int64)
        paths[_lexicographic_order(np.append(links, -1)[rows])] = way_order
        classes = self.collective.chunk_classes()
        chunks = [0] * self.chunks
        image_sets: dict[frozenset[int], frozenset[int]] = {}
        for (held, wanted), class_chunks in classes.items():
            for ranks in (held, wanted):
                if ranks not in image_sets:
                    image_sets[ranks] = frozenset(image[r] for r in ranks)
            images = classes[image_sets[held], image_sets[wanted]]  # type: ignore[index]
            by_size = (
                sorted(members, key=self.size.__getitem__) for members in (class_chunks, images)
            )
            for chunk, image_chunk in zip(*by_size, strict=True):
                chunks[chunk] = image_chunk
        return chunks, paths.tolist(), links.tolist()

    @cached_property
    def _link_ends(self) -> tuple[IntArray, IntArray]:
        """Return the ends of each link, and the links in the order of their ends."""
        ends = np.array([k.edge for k in self.topology.links], dtype=np.int64).reshape(-1, 2)
        return ends, _lexicographic_order(ends)

    @cached_property
    def _padded_route_links(self) -> tuple[IntArray, IntArray]:
        """Return the links of each route, padded with -1, and the order of the routes by these."""
        rows = np.full((len(self.route_links), max(map(len, self.route_links))), -1, dtype=np.int64)
        for index, path in enumerate(self.route_links):
            rows[index, : len(path)] = path
        return rows, _lexicographic_order(rows)

    @cached_property
    def route_links(self) -> tuple[tuple[int, ...], ...]:
        """Return the links of each route."""
        return tuple(self.crossings[0].paths())


def build_problem(  # noqa: PLR0913, PLR0917 - independent inputs
    topology: Topology,
    collective: Collective,
    clock: Clock,
    tenants: Sequence[int] = (),
    priorities: Sequence[int] = (),
    sketched: MachineSketch | None = None,
    *,
    together: bool = False,
    backwards: bool = False,
) -> SchedulingProblem:
    """Return the scheduling problem.

    Args:
        topology: The machine.
        collective: The collective.
        clock: Tick length, and the size of all chunks or of each.
        tenants: Number of chunks of each of several collectives in the pattern. Empty: there is
            one collective.
        priorities: Weight of each collective. Empty: all count as one.
        sketched: Sketch of the allowed routes by chunk. None: all routes.
        together: Whether a unit also divides alphas, because chunks sent together pay only one.
        backwards: Whether the machine is reversed and the schedule will be reversed in time.

    Raises:
        TooLargeError: There are too many routes through switches.
        TopologyError: The machine lacks routes that the sketch names.
        UnreachableError: A chunk cannot reach a destination.
    """
    clocks = [
        Clock.from_topology(topology, size, clock.model, clock.tick_ps) for size in clock.sizes
    ]
    factors = None if sketched is None else sketched.route_factors
    crossings = tuple(build_routes(topology, chunk_clock, factors) for chunk_clock in clocks)
    pairs = zip(clocks, crossings, strict=True)
    holds, capacity = common_capacities(
        [find_route_uses(topology, chunk_clock, crossing) for chunk_clock, crossing in pairs]
    )
    unit = _largest_unit(holds, crossings, clock.alpha if together else ())
    sizes, indices = clock.chunk_bytes, range(collective.num_chunks)
    tenant_cycle = [tenant for tenant, count in enumerate(tenants) for _ in range(count)] or [0]
    held = [frozenset(map(int, collective.holders(c))) for c in range(collective.num_chunks)]
    problem = SchedulingProblem(
        topology=topology,
        collective=collective,
        clock=clock,
        crossings=crossings,
        unit=unit,
        size=tuple(0 if isinstance(sizes, int) else clock.sizes.index(sizes[c]) for c in indices),
        src=tuple(crossings[0].src.tolist()),
        dst=tuple(crossings[0].dst.tolist()),
        costs=tuple(tuple((crossing.cost // unit).tolist()) for crossing in crossings),
        uses=tuple(
            tuple(
                tuple(replace(h, offset=h.offset // unit, busy=h.busy // unit) for h in path_hops)
                for path_hops in hops
            )
            for hops in holds
        ),
        capacity=capacity,
        holders=tuple(held),
        wanted=tuple(
            frozenset(map(int, collective.destinations(c))) - held[c]
            for c in range(collective.num_chunks)
        ),
        collective_index=tuple(tenant_cycle[c % len(tenant_cycle)] for c in indices)
        if priorities
        else (0,) * len(indices),
        priorities=tuple(priorities) or (1,),
        is_backwards=backwards,
    )
    if sketched is not None:
        sketched.check_symmetric(np.array(problem.src), np.array(problem.dst))
        return replace(problem, forbidden_routes=_forbidden_routes(problem, sketched))
    problem.check_reachable()
    return problem


def _largest_unit(
    holds: Sequence[Sequence[Sequence[ResourceUse]]],
    crossings: Sequence[Routes],
    alphas: Sequence[int],
) -> int:
    """Return the largest number of ticks that divides all times."""
    hops = [hop for of_size in holds for of_route in of_size for hop in of_route]
    costs = [cost for crossing in crossings for cost in crossing.cost.tolist()]
    return gcd(*(n for hop in hops for n in (hop.offset, hop.busy)), *costs, *alphas) or 1


def _lexicographic_order(rows: IntArray) -> IntArray:
    """Return the numbers of distinct rows in lexicographic order."""
    return np.lexsort(rows.T)


def _forbidden_routes(
    problem: SchedulingProblem, sketched: MachineSketch
) -> tuple[frozenset[int], ...]:
    """Return the forbidden routes of each chunk. Chunks of one origin share a set."""
    barred: dict[int, frozenset[int]] = {}
    for origin in sorted({min(ranks) for ranks in problem.holders}):
        barred[origin] = sketched.forbidden_routes(origin, problem.src, problem.dst)
    return tuple(barred[min(ranks)] for ranks in problem.holders) if any(barred.values()) else ()
