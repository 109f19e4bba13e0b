"""Compute lower bounds on the completion time of a step.

There are two bounds, each with its proof:

- Path: the longest path through the ops. Each op has a lower bound on the isolated duration of its
  options, which includes contention between motifs of one option.
- Load: prices of the resources that add up to 1. The bound is the sum of the cost of the cheapest
  option of each op, plus the priced ticks before and after all ops that may use a resource. Each
  resource is busy for the ticks of its users times their shares, and idle in the ticks before and
  after. So the mean over resources, weighted by prices, is at most the completion time. The prices
  come from a linear program. Any prices prove a bound, so the solver need not be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from sccl.core.bound import Bound, Measure
from sccl.solvers import lp
from sccl.training.scheduling.step_problem import FULL_SHARE, StepOption, StepProblem

_EFFORT = 10.0
"""Time limit of GLOP in units of deterministic time, each about a second."""


@dataclass(frozen=True, slots=True)
class FinishProof:
    """The proof of a lower bound on the completion time of a step.

    Attributes:
        kind: ``path``, ``load``, or ``search`` (proved by CP-SAT).
        prices: Price of each resource, by number, for ``load``. Empty for other kinds.
    """

    kind: str
    prices: tuple[tuple[int, Fraction], ...] = ()


FinishBound = Bound[int, FinishProof]
"""A lower bound on the completion time of a step, in ticks."""


def min_duration(option: StepOption) -> int:
    """Return a lower bound on the isolated duration of an option, in ticks.

    Consider motifs on one resource with heads of at least h (ticks before the start) and tails of
    at least t (ticks after the end). They run between h and the end minus t, and together take at
    least the sum of their ticks times shares. So h, this sum, and t add up to a lower bound.
    """
    motifs = option.motifs
    heads, tails = [0] * len(motifs), [0] * len(motifs)
    for k, motif in enumerate(motifs):
        heads[k] = max((heads[j] + motifs[j].ticks for j in motif.after), default=0)
    for k in reversed(range(len(motifs))):
        for j in motifs[k].after:
            tails[j] = max(tails[j], tails[k] + motifs[k].ticks)
    uses: dict[int, list[tuple[int, int, int]]] = {}
    for head, tail, motif in zip(heads, tails, motifs, strict=True):
        for resource, part in zip(motif.uses, motif.parts, strict=True):
            uses.setdefault(resource, []).append((head, tail, motif.ticks * part))
    lower_bound = option.critical_path_ticks
    for rows in uses.values():
        by_tail = sorted(rows, key=lambda row: -row[1])
        for earliest in {head for head, _, _ in rows}:
            work = 0
            for head, tail, ticks in by_tail:
                if head >= earliest:
                    work += ticks
                    lower_bound = max(lower_bound, earliest + -(-work // FULL_SHARE) + tail)
    return lower_bound


def min_repeat_interval(option: StepOption) -> int:
    """Return a lower bound on the period of an option that repeats alone, in ticks.

    A motif starts after its previous execution has ended, and each execution loads the resources.
    """
    max_load = max(option.resource_ticks().values(), default=0)
    return max(-(-max_load // FULL_SHARE), *(motif.ticks for motif in option.motifs))


def min_durations(problem: StepProblem) -> list[list[int]]:
    """Return a lower bound on the isolated duration of each option of each op, in ticks."""
    lengths: dict[tuple[StepOption, ...], list[int]] = {}
    for op in problem.ops:
        if op.options not in lengths:
            lengths[op.options] = [min_duration(option) for option in op.options]
    return [lengths[op.options] for op in problem.ops]


def finish_lower_bound(problem: StepProblem) -> FinishBound:
    """Return the higher one of the path bound and the load bound.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    lengths = [min(row) for row in min_durations(problem)]
    heads, tails = _heads_and_tails(problem, lengths)
    path = max(h + n + t for h, n, t in zip(heads, lengths, tails, strict=True))
    around = _idle_by_resource(problem, heads, tails)
    prices = load_prices(problem, around)
    load = load_bound(problem, prices, around)
    if load > path:
        return Bound(Measure.TICKS, load, FinishProof("load", tuple(sorted(prices.items()))))
    return Bound(Measure.TICKS, path, FinishProof("path"))


