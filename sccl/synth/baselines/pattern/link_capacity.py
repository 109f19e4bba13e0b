"""The remaining capacity of links, a check of links, and a lower bound on a pattern's time."""

from __future__ import annotations

import numpy as np

from sccl.core.graphs import UNREACHED, distances
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.errors import TooLargeError, TopologyError
from sccl.synth.baselines.pattern.send_pattern import Pattern


class RemainingCapacity:
    """The remaining capacity of all constraints in a round."""

    def __init__(self, topology: Topology) -> None:
        constraints = topology.constraints()
        self._capacity = [c.chunks_per_round for c in constraints]
        self._free = list(self._capacity)
        self._constraints_of: dict[Edge, list[int]] = {edge: [] for edge in topology.edges}
        for number, constraint in enumerate(constraints):
            for edge in constraint.edges:
                self._constraints_of[edge].append(number)

    def free_chunks(self, edge: Edge) -> int:
        """Return how many more chunks a link can carry. 0: none, or there is no such link."""
        return min((self._free[number] for number in self._constraints_of.get(edge, ())), default=0)

    def reserve(self, edge: Edge) -> None:
        """Reserve capacity for a chunk on a link."""
        for number in self._constraints_of[edge]:
            self._free[number] -= 1

    def release(self, edge: Edge) -> None:
        """Release the capacity of a chunk on a link."""
        for number in self._constraints_of[edge]:
            self._free[number] += 1

    def reset(self) -> None:
        """Release all capacity."""
        self._free = list(self._capacity)


def check_links(algorithm: str, topology: Topology, max_ranks: int) -> None:
    """Check that an algorithm can run over a machine's own links.

    Args:
        max_ranks: Largest number of ranks that the algorithm supports.

    Raises:
        TopologyError: The machine has switch nodes, or a rank does not reach another.
        TooLargeError: The machine has too many ranks.
    """
    where = f"topology {topology.name!r}"
    if topology.switches:
        raise TopologyError(
            f"{where} has switch nodes, and {algorithm} needs links between ranks: "
            "sccl.topo.machine_model converts them"
        )
    if topology.ranks > max_ranks:
        raise TooLargeError(
            f"{where} has {topology.ranks} ranks, and this version of {algorithm} takes up to "
            f"{max_ranks}: give a smaller one"
        )
    both = (topology.successors(), topology.reversed().successors())
    if any(UNREACHED in distances(successors, [0]) for successors in both):
        raise TopologyError(
            f"{where} has ranks that do not reach each other, and {algorithm} gathers from all to "
            "all: give one in which they do"
        )


def link_bound_us(pattern: Pattern, topology: Topology, size_bytes: int) -> float:
    """Return a lower bound on the time of a pattern for any number of pieces.

    A link carries the bytes of its hops one after the other, and the last byte arrives one alpha
    later. Hops between ranks without a link are ignored.
    """
    ranks, chunk_bytes = topology.ranks, size_bytes / pattern.collective.chunks
    load = np.bincount(pattern.src.astype(np.int64) * ranks + pattern.dst, minlength=ranks**2)
    times = [
        link.alpha_us
        + chunk_bytes * int(load[link.src * ranks + link.dst]) / (link.lanes * link.gb_per_s * 1000)
        for link in topology.links
        if max(link.edge) < ranks
    ]
    return max(times, default=0.0)
