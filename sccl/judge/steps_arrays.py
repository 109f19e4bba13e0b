"""Verify algorithms with many sends on arrays, by the rules of :mod:`sccl.judge.steps`.

Plans that are too large for memory arrive as a stream, chunk by chunk. The state is then the first
arrival of the current chunk on each rank, and the load of every link in each step over all chunks.
After the stream, chunks without sends are checked, too. :mod:`sccl.judge.steps` writes the texts
of violations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.arrays import AnyIntArray, Int32Array, IntArray
from sccl.core.collective import Collective
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.core.topology import Topology
from sccl.errors import CollectiveError
from sccl.judge import steps
from sccl.judge.execution_arrays import CopyingExecution, TransferArrays, is_satisfied
from sccl.judge.violation import Violation

SendsOfChunk = tuple[int, Int32Array, Int32Array, Int32Array]
"""(chunk, steps, sources, destinations) of all sends of a chunk, ascending by step."""


def step_transfers(
    step: AnyIntArray,
    chunk: AnyIntArray,
    src: AnyIntArray,
    dst: AnyIntArray,
    reduce: NDArray[np.bool_],
) -> TransferArrays:
    """Return sends as transfers that start at their step and arrive at the next one."""
    start, row, src, dst = (c.astype(np.int64, copy=False) for c in (step, chunk, src, dst))
    return TransferArrays(start, start + 1, row, src, dst, reduce)


def is_valid(algorithm: Algorithm) -> bool:
    """Return whether an algorithm has no violation."""
    collective, ranks = algorithm.collective, algorithm.topology.ranks
    if collective.ranks != ranks or min(algorithm.rounds_per_step, default=1) < 1:
        return False
    try:
        sends = _send_columns(algorithm.sends)
    except OverflowError:  # no valid number has more than 64 bits
        return False
    ends = (algorithm.steps, collective.num_chunks, ranks, ranks)
    columns = (sends.start, sends.chunk, sends.src, sends.dst)
    for column, end in zip(columns, ends, strict=True):
        if len(column) and not 0 <= column.min() <= column.max() < end:
            return False
    link = _Links(algorithm.topology).numbers(sends.src, sends.dst)
    if int(link.min(initial=0)) < 0:
        return False
    pairs, used = np.unique(link * algorithm.steps + sends.start, return_counts=True)
    loads = _Loads(*np.divmod(pairs, max(algorithm.steps, 1)), used)
    return loads.violation(algorithm) is None and is_satisfied(collective, sends)


def _send_columns(sends: tuple[Send, ...]) -> TransferArrays:
    def column(name: str, kind: type[Any]) -> NDArray[Any]:
        return np.fromiter(map(attrgetter(name), sends), kind, len(sends))

    step, chunk, src, dst = (column(name, np.int64) for name in ("step", "chunk", "src", "dst"))
    return step_transfers(step, chunk, src, dst, column("reduce", np.bool_))


class _Links:
    """Index of a machine's links by source and destination."""

    def __init__(self, topology: Topology) -> None:
        src, self.dst = np.array([k.edge for k in topology.links], np.int64).T.copy()  # ascend
        nodes = topology.ranks + len(topology.switches)  # links may end on switches
        self.first = np.searchsorted(src, np.arange(nodes + 1))

    def numbers(self, src: AnyIntArray, dst: AnyIntArray) -> IntArray:
        """Return the index of each link in ``topology.links``, or -1 if there is none."""
        return _find_links(self.first, self.dst, src, dst)


class _Loads(NamedTuple):
    """Number of sends for each pair of link and step with any, ascending by link and step."""

    link: IntArray
    step: IntArray
    used: IntArray

    def violation(self, plan: Algorithm | SymmetricAlgorithm) -> Violation | None:
        """Return the first overload of a link or, if there is none, of a budget; else None."""
        topology = plan.topology
        num_sends = int(self.used.sum())  # no step sends more
        rounds = np.array([min(r, num_sends) for r in plan.rounds_per_step], np.int64)
        lanes = np.array([k.lanes for k in topology.links], np.int64)
        over = self.used > lanes[self.link] * rounds[self.step]
        if over.any():
            i = int(np.argmax(over))
            return self._violation(plan, int(self.link[i]), int(self.step[i]), int(self.used[i]))
        return self._budget_violation(plan, rounds) if topology.budgets else None

    def _violation(
        self, plan: Algorithm | SymmetricAlgorithm, number: int, step: int, used: int
    ) -> Violation:
        constraint = plan.topology.constraints()[number]
        return steps.bandwidth_violation(constraint, step, used, plan.rounds_per_step[step])

    def _budget_violation(
        self, plan: Algorithm | SymmetricAlgorithm, rounds: IntArray
    ) -> Violation | None:
        topology = plan.topology
        place = {k.edge: i for i, k in enumerate(topology.links)}
        members = sorted((place[e], i) for i, b in enumerate(topology.budgets) for e in b.edges)
        of, budget = np.array(members, np.int64).reshape(-1, 2).T
        first = np.searchsorted(of, np.arange(len(place) + 1))
        many = np.diff(first)[self.link]
        row = np.repeat(np.arange(len(self.link)), many)
        within = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
        held_by = budget[first[self.link[row]] + within]
        both, of_both = np.unique(held_by * len(rounds) + self.step[row], return_inverse=True)
        used = np.bincount(of_both, weights=self.used[row])  # exact: far fewer than 2^53
        held_by, step = np.divmod(both, len(rounds))
        limits = np.array([b.chunks_per_round for b in topology.budgets], np.int64)
        over = used > limits[held_by] * rounds[step]
        if not over.any():
            return None
        i = int(np.argmax(over))
        return self._violation(plan, len(place) + int(held_by[i]), int(step[i]), int(used[i]))


