"""Plans of steps that repeat: two ways to run them agree, and searches make right ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.solvers.effort import Effort
from sccl.training import planner as planner_module
from sccl.training.bounds.period_bounds import PeriodBound, period_lower_bound
from sccl.training.fabric_names import resolve_fabric
from sccl.training.options.option_catalog import OptionSettings, find_options
from sccl.training.planner import Planner, PlanSettings
from sccl.training.scheduling import policies, search_strategies
from sccl.training.scheduling.plan_search import search_by_cpsat, search_cyclic_plans
from sccl.training.scheduling.policies import POLICIES, PolicyEffort
from sccl.training.scheduling.steady_state import SteadyState, find_steady_state, iterate_windows
from sccl.training.scheduling.step_problem import (
    MAX_LAG,
    CyclicPlan,
    CyclicProblem,
    StepMotif,
    StepOp,
    StepOption,
    StepProblem,
    find_cyclic_plan_fault,
)
from sccl.training.scheduling.workload_problem import PlanningJob, job_of_plan
from sccl.training.timeline import simulate_timeline
from sccl.training.timeline_models import simulate_fluid
from sccl.training.types.workload_ops import ComputeOp
from sccl.training.validate.plan_faults import find_faults
from tests.kit.layered import layered
from tests.kit.nightly import times
from tests.kit.training import random_job, random_plan, training_plan
from tests.kit.workloads import calling, comm


@settings(max_examples=times(150, by_day=30))
@given(st.integers(0, 10**9))
def test_windows_and_events_say_the_same(seed: int) -> None:
    job = random_job(seed, 3)
    assume(job is not None)
    assert job is not None
    plan = random_plan(job.problem, seed)
    assume(plan is not None)
    assert plan is not None
    assert find_cyclic_plan_fault(job.problem, plan) == ""
    found = find_steady_state(job.problem, plan)
    written = training_plan(job, plan, found.period)
    timeline = simulate_timeline(written)
    assert (timeline.period_ns, timeline.is_steady) == (found.period, found.steady)
    motifs = [job.problem.step.ops[op].options[plan.options[op]].motifs[k] for op, k in plan.order]
    ends = (
        found.starts[iteration - shift + max(plan.shifts), place] + motif.ticks
        for iteration in range(2)
        for place, (shift, motif) in enumerate(zip(plan.shifts, motifs, strict=True))
    )
    assert timeline.finish_ns() == max(ends)
    assert find_faults(written, options=False) == ()
    longer = replace(written, period_ns=found.period + 1)
    assert find_faults(longer, options=False)[0].kind == "period"
    again = job_of_plan(written)
    assert find_cyclic_plan_fault(again[0].problem, again[1]) == ""


def test_independent_components_repeat_separately() -> None:
    apart = StepProblem(
        ("stream", "links"),
        (
            StepOp("computed", (StepOption("", (StepMotif(2, (0,)),)),), communicates=False),
            *(StepOp(f"call{k}", (StepOption("", (StepMotif(5, (1,)),)),)) for k in range(3)),
        ),
    )
    plan = CyclicPlan((0,) * 4, tuple((k, 0) for k in range(4)), (0,) * 4)
    found = find_steady_state(CyclicProblem(apart), plan)
    assert (found.period, found.steady, found.starts.shape) == (15, True, (24, 4))


@settings(max_examples=times(100))
@given(st.integers(0, 10**9))
def test_windows_are_steps_whose_plans_are_plans_of_all(seed: int) -> None:
    job = random_job(seed, 2)
    assume(job is not None)
    assert job is not None
    seen = set()
    for window in iterate_windows(job.problem):
        seen.add(window.shifts)
        order = tuple(
            (own, k)
            for own in window.ops
            for k in range(len(job.problem.step.ops[own].options[0].motifs))
        )
        shifts = tuple(window.shifts[own] for own, _ in order)
        plan = CyclicPlan((0,) * len(window.ops), order, shifts)
        assert find_cyclic_plan_fault(job.problem, plan) == ""
    assert (0,) * len(job.op_ids) in seen


def plans_of(
    name: str, problem: CyclicProblem, seconds: float = 0.001, enough: int = 0
) -> list[tuple[CyclicPlan, SteadyState]]:
    """Return the reports of a policy or of the search."""
    found: list[tuple[CyclicPlan, SteadyState]] = []

    def told(plan: CyclicPlan, comes_to: SteadyState) -> None:
        found.append((plan, comes_to))

    if name == "sgs":
        search_cyclic_plans(problem, seconds, 0, enough, told)
    elif name == "exact":
        search_by_cpsat(problem, 0.02, 0, 0, told)
    else:
        POLICIES[name].run(problem, PolicyEffort(seconds, 0, enough), told)
    return found


@pytest.mark.parametrize("name", [*POLICIES, "sgs", "exact"])
@settings(max_examples=times(25, by_day=10))
@given(st.integers(0, 10**9))
def test_cyclic_plan_is_valid(name: str, seed: int) -> None:
    job = random_job(seed, 3)
    assume(job is not None)
    assert job is not None
    found = plans_of(name, job.problem)
    assert found
    for plan, comes_to in found:
        assert find_cyclic_plan_fault(job.problem, plan) == ""
        assert comes_to.period == find_steady_state(job.problem, plan).period
    assert [p for p, _ in plans_of(name, job.problem)] == [p for p, _ in found]


@pytest.mark.parametrize("name", ["s-exec", "s-sched", "mcmc", "sgs"])
def test_nothing_is_searched_once_the_bound_is_met(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = layered(3, attention=300, experts=300)
    (_, first), *_ = told = plans_of(name, problem, 0.05)
    best = min(found.period for _, found in told)
    loops = []
    for enough in (0, best, first.period):
        rounds = list[str]()
        for module, loop in (
            (search_strategies, "anneal"),
            (search_strategies, "run_markov_chain"),
            (policies, "schedule_in_order"),
        ):
            monkeypatch.setattr(module, loop, counted(rounds, getattr(module, loop)))
        again = plans_of(name, problem, 0.05, enough)
        monkeypatch.undo()
        loops.append(len(rounds))
        if enough:
            assert again[-1][1].period <= enough
            assert all(found.period > enough for _, found in again[:-2])
    assert loops[0] >= loops[1] >= loops[2] < loops[0]
    assert loops[2] <= 1


@pytest.mark.parametrize(
    ("fabric", "period"),
    [("hgx2", 193067), ("hgx2x4", 248400)],
    ids=["as a whole", "phases of different iterations"],
)
def test_one_collective_next_to_computation_that_waits_for_nothing(
    fabric: str, period: int
) -> None:
    """One motif excludes itself, and phases overlap with those of the neighboring iterations."""
    on = resolve_fabric(fabric)
    gradients = comm("gradients", "allreduce", range(on.ranks), 4_000_000)
    job = calling(on.ranks, gradients)
    work = ComputeOp("work", "rank 0", "7", 100.0)
    planner = Planner(replace(job, ops=(work, *job.ops)), on, PlanSettings(seconds=2.0))
    planner.run()
    plan = planner.plan()
    assert (plan.period_ns, plan.bound_ns) == (period, period)
    assert find_faults(plan) == ()
    timeline = simulate_timeline(plan)
    assert (timeline.period_ns, timeline.is_steady) == (period, True)
    assert {issue.shift for issue in plan.order} == ({0} if fabric == "hgx2" else {0, 1, 2})
    assert simulate_fluid(plan, timeline).period_ns == pytest.approx(period)


@pytest.mark.parametrize(
    ("seconds", "units", "least", "most"),
    [
        (0.0, 0.0, 0.0, 0.0),
        (0.01, 0.00125, 0.0025, 0.0025),
        (4.0, 0.5, 1.0, 2.99),
        (20.0, 2, 15, 16),
    ],
)
def test_seconds_are_of_options_bounds_and_search_together(
    seconds: float, units: float, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    on, efforts, searched = resolve_fabric("hgx2"), list[Effort](), list[float]()

    def bounded(problem: CyclicProblem, effort: Effort) -> PeriodBound:
        efforts.append(effort)
        return period_lower_bound(problem, effort)

    def search(_problem: CyclicProblem, seconds: float, *_: object) -> None:
        searched.append(seconds)

    monkeypatch.setattr(planner_module, "period_lower_bound", bounded)
    monkeypatch.setattr(planner_module, "search_cyclic_plans", search)
    job = calling(
        8, comm("g", "allreduce", range(8), 2**20), comm("t", "alltoall", range(8), 2**20)
    )
    for _ in range(2):
        Planner(job, on, PlanSettings(seconds=seconds)).run()
    assert [effort.units for effort in efforts] == [pytest.approx(units)] * 2
    assert searched[0] == searched[1]
    assert least <= searched[0] <= most
    few = find_options(job, on, OptionSettings(recipes=("whole",)))
    assert 0 < few.seconds < find_options(job, on).seconds


def counted(rounds: list[str], loop: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop that notes that it is run."""

    def run(*given: Any) -> Any:
        rounds.append(loop.__name__)
        return loop(*given)

    return run


