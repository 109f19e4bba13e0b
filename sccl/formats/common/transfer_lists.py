"""Convert ordered lists of chunk transfers to algorithms with the fewest steps.

Without an explicit machine, the machine consists of the used links, each with one lane.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import Link, Topology

ALPHA_US = 0.7
GB_PER_S = 25.0
"""Bandwidth of a lane of NVLink 2 (SCCL, section 2.2), for links without given costs."""

Flow = tuple[int, int, int]
"""(chunk, src, dst)."""

ASSUMED_MACHINE_NOTE = (
    f"links are the used ones, each with one lane of {GB_PER_S:g} GB/s and {ALPHA_US} us: the "
    "file has no costs"
)


def machine_of_edges(name: str, ranks: int, edges: Sequence[tuple[int, int]]) -> Topology:
    """Return the machine that consists of the used links."""
    links = tuple(Link(*edge, 1, ALPHA_US, GB_PER_S) for edge in sorted(set(edges)))
    return Topology(name, ranks, links, ALPHA_US, GB_PER_S, source="links that a file uses")


def algorithm_of_flows(
    machine: Topology, collective: Collective, flows: Sequence[Flow]
) -> Algorithm:
    """Return the algorithm of copying transfers, each as early as its sender has the chunk."""
    held: dict[tuple[int, int], int] = {
        (chunk, int(rank)): 0
        for chunk in range(collective.num_chunks)
        for rank in collective.holders(chunk)
    }
    sends = []
    for chunk, src, dst in flows:
        step = held.get((chunk, src), 0)
        held[chunk, dst] = min(held.get((chunk, dst), step + 1), step + 1)
        sends.append(make_send(chunk, src, dst, step))
    return Algorithm(machine, collective, fewest_rounds(machine, sends), tuple(sends))


def fewest_rounds(machine: Topology, sends: Sequence[Send]) -> tuple[int, ...]:
    """Return the minimum rounds of each step for its sends."""
    load = Counter[tuple[int, Edge]]((send.step, send.edge) for send in sends)
    rounds = [1] * (1 + max((send.step for send in sends), default=0))
    for constraint in machine.constraints():
        for step, before in enumerate(rounds):
            used = sum(load[step, edge] for edge in constraint.edges)
            rounds[step] = max(before, -(-used // constraint.chunks_per_round))
    return tuple(rounds)
