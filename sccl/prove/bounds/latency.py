"""The latency lower bound: how far a chunk has to travel (SCCL section 3.7, ``a_l``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sccl.core.collective import Collective
from sccl.core.ids import Rank
from sccl.core.instance import Instance
from sccl.core.topology import UNREACHED, Topology, distances
from sccl.errors import UnreachableError
from sccl.topo.symmetry.group_choice import orbit_symmetries
from sccl.topo.symmetry.orbits import rank_orbits, set_orbits

_MANY_SOURCES = 256


@dataclass(frozen=True, slots=True)
class FarthestPair:
    """The proof of a latency bound: this chunk needs this many steps.

    Attributes:
        steps: links on a shortest path from the nearest source to ``rank``.
        chunk: the chunk.
        sources: the ranks that hold it before.
        rank: the rank that wants it.
    """

    steps: int
    chunk: int
    sources: tuple[int, ...]
    rank: int


def farthest_pair(topology: Topology, collective: Collective) -> FarthestPair:
    """Return the (chunk, destination) that is farthest from the chunk's sources.

    Args:
        collective: a non-combining one.

    Raises:
        UnreachableError: a chunk cannot reach a rank at all. The message names the pair.
    """
    successors = topology.successors()
    best = FarthestPair(0, 0, (), 0)
    for sources, wanted_by in _targets_by_sources(topology, collective):
        far = distances(successors, sources)
        for wanted, chunk in wanted_by:
            for rank in sorted(wanted):
                if far[rank] == UNREACHED:
                    origin = ", ".join(str(r) for r in sorted(sources))
                    raise UnreachableError(
                        f"{collective.name} on {topology.name!r}: chunk {chunk} starts on rank "
                        f"{origin} and must reach rank {rank}, but no path of links leads from "
                        f"{origin} to {rank}; add a link or leave the rank out"
                    )
                if far[rank] > best.steps:
                    best = FarthestPair(far[rank], chunk, tuple(sorted(sources)), rank)
    return best


def _targets_by_sources(
    topology: Topology, collective: Collective
) -> Iterator[tuple[frozenset[Rank], Iterable[tuple[frozenset[Rank], int]]]]:
    """Yield sets of sources, and for each the sets of ranks that want its chunks, with one chunk.

    One source is enough among sources that are images of each other, if there are many.
    """
    ranks = topology.ranks
    if collective.is_alltoall:
        representatives: Iterable[int] = range(ranks)
        if ranks > _MANY_SOURCES:
            representatives = rank_orbits(topology, orbit_symmetries(topology, collective))
        for rank in representatives:
            chunks = range(rank, ranks * ranks, ranks)
            yield collective.holders(rank), ((collective.destinations(c), c) for c in chunks)
        return
    first: dict[frozenset[Rank], dict[frozenset[Rank], int]] = {}
    for (sources, wanted), class_chunks in collective.chunk_classes().items():
        first.setdefault(sources, {})[wanted] = class_chunks[0]
    several: Iterable[frozenset[Rank]] = first
    if len(first) > _MANY_SOURCES:
        several = set_orbits(first, orbit_symmetries(topology, collective))
    for sources in several:
        yield sources, first[sources].items()


def require_reachable(instances: Iterable[Instance]) -> None:
    """Check that every chunk can reach every rank that wants it, however long it takes.

    Raises:
        UnreachableError: one cannot. The message names the pair.
    """
    for instance in instances:
        farthest_pair(instance.topology, instance.collective)
