"""The packing of timed trees, reduced by symmetry: its optimum is the limit frontier.

For S steps and a non-combining collective, a *timed tree* of a chunk is a set of (link, step) pairs
by which it reaches all ranks that want it within S steps. Divided by C, any k-synchronous algorithm
is a point of

    minimise    sum_s rho_s subject to  sum of x over the trees of a class = chunks of the class per
    C,
                sum of x * (uses of b's links in step s) <= b * rho_s   for every (L, b) and s,

and every rational point, multiplied out, is an algorithm. So the optimum is the infimum of R/C over
all k and all C. Symmetries map optima to optima, and the mean of images of an optimum is an
optimum: one commodity per orbit of classes and one resource per orbit of constraints are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import UNREACHED, ConstraintKey, Topology, distances
from sccl.synth.limits import MAX_SUBSET
from sccl.topo.symmetry.automorphisms import automorphisms, generator_groups
from sccl.topo.symmetry.group_choice import translation_groups
from sccl.topo.symmetry.permutations import Orbits, Permutation, class_orbits

LinkStep = tuple[int, int]
"""A (link, step): the index of an edge of :attr:`Problem.edges`, and a step from 0."""

StepTree = frozenset[LinkStep]


@dataclass(frozen=True, slots=True)
class Commodity:
    """An orbit of chunk classes, by one of them.

    Attributes:
        holders: the ranks that have the chunks before.
        wanted: the ranks that must have them after.
        amount: chunks of all classes of the orbit per C.
        first_step: per edge, the first step in which a chunk can use it.
        end_step: per edge, the step before which it must have, to be of use.
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
        keys: of the constraints.
        rate: chunks per round of each.
        links: (edge, times): how often the constraints of the orbit together hold an edge.
    """

    keys: tuple[ConstraintKey, ...]
    rate: int
    links: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """Return how many constraints there are."""
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class PackingProblem:
    """One packing problem.

    Attributes:
        collective: non-combining. Loads are divided by its C.
        edges: of the topology, ascending.
        symmetries: generators of the group that the problem is reduced by.
        rounds: if given, the rounds of the steps are these times one number, which is minimised
            instead of R/C: it is 1 over the largest C for these rounds.
        has_tree_pairs: whether the trees are those of allreduce: see
            :func:`build_allreduce_problem`.
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
        """Return the spreads whose combination gives the rounds per step.

        The objective is its sum.
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
        topology: without switch nodes.
        collective: non-combining. Every chunk can reach its ranks within S steps.
        symmetric: whether to reduce the problem by its symmetries.
        rounds: of each step, if they are given.
    """
    edges = tuple(sorted(topology.edges))
    symmetries = automorphisms(topology, collective) if symmetric else ()
    return PackingProblem(
        topology,
        collective,
        steps,
        edges,
        _commodities(topology, collective, steps, edges, symmetries),
        _resources(topology, edges, symmetries),
        symmetries,
        rounds,
    )


def build_allreduce_problem(
    topology: Topology,
    collective: Collective,
    steps: int,
    *,
    symmetric: bool = True,
    rounds: tuple[int, ...] | None = None,
) -> PackingProblem:
    """Return the packing problem of allreduce by trees that go up and down within S steps in total.

    Each chunk is reduced along timed trees into some rank, or two that exchange, by some step, and
    goes out from there along others. The turn may differ from chunk to chunk, so that phases
    overlap: a larger class than reducescatter followed by allgather. In process groups a chunk's
    trees contain the ranks of its group, and others that forward it. It may turn at these.
    """
    edges = tuple(sorted(topology.edges))
    symmetries = _bounded_symmetries(topology, collective) if symmetric else ()
    classes = collective.chunk_classes()
    commodities = tuple(
        Commodity(
            frozenset(holders),
            frozenset(wanted),
            Fraction(len(members) * len(classes[holders, wanted]), collective.chunks),
            (0,) * len(edges),
            (steps,) * len(edges),
            tuple((frozenset(h), frozenset(w)) for h, w in members),
        )
        for (holders, wanted), members in class_orbits(collective, symmetries).items()
    )
    return PackingProblem(
        topology,
        collective,
        steps,
        edges,
        commodities,
        _resources(topology, edges, symmetries),
        symmetries,
        rounds,
        has_tree_pairs=True,
    )


