"""Symmetries of a machine with its collective: found, given by a user, known, and checked.

A symmetry renames ranks so that links go to links of as many lanes, budgets to equal budgets, and
the demand to itself. What else a machine has (alpha, names, chassis) plays no part: k-synchronous
synthesis sees lanes and budgets only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import astuple
from typing import Generic, TypeVar

from sccl.core.collective import Collective, RelationKind
from sccl.core.ids import Rank
from sccl.core.topology import Topology, as_ranks
from sccl.core.words import counted
from sccl.errors import ParameterError

Permutation = tuple[int, ...]
"""The image of each rank."""

T = TypeVar("T", bound=Hashable)


def automorphisms(topology: Topology, collective: Collective) -> tuple[Permutation, ...]:
    """Return generators of all symmetries of a collective on a topology (igraph's BLISS).

    Source of the method: a coloured graph whose colour-preserving automorphisms are the symmetries;
    links, budgets and (where they are lists) pre and post become vertices of their own.
    """
    graph = _Coloured()
    ranks = [graph.vertex(_rank_colour(collective, r)) for r in range(topology.ranks)]
    ranks += [graph.vertex(("switch", *astuple(s)[1:])) for s in topology.switches]
    link = {}
    for edge, lanes in sorted(topology.lanes().items()):
        tail, head = graph.vertex(("tail", lanes)), graph.vertex(("head",))
        graph.join(ranks[edge[0]], tail)
        graph.join(tail, head)
        graph.join(head, ranks[edge[1]])
        link[edge] = tail
    for budget in topology.budgets:
        vertex = graph.vertex(("budget", budget.chunks_per_round))
        for edge in budget.edges:
            graph.join(vertex, link[edge])
    if RelationKind.PAIRS in (collective.pre.kind, collective.post.kind):
        for (holders, wanted), chunks in collective.classes().items():
            vertex = graph.vertex(("class", len(chunks)))
            for role, members in (("pre", holders), ("post", wanted)):
                port = graph.vertex((role,))
                graph.join(vertex, port)
                for rank in sorted(members):
                    graph.join(port, ranks[rank])
    found = {tuple(g[: topology.ranks]) for g in graph.automorphism_generators()}
    return tuple(sorted(found - {tuple(range(topology.ranks))}))


def _rank_colour(collective: Collective, rank: int) -> tuple[object, ...]:
    roots = [r.root == rank for r in (collective.pre, collective.post) if r.root is not None]
    return ("rank", *roots)


class _Coloured:
    """An undirected graph with coloured vertices, for BLISS."""

    def __init__(self) -> None:
        self.colours: list[tuple[object, ...]] = []
        self.edges: list[tuple[int, int]] = []

    def vertex(self, colour: tuple[object, ...]) -> int:
        self.colours.append(colour)
        return len(self.colours) - 1

    def join(self, a: int, b: int) -> None:
        self.edges.append((a, b))

    def automorphism_generators(self) -> list[list[int]]:
        import igraph  # noqa: PLC0415 - slow to load, and few commands need it

        number = {colour: i for i, colour in enumerate(sorted(set(self.colours), key=str))}
        graph = igraph.Graph(n=len(self.colours), edges=self.edges)
        found: list[list[int]] = graph.automorphism_group(color=[number[c] for c in self.colours])
        return found


def check_symmetry(topology: Topology, collective: Collective, image: Sequence[int]) -> None:
    """Check that renaming rank r to ``image[r]`` preserves links, budgets, pre and post.

    Raises:
        ParameterError: it does not; the message names what has no image.
    """
    what = f"symmetry {_short(image)} of {collective.name} on {topology.name!r}"
    if sorted(image) != list(range(topology.ranks)):
        raise ParameterError(
            f"{what}: expected each rank from 0 to {topology.ranks - 1} once, as the image of one"
        )
    lanes = topology.lanes()
    for (src, dst), width in lanes.items():
        there = (image[src], image[dst])
        if lanes.get(there) != width:
            have = f"has {counted(lanes[there], 'lane')}" if there in lanes else "does not exist"
            raise ParameterError(
                f"{what}: link {src}->{dst} with {counted(width, 'lane')} goes to "
                f"{there[0]}->{there[1]}, which {have}"
            )
    budgets = Counter((frozenset(b.edges), b.chunks_per_round) for b in topology.budgets)
    for budget in topology.budgets:
        edges = frozenset((image[u], image[v]) for u, v in budget.edges)
        if budgets[edges, budget.chunks_per_round] < 1:
            raise ParameterError(
                f"{what}: the edges of budget {budget.name!r} go to edges that share no such budget"
            )
    _check_demand(collective, image, what)


def _check_demand(collective: Collective, image: Sequence[int], what: str) -> None:
    """Check that every class of chunks goes to one of as many chunks.

    What all relations but a root and a list say of ranks is the same under every renaming.
    """
    roots = [r.root for r in (collective.pre, collective.post) if r.root is not None]
    for root in roots:
        if image[root] != root:
            raise ParameterError(
                f"{what}: the root {root} goes to rank {image[root]}, which is not the root"
            )
    if RelationKind.PAIRS not in (collective.pre.kind, collective.post.kind):
        return
    classes = collective.classes()
    for (holders, wanted), chunks in classes.items():
        other = classes.get((image_of(holders, image), image_of(wanted, image)))
        if other is None or len(other) != len(chunks):
            raise ParameterError(
                f"{what}: chunk {chunks[0]} (from {sorted(holders)} to {sorted(wanted)}) goes to a "
                "demand that does not exist, or of another number of chunks"
            )


def image_of(ranks: Iterable[int], image: Sequence[int]) -> frozenset[Rank]:
    """Return the images of a set of ranks."""
    return as_ranks(image[r] for r in ranks)


def _short(image: Sequence[int]) -> str:
    shown = ", ".join(str(r) for r in image[:8])
    return f"[{shown}, ...]" if len(image) > 8 else f"[{shown}]"


class Orbits(Generic[T]):
    """Which things are images of each other; the one given first stands for its orbit."""

    def __init__(self, things: Iterable[T]) -> None:
        self._things = list(things)
        self._number = {thing: i for i, thing in enumerate(self._things)}
        self._parent = list(range(len(self._things)))

    def join(self, a: T, b: T) -> None:
        """Put two things into one orbit."""
        low, high = sorted((self._root(self._number[a]), self._root(self._number[b])))
        self._parent[high] = low

    def first(self, thing: T) -> T:
        """Return the representative of a thing's orbit."""
        return self._things[self._root(self._number[thing])]

    def members(self) -> dict[T, list[T]]:
        """Return the orbits by representative, in the order things were given."""
        orbits: dict[T, list[T]] = {}
        for thing in self._things:
            orbits.setdefault(self.first(thing), []).append(thing)
        return orbits

    def _root(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i


ChunkClass = tuple[frozenset[Rank], frozenset[Rank]]
"""(holders, wanted): the key of :meth:`Collective.classes`."""


def class_orbits(
    collective: Collective, symmetries: Sequence[Permutation]
) -> dict[ChunkClass, list[ChunkClass]]:
    """Return the orbits of chunk classes, by the first of each."""
    orbits = Orbits(collective.classes())
    everyone = frozenset(range(collective.ranks))
    for image in symmetries:
        moved = {everyone: as_ranks(everyone)}  # most classes are wanted everywhere
        for holders, wanted in collective.classes():
            for ranks in (holders, wanted):
                if ranks not in moved:
                    moved[ranks] = image_of(ranks, image)
            orbits.join((holders, wanted), (moved[holders], moved[wanted]))
    return orbits.members()


def set_orbits(
    sets: Iterable[frozenset[Rank]], symmetries: Sequence[Permutation]
) -> list[frozenset[Rank]]:
    """Return one set of each orbit; the images of a set must be among the sets."""
    every = list(sets)
    orbits = Orbits(every)
    for image in symmetries:
        for ranks in every:
            orbits.join(ranks, image_of(ranks, image))
    return list(orbits.members())


def rank_orbits(topology: Topology, symmetries: Sequence[Permutation]) -> dict[int, list[int]]:
    """Return the orbits of ranks, by the first of each."""
    orbits = Orbits(range(topology.ranks))
    for image in symmetries:
        for rank, there in enumerate(image):
            orbits.join(rank, there)
    return orbits.members()
