"""Allreduce as chains of demands: each chunk is reduced on its way to a root, then copied from it.

TE-CCL, section 8: ALLREDUCE consists of several demands, which are stages of one another. Here
every chunk has its own stages: a send waits for arrivals of its chunk and for its links, and never
for other chunks. Between the stages no rank requires the chunk, so any rank may be its root.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from sccl.synth.network.transfers import Sends
from sccl.synth.scheduling.justify import ProjectSchedule
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem
from sccl.synth.scheduling.serial import group_multicasts

Chain = tuple[ChunkSend, ...]


def chain_from_sends(sends: Sends) -> Chain:
    """Return sends as a chain. Their starts are in ticks, and only their order is meaningful."""
    columns = (sends.start, sends.chunk, sends.link, sends.reduce)
    return tuple(ChunkSend(*row) for row in zip(*(c.tolist() for c in columns), strict=True))


def chain_to_sends(problem: SchedulingProblem, chain: Iterable[ChunkSend]) -> Sends:
    """Return sends as columns, with starts in ticks."""
    rows = [(s.start * problem.unit, s.chunk, s.route, s.reduce) for s in chain]
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Sends(
        start=table[:, 0].copy(),
        chunk=table[:, 1].astype(np.int32),
        link=table[:, 2].astype(np.int32),
        reduce=table[:, 3].astype(np.bool_),
    ).sorted_sends()


def tighten_chain(problem: SchedulingProblem, chain: Sequence[ChunkSend]) -> Chain:
    """Start each send as early as possible in the given order, then justify both ways.

    A rank sends its partial result once it has received all contributions that it reduces. Other
    ranks copy the result that they received. The root copies the result that it reduced.
    """
    order = sorted(chain, key=lambda s: (s.start, s.chunk, s.route))
    groups = _group_sends(problem, order)
    reduced: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    stored: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for send, (chunk, routes, reduce) in enumerate(groups):
        for route in routes:
            if reduce:
                reduced[chunk, problem.dst[route]].append((send, route))
            else:
                stored.setdefault((chunk, problem.dst[route]), [(send, route)])
    needs = []
    for chunk, routes, reduce in groups:
        chunk_rank = (chunk, problem.src[routes[0]])
        comes = reduced.get(chunk_rank, [])
        needs.append(comes if reduce else stored.get(chunk_rank, comes))
    waiting = ProjectSchedule(problem, [routes for _, routes, _ in groups], needs)
    starts = waiting.forward_backward(range(len(groups)))
    return tuple(
        ChunkSend(start, chunk, route, reduce)
        for start, (chunk, routes, reduce) in zip(starts, groups, strict=True)
        for route in routes
    )


def _group_sends(
    problem: SchedulingProblem, chain: Sequence[ChunkSend]
) -> list[tuple[int, list[int], bool]]:
    """Return multicasts as (chunk, routes, whether the receivers reduce).

    Reductions are never multicast together with copies, so they count as separate chunks here.
    """
    rows = [replace(s, chunk=s.chunk + problem.chunks * s.reduce) for s in chain]
    return [
        (n % problem.chunks, routes, n >= problem.chunks)
        for _, n, routes in group_multicasts(problem, rows)
    ]
