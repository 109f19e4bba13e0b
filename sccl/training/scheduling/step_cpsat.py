"""The best plan of a step, by CP-SAT: an interval for each motif of each option that is taken."""

from __future__ import annotations

from typing import NamedTuple

from sccl.solvers import cpsat
from sccl.solvers.effort import Effort
from sccl.training.scheduling.step_problem import FULL_SHARE, StepPlan, StepProblem

_STRATEGY = cpsat.Strategy()


class ExactStep(NamedTuple):
    """The result of CP-SAT.

    Attributes:
        plan: Plan. None: none was found.
        proved: Whether the plan is optimal.
        bound: Proved lower bound in ticks.
    """

    plan: StepPlan | None
    proved: bool
    bound: int = 0


def solve_step(problem: StepProblem, effort: Effort, hint: StepPlan | None = None) -> ExactStep:
    """Return the best plan, or the best that is found within an effort.

    Args:
        hint: a plan to go on from.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    model = _StepModel(problem, _horizon(problem) if hint is None else hint.finish(problem))
    if hint is not None:
        model.add_hint(hint)
    result = cpsat.solve(model.model, effort, _STRATEGY)
    if not result.has_solution:
        return ExactStep(None, proved=False, bound=result.bound)
    return ExactStep(model.plan_from_solution(result), result.is_optimal, result.bound)


def _horizon(problem: StepProblem) -> int:
    """Return the ticks that one op after the other takes, each by its fastest option."""
    return sum(
        min(sum(m.ticks for m in option.motifs) for option in op.options) for op in problem.ops
    )


class _StepModel:
    """The model.

    Attributes:
        is_selected: of each op and option, whether it is taken.
        start: of each op, option and motif.
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