@settings(max_examples=times(100))
@given(st.integers(0, 10**9))
def test_first_users_are_those_of_the_definition(seed: int) -> None:
    job = random_job(seed, 3)
    assume(job is not None)
    assert job is not None
    for window in iterate_windows(job.problem):
        for own, user in zip(window.ops, policies._first_use_keys(window), strict=True):
            users = [(lag, after) for before, after, lag in window.waits if before == own != after]
            assert user == min(users, default=(MAX_LAG, len(window.ops)))


@settings(max_examples=times(60))
@given(st.integers(0, 10**9))
def test_fluids_take_what_is_claimed_where_nothing_is_shared(seed: int) -> None:
    job = random_job(seed, 2)
    assume(job is not None)
    assert job is not None
    alone = {
        name: tuple(
            replace(option, motifs=tuple(replace(m, loads=()) for m in option.motifs))
            for option in own
        )
        for name, own in job.options.items()
    }
    job = PlanningJob(job.workload, alone)
    plan = random_plan(job.problem, seed)
    assume(plan is not None)
    assert plan is not None
    found = find_steady_state(job.problem, plan)
    assume(found.steady and found.window < 3)
    wide = resolve_fabric("hgx2")
    streams = tuple(replace(channel, streams=64) for channel in wide.channels)
    written = replace(
        training_plan(job, plan, found.period), fabric=replace(wide, channels=streams)
    )
    timing = simulate_fluid(written, simulate_timeline(written), 8)
    assert timing.period_ns == pytest.approx(found.period, rel=1e-6, abs=1.0)
