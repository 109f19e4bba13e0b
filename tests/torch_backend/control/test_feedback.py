"""Measurements of ranks, and requests for another plan."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.torch_backend.control.feedback import (
    CONSECUTIVE_ITERATIONS,
    WARM_UP,
    FeedbackReader,
    IterationReport,
    IterationSummary,
    MotifTime,
    ReplanDecision,
    ReplanPolicy,
    encode_report,
    merge_times,
)
from sccl.torch_backend.control.ledger import RING, Ledger, announce, describe_job
from sccl.training.options.measured_costs import parse_cost_table
from tests.kit.memory_store import MemoryJobStore


def ledger() -> Ledger:
    return announce(MemoryJobStore(), describe_job("run", 0, 2))


def report(iteration: int, period_us: float, waited_us: float = 0.0, **more: object) -> bytes:
    fields = {"iteration": iteration, "version": 1, "period_us": period_us, "waited_us": waited_us}
    return encode_report(IterationReport(**(fields | more)))  # type: ignore[arg-type]


def test_iteration_is_seen_once_all_ranks_have_told() -> None:
    job = ledger()
    reader = FeedbackReader(job)
    job.write_report(0, 0, report(5, 100.0, 10.0))
    assert reader.read() == []
    job.write_report(1, 0, report(5, 120.0, 6.0))
    assert reader.read() == [IterationSummary(5, 1, 120.0, 0.1)]
    assert reader.read() == []


def test_reports_that_were_written_over_are_missed_and_no_others() -> None:
    job = ledger()
    reader = FeedbackReader(job)
    for k in range(RING + 10):
        for rank in range(2):
            job.write_report(rank, k, report(k, 100.0))
    assert [seen.iteration for seen in reader.read()] == list(range(10, RING + 10))
    for k in range(RING + 10, RING + 12):  # rank 1 loses one
        for rank in range(2):
            job.write_report(rank, k, report(k, 100.0) if (rank, k) != (1, RING + 10) else b"?")
    assert [seen.iteration for seen in reader.read()] == [RING + 11]
    assert reader.unread == 1


@given(st.binary(max_size=200))
def test_invalid_report_is_ignored(text: bytes) -> None:
    job = ledger()
    reader = FeedbackReader(job)
    job.write_report(0, 0, text)
    job.store.set(f"sccl/{job.job.run}/0/reports/1", text)
    assert reader.read() == []


def test_numbers_that_no_iteration_takes_are_left_out() -> None:
    job = ledger()
    reader = FeedbackReader(job)
    texts = (b'"period_us":-1', b'"period_us":1e999', b'"period_us":NaN')
    for k, text in enumerate(texts):
        job.write_report(0, k, report(0, 1.0).replace(b'"period_us":1.0', text))
    reader.read()
    assert reader.unread == len(texts)


def test_costs_are_medians_of_the_last_times_and_can_be_planned_by() -> None:
    job = ledger()
    reader = FeedbackReader(job)
    alike = {"collective": "allreduce", "option": "fast ring", "ranks": 4, "size_bytes": 4096}
    for k in range(50):
        motifs = (MotifTime(**alike, us=1000.0 + k),)  # type: ignore[arg-type]
        job.write_report(0, k, report(k, 1.0, motifs=motifs))
    reader.read()
    text = reader.cost_table()
    assert text.splitlines() == [
        "collective,option,ranks,bytes,us",
        f"allreduce,fast ring,4,4096,{median(1000.0 + k for k in range(30, 50))}",
    ]
    assert parse_cost_table(text, "x").rows[("allreduce", "fast ring", 4)] == ((4096, 1039.5),)
    key = ("allreduce", "fast ring", 4, 4096)
    median_time = MotifTime(**alike, us=2.0)  # type: ignore[arg-type]
    assert merge_times((key, us) for us in (3.0, 1.0, 2.0)) == (median_time,)


def fed(
    rule: ReplanPolicy, count: int, period_us: float, waited: float = 0.0
) -> list[ReplanDecision]:
    version = rule._version
    return [
        rule.observe(IterationSummary(k, version, period_us, waited)).decision for k in range(count)
    ]


def only(count: int, wish: ReplanDecision) -> list[ReplanDecision]:
    """Return the feedback of some iterations after a switch: nothing, and in the end a request."""
    return [ReplanDecision.KEEP] * (count - 1) + [wish]


def begun(claimed_us: float | None = 1000.0) -> ReplanPolicy:
    rule = ReplanPolicy()
    rule.on_switch(1, claimed_us)
    return rule


NEEDED = WARM_UP + CONSECUTIVE_ITERATIONS


@pytest.mark.parametrize(
    ("period_us", "waited", "wish"),
    [
        (1000.0, 0.05, ReplanDecision.KEEP),
        (1000.0, 0.051, ReplanDecision.REPLAN),
        (1100.0, 0.0, ReplanDecision.KEEP),
        (1101.0, 0.0, ReplanDecision.REPLAN),
        (899.0, 0.0, ReplanDecision.REPLAN),
    ],
)
def test_twenty_iterations_call_for_a_plan(
    period_us: float, waited: float, wish: ReplanDecision
) -> None:
    assert fed(begun(), NEEDED, period_us, waited) == only(NEEDED, wish)


def test_feedback_is_reported_once_per_plan() -> None:
    rule = begun()
    assert fed(rule, NEEDED + 30, 1000.0, 0.2).count(ReplanDecision.REPLAN) == 1
    rule.on_replan()
    assert fed(rule, CONSECUTIVE_ITERATIONS, 1000.0, 0.2) == only(
        CONSECUTIVE_ITERATIONS, ReplanDecision.REPLAN
    )


@given(st.lists(st.booleans(), max_size=120))
def test_waits_have_to_be_in_a_row(waits: list[bool]) -> None:
    rule = begun(None)
    wishes = [
        rule.observe(IterationSummary(k, 1, 1.0, 0.2 * w)).decision for k, w in enumerate(waits)
    ]
    rows = [
        k
        for k in range(NEEDED - 1, len(waits))
        if all(waits[k - CONSECUTIVE_ITERATIONS + 1 : k + 1])
    ]  # fmt: skip
    assert [k for k, wish in enumerate(wishes) if wish is ReplanDecision.REPLAN] == rows[:1]


def test_plan_is_worth_it_if_it_gains_three_per_cent() -> None:
    rule = begun()
    assert not rule.improves(1.0)  # nothing was measured
    fed(rule, NEEDED, 1000.0)
    assert (rule.improves(971.0), rule.improves(969.0)) == (False, True)


def test_plan_that_is_not_faster_is_taken_back() -> None:
    rule = begun()
    fed(rule, NEEDED, 1000.0)
    rule.on_switch(2, 900.0)
    assert fed(rule, NEEDED, 1000.0) == only(NEEDED, ReplanDecision.ROLL_BACK)
    rule.on_switch(3, 1000.0, back=True)
    assert fed(rule, NEEDED + 5, 1000.0) == [ReplanDecision.KEEP] * (NEEDED + 5)
    rule.on_switch(4, 900.0)
    assert fed(rule, NEEDED, 950.0) == [ReplanDecision.KEEP] * NEEDED


def test_iterations_of_another_plan_do_not_count() -> None:
    rule = begun()
    assert rule.observe(IterationSummary(0, 0, 5000.0, 0.9)).decision is ReplanDecision.KEEP
    assert rule.measured_us is None