def load_bound(problem: StepProblem, prices: Mapping[int, Fraction], around: Sequence[int]) -> int:
    """Return the bound that prices prove, in exact arithmetic.

    Args:
        prices: Price of each resource. They are scaled to add up to 1.
        around: Minimal idle ticks of each resource.
    """
    total = sum(prices.values(), Fraction(0))
    if not total:
        return 0
    total_cost = sum((price * around[r] for r, price in prices.items()), Fraction(0))
    for op in problem.ops:
        costs = [
            sum(
                (prices.get(r, Fraction(0)) * busy for r, busy in o.resource_ticks().items()),
                Fraction(0),
            )
            for o in op.options
        ]
        total_cost += min(costs) / FULL_SHARE
    return ceil(total_cost / total)


def idle_ticks(problem: StepProblem) -> list[int]:
    """Return the minimal idle ticks of each resource before its first and after its last use."""
    return _idle_by_resource(
        problem, *_heads_and_tails(problem, [min(row) for row in min_durations(problem)])
    )


def _heads_and_tails(problem: StepProblem, lengths: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return lower bounds on the ticks before the start and after the end of each op."""
    heads, tails = [0] * len(lengths), [0] * len(lengths)
    for number, op in enumerate(problem.ops):
        heads[number] = max((heads[k] + lengths[k] for k in op.after), default=0)
    for number in range(len(lengths) - 1, -1, -1):
        for k in problem.ops[number].after:
            tails[k] = max(tails[k], tails[number] + lengths[number])
    return heads, tails


def _idle_by_resource(problem: StepProblem, heads: list[int], tails: list[int]) -> list[int]:
    """Return the minimal idle ticks of each resource before and after the ops that may use it.

    They hold for every choice of options, because every op runs.
    """
    idle_ticks = []
    for resource in range(len(problem.resources)):
        may = [
            number
            for number, op in enumerate(problem.ops)
            if any(resource in motif.uses for o in op.options for motif in o.motifs)
        ]
        first = min((heads[number] for number in may), default=0)
        idle_ticks.append(first + min((tails[number] for number in may), default=0))
    return idle_ticks


def load_prices(problem: StepProblem, around: Sequence[int]) -> dict[int, Fraction]:
    """Return the prices of resources that maximize the load bound, by a linear program.

    Columns are the price of each resource and the cost of each op. For each option a row limits the
    cost of the op to the cost of the option. The last row limits the sum of prices to 1.
    """
    resources = len(problem.resources)
    rows: list[tuple[int, int, float]] = []
    scale = float(
        max(option.critical_path_ticks for op in problem.ops for option in op.options) or 1
    )
    count = 0
    for number, op in enumerate(problem.ops):
        for option in op.options:
            rows.append((count, resources + number, 1.0))
            busy = option.resource_ticks().items()
            rows.extend((count, r, -part / (FULL_SHARE * scale)) for r, part in busy if part)
            count += 1
    rows.extend((count, r, 1.0) for r in range(resources))
    row, column, value = zip(*rows, strict=True)
    solution = lp.solve_sparse(
        lp.SparseProgram(
            cost=-np.array([*(ticks / scale for ticks in around), *[1.0] * len(problem.ops)]),
            lower=np.full(count + 1, -np.inf),
            upper=np.array([*[0.0] * count, 1.0]),
            row=np.array(row, dtype=np.int64),
            column=np.array(column, dtype=np.int64),
            value=np.array(value),
        ),
        _EFFORT,
    )
    prices = {
        r: lp.to_fraction(value) for r, value in enumerate(solution.values[:resources].tolist())
    }
    return {r: price for r, price in prices.items() if price}
