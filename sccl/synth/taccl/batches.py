"""Batches: chunks that are sent over a route as one transfer, with one alpha.

Source: Shah et al., TACCL (NSDI 2023), section 5.1. If alpha occupies links, n separate chunks
occupy a link for n alphas, and a batch for one. But no chunk of a batch can continue before the
last one has arrived. If alpha does not occupy links, a batch saves nothing, and each chunk is sent
by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sccl.core.clock import AlphaModel
from sccl.core.schedule import Schedule
from sccl.synth.network.transfer_rows import (
    build_transfer_rows,
    merge_switch_copies,
    sorted_rows,
)
from sccl.synth.network.transfers import Sends
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem
from sccl.synth.scheduling.resource_uses import ResourceUse


@dataclass(frozen=True, slots=True)
class Batch:
    """Chunks that are sent over a route as one transfer. The start is in units."""

    start: int
    route: int
    chunks: tuple[int, ...]


def single_batches(sends: Iterable[ChunkSend]) -> tuple[Batch, ...]:
    """Return sends as batches of one chunk each."""
    return tuple(Batch(s.start, s.route, (s.chunk,)) for s in sends)


class BatchCosts:
    """The costs of batches on each route, for chunks of one size."""

    def __init__(self, problem: SchedulingProblem) -> None:
        self.problem = problem
        occupies = problem.clock.model is AlphaModel.OCCUPIES
        alphas = problem.clock.alpha
        self._extra_units = [
            [
                hop.busy
                - (alphas[hop.resource] // problem.unit if hop.resource < len(alphas) else 0)
                for hop in hops
            ]
            for hops in problem.route_uses
        ]
        is_cut_through = [True] * problem.ranks + [
            switch.cut_through for switch in problem.topology.switches
        ]
        edges = [link.edge for link in problem.topology.links]
        self.can_batch = [
            occupies
            and not problem.is_multicast
            and all(is_cut_through[edges[link][1]] for link in path[:-1])
            for path in problem.route_links
        ]

    def extra_units(self, path: int) -> int:
        """Return the units of each chunk after the first: the beta of the slowest link."""
        links = len(self.problem.topology.links)
        return max(
            extra
            for hop, extra in zip(
                self.problem.route_uses[path], self._extra_units[path], strict=True
            )
            if hop.resource < links
        )

    def batch_uses(self, path: int, count: int) -> list[ResourceUse]:
        """Return the use of resources by a batch on a route. All hops are extended equally."""
        path_hops = self.problem.route_uses[path]
        if count == 1:
            return list(path_hops)
        extra = (count - 1) * self.extra_units(path)
        return [
            ResourceUse(h.resource, h.offset, h.busy + extra, h.demand, h.multicast_group)
            for h in path_hops
        ]

    def cost(self, path: int, count: int) -> int:
        """Return the units until a batch of ``count`` chunks has arrived."""
        return self.problem.route_costs[path] + (count - 1) * (
            self.extra_units(path) if count > 1 else 0
        )

    def arrival(self, batch: Batch) -> int:
        """Return the arrival time of a batch, units."""
        return batch.start + self.cost(batch.route, len(batch.chunks))

    def finish(self, batches: Iterable[Batch]) -> int:
        """Return the completion time of batches, units."""
        return max((self.arrival(b) for b in batches), default=0)


def batch_sends(batches: Iterable[Batch]) -> tuple[ChunkSend, ...]:
    """Return the sends of each chunk, without batches."""
    sends = (ChunkSend(b.start, chunk, b.route) for b in batches for chunk in b.chunks)
    return tuple(sorted(sends, key=lambda s: (s.start, s.chunk, s.route)))


def batch_schedule(problem: SchedulingProblem, batches: Sequence[Batch]) -> Schedule:
    """Return batches as a schedule. The rows of a batch have the same times."""
    costs = BatchCosts(problem)
    flat = [(b.start, chunk, b.route, len(b.chunks)) for b in batches for chunk in b.chunks]
    table = np.array(flat, dtype=np.int64).reshape(-1, 4)
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    sends = Sends(
        start=table[:, 0] * problem.unit,
        chunk=table[:, 1].astype(np.int32),
        link=table[:, 2].astype(np.int32),
        reduce=np.zeros(len(table), dtype=np.bool_),
    )
    hops = build_transfer_rows(sends, problem.crossings[0])
    row = np.arange(len(table)) if hops.message is None else hops.message
    extra_units = [
        (count - 1) * costs.extra_units(path) if count > 1 else 0
        for path, count in table[:, 2:].tolist()
    ]
    hops = hops._replace(end=hops.end + np.array(extra_units, np.int64)[row] * problem.unit)
    if problem.is_multicast:
        hops = merge_switch_copies(hops)
    return sorted_rows(hops).to_schedule(problem.topology, problem.collective, problem.clock)
