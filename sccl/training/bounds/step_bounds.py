"""Compute lower bounds on the completion time of a step.

There are two bounds, each with its proof:

- The longest path through the ops, each with the length of its fastest option alone, with the
  resources that its motifs share.
- For prices of the resources that add up to 1: the sum of the cheapest option of each op, plus the
  ticks before and after all ops that may use a resource. A resource is used for the ticks of its
  users times their shares, and not at all in the ticks before and after. So the mean over
  resources, weighted by prices, is at most the whole time. The prices come from a linear program.
  Any prices prove a bound, so the solver need not be trusted.
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
"""Limit of GLOP: deterministic time, about seconds."""


@dataclass(frozen=True, slots=True)
class FinishProof:
    """The proof of a lower bound on the completion time of a step.

    Attributes:
        kind: ``path``, or ``load``. ``search``: CP-SAT's search proves it.
        prices: Prices of resources, by their numbers, which prove a load. Empty: for a path.
    """

    kind: str
    prices: tuple[tuple[int, Fraction], ...] = ()


FinishBound = Bound[int, FinishProof]
"""A lower bound on the completion time of a step, in ticks."""


def min_duration(option: StepOption) -> int:
    """Return ticks that an option takes at the least, alone.

    Motifs that each begin so late, and before whose end each has so long to go, are done in
    between, however their resource is shared: on it they take the sum of their ticks, each times
    its share.
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
    """Return ticks after which an option can be done again at the least, and again, by itself.

    Each motif follows upon itself, and all have their shares of resources each time.
    """
    max_load = max(option.resource_ticks().values(), default=0)
    return max(-(-max_load // FULL_SHARE), *(motif.ticks for motif in option.motifs))


def min_durations(problem: StepProblem) -> list[list[int]]:
    """Return the minimal length of each option of each op, alone."""
    lengths: dict[tuple[StepOption, ...], list[int]] = {}
    for op in problem.ops:
        if op.options not in lengths:
            lengths[op.options] = [min_duration(option) for option in op.options]
    return [lengths[op.options] for op in problem.ops]


def finish_lower_bound(problem: StepProblem) -> FinishBound:
    """Return the higher of both bounds.

    Raises:
        KeyboardInterrupt: the user interrupted.
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
    """Return the bound that prices prove, in exact arithmetic. They are scaled to add up to 1.

    Args:
        around: of each resource, ticks in which nothing uses it.
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
    """Return of each resource the ticks in which nothing uses it, before all and after all."""
    return _idle_by_resource(
        problem, *_heads_and_tails(problem, [min(row) for row in min_durations(problem)])
    )


def _heads_and_tails(problem: StepProblem, lengths: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return of each op the ticks before it can begin, and those after it ended, at the least."""
    heads, tails = [0] * len(lengths), [0] * len(lengths)
    for number, op in enumerate(problem.ops):
        heads[number] = max((heads[k] + lengths[k] for k in op.after), default=0)
    for number in range(len(lengths) - 1, -1, -1):
        for k in problem.ops[number].after:
            tails[k] = max(tails[k], tails[number] + lengths[number])
    return heads, tails


def _idle_by_resource(problem: StepProblem, heads: list[int], tails: list[int]) -> list[int]:
    """Return of each resource the ticks before ops that may use it begin, and after they ended.

    These pass whether or not any option that is taken uses it: every op is done.
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
    """Return prices of resources under which all that is needed costs the most.

    Columns are the prices, and the cost of each op. A row for each option says that its op costs no
    more than that. The last, that the prices add up to 1.
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
