"""SYNDICATE's systems compared: restrictions of today's stacks, and the shape of the figures."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from benchmarks.syndicate_charts import charts
from benchmarks.syndicate_systems import (
    BS,
    EXEC,
    FIFO,
    HO,
    OURS,
    PARTS,
    PUBLISHED,
    SCHED,
    SystemResult,
    Systems,
    result_of,
    serialize_options,
)
from sccl.training.fabric_names import resolve_fabric
from sccl.training.models import generate_dlrm
from sccl.training.options.option_catalog import find_options
from sccl.training.timeline import simulate_timeline
from sccl.training.types.training_plan import TrainingPlan
from tests.kit.workloads import RECOMMENDING

WORKLOAD, FABRIC = generate_dlrm(replace(RECOMMENDING, pooling=40)), resolve_fabric("hgx2x2")
TODAY = (FIFO, BS, HO, SCHED)


@pytest.fixture(scope="module")
def plans() -> dict[str, TrainingPlan]:
    return dict(Systems(WORKLOAD, FABRIC, 0.02).plans())


def test_stacks_of_today_carry_one_collective_at_a_time_over_gpus(
    plans: dict[str, TrainingPlan],
) -> None:
    for name in TODAY:
        motifs = [motif for _, _, motif in plans[name].motifs()]
        assert {motif.channel for motif in motifs} == {"gpu"}
        spans = [s for s in simulate_timeline(plans[name]).spans if not s.computes]
        assert all(a.end_ns <= b.start_ns for a, b in itertools.pairwise(spans))


def test_others_carry_several_at_once(plans: dict[str, TrainingPlan]) -> None:
    spans = [s for s in simulate_timeline(plans[OURS]).spans if not s.computes]
    assert any(a.end_ns > b.start_ns for a, b in itertools.pairwise(spans))


def test_ours_is_behind_none_and_the_order_alone_not_behind_by_hand(
    plans: dict[str, TrainingPlan],
) -> None:
    periods = {name: plan.period_ns for name, plan in plans.items()}
    assert set(periods) == {*TODAY, EXEC, PUBLISHED, OURS}
    assert periods[OURS] == min(periods.values())
    assert periods[SCHED] <= periods[HO]
    assert periods[OURS] < periods[BS]


def test_next_batch_is_pulled_into_the_iteration_before(plans: dict[str, TrainingPlan]) -> None:
    """The paper's data prefetch, which its search finds where the trainer has none."""
    shifts = {issue.op: issue.shift for issue in plans[OURS].order}
    assert shifts["lengths"] == 1
    assert {issue.shift for issue in plans[BS].order} == {0}


def test_options_of_one_channel_that_are_alike_stay_so() -> None:
    options = find_options(WORKLOAD, FABRIC).by_collective
    kept = serialize_options(options, "gpu")
    assert kept.keys() == options.keys()
    names = list(options)
    for one, other in itertools.pairwise(names):
        assert (kept[one] is kept[other]) == (options[one] is options[other])
    assert all(len(kept[name]) <= len(options[name]) for name in names)


def test_figures_are_drawn_of_what_there_is(plans: dict[str, TrainingPlan]) -> None:
    """One model on most nodes: 2, 14 and 15, and six timelines."""
    results = [result_of("A2", 16, name, plan, 0.0) for name, plan in plans.items()]
    assert all(0 < r.computes <= 1 and 0 < r.communicates <= 1 for r in results)
    assert len(charts([_plain(r) for r in results])) == 3 + 6
    more = [result_of("A2", 1, name, plan, 0.0) for name, plan in plans.items()]
    assert not any(r.bars for r in more)
    assert len(charts([_plain(r) for r in (*results, *more)])) == 4 + 6


def test_parts_are_of_models_on_nodes() -> None:
    assert {nodes for _, nodes in PARTS["figure12"]} == {1, 2, 4, 8, 16}
    assert len(PARTS["figure11"]) == 6


def _plain(result: SystemResult) -> dict[str, object]:
    return {name: getattr(result, name) for name in SystemResult.__dataclass_fields__}
