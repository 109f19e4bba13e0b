"""The flow problem: bytes of chunk classes over links that each have a delay and a rate.

Symmetries of the machine map packings to packings, and the mean of the images of a packing is again
a packing. So the problem has one class of each orbit. Only symmetries without a fixed rank are
used. Each class of an orbit is then the image of the first class under exactly one symmetry, and a
packing of the first class gives a packing of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from sccl.collectives import Dual
from sccl.core.clock import Clock
from sccl.core.collective import Collective
from sccl.core.graphs import shortest_paths
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.synth.network.routes import build_routes
from sccl.synth.network.switch_distances import has_detours
from sccl.synth.network.symmetries import free_symmetries, image_class
from sccl.topo.symmetry.permutations import ChunkClass, Permutation, capacity_orbits

SlotTree = frozenset[tuple[int, int]]
"""(link, slot) pairs that carry data from its source to all destinations."""


@dataclass(frozen=True, slots=True)
class FlowCommodity:
    """An orbit of chunk classes, represented by one of them.

    Attributes:
        holders: Ranks that hold the class before the collective.
        wanted: Ranks that must hold it afterwards.
        size: Bytes of one class.
        members: All classes of the orbit, each with the symmetry that maps the first to it.
    """

    holders: frozenset[int]
    wanted: frozenset[int]
    size: Fraction
    members: tuple[tuple[ChunkClass, Permutation], ...]

    @property
    def amount(self) -> Fraction:
        """Return the bytes of all classes of the orbit."""
        return self.size * len(self.members)


@dataclass(frozen=True, slots=True)
class FlowResource:
    """An orbit of resources that bound rates: links and bandwidth budgets.

    Attributes:
        count: Number of resources in the orbit.
        rate: Bytes per microsecond of each.
        links: (link, times): number of resources of the orbit that contain the link.
        orbit: The links of each resource.
    """

    count: int
    rate: Fraction
    links: tuple[tuple[int, int], ...]
    orbit: tuple[frozenset[Edge], ...]


@dataclass(frozen=True, slots=True)
class FlowProblem:
    """Bytes to send, paths to send them over, and the resources that these paths share.

    A path leads from rank to rank, over one link or over links through switches. Methods and
    attributes call a path a link.

    Attributes:
        collective: Collective without reductions, with the smallest possible number of chunks.
        chunk_bytes: Bytes of a chunk. With counts, bytes of an element.
        edges: (source rank, destination rank) of each path.
        routes: Links of each path, as indices into the links of the topology.
        alpha: Latency of each path, microseconds.
        is_rigid: Whether a lower bound for packings is a lower bound for schedules. It is if bytes
            that cross a switch leave it at once to one destination, and a shared resource has the
            same offset on all its paths. Otherwise a switch may do more than paths describe, or
            transfers may reach a resource in another order than they started. On the reversed
            machine bytes pass a link alpha after they leave, so links of a budget with different
            alphas have different offsets.
    """

    topology: Topology
    collective: Collective
    chunk_bytes: Fraction
    edges: tuple[Edge, ...]
    routes: tuple[tuple[int, ...], ...]
    alpha: tuple[Fraction, ...]
    is_rigid: bool
    commodities: tuple[FlowCommodity, ...]
    resources: tuple[FlowResource, ...]

    def distances(
        self, sources: Iterable[int], *, hops: bool = False, backwards: bool = False
    ) -> dict[int, Fraction]:
        """Return the distance from the nearest source to each rank, or to it if backwards.

        Args:
            sources: The sources, or the destinations if backwards.
            hops: Whether to count paths instead of adding alphas.
            backwards: Whether to follow paths in the opposite direction.
        """
        lengths: dict[Edge, Fraction] = {}
        for (u, v), alpha in zip(self.edges, self.alpha, strict=True):
            edge = (v, u) if backwards else (u, v)
            length = Fraction(1) if hops else alpha
            lengths[edge] = min(length, lengths.get(edge, length))
        out: list[list[int]] = [[] for _ in range(self.topology.ranks)]
        for u, v in lengths:
            out[u].append(v)
        return exact_distances(out, lengths, sources)

    def potentials(self) -> tuple[Fraction, ...]:
        """Return the delay of slots at each rank, microseconds: its distance from the one root.

        If all chunks end at one rank, delays are by the distance to that rank. If they neither
        start nor end at one rank, the delays are zero.
        """
        ranks = range(self.topology.ranks)
        classes = [chunk_class for c in self.commodities for chunk_class, _ in c.members]
        roots = {frozenset(map(int, holders)) for holders, _ in classes}
        if len(roots) == 1:
            far = self.distances(*roots)
            return tuple(far.get(rank, Fraction(0)) for rank in ranks)
        goals = {frozenset(map(int, wanted - holders)) for holders, wanted in classes}
        if len(goals) == 1 and len(*goals) == 1:
            far = self.distances(*goals, backwards=True)
            max_distance = max(far.values())
            return tuple(max_distance - far.get(rank, max_distance) for rank in ranks)
        return (Fraction(0),) * len(ranks)


def exact_distances(
    successors: Sequence[Sequence[int]], lengths: Mapping[Edge, Fraction], sources: Iterable[int]
) -> dict[int, Fraction]:
    """Return the distance from the nearest source to each node that it reaches."""
    parts = lcm(*(length.denominator for length in lengths.values()))
    scaled_lengths = {edge: int(length * parts) for edge, length in lengths.items()}  # fast sums
    far = shortest_paths(successors, scaled_lengths, sources)
    return {node: Fraction(int(length), parts) for node, length in far.items()}


def has_ports(problem: FlowProblem) -> bool:
    """Return whether most paths connect two ports, and chunks have equal sizes.

    Such a path enters a switch by one link and leaves by another. Chunks of unequal sizes do not
    pass ports in the same time.
    """
    if problem.collective.counts or any(switch.copies for switch in problem.topology.switches):
        return False
    lengths = [len(path) for path in problem.routes]
    return max(lengths) <= 2 and 2 * lengths.count(2) > len(lengths)


class RouteImages:
    """The images of paths under symmetries, each computed once."""

    def __init__(self, problem: FlowProblem) -> None:
        links = problem.topology.links
        self._edges = [link.edge for link in links]
        self._place = {edge: i for i, edge in enumerate(self._edges)}
        self._ranks = problem.topology.ranks
        self._routes = list(zip(problem.edges, problem.routes, strict=True))
        self._number = {path: i for i, path in enumerate(self._routes)}
        self._cache: dict[Permutation, list[int]] = {}

    def images(self, image: Permutation) -> list[int]:
        """Return the image of each path."""
        if image not in self._cache:
            images = [self._place[image[u], image[v]] for u, v in self._edges]
            self._cache[image] = [
                self._number[
                    (self._end(image, u), self._end(image, v)), tuple(images[link] for link in path)
                ]
                for (u, v), path in self._routes
            ]
        return self._cache[image]

    def _end(self, image: Permutation, node: int) -> int:
        """Return the image of a node, which may be a copy of a rank.

        Nodes above the copies represent all ranks together and stay fixed.
        """
        again, rank = divmod(node, self._ranks)
        return node if again > 1 else image[rank] + again * self._ranks

    def preimages(self, image: Permutation) -> list[int]:
        """Return the path whose image each path is."""
        images = self.images(image)
        preimages = [0] * len(images)
        for index, target in enumerate(images):
            preimages[target] = index
        return preimages


def build_flow_problem(topology: Topology, dual: Dual, size_bytes: int) -> FlowProblem:
    """Build the packing problem of one phase of a collective.

    Args:
        topology: Machine of the phase: the reversed machine if the dual is solved on it.
        dual: Collective of the phase.
        size_bytes: Size of a rank's buffer.

    Raises:
        TooLargeError: There are too many paths through switches.
        UnreachableError: There are none.
    """
    collective = dual.spec.at(dual.spec.unit)
    chunk = Fraction(size_bytes, dual.spec.unit * dual.chunk_factor)
    symmetries = next(free_symmetries(topology, collective))
    paths = tuple(build_routes(topology, Clock.from_topology(topology, 1)).paths())
    alphas = [Fraction(str(link.alpha_us)) for link in topology.links]
    resources = _resources(topology, paths, symmetries)
    return FlowProblem(
        topology,
        collective,
        chunk,
        tuple((topology.links[path[0]].src, topology.links[path[-1]].dst) for path in paths),
        paths,
        tuple(sum((alphas[link] for link in path), Fraction(0)) for path in paths),
        _is_rigid(topology, paths, resources, backwards=dual.on_reversed),
        _commodities(collective, chunk, symmetries),
        resources,
    )


def _is_rigid(
    topology: Topology,
    paths: tuple[tuple[int, ...], ...],
    resources: tuple[FlowResource, ...],
    *,
    backwards: bool,
) -> bool:
    if any(switch.copies or not switch.cut_through for switch in topology.switches):
        return False
    if has_detours(topology):  # paths do not include them
        return False
    into: dict[Edge, set[Fraction]] = {}
    for path in paths:
        at = Fraction(0)
        for link in map(topology.links.__getitem__, path):
            alpha = Fraction(str(link.alpha_us))
            into.setdefault(link.edge, set()).add(at + alpha if backwards else at)
            at += alpha
    return all(
        len(set().union(*(into.get(edge, ()) for edge in members))) <= 1
        for resource in resources
        for members in resource.orbit
    )


def _commodities(
    collective: Collective, chunk: Fraction, symmetries: tuple[Permutation, ...]
) -> tuple[FlowCommodity, ...]:
    classes = collective.chunk_classes()
    done: set[ChunkClass] = set()
    commodities = []
    for chunk_class, chunks in classes.items():
        holders, wanted = chunk_class
        if wanted <= holders or chunk_class in done:
            continue
        members = {image_class(chunk_class, g): g for g in symmetries}
        done |= members.keys()
        commodities.append(
            FlowCommodity(
                frozenset(map(int, holders)),
                frozenset(map(int, wanted)),
                chunk * collective.amount(chunks),
                tuple(members.items()),
            )
        )
    return tuple(commodities)


def _resources(
    topology: Topology, paths: tuple[tuple[int, ...], ...], symmetries: tuple[Permutation, ...]
) -> tuple[FlowResource, ...]:
    rates = {
        frozenset([link.edge]): 1000 * link.lanes * Fraction(str(link.gb_per_s))
        for link in topology.links
    }
    for budget, speed in zip(topology.budgets, topology.budget_speeds(), strict=True):
        members = frozenset(budget.edges)
        rate = 1000 * budget.chunks_per_round * Fraction(str(speed))
        rates[members] = min(rate, rates.get(members, rate))
    slack = {e for e, rate in rates.items() if len(e) > 1 and rate >= _joint_rate(e, rates)}
    binding = [(members, rate) for members, rate in rates.items() if members not in slack]
    over: dict[Edge, list[int]] = {}
    for w, path in enumerate(paths):
        for link in path:
            over.setdefault(topology.links[link].edge, []).append(w)
    resources = []
    for (_, rate), orbit in capacity_orbits(binding, symmetries).items():
        times: dict[int, int] = {}
        for members, _ in orbit:
            for edge in members:
                for w in over.get(edge, ()):
                    times[w] = times.get(w, 0) + 1
        if times:
            together = tuple(members for members, _ in orbit)
            resources.append(FlowResource(len(orbit), rate, tuple(sorted(times.items())), together))
    return tuple(resources)


def _joint_rate(edges: frozenset[Edge], rates: dict[frozenset[Edge], Fraction]) -> Fraction:
    return sum((rates[frozenset([edge])] for edge in edges), Fraction(0))
