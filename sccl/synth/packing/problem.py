"""The packing of timed trees, reduced by symmetry. Its optimum is the limit frontier.

Let a collective without reductions have S steps. A *timed tree* of a chunk is a set of (link, step)
pairs that carries it to all its destinations within S steps. Divided by C, any k-synchronous
algorithm is a feasible point of

    minimize    sum_s rho_s
    subject to  sum of x over the trees of a class = chunks of the class per C,
                sum of x * (uses of b's links in step s) <= b * rho_s   for every (L, b) and s.

Every rational point, multiplied by a common denominator, is an algorithm. So the optimum is the
infimum of R/C over all k and all C. Symmetries map optima to optima, and the mean of the images of
an optimum is an optimum. So one commodity per orbit of classes and one resource per orbit of
constraints are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from sccl.core.collective import Collective
from sccl.core.graphs import UNREACHED, distances
from sccl.core.ids import Edge
from sccl.core.topology import ConstraintKey, Topology
from sccl.synth.limits import MAX_SUBSET
from sccl.topo.symmetry.automorphisms import automorphisms, generator_groups
from sccl.topo.symmetry.group_choice import translation_groups
from sccl.topo.symmetry.permutations import (
    ChunkClass,
    Permutation,
    capacity_orbits,
    class_orbits,
)

LinkStep = tuple[int, int]
"""A (link, step): the index of an edge of :attr:`PackingProblem.edges`, and a step from 0."""

StepTree = frozenset[LinkStep]


@dataclass(frozen=True, slots=True)
class Commodity:
    """An orbit of chunk classes, represented by one of them.

    Attributes:
        holders: Ranks that have the chunks before the collective.
        wanted: Ranks that must have them afterwards.
        amount: Chunks of all classes of the orbit per C.
        first_step: First step in which a chunk can use each edge.
        end_step: Step before which a chunk must use each edge to be useful (exclusive).
        members: (holders, wanted) of all classes of the orbit.
    """

    holders: frozenset[int]
    wanted: frozenset[int]
    amount: Fraction
    first_step: tuple[int, ...]
    end_step: tuple[int, ...]
    members: tuple[tuple[frozenset[int], frozenset[int]], ...]


@dataclass(frozen=True, slots=True)
class Resource:
    """An orbit of bandwidth constraints.

    Attributes:
        keys: Keys of the constraints.
        rate: Chunks per round of each constraint.
        links: (edge, times): number of constraints of the orbit that contain the edge.
    """

    keys: tuple[ConstraintKey, ...]
    rate: int
    links: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """Return the number of constraints."""
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class PackingProblem:
    """A packing problem.

    Attributes:
        topology: The machine.
        collective: Collective without reductions. Loads are divided by its C.
        steps: Number of steps S.
        edges: Edges of the topology, ascending.
        commodities: Demands, one per orbit.
        resources: Bandwidth constraints, one per orbit.
        symmetries: Generators of the group by which the problem is reduced.
        rounds: Fixed proportions of the rounds of each step. The problem then minimizes their
            common factor, which is 1 over the largest C for these rounds. None: minimize R/C.
        has_tree_pairs: Whether trees are those of allreduce (:func:`build_allreduce_problem`).
    """

    topology: Topology
    collective: Collective
    steps: int
    edges: tuple[Edge, ...]
    commodities: tuple[Commodity, ...]
    resources: tuple[Resource, ...]
    symmetries: tuple[Permutation, ...]
    rounds: tuple[int, ...] | None = None
    has_tree_pairs: bool = False

    @property
    def round_spreads(self) -> tuple[tuple[int, ...], ...]:
        """Return the vectors of which the rounds per step are a combination.

        The objective is the sum of the coefficients.
        """
        if self.rounds is not None:
            return (self.rounds,)
        return tuple(tuple(int(s == t) for s in range(self.steps)) for t in range(self.steps))


def build_packing_problem(
    topology: Topology,
    collective: Collective,
    steps: int,
    *,
    symmetric: bool = True,
    rounds: tuple[int, ...] | None = None,
) -> PackingProblem:
    """Return the packing problem of a collective on a topology with S = ``steps``.

    Args:
        topology: Machine without switch nodes.
        collective: Collective without reductions. All destinations are within S steps.
        steps: Number of steps.
        symmetric: Whether to reduce the problem by its symmetries.
        rounds: Fixed proportions of the rounds of each step. None: they are variables.
    """
    edges = tuple(sorted(topology.edges))
    symmetries = automorphisms(topology, collective) if symmetric else ()
    commodities = _commodities(topology, collective, steps, edges, symmetries)
    resources = _resources(topology, edges, symmetries)
    return PackingProblem(
        topology, collective, steps, edges, commodities, resources, symmetries, rounds
    )


def build_allreduce_problem(
    topology: Topology,
    collective: Collective,
    steps: int,
    *,
    symmetric: bool = True,
) -> PackingProblem:
    """Return the packing problem of allreduce by trees that go up and down within S steps in total.

    Each chunk is reduced on timed trees into a root, or into two ranks that exchange, by some step.
    From there it is broadcast on other timed trees. The step may differ between chunks, so the
    phases overlap: this class contains reducescatter followed by allgather. In process groups a
    chunk's trees contain the ranks of its group, and other ranks that forward it. These ranks may
    be roots, too.
    """
    edges = tuple(sorted(topology.edges))
    symmetries = _bounded_symmetries(topology, collective) if symmetric else ()
    first, end = (0,) * len(edges), (steps,) * len(edges)
    commodities = tuple(
        _commodity(collective, members, first, end)
        for members in class_orbits(collective, symmetries).values()
    )
    resources = _resources(topology, edges, symmetries)
    return PackingProblem(
        topology, collective, steps, edges, commodities, resources, symmetries, has_tree_pairs=True
    )


def _bounded_symmetries(topology: Topology, collective: Collective) -> tuple[Permutation, ...]:
    """Return the symmetries by which packings of allreduce are reduced.

    For many ranks they are only translations and stabilizers, if the machine has some. These are
    already transitive on ranks. The mean over more symmetries would need more chunks in an
    algorithm.
    """
    if topology.ranks > MAX_SUBSET and not collective.post.pattern:
        # so many chunks that symmetries of every order are found: only images of ranks matter
        chunks = topology.ranks * lcm(*range(1, 13))  # divisible by every order up to 12
        many = replace(collective, chunks=chunks, num_chunks=chunks)
        groups = (*generator_groups(topology, many), *translation_groups(topology, collective))
        for group in groups[:1]:
            return tuple(symmetry.ranks for symmetry in group.generators)
    return automorphisms(topology, collective)


def _commodities(
    topology: Topology,
    collective: Collective,
    steps: int,
    edges: tuple[Edge, ...],
    symmetries: tuple[Permutation, ...],
) -> tuple[Commodity, ...]:
    successors, predecessors = topology.successors(), topology.reversed().successors()
    commodities = []
    for (holders, wanted), members in class_orbits(collective, symmetries).items():
        if wanted <= holders:
            continue
        before, after = distances(successors, holders), distances(predecessors, wanted)
        usable = [
            v not in holders and before[u] != UNREACHED and after[v] != UNREACHED for u, v in edges
        ]
        pairs = list(zip(usable, edges, strict=True))
        first = tuple(before[u] if ok else steps for ok, (u, _) in pairs)
        end = tuple(steps - after[v] if ok else 0 for ok, (_, v) in pairs)
        commodities.append(_commodity(collective, members, first, end))
    return tuple(commodities)


def _commodity(
    collective: Collective,
    members: Sequence[ChunkClass],
    first_step: tuple[int, ...],
    end_step: tuple[int, ...],
) -> Commodity:
    """Return the commodity of an orbit, represented by its first class."""
    amount = Fraction(len(members) * len(collective.chunk_classes()[members[0]]), collective.chunks)
    sets = tuple((frozenset[int](held), frozenset[int](wanted)) for held, wanted in members)
    return Commodity(*sets[0], amount, first_step, end_step, sets)


def _resources(
    topology: Topology, edges: tuple[Edge, ...], symmetries: tuple[Permutation, ...]
) -> tuple[Resource, ...]:
    number = {edge: i for i, edge in enumerate(edges)}
    # equal constraints are redundant: keep one
    binding = {(frozenset(c.edges), c.chunks_per_round): c for c in topology.constraints()}
    resources = []
    for (_, width), orbit in capacity_orbits(binding, symmetries).items():
        times: dict[int, int] = {}
        alike = [binding[equal] for equal in orbit]
        for constraint in alike:
            for edge in constraint.edges:
                times[number[edge]] = times.get(number[edge], 0) + 1
        keys = tuple(constraint.key for constraint in alike)
        resources.append(Resource(keys, width, tuple(sorted(times.items()))))
    return tuple(resources)


def is_priced_without_search(topology: Topology, collective: Collective) -> bool:
    """Return whether all trees of a collective can be priced without a search."""
    return all(
        len(wanted - holders) <= 1 or topology.ranks - len(holders) <= MAX_SUBSET
        for holders, wanted in collective.chunk_classes()
    )


@dataclass(frozen=True, slots=True)
class RootOrPair:
    """A root, or two that exchange: it has all contributions from some step on.

    Attributes:
        ranks: The root, or two ranks that send their sums to each other.
        links: Numbers of the links between the two.
    """

    ranks: tuple[int, ...]
    links: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """Return the number of steps of the exchange."""
        return 1 if self.links else 0


def root_choices(edges: Sequence[Edge], ranks: Iterable[int]) -> tuple[RootOrPair, ...]:
    """Return the possible roots: each rank, and each pair of ranks with links in both directions.

    Args:
        edges: The links.
        ranks: The ranks.
    """
    number = {edge: i for i, edge in enumerate(edges)}
    pairs = ((u, v) for u, v in number if u < v and (v, u) in number)
    between = (RootOrPair((u, v), (number[u, v], number[v, u])) for u, v in pairs)
    return (*(RootOrPair((rank,)) for rank in ranks), *between)


def farthest_distance(topology: Topology, roots: Sequence[int], wanted: Iterable[int]) -> int:
    """Return the largest distance from the nearest root to a destination.

    ``UNREACHED``: a destination cannot be reached.

    Args:
        topology: The machine, or its reverse for distances to the roots.
        roots: The roots.
        wanted: The destinations.
    """
    far = distances(topology.successors(), roots)
    each = [far[rank] for rank in wanted]
    return UNREACHED if UNREACHED in each else max(each)
