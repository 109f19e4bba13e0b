"""Find symmetries of a machine and a collective that act freely on ranks or on classes of chunks.

Each class of chunks of an orbit is then the image of the first by exactly one symmetry, so a plan
for the first class is a plan for all. Other symmetries fix a root, for example. A plan is then as
good as its images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.topo.symmetry.automorphisms import automorphisms, image_of
from sccl.topo.symmetry.orbits import ChunkClass
from sccl.topo.symmetry.permutations import Permutation, closure, identity_of
from sccl.topo.symmetry.sampled import semiregular_groups


def free_symmetries(
    topology: Topology, collective: Collective
) -> Iterator[tuple[Permutation, ...]]:
    """Yield groups of symmetries of all nodes, switches too, the largest first.

    The first element of each is the identity, and so is the only one of the last group.
    """
    alone = identity_of(topology.ranks + len(topology.switches))
    generators = automorphisms(topology, collective, costs=True)
    classes = collective.classes()
    for group in semiregular_groups(generators, topology.ranks) if generators else ():
        others = sorted(group - {identity_of(topology.ranks)})
        if others and all(image_class(one, g) != one for g in others for one in classes):
            whole = [with_switches(topology, g) for g in others]
            if all(whole):
                yield (alone, *(g for g in whole if g))
    yield (alone,)


def few_symmetries(
    topology: Topology, collective: Collective, most: int
) -> tuple[Permutation, ...]:
    """Return a group of at most ``most`` symmetries of all nodes, free or not."""
    ranks, some = topology.ranks, list[Permutation]()
    group = frozenset([identity_of(ranks)])
    for generator in automorphisms(topology, collective, costs=True):
        larger = closure([*some, generator], ranks)
        if larger is not None and len(larger) <= most:
            some, group = [*some, generator], larger
    whole = [with_switches(topology, image) for image in sorted(group)]
    if all(whole):
        return tuple(image for image in whole if image)
    return (identity_of(ranks + len(topology.switches)),)


def image_class(one: ChunkClass, image: Permutation) -> ChunkClass:
    """Return the class of chunks that a symmetry takes one to."""
    return (image_of(one[0], image), image_of(one[1], image))


def with_switches(topology: Topology, image: Permutation) -> Permutation | None:
    """Return a symmetry of the ranks as one of all nodes. None: that is not found.

    Switches are told apart by their links, and by who is at these, and so on. Those that are
    still alike then may stand for one another.
    """
    ranks, count = topology.ranks, len(topology.switches)
    if not count:
        return image
    back = {there: rank for rank, there in enumerate(image)}
    kinds = [astuple(switch)[1:] for switch in topology.switches]
    here: list[object] = [*range(ranks), *kinds]
    there: list[object] = [*(back[rank] for rank in range(ranks)), *kinds]
    told_apart = 0
    while True:  # each round tells more of them apart, or is the last
        numbers: dict[object, int] = {}
        here, there = (_refined(topology, colours, numbers) for colours in (here, there))
        if len(numbers) == told_apart:
            break
        told_apart = len(numbers)
    nodes = range(ranks, ranks + count)
    mine = sorted(nodes, key=lambda node: str(here[node]))
    theirs = sorted(nodes, key=lambda node: str(there[node]))
    switches = dict(zip(mine, theirs, strict=True))
    whole = (*image, *(switches[node] for node in nodes))
    links = {(k.src, k.dst, k.lanes, k.alpha_us, k.gb_per_s) for k in topology.links}
    moved = {(whole[u], whole[v], *cost) for u, v, *cost in links}
    return whole if moved == links else None


def _refined(
    topology: Topology, colours: Sequence[object], numbers: dict[object, int]
) -> list[object]:
    """Return colours of switches by their own and those around them. Ranks keep theirs."""
    around: dict[int, list[object]] = {}
    for k in topology.links:
        cost = (k.lanes, k.alpha_us, k.gb_per_s)
        around.setdefault(k.src, []).append((0, cost, str(colours[k.dst])))
        around.setdefault(k.dst, []).append((1, cost, str(colours[k.src])))
    found = list(colours)
    for node in range(topology.ranks, len(colours)):
        key = (str(colours[node]), tuple(sorted(around.get(node, []))))  # type: ignore[type-var]
        found[node] = numbers.setdefault(key, len(numbers)) + topology.ranks
    return found
