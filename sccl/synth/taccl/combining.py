"""Assemble schedules from the results of phases: forwards, reversed, or one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.clock import AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.synth.network.routes import inter_switch_links
from sccl.synth.network.transfer_rows import TransferRows, build_transfer_rows, merge_switch_copies
from sccl.synth.network.transfers import Sends
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.taccl.batches import Batch, BatchCosts


@dataclass(frozen=True, slots=True)
class TimedRows:
    """TimedRows of a schedule, and the tick after which all has arrived."""

    finish: int
    hops: TransferRows


def batch_rows(problem: SchedulingProblem, batches: Sequence[Batch]) -> TimedRows:
    """Return sends over ways as rows of their links. The rows of a batch have the same times."""
    costs = BatchCosts(problem)
    flat = [(b.start, chunk, b.route, len(b.chunks)) for b in batches for chunk in b.chunks]
    table = np.array(flat, dtype=np.int64).reshape(-1, 4)
    order = np.lexsort((table[:, 2], table[:, 1], table[:, 0]))
    table = table[order]
    sends = Sends(
        start=table[:, 0] * problem.unit,
        chunk=table[:, 1].astype(np.int32),
        link=table[:, 2].astype(np.int32),
        reduce=np.zeros(len(table), dtype=np.bool_),
    )
    hops = build_transfer_rows(sends, problem.crossings[0])
    which = np.arange(len(table)) if hops.message is None else hops.message
    more = np.array(
        [
            (count - 1) * costs.extra_units(path) if count > 1 else 0
            for path, count in table[:, 2:].tolist()
        ],
        dtype=np.int64,
    )
    hops = hops._replace(end=hops.end + more[which] * problem.unit)
    if problem.is_multicast:
        hops = merge_switch_copies(hops)
    return TimedRows(costs.finish(batches) * problem.unit, hops)


def reverse_in_time(topology: Topology, clock: Clock, rows: TimedRows) -> TimedRows:
    """Return rows on the reversed machine, read backwards, as rows on the machine.

    A row keeps its link busy from s to e, and its bytes arrive by e + lag. Backwards from the
    finish F the opposite link is busy from F - e - lag to F - s - lag, and its bytes arrive by F -
    s: data that a rank had received before it sent at s now arrive before that. Each link's times
    are shifted by one constant, so overlaps do not arise. Data that come to a rank are reduced.
    (Between switches a link without alpha passes on a tick later, in either direction.)
    """
    place = {link.edge: i for i, link in enumerate(topology.links)}
    back = np.array([place[k.dst, k.src] for k in topology.reversed().links], dtype=np.int32)
    hops, ranks = rows.hops, topology.ranks
    link = back[hops.link]
    waits = inter_switch_links(topology) & (np.array(clock.alpha) == 0)
    lag = (np.array([clock.lag(i) for i in range(len(back))], dtype=np.int64) + waits)[link]
    to_rank = np.array([k.dst < ranks for k in topology.links])[link]
    start, end = rows.finish - hops.end - lag, rows.finish - hops.start - lag
    return TimedRows(
        rows.finish,
        _sort_hops(TransferRows(start, end, hops.chunk, link, to_rank, hops.message)),
    )


def concatenate_rows(first: TimedRows, then: TimedRows) -> TimedRows:
    """Return one schedule after another: of an allreduce."""
    a, b = first.hops, then.hops
    message = None
    if a.message is not None and b.message is not None:
        message = np.concatenate([a.message, b.message + int(a.message.max(initial=-1)) + 1])
    joined = TransferRows(
        start=np.concatenate([a.start, b.start + first.finish]),
        end=np.concatenate([a.end, b.end + first.finish]),
        chunk=np.concatenate([a.chunk, b.chunk]),
        link=np.concatenate([a.link, b.link]),
        reduce=np.concatenate([a.reduce, b.reduce]),
        message=message,
    )
    return TimedRows(first.finish + then.finish, _sort_hops(joined))


def _sort_hops(hops: TransferRows) -> TransferRows:
    order: IntArray = np.lexsort((hops.link, hops.chunk, hops.start))
    return TransferRows(*(None if column is None else column[order] for column in hops))  # type: ignore[arg-type]


def build_schedule(
    topology: Topology, collective: Collective, clock: Clock, rows: TimedRows
) -> Schedule:
    """Return rows as a schedule."""
    hops = rows.hops
    return Schedule(
        topology=topology,
        collective=collective,
        **hops._asdict(),
        tick_ps=clock.tick_ps,
        chunk_bytes=clock.chunk_bytes,
        model=AlphaModel(clock.model),
    )
