"""What an allreduce takes at least: as the paper reckons, and in two phases."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import numpy as np

from sccl.core.topology import Topology
from sccl.synth.baselines.pattern.grid import find_grid

_MOST_RANKS = 256
"""Of machines that are looked at as a whole: of larger ones ranks alone count."""


def ideal_us(machine: Topology, passed: float) -> float:
    """Return the paper's ideal time of a collective (section V-A), microseconds.

    What (n - 1) / n of what passes takes into or out of the rank with the least bandwidth, and the
    latency between the two ranks that are farthest apart. Many machines do not allow it; and
    where chunks are on their way while others follow, latency need not add to it.

    Args:
        passed: bytes of all phases: those of an allgather are all that ranks have, those of an
            allreduce twice what each reduces.
    """
    if machine.ranks > _MOST_RANKS:
        return _around_ranks(machine, passed)
    nodes = machine.ranks + len(machine.switches)
    apart = np.full((nodes, nodes), np.inf)
    np.fill_diagonal(apart, 0.0)
    for link in machine.links:
        apart[link.edge] = link.alpha_us
    for node in range(nodes):  # Floyd and Warshall
        apart = np.minimum(apart, apart[:, node, None] + apart[node])
    ranks = slice(machine.ranks)
    return _around_ranks(machine, passed) + float(apart[ranks, ranks].max())


def phased_us(machine: Topology, passed: float) -> float:
    """Return what a reducescatter and then an allgather take at least, microseconds.

    Of equal shares of n ranks, those of all others leave each group of g ranks in the first phase
    and enter it in the second: (n - g) / n of the data, over what the links around the group carry.
    Groups are single ranks, nodes, and the first rows and planes of grids; latency is left out. Of
    an allgather alone: what it takes at least.

    Args:
        passed: as in :func:`ideal_us`.
    """
    times = [_around_ranks(machine, passed)]
    for group in _groups(machine):
        graph = nx.DiGraph()
        for link in machine.links:
            graph.add_edge(link.src, link.dst, capacity=link.lanes * link.gb_per_s)
        for rank in range(machine.ranks):
            graph.add_edge(*(("group", rank) if rank < group else (rank, "others")))
        carried = nx.maximum_flow_value(graph, "group", "others")
        times.append((1 - group / machine.ranks) * passed / carried / 1000)
    return max(times)


def _around_ranks(machine: Topology, passed: float) -> float:
    """Return the microseconds of (n - 1) / n of some bytes at the slowest rank."""
    speed = np.zeros((2, machine.ranks + len(machine.switches)))
    for link in machine.links:
        speed[[0, 1], link.edge] += link.lanes * link.gb_per_s
    share = 1 - 1 / machine.ranks
    return float(passed * share / speed[:, : machine.ranks].min() / 1000)


def _groups(machine: Topology) -> Iterator[int]:
    """Yield sizes of groups of the first ranks: nodes, rows and planes; of large machines none."""
    grid = find_grid(machine) if machine.ranks <= _MOST_RANKS else None
    if grid is not None:
        yield from (grid.stride(dimension) for dimension in range(len(grid.sides) - 1))
