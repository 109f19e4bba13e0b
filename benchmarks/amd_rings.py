"""Allgather in rings on two chassis of AMD GPUs, in place of RCCL's rings that TE-CCL measures.

There are four rings in both directions, as many as links between the chassis. No two rings share a
link, so each has the full rate of its slowest link, the one between the chassis.
"""

from __future__ import annotations

from sccl.collectives import named_spec
from sccl.core.clock import Clock
from sccl.sim import Messages, simulate
from sccl.synth.baselines.pattern import run_in_parallel
from sccl.synth.baselines.ring import ring_allgather
from sccl.topo import resolve_topology

_PATHS = (
    (8, 0, 4, 5, 6, 7, 3, 11, 15, 13, 12, 14, 10, 1, 9, 2),
    (10, 11, 15, 14, 12, 13, 9, 8, 0, 1, 5, 7, 3, 2, 6, 4),
    (0, 4, 6, 5, 1, 9, 8, 12, 13, 14, 15, 11, 10, 2, 3, 7),
    (14, 10, 1, 0, 4, 5, 7, 6, 2, 3, 11, 15, 13, 9, 8, 12),
)
"""Paths through all GPUs of a chassis over disjoint lanes, between GPUs at eight switches."""

MACHINE = "teccl-amdx2"


def rings_us(size_bytes: int) -> float:
    """Return the completion time in microseconds, with each hop over a shortest path.

    Args:
        size_bytes: Bytes that each rank sends to the others.
    """
    machine = resolve_topology(MACHINE)
    spec, half = named_spec("allgather", machine.ranks), len(_PATHS[0])
    rings = [(*path, *(half + rank for rank in reversed(path))) for path in _PATHS]
    orders = [order for ring in rings for order in (ring, ring[::-1])]
    p = run_in_parallel([ring_allgather(spec, order) for order in orders])
    messages = Messages.from_steps(p.step, p.chunk, p.src, p.dst, p.reduce)
    clock = Clock.from_topology(machine, -(-size_bytes // p.collective.chunks))
    return simulate(messages, machine, clock).finish_us
