"""Plans in which collectives are one: never worse for it, and below no bound that is claimed."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.core.files.json_text import to_text
from sccl.errors import FormatError
from sccl.topo import resolve_topology
from sccl.training.bounds.merge_relaxation import groups_with_options, relax_merges
from sccl.training.bounds.period_bounds import find_bound_fault, period_lower_bound
from sccl.training.fabric_names import resolve_fabric
from sccl.training.files.training_plans import load_training_plan, training_plan_to_wire
from sccl.training.options.merge_candidates import MergeGroup, can_merge
from sccl.training.options.option_catalog import OptionCatalog
from sccl.training.planner import Planner, PlanSettings
from sccl.training.scheduling.merge_search import MergingPlanner
from sccl.training.scheduling.plan_search import initial_plans
from sccl.training.scheduling.steady_state import find_steady_state
from sccl.training.scheduling.workload_problem import PlanningJob
from sccl.training.types.merges import merge_collectives, merged_id_rows
from sccl.training.types.training_plan import TrainingPlan
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import ComputeOp, Dependency, HostEvent, HostProgram, Role
from sccl.training.validate.plan_faults import find_faults, find_plan_bound_fault
from tests.kit.nightly import times
from tests.kit.training import random_job
from tests.kit.workloads import SUBMIT, WAIT, comm

HGX = resolve_fabric("hgx2")
MOST = 2**25


def step(layers: int, us: float, elements: int = 2**10) -> Workload:
    """Return layers of a backward pass whose gradients are added up among 8 ranks."""
    ranks, names = range(8), [f"g{k}" for k in range(layers)]
    return Workload(
        name="gradients",
        ranks=8,
        roles=(Role("all", tuple(ranks)),),
        ops=(
            *(ComputeOp(f"b{k}", "all", "0", us) for k in range(layers)),
            ComputeOp("optimizer", "all", "0", us),
            *(comm(name, "allreduce", ranks, elements) for name in names),
        ),
        deps=(
            *(Dependency(f"b{k}", name) for k, name in enumerate(names)),
            *(Dependency(name, "optimizer") for name in names),
        ),
        submits=(
            HostProgram(
                "all",
                (
                    *(HostEvent(SUBMIT, name) for name in names),
                    *(HostEvent(WAIT, name) for name in names),
                ),
            ),
        ),
    )


@cache
def both(layers: int, us: float, elements: int) -> tuple[TrainingPlan, ...]:
    """Return the plan of a step as it is, and that where collectives may be merged."""
    found = []
    for kind, most in ((Planner, 0), (MergingPlanner, MOST)):
        asked = PlanSettings("ho", seconds=10.0, merge_bytes=most)
        planner = kind(step(layers, us, elements), HGX, asked)
        planner.run()
        found.append(planner.plan())
    return tuple(found)


@pytest.mark.parametrize(
    ("layers", "us", "elements", "merges"),
    [(3, 1.0, 2**10, True), (3, 200.0, 2**10, False)],
)
def test_only_faster_merges_are_taken(
    layers: int, us: float, elements: int, *, merges: bool
) -> None:
    """Small gradients are launched together, but where they go while more is computed."""
    plain, found = both(layers, us, elements)
    assert found.period_ns < plain.period_ns if merges else found.period_ns == plain.period_ns
    assert bool(merged_id_rows(found.workload)) == merges
    assert found.input_workload == step(layers, us, elements)
    assert found.bound_ns <= found.period_ns
    for plan in (plain, found):
        assert find_faults(plan) == ()
        assert find_plan_bound_fault(plan) == ""


def test_bound_of_collectives_as_they_are_is_none_of_merged_ones() -> None:
    plain, found = both(3, 1.0, 2**10)
    assert found.period_ns < plain.bound_ns
    claimed = replace(found, bound_ns=found.bound_ns + 1)
    assert f"{found.bound_ns} ns are proved" in find_plan_bound_fault(claimed)


def sending(batches: int, us: float) -> Workload:
    """Return two stages of a pipeline, the first of which sends its part of each batch."""
    names = [f"send {k}" for k in range(batches)]
    calls = [comm(name, "broadcast", (0, 1), 2**20, root=0) for name in names]
    stages = ("first", "second")
    return Workload(
        name="pipeline",
        ranks=2,
        roles=tuple(Role(name, (k,)) for k, name in enumerate(stages)),
        ops=(
            *(ComputeOp(f"{name} {k}", name, "0", us) for name in stages for k in range(batches)),
            *calls,
        ),
        deps=(
            *(Dependency(f"first {k}", name) for k, name in enumerate(names)),
            *(Dependency(name, f"second {k}") for k, name in enumerate(names)),
            Dependency(f"second {batches - 1}", "first 0", 1),
        ),
        submits=tuple(
            HostProgram(stage, tuple(HostEvent(SUBMIT, name) for name in names)) for stage in stages
        ),
    )


def test_sends_of_microbatches_that_come_far_apart_are_left_alone() -> None:
    """Merging up to a size at any cost is slower. Merging is optional, so they are not merged."""
    workload, found = sending(3, 500.0), []
    row, *_ = groups_with_options(workload, MOST, OptionCatalog(workload, HGX))
    for one in (workload, merge_collectives(workload, [row])):
        planner = Planner(one, HGX, PlanSettings("ho", seconds=0.0))
        planner.run()
        found.append(planner.plan().period_ns)
    assert found[0] * 1.2 < found[1]
    merging = MergingPlanner(workload, HGX, PlanSettings("ho", seconds=0.0, merge_bytes=MOST))
    merging.run()
    plan = merging.plan()
    assert (plan.period_ns, plan.unmerged_workload, plan.merge_bytes) == (found[0], None, MOST)
    assert find_faults(plan) == ()
    assert find_plan_bound_fault(plan) == ""


def rows_together(rows: list[MergeGroup]) -> list[tuple[MergeGroup, ...]]:
    """Return rows that can be merged together: one, or two that have none in common."""
    pairs = [(a, b) for a, b in combinations(rows, 2) if not set(a) & set(b)]
    return [*((row,) for row in rows), *pairs]


@settings(max_examples=times(25, by_day=13))
@given(st.integers(0, 10**6))
def test_no_plan_with_merged_collectives_takes_less_than_the_bound(seed: int) -> None:
    job = random_job(seed)
    if job is None:
        return
    workload = job.workload
    book = OptionCatalog(workload, HGX)
    rows = groups_with_options(workload, MOST, book)
    if not rows:
        return
    loose = relax_merges(workload, rows, book).problem
    bound = period_lower_bound(loose)
    assert not find_bound_fault(loose, bound)
    for chosen in [(), *rows_together(rows)]:
        if not can_merge(workload, chosen):
            continue
        one = merge_collectives(workload, chosen)
        problem = PlanningJob(one, book.job_options(one.collectives()).by_collective).problem
        assert period_lower_bound(problem).value >= bound.value  # each is a plan of the loose one
        for _, _, window, plan in initial_plans(problem, seed)[:2]:
            assert find_steady_state(problem, window.to_cyclic_plan(plan)).period >= bound.value


@settings(max_examples=times(12, by_day=6), deadline=None)
@given(st.integers(0, 10**6))
def test_no_plan_is_worse_for_what_may_be_merged(seed: int) -> None:
    """For all dependencies, within an iteration and between iterations."""
    job = random_job(seed)
    if job is None:
        return
    found = []
    for kind, most in ((Planner, 0), (MergingPlanner, MOST)):
        planner = kind(job.workload, HGX, PlanSettings("ho", seconds=0.0, merge_bytes=most))
        planner.run()
        found.append(planner.plan())
    plain, merging = found
    assert merging.period_ns <= plain.period_ns
    assert merging.bound_ns <= merging.period_ns
    assert find_faults(merging) == ()
    assert find_plan_bound_fault(merging) == ""


def test_files_have_the_workload_that_was_given(tmp_path: Path) -> None:
    _, plan = both(3, 1.0, 2**10)
    path = tmp_path / "plan.json"
    path.write_text(to_text(training_plan_to_wire(plan)))
    assert load_training_plan(path, resolve_topology) == (plan, True)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "digest": None, "merges": [["g9", "g1"]]}))
    with pytest.raises(FormatError, match="merges: 'g9' is to be merged, expected a collective"):
        load_training_plan(path, resolve_topology)


def test_judge_believes_no_merge() -> None:
    _, plan = both(3, 1.0, 2**10)
    others = replace(step(3, 1.0), deps=(*step(3, 1.0).deps, Dependency("g0", "b1")))
    for wrong, says in (
        (replace(plan, unmerged_workload=None), "the workload that has them separately is missing"),
        (replace(plan, merge_bytes=0), "is none of the 0 rows that may be"),
        (replace(plan, unmerged_workload=others), "rows that may be"),
        (
            replace(plan, unmerged_workload=replace(step(3, 1.0), name="other")),
            "differs from the requested one",
        ),
    ):
        (fault,) = find_faults(wrong)
        assert fault.kind == "merge"
        assert says in fault.message
