"""BFB: every chunk on shortest paths only, split over their last links as evenly as can be."""

from __future__ import annotations

from math import lcm

import numpy as np

from sccl.synth.baselines.pattern import Maker, Pattern, backwards, cut, pattern_of, there_and_back
from sccl.synth.baselines.pattern.links import check_links
from sccl.synth.baselines.pattern.noun import Numbers, check_rows
from sccl.synth.contract import Request
from sccl.synth.direct.arrivals import arrivals
from sccl.synth.direct.breadth_first import costs

NAME = "bfb"
SOURCE = "Zhao et al., NSDI 2025 (arXiv 2202.03356), breadth-first broadcast"

MAX_RANKS = 1024
"""Beyond, it takes minutes."""


def _allgather(request: Request, pieces: int) -> Pattern:
    topology = request.topology
    check_links("BFB", topology, MAX_RANKS)
    least = costs(topology)
    split = lcm(*(cost.denominator for cost in least))
    collective = request.spec.at(split)
    check_rows(collective.num_chunks * (topology.ranks - 1), collective)
    rounds = [int(cost * split) for cost in least]
    rows: list[Numbers] = []
    for one in arrivals(topology, range(topology.ranks)):
        for chunks, senders in one.sends(split, rounds[one.step], topology.ranks):
            rows.append(np.stack(np.broadcast_arrays(one.step, chunks, senders, one.rank)))
    step, chunk, src, dst = np.concatenate(rows, axis=1)
    return cut(pattern_of(collective, step=step, chunk=chunk, src=src, dst=dst), pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": there_and_back(_allgather),
}
