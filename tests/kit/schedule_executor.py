"""A slow executor of schedules between ranks, transfer by transfer, independent of the judge.

``tests/kit/timed.py`` goes tick by tick and therefore handles only times of a few ticks.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

from sccl.core.clock import AlphaModel
from sccl.core.schedule import Schedule


def executes_correctly(schedule: Schedule) -> bool:
    """Return whether links and budgets bear it, and all chunks are where they are wanted."""
    rows = list(
        zip(
            *(
                column.tolist()
                for column in (schedule.start, schedule.end, schedule.chunk, schedule.link)
            ),
            schedule.reduce.tolist(),
            strict=True,
        )
    )
    return _links_bear(schedule, rows) and _budgets_bear(schedule, rows) and _moves(schedule, rows)


Rows = list[tuple[int, int, int, int, bool]]
Place = tuple[int, ...]
"""Destination of an arrival: (chunk, rank), with the number of a message that is forwarded."""
Coming = tuple[int, Place, frozenset[int], bool]
"""Arrivals: tick, destination, value, and whether the value is reduced."""


def _bytes(schedule: Schedule, chunk: int) -> int:
    """Return the size of a chunk."""
    sizes = schedule.chunk_bytes
    return sizes if isinstance(sizes, int) else sizes[chunk]


def _ps(schedule: Schedule, link: int, chunk: int) -> tuple[Fraction, Fraction]:
    """Return the alpha and the time of a chunk's bytes on a link, in picoseconds."""
    wire, size = schedule.topology.links[link], _bytes(schedule, chunk)
    passing = Fraction(1000 * size) / (wire.lanes * Fraction(str(wire.gb_per_s)))
    return Fraction(str(wire.alpha_us)) * 10**6, passing


def _links_bear(schedule: Schedule, rows: Rows) -> bool:
    busy: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for start, end, chunk, link, _ in rows:
        alpha, passing = _ps(schedule, link, chunk)
        least = passing + (alpha if schedule.model is AlphaModel.OCCUPIES else 0)
        if (end - start) * schedule.tick_ps < least:
            return False
        busy[link].append((start, end))
    return all(a[1] <= b[0] for spans in map(sorted, busy.values()) for a, b in pairwise(spans))


def _budgets_bear(schedule: Schedule, rows: Rows) -> bool:
    """Look at each start of bytes: those that pass then go at a pace that the budget bears."""
    topology = schedule.topology
    for budget, speed in zip(topology.budgets, topology.budget_speeds(), strict=True):
        spans = []
        for start, end, chunk, link, _ in rows:
            if topology.links[link].edge in budget.edges:
                alpha = _ps(schedule, link, chunk)[0] / schedule.tick_ps
                begin = start + (math.ceil(alpha) if schedule.model is AlphaModel.OCCUPIES else 0)
                spans.append((begin, end, Fraction(_bytes(schedule, chunk)) / (end - begin)))
        most = budget.chunks_per_round * Fraction(str(speed)) * schedule.tick_ps / 1000
        for at, _, _ in spans:
            if sum(pace for begin, end, pace in spans if begin <= at < end) > most:
                return False
    return True


def _moves(schedule: Schedule, rows: Rows) -> bool:
    """Execute it: values are whose contributions they are, or -1 where nothing is reduced."""
    collective = schedule.collective
    own = collective.combining
    value: dict[Place, frozenset[int]] = {
        (c, int(r)): frozenset([int(r) if own else -1])
        for c in range(collective.num_chunks)
        for r in collective.holders(c)
    }
    coming: list[Coming] = []
    numbers = range(len(rows)) if schedule.message is None else schedule.message.tolist()
    edges = [schedule.topology.links[link].edge for _, _, _, link, _ in rows]
    out = {(number, src) for number, (src, _) in zip(numbers, edges, strict=True)}
    passes = out & {(number, dst) for number, (_, dst) in zip(numbers, edges, strict=True)}
    for number, (start, end, chunk, link, reduce) in zip(numbers, rows, strict=True):
        if not _arrive(coming, value, start):
            return False
        here, there = (
            (chunk, node, number) if (number, node) in passes else (chunk, node)
            for node in schedule.topology.links[link].edge
        )
        if here not in value or (reduce and not own):
            return False
        travels = schedule.model is AlphaModel.TRAVELS
        lag = _ps(schedule, link, chunk)[0] / schedule.tick_ps if travels else Fraction(0)
        coming.append((end + math.ceil(lag), there, value[here], reduce))
    if not _arrive(coming, value, 2**70):
        return False
    return all(
        value.get((c, r)) == (frozenset(collective.holders(c)) if own else frozenset([-1]))
        for c in range(collective.num_chunks)
        for r in collective.destinations(c)
    )


def _arrive(
    coming: list[Coming],
    value: dict[Place, frozenset[int]],
    until: int,
) -> bool:
    """Execute the arrivals up to a tick and return whether no contribution is counted twice."""
    for item in sorted((row for row in coming if row[0] <= until), key=lambda row: row[0]):
        coming.remove(item)
        _, place, sent, reduce = item
        here = value.get(place, frozenset()) if reduce else frozenset()
        if here & sent:
            return False
        value[place] = here | sent
    return True
