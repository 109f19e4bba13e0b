"""Minimize the period of a small step that repeats, with CP-SAT.

The model covers all schedules that restart every motif after the same number of ticks T: in any
order, any iterations ahead, with overlapping windows. Each motif starts at some tick within T and
again T later, so a resource is shared cyclically. Feasibility of T depends on starts only. If T is
feasible, a longer T is feasible (insert ticks at the end of a window, while motifs across the end
keep their length), so bisection finds the smallest T.

Schedules that repeat only after several iterations may be faster, and are not covered.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from sccl.solvers import cpsat
from sccl.solvers.effort import Effort, Spending
from sccl.train.bounds import again_after
from sccl.train.cyclic import CyclicPlan, CyclicProblem
from sccl.train.problem import WHOLE, StepMotif, StepOp, StepProblem
from sccl.train.searches import all_choices, serial

_STRATEGY = cpsat.Strategy(presolved=False, conflicts=4000)
"""Without presolve, which takes seconds on motifs with shared resources that no budget counts."""


_Place = tuple[int, int]
"""An op, and a motif of its option."""


class ExactPeriod(NamedTuple):
    """What CP-SAT finds.

    Attributes:
        least: ticks that it proves to be needed; 1 or more, unless nothing takes any time.
        most: ticks that are enough.
        options: of each op, for these. Empty: of what is known to be enough.
        starts: of each op and motif of its option, of iteration 0.
    """

    least: int
    most: int
    options: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]

    @property
    def proved(self) -> bool:
        """Return whether nothing takes less."""
        return self.least == self.most

    def plan(self, problem: CyclicProblem) -> CyclicPlan:
        """Return the plan that issues motifs in this order.

        It repeats after at most these ticks. Motifs are as few iterations ahead as possible. Among
        motifs that start at the same time, which may have no duration, those that others depend on
        come first.
        """
        motifs = {
            (op, k): motif
            for op, choice in enumerate(self.options)
            for k, motif in enumerate(problem.step.ops[op].options[choice].motifs)
        }
        waits = [((op, j), (op, k), 0) for (op, k), m in motifs.items() for j in m.after]
        waits += [
            ((one, j), (other, k), lag)
            for one, other, lag in problem.waits
            for j in range(len(self.starts[one]))
            for k in range(len(self.starts[other]))
        ]
        window = self._windows(motifs, waits)
        before: dict[_Place, set[_Place]] = {item: set() for item in motifs}
        for one, other, lag in waits:
            if window[one] == window[other] + lag:
                before[other].add(one)
        order, ahead = self._sorted(before, max(self.most, 1)), max(window.values())
        return CyclicPlan(self.options, order, tuple(ahead - window[item] for item in order))

    def _windows(
        self, motifs: Mapping[_Place, StepMotif], waits: Iterable[tuple[_Place, _Place, int]]
    ) -> dict[_Place, int]:
        """Return the window of each motif of iteration 0: the first that waits allow."""
        period, found = max(self.most, 1), dict.fromkeys(motifs, 0)
        within = {(op, k): self.starts[op][k] % period for op, k in motifs}
        moved = True
        while moved:
            moved = False
            for one, other, lag in waits:
                ended = within[one] + motifs[one].ticks + (found[one] - lag) * period
                first = -((within[other] - ended) // period)
                if first > found[other]:
                    found[other], moved = first, True
        return found

    def _sorted(self, before: Mapping[_Place, set[_Place]], period: int) -> tuple[_Place, ...]:
        """Return motifs by their starts within a window, each after those before it."""
        after: dict[_Place, list[_Place]] = {key: [] for key in before}
        left = {key: len(own) for key, own in before.items()}
        for key, own in before.items():
            for one in own:
                after[one].append(key)
        ready = [(self.starts[op][k] % period, op, k) for (op, k), n in left.items() if not n]
        heapq.heapify(ready)
        order = []
        while ready:
            _, op, k = heapq.heappop(ready)
            order.append((op, k))
            for one in after[op, k]:
                left[one] -= 1
                if not left[one]:
                    heapq.heappush(ready, (self.starts[one[0]][one[1]] % period, *one))
        return tuple(order)


def exact_period(
    problem: CyclicProblem, effort: Effort, least: int = 0, most: int = 0
) -> ExactPeriod:
    """Return the smallest period, or bounds on it within a budget.

    Args:
        least: Known lower bound, in ticks.
        most: Known upper bound, in ticks. 0: none.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    found = ExactPeriod(max(least, 1), most, (), ())
    if not most:
        begun = serial(problem.step, 0)
        finish = begun.finish(problem.step)
        found = ExactPeriod(min(found.least, finish), finish, begun.options, begun.starts)
    return _halved(problem, Spending(effort), found)