def _bounded_symmetries(topology: Topology, collective: Collective) -> tuple[Permutation, ...]:
    """Return the symmetries by which packings of allreduce are reduced.

    With many ranks they are only translations and turns, if there are some: these are already
    transitive on ranks, and the mean over more symmetries needs more chunks when it is written
    down.
    """
    if topology.ranks > MAX_SUBSET and not collective.post.pattern:
        # so many chunks that turns of every order are offered: it is images of ranks that we want
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
    classes = collective.chunk_classes()
    successors, predecessors = topology.successors(), topology.reversed().successors()
    commodities = []
    for (holders, wanted), members in class_orbits(collective, symmetries).items():
        if wanted <= holders:
            continue
        before, after = distances(successors, holders), distances(predecessors, wanted)
        usable = [
            v not in holders and before[u] != UNREACHED and after[v] != UNREACHED for u, v in edges
        ]
        commodities.append(
            Commodity(
                frozenset(holders),
                frozenset(wanted),
                Fraction(len(members) * len(classes[holders, wanted]), collective.chunks),
                tuple(before[u] if ok else steps for ok, (u, _) in zip(usable, edges, strict=True)),
                tuple(
                    steps - after[v] if ok else 0 for ok, (_, v) in zip(usable, edges, strict=True)
                ),
                tuple((frozenset(h), frozenset(w)) for h, w in members),
            )
        )
    return tuple(commodities)


def _resources(
    topology: Topology, edges: tuple[Edge, ...], symmetries: tuple[Permutation, ...]
) -> tuple[Resource, ...]:
    number = {edge: i for i, edge in enumerate(edges)}
    # equal constraints bind alike: one will do
    binding = {(frozenset(c.edges), c.chunks_per_round): c for c in topology.constraints()}
    orbits = Orbits(binding)
    for image in symmetries:
        for members, width in binding:
            image_edges = frozenset((image[u], image[v]) for u, v in members)
            orbits.join((members, width), (image_edges, width))
    resources = []
    for (_, width), orbit in orbits.members().items():
        times: dict[int, int] = {}
        alike = [binding[equal] for equal in orbit]
        for constraint in alike:
            for edge in constraint.edges:
                times[number[edge]] = times.get(number[edge], 0) + 1
        keys = tuple(constraint.key for constraint in alike)
        resources.append(Resource(keys, width, tuple(sorted(times.items()))))
    return tuple(resources)


def is_priced_without_search(topology: Topology, collective: Collective) -> bool:
    """Return whether all trees of a collective are priced without a search."""
    return all(
        len(wanted - holders) <= 1 or topology.ranks - len(holders) <= MAX_SUBSET
        for holders, wanted in collective.chunk_classes()
    )


@dataclass(frozen=True, slots=True)
class RootOrPair:
    """A place that has to hold all contributions from some step on.

    Attributes:
        ranks: one, or two, each of which sends its sum to the other.
        links: the links between them, by number.
    """

    ranks: tuple[int, ...]
    links: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """Return how many steps it takes."""
        return 1 if self.links else 0


def root_choices(edges: Sequence[Edge], ranks: Iterable[int]) -> tuple[RootOrPair, ...]:
    """Return where chunks can turn: at each rank, and at the ends of each pair of links.

    Args:
        edges: the links.
    """
    number = {edge: i for i, edge in enumerate(edges)}
    pairs = ((u, v) for u, v in edges if u < v and (v, u) in number)
    between = (RootOrPair((u, v), (number[u, v], number[v, u])) for u, v in pairs)
    return (*(RootOrPair((rank,)) for rank in ranks), *between)


def farthest_distance(topology: Topology, roots: Sequence[int], wanted: Iterable[int]) -> int:
    """Return how far the farthest of some ranks is from the nearest root. ``UNREACHED``: it is not.

    Args:
        topology: the machine, or reversed, for how far roots are from them.
    """
    far = distances(topology.successors(), roots)
    each = [far[rank] for rank in wanted]
    return UNREACHED if UNREACHED in each else max(each)
