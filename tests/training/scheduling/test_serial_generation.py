"""Serial generation and lists, beside plain ones that keep nothing in mind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.core.arrays import IntArray
from sccl.training.bounds.period_bounds import period_lower_bound
from sccl.training.scheduling.list_scheduling import list_schedule_by_urgency
from sccl.training.scheduling.policies import POLICIES, PolicyEffort
from sccl.training.scheduling.search_strategies import fastest_options, search_by_annealing
from sccl.training.scheduling.serial_generation import (
    NEVER,
    allocate_workspace,
    serial_schedule,
    tail_lengths,
)
from sccl.training.scheduling.steady_state import SteadyState
from sccl.training.scheduling.step_problem import (
    FULL_SHARE,
    CyclicPlan,
    StepMotif,
    StepPlan,
    StepProblem,
    find_cyclic_plan_fault,
)
from sccl.training.validate.plan_faults import find_step_plan_fault
from tests.kit.layered import layered
from tests.kit.nightly import times
from tests.kit.training import random_job

Placed = list[tuple[int, int, StepMotif]]
"""When motifs start and end, and which."""


def fits(placed: Placed, motif: StepMotif, start: int) -> bool:
    """Return whether a motif's shares are free from its start to its end."""
    stop = start + motif.ticks
    moments = {start, *(begin for begin, _, _ in placed if start < begin < stop)}
    return all(
        part
        + sum(
            other.parts[other.uses.index(own)]
            for begin, end, other in placed
            if begin <= moment < end and own in other.uses
        )
        <= FULL_SHARE
        for own, part in zip(motif.uses, motif.parts, strict=True)
        for moment in moments
    )


def plainly(problem: StepProblem, choice: IntArray, offset: IntArray) -> StepPlan:
    """Generate a serial schedule with an exhaustive search of each start."""
    step, chosen = problem.arrays, choice.tolist()
    rest = np.zeros(len(step.ticks), dtype=np.int64)
    tail_lengths(step, choice, rest)
    options = [op.options[k] for op, k in zip(problem.ops, chosen, strict=True)]
    first = [int(step.motif_first[step.option_first[n] + k]) for n, k in enumerate(chosen)]
    ends: dict[tuple[int, int], int] = {}
    left = {(n, k) for n, option in enumerate(options) for k in range(len(option.motifs))}
    placed: Placed = []
    while left:
        ready = [
            (int(-rest[first[n] + k] - offset[n]), first[n] + k, n, k)
            for n, k in left
            if not any((n, j) in left for j in options[n].motifs[k].after)
            and not any(other in problem.ops[n].after for other, _ in left)
        ]
        _, _, n, k = min(ready)
        motif = options[n].motifs[k]
        waits = [ends[n, j] for j in motif.after]
        waits += [end for (other, _), end in ends.items() if other in problem.ops[n].after]
        start = max(waits, default=0)
        if motif.ticks:
            later = sorted({start, *(end for _, end, _ in placed if end > start)})
            start = next(moment for moment in later if fits(placed, motif, moment))
            placed.append((start, start + motif.ticks, motif))
        ends[n, k] = start + motif.ticks
        left.remove((n, k))
    starts = tuple(
        tuple(ends[n, k] - motif.ticks for k, motif in enumerate(option.motifs))
        for n, option in enumerate(options)
    )
    return StepPlan(tuple(chosen), starts)


@settings(max_examples=times(150))
@given(st.integers(0, 10**9))
def test_cached_gaps_change_no_result(seed: int) -> None:
    job = random_job(seed, 3)
    assume(job is not None)
    assert job is not None
    step, rng = job.problem.step, np.random.default_rng(seed)
    room = allocate_workspace(step.arrays)
    for _ in range(3):
        choice = np.array([rng.integers(len(op.options)) for op in step.ops], dtype=np.int64)
        offset = rng.integers(-20_000, 20_000, len(step.ops))
        starts = np.zeros(len(step.arrays.ticks), dtype=np.int64)
        finish = serial_schedule(step.arrays, choice, offset, starts, room, NEVER)
        found = step.plan_of(choice, starts)
        assert found == plainly(step, choice, offset)
        assert found.finish(step) == finish


@pytest.mark.parametrize("compute", [50, 300])
def test_many_parts_are_placed_as_plainly(compute: int) -> None:
    step = layered(2, attention=compute, experts=compute).step
    choice = np.array([len(op.options) // 2 for op in step.ops], dtype=np.int64)
    starts = np.zeros(len(step.arrays.ticks), dtype=np.int64)
    serial_schedule(step.arrays, choice, 0 * choice, starts, allocate_workspace(step.arrays), NEVER)
    assert step.plan_of(choice, starts) == plainly(step, choice, 0 * choice)


def test_lists_and_annealing_of_many_layers_are_right() -> None:
    step = layered(20, attention=200, experts=200).step
    choice, starts = fastest_options(step), np.zeros(len(step.arrays.ticks), dtype=np.int64)
    listed = list_schedule_by_urgency(step.arrays, choice, starts, NEVER)
    assert find_step_plan_fault(step, step.plan_of(choice, starts)) == ""
    plan = search_by_annealing(step, 400)
    assert find_step_plan_fault(step, plan) == ""
    assert plan.finish(step) <= listed


def test_no_policy_is_faster_than_is_proved() -> None:
    problem = layered(1, attention=300, experts=300)
    bound = period_lower_bound(problem).value
    for name, policy in POLICIES.items():
        periods = list[int]()

        def told(plan: CyclicPlan, found: SteadyState, periods: list[int] = periods) -> None:
            assert find_cyclic_plan_fault(problem, plan) == ""
            periods.append(found.period)

        policy.run(problem, PolicyEffort(0.01, 0), told)
        assert min(periods) >= bound, name