def _halved(problem: CyclicProblem, spending: Spending, found: ExactPeriod) -> ExactPeriod:
    """Return the bounds after bisection."""
    unknown = False
    while found.least < found.most and not unknown:
        left = spending.left()
        if left is None or spending.used_up():
            break
        period = (found.least + found.most) // 2
        model = _Model(problem, period)
        result = cpsat.solve(model.model, left, _STRATEGY)
        spending.units += result.units
        if result.found:
            found = ExactPeriod(found.least, period, *model.read(result))
        elif result.refuted:
            found = found._replace(least=period + 1)
        else:
            unknown = True
    return found


def exact_by_choice(problem: CyclicProblem, effort: Effort, least: int, most: int) -> ExactPeriod:
    """Return the smallest period of a step of few collectives, choice by choice of options.

    Choices with the smallest loads come first. Choices that load a resource for longer than the
    upper bound are skipped. Each choice has half of the remaining budget.

    Args:
        least: Known lower bound, in ticks.
        most: Known upper bound, in ticks.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    found, spending = ExactPeriod(max(least, 1), most, (), ()), Spending(effort)
    rows = []
    for choice in all_choices(problem.step):
        taken = tuple(choice.tolist())
        step = replace(
            problem.step,
            ops=tuple(
                replace(op, options=(op.options[k],))
                for op, k in zip(problem.step.ops, taken, strict=True)
            ),
        )
        rows.append((_least_load(step), taken, step))
    for bound, taken, step in sorted(rows, key=lambda row: row[:2]):
        left = spending.left()
        if found.proved or bound >= found.most or left is None or spending.used_up():
            break
        assert left.units is not None
        part = Spending(Effort(left.timeout_s, left.seed, left.units / 2))
        one = replace(problem, step=step)
        own = _halved(one, part, ExactPeriod(max(found.least, bound), found.most, (), ()))
        spending.units += part.units
        if own.options:
            found = own._replace(least=found.least, options=taken)
    return found


def _least_load(step: StepProblem) -> int:
    """Return ticks that a step of which each op has one option needs from one to the next."""
    options = [op.options[0] for op in step.ops]
    busy: Counter[int] = Counter()
    for option in options:
        busy.update(option.busy())
    return max(-(-max(busy.values(), default=0) // WHOLE), *map(again_after, options))


class _Model:
    """Whether a step can repeat after so many ticks.

    Attributes:
        taken: of each op and option, whether it is taken.
        start: of each op, option and motif, of iteration 0.
    """

    def __init__(self, problem: CyclicProblem, period: int) -> None:
        self.step, self.period, self.model = problem.step, period, cpsat.CpModel()
        motifs = sum(max(len(o.motifs) for o in op.options) for op in self.step.ops)
        self.windows = 2 * motifs  # each wait leads to two windows later at the most
        self.taken: list[list[cpsat.IntVar]] = []
        self.start: list[list[list[cpsat.IntVar]]] = []
        self.end: list[cpsat.IntVar] = []
        self.busy: dict[int, list[tuple[cpsat.IntervalVar, int]]] = {}
        for op in self.step.ops:
            self._add(op)
        for before, after, lag in problem.waits:
            for x, starts in zip(self.taken[after], self.start[after], strict=True):
                for start in starts:
                    late = self.model.add(start + lag * period >= self.end[before])
                    late.only_enforce_if(x)
        for rows in self.busy.values():
            intervals, parts = [over for over, _ in rows], [part for _, part in rows]
            self.model.add_cumulative(intervals, parts, WHOLE)

    def _add(self, op: StepOp) -> None:
        model, last = self.model, (self.windows + 2) * self.period
        end = model.new_int_var(0, last, "")
        self.taken.append([model.new_bool_var("") for _ in op.options])
        self.start.append([])
        self.end.append(end)
        model.add_exactly_one(self.taken[-1])
        for x, option in zip(self.taken[-1], op.options, strict=True):
            own = list[cpsat.IntVar]()
            for motif in option.motifs:
                if motif.ticks > self.period:
                    model.add(x == 0)  # it follows upon itself
                start = self._motif(motif, x)
                for k in motif.after:
                    model.add(start >= own[k] + option.motifs[k].ticks).only_enforce_if(x)
                model.add(end >= start + motif.ticks).only_enforce_if(x)
                own.append(start)
            self.start[-1].append(own)

    def _motif(self, motif: StepMotif, x: cpsat.IntVar) -> cpsat.IntVar:
        model, period = self.model, self.period
        within, window = (model.new_int_var(0, n, "") for n in (period - 1, self.windows))
        start = model.new_int_var(0, (self.windows + 1) * period, "")
        model.add(start == within + period * window)
        for after in (0, period):
            at = within + after
            over = model.new_optional_fixed_size_interval_var(at, motif.ticks, x, "")
            for resource, part in zip(motif.uses, motif.parts, strict=True):
                if motif.ticks:
                    self.busy.setdefault(resource, []).append((over, part))
        return start

    def read(self, found: cpsat.Result) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """Return options and starts of a solution."""
        options = tuple(found.true(own)[0] for own in self.taken)
        rows = [self.start[op][choice] for op, choice in enumerate(options)]
        return options, tuple(tuple(map(found.value, own)) for own in rows)
