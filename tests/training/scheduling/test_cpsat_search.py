"""Plans by CP-SAT alone: their quality, and errors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.errors import ParameterError
from sccl.training.bounds.period_bounds import period_lower_bound
from sccl.training.fabric_names import resolve_fabric
from sccl.training.planner import Planner, PlanSettings
from sccl.training.scheduling.plan_search import MAX_CPSAT_ONLY_MOTIFS, search_by_cpsat
from sccl.training.scheduling.steady_state import SteadyState
from sccl.training.scheduling.step_problem import CyclicPlan
from tests.kit.nightly import times
from tests.kit.training import random_job
from tests.kit.workloads import prefetching


@settings(max_examples=times(15, by_day=8), deadline=None)
@given(st.integers(0, 10**9))
def test_search_reports_improvements_above_the_bound(seed: int) -> None:
    job = random_job(seed, 2)
    assume(job is not None)
    assert job is not None
    bound = period_lower_bound(job.problem).value
    periods: list[int] = []

    def told(_plan: CyclicPlan, found: SteadyState) -> None:
        periods.append(found.period)

    search_by_cpsat(job.problem, 0.1, 0, bound, told)
    assert periods == sorted(set(periods), reverse=True)
    assert periods[-1] >= bound


def test_small_step_is_proved() -> None:
    planner = Planner(prefetching(), resolve_fabric("hgx2"), PlanSettings("exact", seconds=1))
    planner.run()
    plan = planner.plan()
    assert plan.search == "exact"
    assert plan.is_optimal


def test_too_many_motifs_are_rejected() -> None:
    job = random_job(2, 2)
    assert job is not None
    step = job.problem.step
    ops = tuple(
        replace(op, options=op.options * (MAX_CPSAT_ONLY_MOTIFS + 1)) if op.communicates else op
        for op in step.ops
    )
    many = replace(step, ops=ops)
    with pytest.raises(ParameterError, match="supports at most 2000 motifs of all options"):
        search_by_cpsat(replace(job.problem, step=many), 1, 0, 0, lambda *_: None)
