"""Lower bounds on the time of an allreduce: the paper's ideal, and one for two phases."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import numpy as np

from sccl.core.topology import Topology
from sccl.synth.baselines.pattern.grid import find_grid

_MOST_RANKS = 256
"""Maximum number of ranks of a machine that is analyzed as a whole. Larger machines use only the
links around each rank."""


def ideal_us(machine: Topology, passed: float) -> float:
    """Return the paper's ideal time of a collective (section V-A), in microseconds.

    It is the sum of two terms: the time of (n - 1) / n of the bytes at the rank with the least
    bandwidth, and the latency between the two most distant ranks. Many machines cannot attain it.
    With pipelined chunks the latency need not add to the time, so it is not always a lower bound.

    Args:
        passed: Bytes of all phases: the total data of an allgather, or twice the input of a rank
            for an allreduce.
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
    """Return a lower bound for a reducescatter and then an allgather, in microseconds.

    The n ranks own equal shares of the data. The shares of all other ranks leave each group of g
    ranks in the first phase and enter it in the second. So (n - g) / n of the data crosses the
    links around the group in each phase. The groups are single ranks, nodes, and the first rows and
    planes of grids. The bound ignores latency. It also holds for an allgather alone.

    Args:
        passed: Bytes of all phases, as in :func:`ideal_us`.
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
    """Return the microseconds of (n - 1) / n of the bytes at the slowest rank."""
    speed = np.zeros((2, machine.ranks + len(machine.switches)))
    for link in machine.links:
        speed[[0, 1], link.edge] += link.lanes * link.gb_per_s
    share = 1 - 1 / machine.ranks
    return float(passed * share / speed[:, : machine.ranks].min() / 1000)


def _groups(machine: Topology) -> Iterator[int]:
    """Yield the sizes of nodes, rows and planes of a machine, or nothing for a large machine."""
    grid = find_grid(machine) if machine.ranks <= _MOST_RANKS else None
    if grid is not None:
        yield from (grid.stride(dimension) for dimension in range(len(grid.sides) - 1))
