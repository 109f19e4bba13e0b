"""NCCL's choice by size: several rings, or two trees, by its model of their times.

Its trees, which are chains within a node, are replaced by the two binary trees of all ranks.
"""

from __future__ import annotations

from math import log2

from sccl.core.topology import Topology
from sccl.synth.baselines import double_binary_tree, multi_ring
from sccl.synth.baselines.pattern import Pattern, PatternMaker
from sccl.synth.baselines.pattern.rings import find_rings
from sccl.synth.common.contract import Request

NAME = "nccl"
SOURCE = "NCCL 2.30, src/graph/tuning.cc: latency by steps, bandwidth by rings, less in trees"

BY_SIZE = True

TREE_SHARE = 0.92
"""The part of a ring's bandwidth that NCCL expects of a tree."""


def times_us(topology: Topology, size_bytes: int) -> tuple[float, float]:
    """Return the times of an allreduce as rings and as trees, by NCCL's model, microseconds.

    A ring has 2 (n - 1) steps and sends 2 (n - 1) / n of the buffer. A tree passes along the ranks
    of a node and then by halves of the nodes, up and down, and sends the buffer twice. A ring has
    the rate of the machine's slowest lane.
    """
    ranks, nodes = topology.ranks, count_nodes(topology)
    slowest = min(link.gb_per_s for link in topology.links)
    rate = len(find_rings(topology)) * slowest * 1e3  # bytes per microsecond
    ring = 2 * (ranks - 1) * (topology.alpha_us + size_bytes / ranks / rate)
    deep = ranks / nodes - 1 + int(log2(nodes))
    tree = 2 * (deep * topology.alpha_us + size_bytes / (TREE_SHARE * rate))
    return ring, tree


def count_nodes(topology: Topology) -> int:
    """Return the number of nodes that NCCL would see.

    These are the chassis, if links between them have other costs than those within. A rank without
    a chassis counts as a node.
    """
    chassis = {rank: number for number, ranks in enumerate(topology.chassis) for rank in ranks}
    within, between = set[tuple[float, float]](), set[tuple[float, float]]()
    for link in topology.links:
        ends = [chassis.get(rank, -1 - rank) for rank in link.edge]
        (within if ends[0] == ends[1] else between).add((link.alpha_us, link.gb_per_s))
    lone = topology.ranks - len(chassis)
    return lone + len(topology.chassis) if lone or not between <= within else 1


def _allreduce(request: Request, pieces: int) -> Pattern:
    ring, tree = times_us(request.topology, request.size_bytes)
    chosen = double_binary_tree.COLLECTIVES if tree < ring else multi_ring.COLLECTIVES
    return chosen["allreduce"](request, pieces)


COLLECTIVES: dict[str, PatternMaker] = {**multi_ring.COLLECTIVES, "allreduce": _allreduce}
