"""BFB: every chunk on shortest paths only, split over their last links as evenly as can be."""

from __future__ import annotations

from math import lcm

import numpy as np

from sccl.core.arrays import AnyIntArray
from sccl.synth.baselines.pattern import Pattern, build_pattern, split_chunks, with_inverses
from sccl.synth.baselines.pattern.link_capacity import check_links
from sccl.synth.baselines.pattern.send_pattern import check_rows
from sccl.synth.common.contract import Request
from sccl.synth.constructions.bfb import enumerate_arrivals
from sccl.synth.constructions.bfb_costs import step_costs

NAME = "bfb"
SOURCE = "Zhao et al., NSDI 2025 (arXiv 2202.03356), breadth-first broadcast"

MAX_RANKS = 1024
"""More ranks take minutes. ``torus:40x50`` takes more than three."""


def _allgather(request: Request, pieces: int) -> Pattern:
    topology = request.topology
    check_links("BFB", topology, MAX_RANKS)
    costs_by_step = step_costs(topology)
    split = lcm(*(cost.denominator for cost in costs_by_step))
    collective = request.spec.at(split)
    check_rows(collective.num_chunks * (topology.ranks - 1), collective)
    rounds = [int(cost * split) for cost in costs_by_step]
    rows: list[AnyIntArray] = []
    for arrival in enumerate_arrivals(topology, range(topology.ranks)):
        for chunks, senders in arrival.chunk_senders(split, rounds[arrival.step], topology.ranks):
            rows.append(np.stack(np.broadcast_arrays(arrival.step, chunks, senders, arrival.rank)))
    step, chunk, src, dst = np.concatenate(rows, axis=1)
    return split_chunks(build_pattern(collective, step=step, chunk=chunk, src=src, dst=dst), pieces)


COLLECTIVES = with_inverses(allgather=_allgather)
