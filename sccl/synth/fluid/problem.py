"""What is packed: bytes of chunk classes over links that each have a delay and a rate.

Symmetries of the machine map packings to packings, and the mean of the images of a packing is one
again. So one class of each orbit is packed, for all of them. Only symmetries without a fixed rank
are taken, so that each class of an orbit is the image by exactly one: what is found of the first is
then a packing of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.collectives import Dual
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.prove.bounds.proof import shortest_paths
from sccl.topo.symmetry.automorphisms import automorphisms, image_of
from sccl.topo.symmetry.orbits import ChunkClass, Orbits
from sccl.topo.symmetry.permutations import Permutation, identity_of
from sccl.topo.symmetry.sampled import semiregular_groups

Tree = frozenset[tuple[int, int]]
"""(link, slot)s by which what starts somewhere reaches all who want it."""


@dataclass(frozen=True, slots=True)
class FluidCommodity:
    """An orbit of chunk classes, by one of them.

    Attributes:
        holders: who has it before.
        wanted: who must have it after.
        size: bytes of one class.
        members: all classes of the orbit, each with the symmetry that takes the first to it.
    """

    holders: frozenset[int]
    wanted: frozenset[int]
    size: Fraction
    members: tuple[tuple[ChunkClass, Permutation], ...]


@dataclass(frozen=True, slots=True)
class FluidResource:
    """An orbit of things that links share: links themselves, and budgets.

    Attributes:
        count: how many there are.
        rate: bytes per microsecond of each.
        links: (link, times): how often they all together hold a link.
    """

    count: int
    rate: Fraction
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FluidProblem:
    """What is packed.

    Attributes:
        collective: not combining, at the fewest chunks that there can be.
        edges: of all links, in the topology's order.
        chunk_bytes: of each of its chunks.
        alpha: of each link, microseconds.
    """

    topology: Topology
    collective: Collective
    chunk_bytes: Fraction
    edges: tuple[Edge, ...]
    alpha: tuple[Fraction, ...]
    commodities: tuple[FluidCommodity, ...]
    resources: tuple[FluidResource, ...]

    def potentials(self) -> tuple[Fraction, ...]:
        """Return how much later slots are at each rank: by how far it is from the one root.

        Zeros, where chunks do not all start at one rank, or end at one.
        """
        none = (Fraction(0),) * self.topology.ranks
        successors, lengths = (
            self.topology.successors(),
            dict(zip(self.edges, self.alpha, strict=True)),
        )
        roots = {c.holders for c in self.commodities}
        if len(roots) == 1:
            far = shortest_paths(successors, lengths, sorted(*roots))
            return tuple(Fraction(far.get(rank, 0)) for rank in range(self.topology.ranks))
        goals = {c.wanted - c.holders for c in self.commodities}
        if len(goals) == 1 and len(*goals) == 1:
            back = self.topology.reversed().successors()
            turned = {(v, u): alpha for (u, v), alpha in lengths.items()}
            far = shortest_paths(back, turned, sorted(*goals))
            most = max(far.values())
            return tuple(
                Fraction(most - far.get(rank, most)) for rank in range(self.topology.ranks)
            )
        return none


def pose(topology: Topology, dual: Dual, size_bytes: int) -> FluidProblem:
    """Return what is packed for one phase of a collective.

    Args:
        topology: of the phase: the reversed machine, where the dual is solved on it.
        size_bytes: a rank's buffer.
    """
    collective = dual.spec.at(dual.spec.unit)
    chunk = Fraction(size_bytes, dual.spec.unit * dual.chunk_factor)
    symmetries = _free(topology, collective)
    edges = tuple(link.edge for link in topology.links)
    return FluidProblem(
        topology,
        collective,
        chunk,
        edges,
        tuple(Fraction(str(link.alpha_us)) for link in topology.links),
        _commodities(collective, chunk, symmetries),
        _resources(topology, edges, symmetries),
    )


def _free(topology: Topology, collective: Collective) -> tuple[Permutation, ...]:
    """Return a group of symmetries of which only the identity keeps a rank, or a class."""
    identity = identity_of(topology.ranks)
    generators = automorphisms(topology, collective, costs=True)
    classes = collective.classes()
    for group in semiregular_groups(generators, topology.ranks) if generators else ():
        others = group - {identity}
        if all(_image(one, g) != one for g in others for one in classes):
            return (identity, *sorted(others))
    return (identity,)


def _image(one: ChunkClass, image: Permutation) -> ChunkClass:
    return (image_of(one[0], image), image_of(one[1], image))


def _commodities(
    collective: Collective, chunk: Fraction, symmetries: tuple[Permutation, ...]
) -> tuple[FluidCommodity, ...]:
    classes = collective.classes()
    done: set[ChunkClass] = set()
    found = []
    for one, chunks in classes.items():
        holders, wanted = one
        if wanted <= holders or one in done:
            continue
        members = {_image(one, g): g for g in symmetries}
        done |= members.keys()
        found.append(
            FluidCommodity(
                frozenset(map(int, holders)),
                frozenset(map(int, wanted)),
                chunk * len(chunks),
                tuple(members.items()),
            )
        )
    return tuple(found)


def _resources(
    topology: Topology, edges: tuple[Edge, ...], symmetries: tuple[Permutation, ...]
) -> tuple[FluidResource, ...]:
    number = {edge: i for i, edge in enumerate(edges)}
    rates = {
        frozenset([link.edge]): 1000 * link.lanes * Fraction(str(link.gb_per_s))
        for link in topology.links
    }
    for budget, speed in zip(topology.budgets, topology.budget_speeds(), strict=True):
        rate, members = (
            1000 * budget.chunks_per_round * Fraction(str(speed)),
            frozenset(budget.edges),
        )
        rates[members] = min(rate, rates.get(members, rate))
    slack = {e for e, rate in rates.items() if len(e) > 1 and rate >= _together(e, rates)}
    things = [(members, rate) for members, rate in rates.items() if members not in slack]
    orbits = Orbits(things)
    for image in symmetries:
        for members, rate in things:
            orbits.join(
                (members, rate), (frozenset((image[u], image[v]) for u, v in members), rate)
            )
    found = []
    for (_, rate), orbit in orbits.members().items():
        times: dict[int, int] = {}
        for members, _ in orbit:
            for edge in members:
                times[number[edge]] = times.get(number[edge], 0) + 1
        found.append(FluidResource(len(orbit), rate, tuple(sorted(times.items()))))
    return tuple(found)


def _together(edges: frozenset[Edge], rates: dict[frozenset[Edge], Fraction]) -> Fraction:
    return sum((rates[frozenset([edge])] for edge in edges), Fraction(0))
