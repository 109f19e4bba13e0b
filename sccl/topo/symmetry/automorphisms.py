"""Compute, check, and construct the symmetries of a machine with its collective.

A symmetry renames ranks so that links go to links of as many lanes, budgets to equal budgets, and
the demand to itself. Names and chassis are ignored. Alphas and speeds are ignored too unless
requested, since k-synchronous synthesis depends on lanes and budgets only.

Symmetries of generated machines are known by construction. A ring, a circulant, a full machine and
a switch are tori of one dimension. A hypercube is a torus with sides of 2. The translations of tori
and Cayley graphs move every rank. A rotation about a rank permutes the directions cyclically.
Combined with a rotation of chunks (the j-th chunk of a rank becomes the j+1-th), it also moves the
chunks of that rank. Each symmetry is checked on the machine, since its name may be wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from functools import lru_cache
from itertools import product
from math import prod

from sccl.core.collective import Collective, RelationKind
from sccl.core.formatting import format_count
from sccl.core.ids import Rank
from sccl.core.symmetric import Group, Symmetry
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.topo.symmetry.permutations import (
    Permutation,
    identity_permutation,
    map_ranks,
    permutation_order,
    power,
)


def automorphisms(
    topology: Topology, collective: Collective, *, costs: bool = False
) -> tuple[Permutation, ...]:
    """Return generators of all symmetries of a collective on a topology (igraph's BLISS).

    Args:
        costs: Whether links map to links of equal alpha and rate, and budgets to budgets of equal
            rate.

    The symmetries are the color-preserving automorphisms of a colored graph. Its vertices are
    ranks, switches, links, and budgets, and also the chunk classes of pre and post if these are
    lists. Source: Junttila and Kaski, Engineering an efficient canonical labeling tool for large
    and sparse graphs (2007).
    """
    relations = (collective.pre, collective.post)
    roots = tuple(Rank(r.root) for r in relations if r.root is not None)
    if RelationKind.PAIRS in (r.kind for r in relations):
        return _automorphisms(topology, roots, costs, collective)
    return _automorphisms_of_roots(topology, roots, costs)


@lru_cache(maxsize=8)
def _automorphisms_of_roots(
    topology: Topology, roots: tuple[Rank, ...], costs: bool
) -> tuple[Permutation, ...]:
    """Return generators of all symmetries, cached for the many candidates of a sweep."""
    return _automorphisms(topology, roots, costs, None)


def _automorphisms(
    topology: Topology, roots: tuple[Rank, ...], costs: bool, listed: Collective | None
) -> tuple[Permutation, ...]:
    """Return generators of all symmetries.

    Args:
        listed: A collective whose pre or post is a list. None: pre and post have at most a root.
    """
    graph = _ColoredGraph()
    ranks = [graph.vertex(("rank", *(root == r for root in roots))) for r in range(topology.ranks)]
    ranks += [graph.vertex(("switch", *astuple(s)[1:])) for s in topology.switches]
    link = {}
    for item in topology.links:
        more: tuple[float, ...] = (item.alpha_us, item.gb_per_s) if costs else ()
        tail, head = graph.vertex(("tail", item.lanes, *more)), graph.vertex(("head",))
        graph.join(ranks[item.src], tail)
        graph.join(tail, head)
        graph.join(head, ranks[item.dst])
        link[item.edge] = tail
    for budget, speed in zip(topology.budgets, topology.budget_speeds(), strict=True):
        more = (speed,) if costs else ()
        vertex = graph.vertex(("budget", budget.chunks_per_round, *more))
        for edge in budget.edges:
            graph.join(vertex, link[edge])
    if listed:
        for (holders, wanted), chunks in listed.chunk_classes().items():
            vertex = graph.vertex(("class", *_sizes(listed, chunks)))
            for role, members in (("pre", holders), ("post", wanted)):
                port = graph.vertex((role,))
                graph.join(vertex, port)
                for rank in sorted(members):
                    graph.join(port, ranks[rank])
    generators = {tuple(g[: topology.ranks]) for g in graph.automorphism_generators()}
    return tuple(sorted(generators - {tuple(range(topology.ranks))}))


class _ColoredGraph:
    """An undirected graph with colored vertices, for BLISS."""

    def __init__(self) -> None:
        self.colors: list[tuple[object, ...]] = []
        self.edges: list[tuple[int, int]] = []

    def vertex(self, color: tuple[object, ...]) -> int:
        self.colors.append(color)
        return len(self.colors) - 1

    def join(self, a: int, b: int) -> None:
        """Add an edge between two vertices."""
        self.edges.append((a, b))

    def automorphism_generators(self) -> list[list[int]]:
        """Return permutations of the vertices that generate all symmetries, by BLISS in igraph."""
        import igraph  # noqa: PLC0415 - slow to load, and few commands need it

        number = {color: i for i, color in enumerate(sorted(set(self.colors), key=str))}
        graph = igraph.Graph(n=len(self.colors), edges=self.edges)
        result: list[list[int]] = graph.automorphism_group(color=[number[c] for c in self.colors])
        return result


def check_symmetry(topology: Topology, collective: Collective, image: Sequence[int]) -> None:
    """Check that renaming rank r to ``image[r]`` preserves links, budgets, pre and post.

    Raises:
        ParameterError: it does not. The message names an object without an image.
    """
    name = f"symmetry {_image_text(image)} of {collective.name} on {topology.name!r}"
    if sorted(image) != list(range(topology.ranks)):
        raise ParameterError(
            f"{name}: expected each rank from 0 to {topology.ranks - 1} once, as the image of one"
        )
    lanes = topology.lanes()
    for (src, dst), width in lanes.items():
        target = (image[src], image[dst])
        if lanes.get(target) != width:
            have = (
                f"has {format_count(lanes[target], 'lane')}"
                if target in lanes
                else "does not exist"
            )
            raise ParameterError(
                f"{name}: link {src}->{dst} with {format_count(width, 'lane')} maps to "
                f"{target[0]}->{target[1]}, which {have}"
            )
    budgets = Counter((frozenset(b.edges), b.chunks_per_round) for b in topology.budgets)
    for budget in topology.budgets:
        edges = frozenset((image[u], image[v]) for u, v in budget.edges)
        if budgets[edges, budget.chunks_per_round] < 1:
            raise ParameterError(
                f"{name}: the edges of budget {budget.name!r} go to edges that share no such budget"
            )
    _check_demand(collective, image, name)


def _check_demand(collective: Collective, image: Sequence[int], name: str) -> None:
    """Check that every class of chunks is mapped to a class with as many chunks.

    Relations other than a root and a list are invariant under every renaming of ranks.
    """
    roots = [r.root for r in (collective.pre, collective.post) if r.root is not None]
    for root in roots:
        if image[root] != root:
            raise ParameterError(
                f"{name}: the root {root} maps to rank {image[root]}, which is not the root"
            )
    if RelationKind.PAIRS not in (collective.pre.kind, collective.post.kind):
        return
    classes = collective.chunk_classes()
    for (holders, wanted), chunks in classes.items():
        image_chunks = classes.get((map_ranks(holders, image), map_ranks(wanted, image)))
        if image_chunks is None or _sizes(collective, chunks) != _sizes(collective, image_chunks):
            raise ParameterError(
                f"{name}: chunk {chunks[0]} (from {sorted(holders)} to {sorted(wanted)}) maps to "
                "a demand that does not exist, or has another number of chunks"
            )


def _sizes(collective: Collective, chunks: Sequence[int]) -> tuple[int, ...]:
    """Return the number of chunks if all have one size, else their sorted sizes."""
    if not collective.counts:
        return (len(chunks),)
    return tuple(sorted(collective.amount([chunk]) for chunk in chunks))


def _image_text(image: Sequence[int]) -> str:
    shown = ", ".join(str(r) for r in image[:8])
    return f"[{shown}, ...]" if len(image) > 8 else f"[{shown}]"


_CAYLEY_NAME = re.compile(r"cayley:([0-9]{1,5})x([0-9]{1,5})(?:\^([0-9]{1,5}))?:")
_TORUS_NAME = re.compile(r"(torus|hypercube|ring|circulant|full|switch):(.*)")


def generator_groups(topology: Topology, collective: Collective) -> Iterator[Group]:
    """Yield the groups of a generated topology, the largest first. Other topologies yield none."""
    if topology.name.startswith("cayley:"):
        yield from _cayley_translations(topology, collective)
        return
    sides = _torus_sides(topology)
    if not sides:
        return
    root = next((r.root for r in (collective.pre, collective.post) if r.root is not None), None)
    shifts = [] if root is not None else [_translation(sides, d) for d in range(len(sides))]
    turn = _rotation(sides, root or 0)
    try:
        for image in (*shifts, turn):
            check_symmetry(topology, collective, image)
    except ParameterError:  # another machine of that name
        return
    translations = tuple(Symmetry(s) for s in shifts if s != identity_permutation(topology.ranks))
    order = permutation_order(turn)
    for period in range(order, 1, -1):
        if order % period == 0 and collective.class_size_divisor % period == 0:
            generator = Symmetry(power(turn, order // period), 1, period)
            name = f"turns of order {period}"
            name = f"translations and {name}" if translations else f"{name} about rank {root}"
            yield Group(name, (*translations, generator))
    if translations:
        yield Group("translations", translations)


def _cayley_translations(topology: Topology, collective: Collective) -> Iterator[Group]:
    """Yield the group of left multiplications of a Cayley graph, if they preserve the collective.

    The group of ``MxK^R`` has elements (i, j), and (i, j)(k, l) is (i + R^j k, j + l).
    """
    match = _CAYLEY_NAME.match(topology.name)
    if not match or int(match[1]) * int(match[2]) != topology.ranks:
        return
    m, k, turn = int(match[1]), int(match[2]), int(match[3] or "1")
    elements = _coordinates((m, k))
    moves = (
        tuple((i + 1) % m * k + j for i, j in elements),
        tuple(turn * i % m * k + (j + 1) % k for i, j in elements),
    )
    try:
        for image in moves:
            check_symmetry(topology, collective, image)
    except ParameterError:  # another machine of that name, or a collective with a root
        return
    still = identity_permutation(topology.ranks)
    yield Group("translations", tuple(Symmetry(move) for move in moves if move != still))


def _torus_sides(topology: Topology) -> tuple[int, ...]:
    """Return the sides of the torus whose translations a generated topology has."""
    match = _TORUS_NAME.fullmatch(topology.name)
    if not match:
        return ()
    kind, arguments = match[1], match[2].partition("@")[0]
    if not re.fullmatch(r"[0-9]{1,5}(x[0-9]{1,5}){0,15}(:[0-9,]+)?", arguments):
        return ()
    numbers = [int(n) for n in arguments.partition(":")[0].split("x")]
    sides = tuple([2] * min(numbers[0], 32) if kind == "hypercube" else numbers)
    return sides if prod(sides) == topology.ranks else ()


def _coordinates(sides: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*(range(side) for side in sides)))


def _translation(sides: tuple[int, ...], dimension: int) -> Permutation:
    places = _coordinates(sides)
    number = {place: i for i, place in enumerate(places)}
    side = sides[dimension]

    def moved(place: tuple[int, ...]) -> tuple[int, ...]:
        return (*place[:dimension], (place[dimension] + 1) % side, *place[dimension + 1 :])

    return tuple(number[moved(place)] for place in places)


def _rotation(sides: tuple[int, ...], center: int) -> Permutation:
    """Return a rotation about a rank that moves every direction.

    Among sides of the same length, each direction maps to the next one, and the last maps to the
    reverse of the first: (x, y) -> (-y, x) on a square. So the 2d directions of a cube are permuted
    cyclically.
    """
    places = _coordinates(sides)
    number = {place: i for i, place in enumerate(places)}
    middle = places[center]
    blocks: dict[int, list[int]] = {}
    for d, side in enumerate(sides):
        blocks.setdefault(side, []).append(d)

    def moved(place: tuple[int, ...]) -> tuple[int, ...]:
        target = list(place)
        for side, block in blocks.items():
            offsets = [(place[d] - middle[d]) % side for d in block]
            turned = [-offsets[-1], *offsets[:-1]]
            for d, offset in zip(block, turned, strict=True):
                target[d] = (middle[d] + offset) % side
        return tuple(target)

    return tuple(number[moved(place)] for place in places)
