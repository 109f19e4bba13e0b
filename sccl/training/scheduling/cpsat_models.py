"""Find optimal plans of small steps, once or repeated, with CP-SAT.

The model of a step has an optional interval for each motif of each option.

The model of a period covers all schedules that restart every motif after the same number of ticks
T: in any order, any number of iterations ahead, with overlapping windows. Each motif starts at some
tick within T and again T later, so a resource is shared cyclically. Feasibility of T depends on
starts only. If T is feasible, a longer T is feasible (insert ticks at the end of a window, while
motifs across the end keep their length), so bisection finds the smallest T. The model excludes
schedules that repeat only after several iterations, which may be faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from sccl.core.graphs import topological_order
from sccl.solvers import cpsat
from sccl.solvers.effort import Effort, EffortMeter
from sccl.training.bounds.step_bounds import min_repeat_interval
from sccl.training.scheduling.search_strategies import all_choices, search_by_annealing
from sccl.training.scheduling.step_problem import (
    FULL_SHARE,
    CyclicPlan,
    CyclicProblem,
    StepMotif,
    StepOp,
    StepPlan,
    StepProblem,
)

_STEP_STRATEGY = cpsat.Strategy()


class ExactStep(NamedTuple):
    """The result of CP-SAT.

    Attributes:
        plan: Best plan. None: none was found.
        proved: Whether the plan is optimal.
        bound: Proved lower bound in ticks.
    """

    plan: StepPlan | None
    proved: bool
    bound: int = 0


def solve_step(problem: StepProblem, effort: Effort, hint: StepPlan | None = None) -> ExactStep:
    """Return the best plan that is found within a budget.

    Args:
        hint: Warm start, whose completion time limits the search.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    model = _StepModel(problem, _horizon(problem) if hint is None else hint.finish(problem))
    if hint is not None:
        model.add_hint(hint)
    result = cpsat.solve(model.model, effort, _STEP_STRATEGY)
    if not result.has_solution:
        return ExactStep(None, proved=False, bound=result.bound)
    return ExactStep(model.plan_from_solution(result), result.is_optimal, result.bound)


def _horizon(problem: StepProblem) -> int:
    """Return the completion time in ticks if all motifs run in series, by the best options."""
    return sum(
        min(sum(m.ticks for m in option.motifs) for option in op.options) for op in problem.ops
    )


class _StepModel:
    """The CP-SAT model of a step.

    Attributes:
        is_selected: Boolean variable of each option, by op.
        start: Start variable of each motif, by op and option.
    """

    def __init__(self, problem: StepProblem, horizon: int) -> None:
        self.problem, self.model = problem, cpsat.CpModel()
        self.is_selected: list[list[cpsat.IntVar]] = []
        self.start: list[list[list[cpsat.IntVar]]] = []
        self.end: list[cpsat.IntVar] = []
        busy: dict[int, list[tuple[cpsat.IntervalVar, int]]] = {}
        for number in range(len(problem.ops)):
            self._add_op(number, horizon, busy)
        for rows in busy.values():
            intervals, parts = [over for over, _ in rows], [part for _, part in rows]
            if min(parts) == FULL_SHARE:
                self.model.add_no_overlap(intervals)
            else:
                self.model.add_cumulative(intervals, parts, FULL_SHARE)
        self.finish = self.model.new_int_var(0, horizon, "")
        self.model.add_max_equality(self.finish, self.end)
        self.model.minimize(self.finish)

    def _add_op(
        self, number: int, horizon: int, busy: dict[int, list[tuple[cpsat.IntervalVar, int]]]
    ) -> None:
        model, op = self.model, self.problem.ops[number]
        end = model.new_int_var(0, horizon, "")
        taken, starts = [], []
        for option in op.options:
            x, option_starts = model.new_bool_var(""), list[cpsat.IntVar]()
            for motif in option.motifs:
                start = model.new_int_var(0, horizon, "")
                over = model.new_optional_fixed_size_interval_var(start, motif.ticks, x, "")
                for resource, part in zip(motif.uses, motif.parts, strict=True):
                    if motif.ticks:
                        busy.setdefault(resource, []).append((over, part))
                for k in motif.after:
                    model.add(start >= option_starts[k] + option.motifs[k].ticks).only_enforce_if(x)
                for k in op.after:
                    model.add(start >= self.end[k]).only_enforce_if(x)
                model.add(end >= start + motif.ticks).only_enforce_if(x)
                option_starts.append(start)
            taken.append(x)
            starts.append(option_starts)
        model.add_exactly_one(taken)
        self.is_selected.append(taken)
        self.start.append(starts)
        self.end.append(end)

    def add_hint(self, plan: StepPlan) -> None:
        for number, choice in enumerate(plan.options):
            for option, x in enumerate(self.is_selected[number]):
                self.model.add_hint(x, option == choice)
            for start, at in zip(self.start[number][choice], plan.starts[number], strict=True):
                self.model.add_hint(start, at)

    def plan_from_solution(self, result: cpsat.Result) -> StepPlan:
        options = tuple(result.true_variables(variables)[0] for variables in self.is_selected)
        starts = [self.start[number][choice] for number, choice in enumerate(options)]
        return StepPlan(options, tuple(tuple(map(result.value, variables)) for variables in starts))


