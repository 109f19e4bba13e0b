"""Sizes of chunks anew, for sends in the order that was found: a linear program.

Which send follows on which over a link, and which brings the chunk of which, is kept: then times
are linear in the bytes of chunks, whose sizes and times are found together such that the last
arrival is the earliest. What is small in the end was a part of a tree that is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf

import numpy as np

from sccl.collectives import Dual
from sccl.solvers.lp import SparseEnd, SparseProgram, solve_sparse
from sccl.synth.flows.placed import Planned, PlannedSend, Sent
from sccl.synth.flows.problem import FluidProblem

MOST_SENDS = 3000
"""Of more the program takes more than some seconds."""

_PIVOT = 1e-9
"""Of effort, of a pivot and a column."""


def is_polished(problem: FluidProblem) -> bool:
    """Return whether sends only wait for one another where they share a link."""
    return not problem.topology.budgets and all(len(way) == 1 for way in problem.ways)


def polished(
    problem: FluidProblem, dual: Dual, plan: Planned, sent: Sequence[Sent], effort: float
) -> tuple[Planned | None, float]:
    """Return a plan of the same sends in the same order, and the effort; None: it was not enough.

    Args:
        sent: as they were placed.

    Raises:
        KeyboardInterrupt: the user interrupted; the solver has been stopped.
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
    starts = result.values[1 + len(sizes) :].tolist()
    order = sorted(range(len(sent)), key=lambda i: (starts[i], sent[i].start, i))
    sends = tuple(
        PlannedSend(starts[i], turn, sent[i].chunk, sent[i].way) for turn, i in enumerate(order)
    )
    return Planned(plan.chunks, tuple(sizes), sends), took


def _program(
    problem: FluidProblem,
    plan: Planned,
    sent: Sequence[Sent],
    groups: Sequence[tuple[list[int], int]],
) -> tuple[SparseProgram, float]:
    """Return the program, and the bytes that are 1 in it.

    Columns are the time, the sizes of chunks, and the starts of sends.
    """
    links = problem.topology.links
    unit = float(max(commodity.size for commodity in problem.commodities))
    took = [unit / float(1000 * k.lanes * Fraction(str(k.gb_per_s))) for k in links]
    alpha = [float(a) for a in problem.alpha]
    chunks = len(plan.sizes)
    brings = {(s.chunk, problem.edges[s.way][1]): i for i, s in enumerate(sent)}
    entries: list[tuple[int, int, float]] = []
    lower: list[float] = []
    upper: list[float] = []

    def after(column: int, send: int, least: float) -> None:
        """Ask for a column to be so much later than the end of a send."""
        row, one = len(lower), sent[send]
        entries.append((row, column, 1.0))
        entries.append((row, 1 + chunks + send, -1.0))
        entries.append((row, 1 + one.chunk, -took[problem.ways[one.way][0]]))
        lower.append(least)
        upper.append(inf)

    last: dict[int, int] = {}
    for i in sorted(range(len(sent)), key=lambda i: (sent[i].start, i)):
        send, column = sent[i], 1 + chunks + i
        before = brings.get((send.chunk, problem.edges[send.way][0]))
        if before is not None:
            after(column, before, alpha[sent[before].way])
        if send.way in last:
            after(column, last[send.way], 0.0)
        last[send.way] = i
        after(0, i, alpha[send.way])
    for own, whole in groups:
        entries += [(len(lower), 1 + chunk, 1.0) for chunk in own]
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
