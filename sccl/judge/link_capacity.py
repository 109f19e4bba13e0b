"""Check the links and shared budgets of a schedule: durations, overlaps, and rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.clock import AlphaModel, Clock
from sccl.core.schedule import Schedule, TransferColumns
from sccl.core.topology import link_name
from sccl.judge.violation import Violation


class _LinkState(NamedTuple):
    """The costs of links, and the last transfer over each, which later rows may extend.

    Attributes:
        alpha: ticks for which a transfer occupies each link in addition to the time of its bytes.
        beta: ticks in which the bytes of a chunk pass a link, shape (chunk sizes, links).
        start: start of each link's last transfer, or 0 if there is none.
        end: end of each link's last transfer, or 0 if there is none.
        required: ticks in which the bytes of the last transfer's chunks pass each link.
    """

    alpha: IntArray
    beta: IntArray
    start: IntArray
    end: IntArray
    required: IntArray

    @classmethod
    def from_clock(cls, clock: Clock) -> _LinkState:
        """Return the initial state, with the costs of a clock."""
        alpha = np.array(clock.alpha, dtype=np.int64) * (clock.model is AlphaModel.OCCUPIES)
        return cls(
            alpha, np.array(clock.beta, dtype=np.int64), *np.zeros((3, len(alpha)), np.int64)
        )


def capacity_violations(schedule: Schedule) -> Iterator[Violation]:
    """Yield the violations of link durations, overlaps, and budgets."""
    clock = schedule.clock
    links = _LinkState.from_clock(clock)
    for rows in schedule.batches():
        yield from _link_violations(schedule, rows, _size_indices(clock, rows), links)
    if schedule.topology.budgets:
        yield from _budget_violations(schedule)


def _size_indices(clock: Clock, rows: TransferColumns) -> NDArray[np.int64]:
    """Return the index of each row's chunk size among the sizes of the clock."""
    if isinstance(clock.chunk_bytes, int):
        return np.zeros(len(rows.chunk), dtype=np.int64)
    return np.searchsorted(clock.sizes, np.array(clock.chunk_bytes)[rows.chunk]).astype(np.int64)


def _link_violations(
    schedule: Schedule, rows: TransferColumns, size: IntArray, links: _LinkState
) -> Iterator[Violation]:
    """Yield transfers that are too short, or start while their link is busy.

    If one transfer carries several chunks, the violation names the first chunk that does not fit.

    Args:
        schedule: Schedule.
        rows: Batch of its rows.
        size: Index of each row's chunk size.
        links: State after the previous rows, which is updated.
    """
    order = np.argsort(rows.link, kind="stable")  # rows of a link stay ordered by start
    link, start, end = (c[order].astype(np.int64) for c in (rows.link, rows.start, rows.end))
    beta = links.beta[size[order], link]
    before, joins, needed = _previous_transfers(link, start, end, beta, links)
    took = end - start
    short = (took < needed) & (~joins | (took >= needed - beta))
    for i in sorted(np.flatnonzero(short).tolist(), key=order.__getitem__):
        payload = "all chunks of the transfer" if joins[i] else "such a chunk"
        text = f"it takes {took[i]} ticks, and the link needs at least {needed[i]} for {payload}"
        yield _row_violation(schedule, rows, int(order[i]), "duration", text)
    for i in np.flatnonzero((start < before) & ~joins).tolist():
        text = f"the link is busy with another chunk until tick {before[i]}"
        yield _row_violation(schedule, rows, int(order[i]), "overlap", text)


def _previous_transfers(
    link: IntArray, start: IntArray, end: IntArray, beta: IntArray, links: _LinkState
) -> tuple[IntArray, NDArray[np.bool_], IntArray]:
    """Compare each row with the previous row of its link.

    Args:
        link: Link of each row, ascending. The rows of a link ascend by start.
        start: Start of each row in ticks.
        end: End of each row in ticks.
        beta: Ticks in which the bytes of each row pass.
        links: State after the previous rows, which is updated.

    Returns:
        The end of the previous row, whether both rows belong to one transfer, and the ticks that
        the transfer needs for its chunks up to this row.
    """
    first, last = np.r_[True, link[1:] != link[:-1]], np.r_[link[1:] != link[:-1], True]
    begun, before = np.r_[0, start[:-1]], np.r_[0, end[:-1]]
    begun[first], before[first] = links.start[link[first]], links.end[link[first]]
    joins = (start == begun) & (end == before)
    passes = _running_sums(beta, first | ~joins, np.where(joins, links.required[link], 0))
    for table, column in ((links.start, start), (links.end, end), (links.required, passes)):
        table[link[last]] = column[last]
    return before, joins, passes + links.alpha[link]


