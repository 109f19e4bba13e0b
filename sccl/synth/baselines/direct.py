"""Everything straight to where it is wanted, in one step of each phase."""

from __future__ import annotations

from sccl.synth.baselines.pattern import Pattern, build_pattern, split_chunks, with_inverses
from sccl.synth.common.contract import Request
from sccl.synth.network.demand import relation_pairs

NAME = "direct"
SOURCE = "TACOS (MICRO 2024), section V-A and Figure 5"


def _send_directly(request: Request, pieces: int) -> Pattern:
    """Return a pattern that sends each chunk from its only holder to each destination."""
    collective = request.spec.at(request.spec.unit)
    holder, _ = relation_pairs(collective.pre, collective)
    dst, chunk = relation_pairs(collective.post, collective)
    src = holder[chunk]
    moves = src != dst
    pattern = build_pattern(collective, step=0, chunk=chunk[moves], src=src[moves], dst=dst[moves])
    return split_chunks(pattern, pieces)


COLLECTIVES = with_inverses(
    allgather=_send_directly,
    alltoall=_send_directly,
    broadcast=_send_directly,
    gather=_send_directly,
    scatter=_send_directly,
)
