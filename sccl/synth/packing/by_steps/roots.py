"""The turning places of chunks in an allreduce by trees: a rank, or two ranks that exchange."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sccl.core.ids import Edge
from sccl.core.topology import UNREACHED, Topology, distances


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
