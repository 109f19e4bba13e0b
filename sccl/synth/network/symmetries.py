"""Find symmetries of a machine and a collective that act freely on ranks or on classes of chunks.

Each class of an orbit of chunk classes is then the image of the first under exactly one symmetry.
So a plan for the first class is a plan for all. :func:`bounded_symmetries` returns groups that need
not be free: they may fix a root, for example.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.topo.symmetry.automorphisms import automorphisms
from sccl.topo.symmetry.group_choice import semiregular_groups
from sccl.topo.symmetry.permutations import (
    ChunkClass,
    Permutation,
    closure,
    identity_permutation,
    map_ranks,
)


def free_symmetries(
    topology: Topology, collective: Collective
) -> Iterator[tuple[Permutation, ...]]:
    """Yield groups of symmetries of all nodes, including switches, the largest first.

    The first element of each group is the identity. The last group has no other element.
    """
    identity = identity_permutation(topology.ranks + len(topology.switches))
    generators = automorphisms(topology, collective, costs=True)
    classes = collective.chunk_classes()
    for group in semiregular_groups(generators, topology.ranks) if generators else ():
        others = sorted(group - {identity_permutation(topology.ranks)})
        if others and all(
            image_class(chunk_class, g) != chunk_class for g in others for chunk_class in classes
        ):
            node_images = [extend_to_switches(topology, g) for g in others]
            if all(node_images):
                yield (identity, *(g for g in node_images if g))
    yield (identity,)


def bounded_symmetries(
    topology: Topology, collective: Collective, max_size: int
) -> tuple[Permutation, ...]:
    """Return a group of at most ``max_size`` symmetries of all nodes, free or not."""
    ranks, chosen = topology.ranks, list[Permutation]()
    group = frozenset([identity_permutation(ranks)])
    for generator in automorphisms(topology, collective, costs=True):
        larger = closure([*chosen, generator], ranks)
        if larger is not None and len(larger) <= max_size:
            chosen, group = [*chosen, generator], larger
    node_images = [extend_to_switches(topology, image) for image in sorted(group)]
    if all(node_images):
        return tuple(image for image in node_images if image)
    return (identity_permutation(ranks + len(topology.switches)),)


def image_class(chunk_class: ChunkClass, image: Permutation) -> ChunkClass:
    """Return the image of a class of chunks under a symmetry."""
    return (map_ranks(chunk_class[0], image), map_ranks(chunk_class[1], image))


def extend_to_switches(topology: Topology, image: Permutation) -> Permutation | None:
    """Extend a symmetry of the ranks to the switches. None: no extension was found.

    Colors of switches are refined by their links and neighbors until they are stable. Switches with
    equal colors are matched in order. The result is checked.
    """
    ranks, count = topology.ranks, len(topology.switches)
    if not count:
        return image
    back = {target: rank for rank, target in enumerate(image)}
    kinds = [astuple(switch)[1:] for switch in topology.switches]
    source: list[object] = [*range(ranks), *kinds]
    target: list[object] = [*(back[rank] for rank in range(ranks)), *kinds]
    told_apart = 0
    while True:  # each round refines the colors, or is the last
        numbers: dict[object, int] = {}
        source, target = (_refine_colors(topology, colors, numbers) for colors in (source, target))
        if len(numbers) == told_apart:
            break
        told_apart = len(numbers)
    nodes = range(ranks, ranks + count)
    mine = sorted(nodes, key=lambda node: str(source[node]))
    theirs = sorted(nodes, key=lambda node: str(target[node]))
    switches = dict(zip(mine, theirs, strict=True))
    node_image = (*image, *(switches[node] for node in nodes))
    links = {(k.src, k.dst, k.lanes, k.alpha_us, k.gb_per_s) for k in topology.links}
    moved = {(node_image[u], node_image[v], *cost) for u, v, *cost in links}
    return node_image if moved == links else None


def _refine_colors(
    topology: Topology, colors: Sequence[object], numbers: dict[object, int]
) -> list[object]:
    """Return the colors of switches, refined by their neighbors. Ranks keep their colors."""
    around: dict[int, list[object]] = {}
    for k in topology.links:
        cost = (k.lanes, k.alpha_us, k.gb_per_s)
        around.setdefault(k.src, []).append((0, cost, str(colors[k.dst])))
        around.setdefault(k.dst, []).append((1, cost, str(colors[k.src])))
    refined = list(colors)
    for node in range(topology.ranks, len(colors)):
        key = (str(colors[node]), tuple(sorted(around.get(node, []))))  # type: ignore[type-var]
        refined[node] = numbers.setdefault(key, len(numbers)) + topology.ranks
    return refined
