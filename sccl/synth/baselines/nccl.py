"""What NCCL would choose by size: several rings, or two trees, by its own model of their times."""

from __future__ import annotations

from math import log2

from sccl.core.topology import Topology
from sccl.synth.baselines import double_binary_tree, multi_ring
from sccl.synth.baselines.pattern import Maker, Pattern
from sccl.synth.baselines.pattern.rings import rings_of
from sccl.synth.contract import Request

NAME = "nccl"
SOURCE = "NCCL 2.30, src/graph/tuning.cc: latency by steps, bandwidth by rings, less in trees"

TREE_SHARE = 0.92
"""The part of a ring's bandwidth that NCCL expects of a tree."""


def times_us(topology: Topology, size_bytes: int) -> tuple[float, float]:
    """Return what an allreduce takes as rings and as trees, by NCCL's model, microseconds.

    A ring has 2 (n - 1) steps and sends 2 (n - 1) / n of the buffer; a tree goes along the ranks of
    a chassis and then by halves of these, up and down, and sends the buffer twice. Ranks without a
    chassis are one each; a ring has the rate of the machine's slowest lane.
    """
    ranks, nodes = topology.ranks, len(topology.chassis) or topology.ranks
    slowest = min(link.gb_per_s for link in topology.links)
    rate = len(rings_of(topology)) * slowest * 1e3  # bytes per microsecond
    ring = 2 * (ranks - 1) * (topology.alpha_us + size_bytes / ranks / rate)
    deep = ranks / nodes - 1 + int(log2(nodes))
    tree = 2 * (deep * topology.alpha_us + size_bytes / (TREE_SHARE * rate))
    return ring, tree


def _allreduce(request: Request, pieces: int) -> Pattern:
    ring, tree = times_us(request.topology, request.size_bytes)
    chosen = double_binary_tree.COLLECTIVES if tree < ring else multi_ring.COLLECTIVES
    return chosen["allreduce"](request, pieces)


COLLECTIVES: dict[str, Maker] = {**multi_ring.COLLECTIVES, "allreduce": _allreduce}