def _running_sums(beta: IntArray, begins: NDArray[np.bool_], before: IntArray) -> IntArray:
    """Return for each row the sum of ``beta`` over its transfer up to this row.

    If a sum overflows 64 bits, an earlier sum of the transfer already exceeds every possible
    duration, and is reported as a violation.

    Args:
        beta: Ticks in which the bytes of each row pass.
        begins: Whether each row is the first of its transfer in this batch.
        before: For the first row of a transfer, the sum over its rows in earlier batches.
    """
    total = np.cumsum(beta)
    heads = np.flatnonzero(begins)
    since = (total - beta - before)[heads]
    sums: IntArray = total - since[np.cumsum(begins) - 1]
    return sums


def _row_violation(
    schedule: Schedule, rows: TransferColumns, i: int, kind: str, text: str
) -> Violation:
    edge = schedule.topology.links[int(rows.link[i])].edge
    chunk, tick = int(rows.chunk[i]), int(rows.start[i])
    where = f"chunk {chunk} from {edge[0]} to {edge[1]} at tick {tick}"
    return Violation(kind, f"{where}: {text}", chunk=chunk, rank=edge[0], link=edge, tick=tick)


def _budget_violations(schedule: Schedule) -> Iterator[Violation]:
    """Yield transfers at whose start a budget exceeds its bytes per tick."""
    clock, topology = schedule.clock, schedule.topology
    place = {k.edge: i for i, k in enumerate(topology.links)}
    shared = np.zeros(len(topology.links), dtype=np.bool_)
    for budget in topology.budgets:
        shared[[place[edge] for edge in budget.edges]] = True
    columns = _shared_rows(schedule, shared)
    by_link = np.argsort(columns[0], kind="stable")
    bounds = np.searchsorted(columns[0][by_link], np.arange(len(topology.links) + 1))
    for budget, speed in zip(topology.budgets, topology.budget_speeds(), strict=True):
        links = [place[edge] for edge in budget.edges]
        chosen = np.concatenate([by_link[bounds[k] : bounds[k + 1]] for k in links])
        pace = budget.chunks_per_round * Fraction(str(speed)) * clock.tick_ps / 1000
        link, chunk, size, begin, end = (column[chosen] for column in columns)
        for i in _excess_transfers(size, begin, end, pace):
            edge = link_name(topology.links[int(link[i])].edge)
            text = (
                f"budget {budget.name!r} carries more than its {float(pace):.6g} bytes a tick from "
                f"tick {begin[i]} on, when chunk {chunk[i]} over {edge} begins"
            )
            yield Violation(
                "bandwidth",
                text,
                chunk=int(chunk[i]),
                link=topology.links[int(link[i])].edge,
                tick=int(begin[i]),
            )


def _shared_rows(schedule: Schedule, shared: NDArray[np.bool_]) -> tuple[IntArray, ...]:
    """Return the rows over links with budgets as columns: link, chunk, bytes, begin, end.

    Bytes pass from begin to end, in ticks: while the link is busy, except during an alpha that
    occupies it.
    """
    clock = schedule.clock
    alpha = np.array(clock.alpha, dtype=np.int64)
    if clock.model is AlphaModel.TRAVELS:
        alpha[:] = 0
    parts: list[tuple[IntArray, ...]] = [(np.zeros(0, dtype=np.int64),) * 5]
    for rows in schedule.batches():
        mine = TransferColumns(
            *(c[shared[rows.link]] if c is not None else None for c in rows)  # type: ignore[arg-type]
        )
        size = np.array(clock.sizes, dtype=np.int64)[_size_indices(clock, mine)]
        end = mine.end.astype(np.int64)
        begin = np.minimum(mine.start.astype(np.int64) + alpha[mine.link], end - 1)
        parts.append((mine.link.astype(np.int64), mine.chunk.astype(np.int64), size, begin, end))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _excess_transfers(
    size: IntArray, begin: IntArray, end: IntArray, pace: Fraction
) -> Iterator[int]:
    """Yield the indices of transfers at whose start the total rate exceeds ``pace``.

    Rates are compared exactly, since budgets are usually used in full.

    Args:
        size: Bytes of each transfer.
        begin: Tick from which its bytes pass.
        end: Tick until which its bytes pass.
        pace: Capacity of the budget in bytes per tick.
    """
    kinds, which = np.unique(np.stack((size, end - begin)), axis=1, return_inverse=True)
    common = math.lcm(*kinds[1].tolist())
    weights = [bytes_ * (common // ticks) for bytes_, ticks in kinds.T.tolist()]
    limit = math.floor(pace * common)
    small = max(weights, default=0) * len(size) < 2**62
    weight = np.array(weights, dtype=np.int64 if small else object)[which.reshape(-1)]
    times = np.concatenate((begin, end))
    starts = np.r_[np.ones(len(begin), dtype=np.bool_), np.zeros(len(end), dtype=np.bool_)]
    order = np.lexsort((starts, times))  # at a tick, ends release capacity first
    total = np.cumsum(np.concatenate((weight, -weight))[order])
    yield from order[(total > limit) & starts[order]].tolist()