_PERIOD_STRATEGY = cpsat.Strategy(is_presolved=False, conflicts=4000)
"""Presolve is off. With shared resources it takes seconds that count against no budget."""


_MotifKey = tuple[int, int]
"""Indices of an op and of a motif of its option."""


class ExactPeriod(NamedTuple):
    """Bounds on the period from CP-SAT.

    Attributes:
        lower_bound: Proved lower bound in ticks. At least 1, unless the step has no duration.
        upper_bound: Feasible period in ticks.
        options: Chosen option of each op, for the upper bound. Empty: the upper bound is the
            caller's.
        starts: Start tick of each motif in iteration 0, by op, for the chosen options.
    """

    lower_bound: int
    upper_bound: int
    options: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]

    @property
    def proved(self) -> bool:
        """Return whether the upper bound is optimal."""
        return self.lower_bound == self.upper_bound

    def to_cyclic_plan(self, problem: CyclicProblem) -> CyclicPlan:
        """Return the plan that issues motifs in the order of their starts within a window.

        Its period is at most the upper bound. Motifs are as few iterations ahead as possible. Among
        motifs that start at the same tick (some have no duration), predecessors come first.
        """
        motifs = {
            (op, k): motif
            for op, choice in enumerate(self.options)
            for k, motif in enumerate(problem.step.ops[op].options[choice].motifs)
        }
        waits = [((op, j), (op, k), 0) for (op, k), m in motifs.items() for j in m.after]
        waits += [
            ((source, j), (target, k), lag)
            for source, target, lag in problem.waits
            for j in range(len(self.starts[source]))
            for k in range(len(self.starts[target]))
        ]
        window = self._first_windows(motifs, waits)
        before: dict[_MotifKey, set[_MotifKey]] = {item: set() for item in motifs}
        for source, target, lag in waits:
            if window[source] == window[target] + lag:
                before[target].add(source)
        order, ahead = self._motifs_by_start(before, max(self.upper_bound, 1)), max(window.values())
        return CyclicPlan(self.options, order, tuple(ahead - window[item] for item in order))

    def _first_windows(
        self,
        motifs: Mapping[_MotifKey, StepMotif],
        waits: Iterable[tuple[_MotifKey, _MotifKey, int]],
    ) -> dict[_MotifKey, int]:
        """Return the first window that dependencies permit for each motif of iteration 0."""
        period, windows = max(self.upper_bound, 1), dict.fromkeys(motifs, 0)
        within = {(op, k): self.starts[op][k] % period for op, k in motifs}
        moved = True
        while moved:
            moved = False
            for source, target, lag in waits:
                ended = within[source] + motifs[source].ticks + (windows[source] - lag) * period
                first = -((within[target] - ended) // period)
                if first > windows[target]:
                    windows[target], moved = first, True
        return windows

    def _motifs_by_start(
        self, before: Mapping[_MotifKey, set[_MotifKey]], period: int
    ) -> tuple[_MotifKey, ...]:
        """Return motifs by their starts within a window, each after its predecessors."""
        return tuple(
            topological_order(before, lambda item: (self.starts[item[0]][item[1]] % period, item))
        )


def solve_period(
    problem: CyclicProblem, effort: Effort, lower_bound: int = 0, upper_bound: int = 0
) -> ExactPeriod:
    """Return the smallest period, or bounds on it within a budget.

    Args:
        lower_bound: Known lower bound, in ticks.
        upper_bound: Known upper bound, in ticks. 0: none.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    best = ExactPeriod(max(lower_bound, 1), upper_bound, (), ())
    if not upper_bound:
        begun = search_by_annealing(problem.step, 0)
        finish = begun.finish(problem.step)
        best = ExactPeriod(min(best.lower_bound, finish), finish, begun.options, begun.starts)
    return _bisect_period(problem, EffortMeter(effort), best)


def _bisect_period(problem: CyclicProblem, spending: EffortMeter, best: ExactPeriod) -> ExactPeriod:
    """Return the bounds after bisection within the budget."""
    unknown = False
    while best.lower_bound < best.upper_bound and not unknown:
        left = spending.remaining()
        if left is None or spending.is_exhausted():
            break
        period = (best.lower_bound + best.upper_bound) // 2
        model = _PeriodModel(problem, period)
        result = cpsat.solve(model.model, left, _PERIOD_STRATEGY)
        spending.units += result.units
        if result.has_solution:
            best = ExactPeriod(best.lower_bound, period, *model.read_solution(result))
        elif result.is_infeasible:
            best = best._replace(lower_bound=period + 1)
        else:
            unknown = True
    return best


def solve_period_by_choice(
    problem: CyclicProblem, effort: Effort, lower_bound: int, upper_bound: int
) -> ExactPeriod:
    """Return the smallest period of a step with few collectives, over all choices of options.

    Each choice is bisected separately. Choices with the smallest lower bound come first, and
    choices whose lower bound is not below the best period are skipped. Each choice gets half of the
    remaining budget.

    Args:
        lower_bound: Known lower bound, in ticks.
        upper_bound: Known upper bound, in ticks.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    best, spending = ExactPeriod(max(lower_bound, 1), upper_bound, (), ()), EffortMeter(effort)
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
        rows.append((_load_lower_bound(step), taken, step))
    for bound, taken, step in sorted(rows, key=lambda row: row[:2]):
        left = spending.remaining()
        if best.proved or bound >= best.upper_bound or left is None or spending.is_exhausted():
            break
        assert left.units is not None
        part = EffortMeter(Effort(left.timeout_s, left.seed, left.units / 2))
        case = replace(problem, step=step)
        outcome = _bisect_period(
            case, part, ExactPeriod(max(best.lower_bound, bound), best.upper_bound, (), ())
        )
        spending.units += part.units
        if outcome.options:
            best = outcome._replace(lower_bound=best.lower_bound, options=taken)
    return best


def _load_lower_bound(step: StepProblem) -> int:
    """Return a lower bound on the period of a step with one option per op, in ticks."""
    options = [op.options[0] for op in step.ops]
    busy: Counter[int] = Counter()
    for option in options:
        busy.update(option.resource_ticks())
    return max(-(-max(busy.values(), default=0) // FULL_SHARE), *map(min_repeat_interval, options))


class _PeriodModel:
    """The CP-SAT model that decides whether a step can repeat after ``period`` ticks.

    Attributes:
        is_selected: Boolean variable of each option, by op.
        start: Start variable of each motif in iteration 0, by op and option.
    """

    def __init__(self, problem: CyclicProblem, period: int) -> None:
        self.step, self.period, self.model = problem.step, period, cpsat.CpModel()
        motifs = sum(max(len(o.motifs) for o in op.options) for op in self.step.ops)
        self.windows = 2 * motifs  # a dependency delays a motif by at most two windows
        self.is_selected: list[list[cpsat.IntVar]] = []
        self.start: list[list[list[cpsat.IntVar]]] = []
        self.end: list[cpsat.IntVar] = []
        self.busy: dict[int, list[tuple[cpsat.IntervalVar, int]]] = {}
        for op in self.step.ops:
            self._add_op(op)
        for before, after, lag in problem.waits:
            for x, starts in zip(self.is_selected[after], self.start[after], strict=True):
                for start in starts:
                    constraint = self.model.add(start + lag * period >= self.end[before])
                    constraint.only_enforce_if(x)
        for rows in self.busy.values():
            intervals, parts = [over for over, _ in rows], [part for _, part in rows]
            self.model.add_cumulative(intervals, parts, FULL_SHARE)

    def _add_op(self, op: StepOp) -> None:
        model, last = self.model, (self.windows + 2) * self.period
        end = model.new_int_var(0, last, "")
        self.is_selected.append([model.new_bool_var("") for _ in op.options])
        self.start.append([])
        self.end.append(end)
        model.add_exactly_one(self.is_selected[-1])
        for x, option in zip(self.is_selected[-1], op.options, strict=True):
            option_starts = list[cpsat.IntVar]()
            for motif in option.motifs:
                if motif.ticks > self.period:
                    model.add(x == 0)  # it would overlap its next execution
                start = self._add_motif(motif, x)
                for k in motif.after:
                    model.add(start >= option_starts[k] + option.motifs[k].ticks).only_enforce_if(x)
                model.add(end >= start + motif.ticks).only_enforce_if(x)
                option_starts.append(start)
            self.start[-1].append(option_starts)

    def _add_motif(self, motif: StepMotif, x: cpsat.IntVar) -> cpsat.IntVar:
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

    def read_solution(
        self, result: cpsat.Result
    ) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        options = tuple(result.true_variables(variables)[0] for variables in self.is_selected)
        rows = [self.start[op][choice] for op, choice in enumerate(options)]
        return options, tuple(tuple(map(result.value, variables)) for variables in rows)
