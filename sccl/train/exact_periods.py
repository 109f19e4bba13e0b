"""The least period of a small step that repeats, by CP-SAT.

It is over all that starts every motif again after the same whole number of ticks, T: in any order,
any iterations ahead, windows overlapping. Within T each motif starts at some tick; it is there
again T later, so a resource is shared as one would that goes in a circle. Whether T is enough is a
question of starts alone, and what is enough stays so for a longer T (ticks are inserted where a
window ends, and what lies across that stays as long as it is); so T is found by halving.

What repeats after several iterations only may take less, and is not looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import NamedTuple

from sccl.solvers import cpsat
from sccl.solvers.effort import Effort, Spending
from sccl.train.cyclic import CyclicPlan, CyclicProblem
from sccl.train.problem import WHOLE, StepMotif, StepOp
from sccl.train.searches import serial

_STRATEGY = cpsat.Strategy()


class ExactPeriod(NamedTuple):
    """What CP-SAT finds.

    Attributes:
        least: ticks that it proves to be needed; 1 or more, unless nothing takes any time.
        most: ticks that are enough.
        options: of each op, for these.
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

    def plan(self, problem: CyclicProblem) -> CyclicPlan | None:
        """Return the plan that issues motifs in this order; None: an op's are of several windows.

        It repeats after no more ticks than these. Of what starts at once, as what takes no time
        does, those come first that others wait for.
        """
        period = max(self.most, 1)
        windows = [{start // period for start in own} for own in self.starts]
        if any(len(own) > 1 for own in windows):
            return None
        ahead = max(window for own in windows for window in own)
        shifts = tuple(ahead - own.pop() for own in windows)
        before: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for op, choice in enumerate(self.options):
            for k, motif in enumerate(problem.step.ops[op].options[choice].motifs):
                before[op, k] = {(op, j) for j in motif.after}
        for one, other, lag in problem.waits:
            if lag + shifts[one] == shifts[other]:  # of the same window
                for k in range(len(self.starts[other])):
                    before[other, k].update((one, j) for j in range(len(self.starts[one])))
        return CyclicPlan(self.options, shifts, self._sorted(before, period))

    def _sorted(
        self, before: Mapping[tuple[int, int], set[tuple[int, int]]], period: int
    ) -> tuple[tuple[int, int], ...]:
        """Return motifs by their starts within a window, each after those before it."""
        after: dict[tuple[int, int], list[tuple[int, int]]] = {key: [] for key in before}
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


def exact_period(problem: CyclicProblem, effort: Effort, least: int = 0) -> ExactPeriod:
    """Return the least period, or what is known of it within an effort.

    Args:
        least: ticks that are known to be needed.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    begun = serial(problem.step, 0)
    if not begun.finish(problem.step):
        return ExactPeriod(0, 0, begun.options, begun.starts)
    found = ExactPeriod(max(least, 1), begun.finish(problem.step), begun.options, begun.starts)
    spending, unknown = Spending(effort), False
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
