"""Memory that results hold: under its waits no plan holds more than there is, at any time."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.errors import InputError, ParameterError
from sccl.training.scheduling.workload_problem import PlanningJob, memory_waits, workload_waits
from sccl.training.timeline import simulate_timeline
from sccl.training.types.training_plan import StepTimeline, TrainingPlan
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import CommOp, Dependency
from sccl.training.validate.plan_faults import find_faults, peak_result_bytes
from tests.kit.nightly import times
from tests.kit.training import random_job, random_plan, training_plan
from tests.kit.training_plans import prefetching_plan


def holding(seed: int) -> PlanningJob | None:
    """Return a job whose collectives hold some bytes, and so much memory that each alone fits."""
    job = random_job(seed, 2)
    if job is None:
        return None
    rng = random.Random(seed)  # noqa: S311 - no secret
    ops = tuple(
        replace(op, holds_bytes=rng.choice((0, 10, 20, 30))) if isinstance(op, CommOp) else op
        for op in job.workload.ops
    )
    return PlanningJob(replace(job.workload, ops=ops), job.options, rng.choice((30, 40, 60, 100)))


def drawn(seed: int) -> TrainingPlan:
    """Return a plan within its memory, in any order that its waits allow."""
    job = holding(seed)
    assume(job is not None)
    assert job is not None
    try:
        plan = random_plan(job.problem, seed)
    except InputError:  # it does not fit, or would wait in a circle
        plan = None
    assume(plan is not None)
    assert plan is not None
    return replace(training_plan(job, plan, 0), memory_bytes=job.memory_bytes)


def held_at(plan: TrainingPlan, timeline: StepTimeline, iterations: int) -> Counter[int]:
    """Return the memory in use at each start, by examining every result of the only role.

    A result is held from the first start of its collective to the last end of its users.
    """
    ends: dict[tuple[str, int], int] = {}
    starts: dict[tuple[str, int], int] = {}
    for span in timeline.spans:
        key = span.op, span.iteration
        ends[key] = max(span.end_ns, ends.get(key, 0))
        starts[key] = min(span.start_ns, starts.get(key, span.start_ns))
    found: Counter[int] = Counter()
    for op in plan.workload.collectives():
        users = [(dep.after, dep.lag) for dep in plan.workload.deps if dep.before == op.id]
        for iteration in range(iterations):
            own = op.id, iteration
            until = max((ends[name, iteration + lag] for name, lag in users), default=ends[own])
            for now in {start for start in starts.values() if starts[own] <= start < until}:
                found[now] += op.holds_bytes
    return found


@settings(max_examples=times(150, by_day=30))
@given(st.integers(0, 10**9))
def test_no_more_is_held_than_there_is(seed: int) -> None:
    plan = drawn(seed)
    timeline = simulate_timeline(plan)
    iterations = timeline.iterations - 2  # later ones may be used after the run
    most = max(held_at(plan, timeline, iterations).values(), default=0)
    assert most <= plan.memory_bytes
    assert most <= peak_result_bytes(plan, timeline)
    assert "memory" not in {fault.kind for fault in find_faults(plan, options=False)}


@settings(max_examples=times(100, by_day=25))
@given(st.integers(0, 10**9))
def test_peak_memory_is_attained_at_some_time(seed: int) -> None:
    """The judge finds no less, of plans without a limit, too, and no more than all results."""
    plan = replace(drawn(seed), memory_bytes=0)
    timeline = simulate_timeline(plan)
    held = peak_result_bytes(plan, timeline)
    every = sum(op.holds_bytes for op in plan.workload.collectives())
    assert held <= every * timeline.iterations
    assert held >= max(held_at(plan, timeline, timeline.iterations - 2).values(), default=0)


def alone(**told: int) -> Workload:
    """Return a step whose batch is held until it is used an iteration later."""
    workload = prefetching_plan().workload
    ops = tuple(
        replace(op, holds_bytes=told.get(op.id, 0)) if isinstance(op, CommOp) else op
        for op in workload.ops
    )
    return replace(workload, ops=ops)


def gates(workload: Workload, limit: int) -> tuple[Dependency, ...]:
    names = tuple(op.id for op in workload.ops)
    assert workload_waits(workload)
    return memory_waits(workload, names, limit)


def test_without_a_limit_nothing_waits() -> None:
    assert gates(alone(batch=100, gradients=100), 0) == ()


@pytest.mark.parametrize(
    ("limit", "gradients", "batch"),
    [
        (100, ("forward", 0), ("optimizer", 0)),
        (200, ("optimizer", 1), ("forward", 0)),
        (1000, ("optimizer", 3), ("forward", 2)),
    ],
)
def test_waits_are_for_the_uses_of_what_would_be_too_much(
    limit: int, gradients: tuple[str, int], batch: tuple[str, int]
) -> None:
    """The optimizer uses gradients at once, and forward uses the batch an iteration later.

    With memory for one, each waits for the last use of the other. With memory for two, each waits
    for that of its own in the previous iteration, and none is further ahead than three.
    """
    found = gates(alone(batch=100, gradients=100), limit)
    assert set(found) == {
        Dependency(gradients[0], "gradients", gradients[1]),
        Dependency(batch[0], "batch", batch[1]),
    }


def test_consumer_needs_memory_for_input_and_output() -> None:
    workload = alone(batch=100, gradients=100)
    deps = (*workload.deps, Dependency("batch", "gradients", 1))
    with pytest.raises(ParameterError, match="'gradients' waits for results of 200 B at once besi"):
        gates(replace(workload, deps=deps), 199)
    assert gates(replace(workload, deps=deps), 200)


@pytest.mark.parametrize(
    ("told", "limit", "message"),
    [
        ({"batch": 101}, 100, "operation 'batch' holds 101 B, and the memory is 100 B"),
        ({"gradients": 7}, 6, "operation 'gradients' holds 7 B"),
    ],
)
def test_memory_overflow_is_reported(told: dict[str, int], limit: int, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        gates(alone(**told), limit)
