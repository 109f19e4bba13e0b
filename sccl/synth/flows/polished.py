"""Optimize the sizes of chunks for a fixed order of sends with a linear program.

The order of sends on each link and the dependencies between sends are fixed. Times are then linear
in the bytes of chunks, and the program minimizes the last arrival over sizes and times. A chunk
that ends small was an unnecessary part of a tree. On its way through switches a chunk occupies each
link some time after its start, which is also linear in its bytes. (Read backwards, each link is
occupied earlier or later by its alpha. The order is the same.)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import inf

import numpy as np

from sccl.collectives import Dual
from sccl.core.clock import Clock
from sccl.solvers.lp import SparseEnd, SparseProgram, solve_sparse
from sccl.synth.flows.placed import Planned, PlannedSend, Sent
from sccl.synth.flows.problem import FluidProblem, ways_of
from sccl.synth.network.crossings import crossings_of
from sccl.synth.network.groups import Ticks

MOST_SENDS = 3000
"""Largest number of sends. For more, the program takes more than some seconds."""

_BYTES = 2**20
"""Size of a chunk that is compared with one of twice the size, to get the time per byte."""

_PS = 10**6
"""A microsecond."""

_PIVOT = 1e-9
"""Budget of one pivot and column."""


def is_polished(problem: FluidProblem) -> bool:
    """Return whether sends only wait for each other where they share a link, or use a whole bus.

    If a bus carries several sends at a time, the order between them is not known.
    """
    topology = problem.topology
    rate = {k.edge: k.lanes * Fraction(str(k.gb_per_s)) for k in topology.links}
    return all(
        budget.chunks_per_round * Fraction(str(speed)) <= rate[edge]
        for budget, speed in zip(topology.budgets, topology.budget_speeds(), strict=True)
        for edge in budget.edges
    )


def polished(
    problem: FluidProblem, dual: Dual, plan: Planned, sent: Sequence[Sent], effort: float
) -> tuple[Planned | None, float]:
    """Return a plan of the same sends in the same order, and the effort. None: it was not enough.

    Args:
        sent: as they were placed.

    Raises:
        KeyboardInterrupt: the user interrupted. The solver has been stopped.
    """
    classes = dual.spec.at(plan.chunks).classes().values()
    groups = [(list(own), sum(plan.sizes[chunk] for chunk in own)) for own in classes]
    program, unit = _program(problem, plan, sent, groups)
    result = solve_sparse(program, effort)
    took = _PIVOT * result.pivots * len(program.cost)
    if result.end is not SparseEnd.OPTIMAL:
        return None, took
    sizes = list(plan.sizes)
    for own, whole in groups:
        each = [max(1, int(result.values[1 + chunk] * unit)) for chunk in own]
        each[each.index(max(each))] += whole - sum(each)
        if min(each) < 1:
            return None, took
        for chunk, size in zip(own, each, strict=True):
            sizes[chunk] = size
    # in the order that the program kept, each as soon as may be, they come no later than it says
    order = sorted(range(len(sent)), key=lambda i: (sent[i].start, i))
    sends = tuple(
        PlannedSend(float(turn), turn, sent[i].chunk, sent[i].way) for turn, i in enumerate(order)
    )
    return Planned(plan.chunks, tuple(sizes), sends), took


Line = tuple[float, float]
"""Microseconds of no bytes, and of a unit of them more."""


class _Linear:
    """Latencies and uses of paths, linear in the bytes of a chunk.

    Attributes:
        arrival: For each path: latency of a chunk.
        hops: For each path: (link or, after these, budget, begin of its use, end of its use).
    """

    def __init__(self, problem: FluidProblem, unit: float) -> None:
        topology = problem.topology
        few, many = (crossings_of(topology, Clock.of(topology, n * _BYTES)) for n in (1, 2))

        def lines(one: Ticks, two: Ticks) -> list[Line]:
            """Return (time of no bytes, time per unit of bytes) from the times of two sizes."""
            each = two - one
            return list(zip((one - each) / _PS, each * (unit / _BYTES / _PS), strict=True))

        arrival = lines(few.cost, many.cost)
        begins = lines(few.offset, many.offset)
        ends = lines(few.offset + few.busy, many.offset + many.busy)
        held = list(zip(few.link.tolist(), begins, ends, strict=True))
        of = [[i] for i in range(len(topology.links))]
        for thing, budget in enumerate(topology.budgets, len(of)):
            for i, link in enumerate(topology.links):
                of[i] += [thing] if link.edge in budget.edges else []
        hops = [
            [(thing, *times) for link, *times in held[a:b] for thing in of[link]]
            for a, b in pairwise(few.first.tolist())
        ]
        place = {way: i for i, way in enumerate(ways_of(topology))}
        self.arrival = [arrival[place[way]] if way else (0.0, 0.0) for way in problem.ways]
        self.hops = [hops[place[way]] if way else [] for way in problem.ways]


def _program(
    problem: FluidProblem,
    plan: Planned,
    sent: Sequence[Sent],
    groups: Sequence[tuple[list[int], int]],
) -> tuple[SparseProgram, float]:
    """Return the program, and the bytes that are 1 in it.

    Columns are the time, the sizes of chunks, and the starts of sends.
    """
    unit = float(max(commodity.size for commodity in problem.commodities))
    costs = _Linear(problem, unit)
    chunks = len(plan.sizes)
    brings: dict[tuple[int, int], list[int]] = {}
    for i, send in enumerate(sent):
        brings.setdefault((send.chunk, problem.edges[send.way][1]), []).append(i)
    entries: list[tuple[int, int, float]] = []
    lower: list[float] = []
    upper: list[float] = []

    def after(column: int, send: int, later: Line, size: int = -1, than: Line = (0.0, 0.0)) -> None:
        """Ask for a column, and so much later by a chunk's size, to be after a send by its size."""
        row = len(lower)
        entries.append((row, column, 1.0))
        entries.append((row, 1 + chunks + send, -1.0))
        own = sent[send].chunk
        each = {own: -later[1]}
        if size >= 0:
            each[size] = each.get(size, 0.0) + than[1]
        entries.extend((row, 1 + chunk, factor) for chunk, factor in each.items() if factor)
        lower.append(later[0] - than[0])
        upper.append(inf)

    holds: dict[int, list[tuple[int, int, Line, Line]]] = {}
    for i, send in enumerate(sent):
        column = 1 + chunks + i
        for before in brings.get((send.chunk, problem.edges[send.way][0]), ()):
            after(column, before, costs.arrival[sent[before].way])
        after(0, i, costs.arrival[send.way])
        for link, begins, ends in costs.hops[send.way]:
            at = send.start + int((begins[0] + begins[1] * plan.sizes[send.chunk] / unit) * _PS)
            holds.setdefault(link, []).append((at, i, begins, ends))
    for own in holds.values():
        own.sort(key=lambda hold: hold[:2])
        for (_, i, _, ends), (_, j, begins, _) in pairwise(own):
            if i != j:  # a send passes several links of a budget at the same time
                after(1 + chunks + j, i, ends, sent[j].chunk, begins)
    for some, whole in groups:
        entries += [(len(lower), 1 + chunk, 1.0) for chunk in some]
        lower.append(whole / unit)
        upper.append(whole / unit)
    rows, columns, values = zip(*entries, strict=True)
    cost = np.zeros(1 + chunks + len(sent))
    cost[0] = 1.0
    return SparseProgram(
        cost,
        np.array(lower),
        np.array(upper),
        np.array(rows, np.int64),
        np.array(columns, np.int64),
        np.array(values),
    ), unit
