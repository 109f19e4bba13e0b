"""Everything straight to where it is wanted, in one step of each phase."""

from __future__ import annotations

import numpy as np

from sccl.synth.baselines.pattern import (
    Maker,
    Pattern,
    backwards,
    cut,
    pattern_of,
    there_and_back,
)
from sccl.synth.contract import Request

NAME = "direct"
SOURCE = "TACOS (MICRO 2024), section V-A and Figure 5"


def _copied(request: Request, pieces: int) -> Pattern:
    """Return what sends each chunk of an allgather, a broadcast or an alltoall once to each."""
    collective = request.spec.at(request.spec.unit)
    rows = [
        (chunk, src, dst)
        for chunk in range(collective.num_chunks)
        for src in collective.holders(chunk)
        for dst in collective.wanted(chunk) - {src}
    ]
    chunk, src, dst = np.array(rows).T
    return cut(pattern_of(collective, step=0, chunk=chunk, src=src, dst=dst), pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _copied,
    "reducescatter": backwards(_copied),
    "allreduce": there_and_back(_copied),
    "alltoall": _copied,
    "broadcast": _copied,
    "reduce": backwards(_copied),
    "gather": _copied,
    "scatter": _copied,
}