def first_violation(plan: SymmetricAlgorithm, batches: Iterable[SendsOfChunk]) -> Violation | None:
    """Return the first violation of a plan whose sends arrive as a stream, or None if it is valid.

    Args:
        plan: Plan with the machine, the collective, and the rounds.
        batches: Sends, one batch per chunk.

    Raises:
        CollectiveError: The collective reduces.
    """
    collective = plan.collective
    if collective.combining:
        raise CollectiveError(
            f"{collective.name} reduces: its sends cannot be verified as a stream"
        )
    if (violation := next(steps.malformed_violations(plan), None)) is not None:
        return violation
    links = _Links(plan.topology)
    load = np.zeros((len(links.dst), plan.steps), dtype=np.int32)
    is_sent = np.zeros(collective.num_chunks, dtype=bool)
    for chunk, step, src, dst in _with_unsent(batches, is_sent):
        if not 0 <= chunk < collective.num_chunks or is_sent[chunk]:
            return Violation("range", f"chunk {chunk} does not exist, or comes twice")
        is_sent[chunk] = True
        if not _is_chunk_valid(collective, links, load, (chunk, step, src, dst)):
            rows = zip(src.tolist(), dst.tolist(), step.tolist(), strict=True)
            sends = tuple(make_send(chunk, *row) for row in rows)
            return next(steps.chunk_violations(replace(plan, sends=sends), [chunk]))
    link, at = np.nonzero(load)
    loads = _Loads(link, at, load[link, at].astype(np.int64))
    return loads.violation(plan) or next(steps.count_violations(plan, int(loads.used.sum())), None)


def _with_unsent(
    batches: Iterable[SendsOfChunk], is_sent: NDArray[np.bool_]
) -> Iterator[SendsOfChunk]:
    """Yield batches, and then an empty one for each chunk that was not sent."""
    yield from batches
    for chunk in np.flatnonzero(~is_sent).tolist():
        yield chunk, *np.zeros((3, 0), np.int32)


def _is_chunk_valid(
    collective: Collective, links: _Links, load: Int32Array, batch: SendsOfChunk
) -> bool:
    """Execute the sends of a chunk, add their loads, and return whether they are valid."""
    chunk, step, src, dst = batch
    for values, end in ((step, load.shape[1]), (src, collective.ranks), (dst, collective.ranks)):
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < end:
            return False
    link = links.numbers(src, dst)
    if len(link) and int(link.min()) < 0:
        return False
    _add_loads(load, link, step)
    run = CopyingExecution(collective, np.array([chunk]))
    row, reduce = np.zeros(len(step), np.int64), np.zeros(len(step), np.bool_)
    return run.execute(step_transfers(step, row, src, dst, reduce)) and run.is_complete()


@compiled
def _find_links(
    first: IntArray, ends: IntArray, src: AnyIntArray, dst: AnyIntArray
) -> NDArray[np.int64]:
    """Return the index of each link by binary search, or -1 if there is none.

    Args:
        first: Index of the first link of each source, and the number of links.
        ends: Destination of each link. Links ascend by source and destination.
        src: Sources to look up.
        dst: Destinations to look up.
    """
    places = np.empty(len(src), np.int64)
    for i in range(len(src)):
        low, end = first[src[i]], first[src[i] + 1]
        high = end
        while low < high:
            middle = (low + high) // 2
            if ends[middle] < dst[i]:
                low = middle + 1
            else:
                high = middle
        places[i] = low if low < end and ends[low] == dst[i] else -1
    return places


@compiled
def _add_loads(load: Int32Array, link: IntArray, step: AnyIntArray) -> None:
    for i in range(len(link)):
        load[link[i], step[i]] += 1
