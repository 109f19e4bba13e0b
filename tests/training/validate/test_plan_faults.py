"""The judge of training plans: rejected plans and their messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sccl.training.timeline import simulate_timeline
from sccl.training.types.training_plan import Issue, OptionMotif, TrainingPlan
from sccl.training.types.workload_ops import CommOp, HostAction, HostEvent, HostProgram
from sccl.training.validate.plan_faults import find_faults, peak_result_bytes
from tests.kit.training_plans import RING, TCP, layered_plan, prefetching_plan

RIGHT = prefetching_plan()
BATCH, FORWARD, BACKWARD, FIRST, SECOND, OPTIMIZER = RIGHT.order


def with_order(*order: Issue) -> TrainingPlan:
    return replace(RIGHT, order=order)


def on_channel(name: str) -> TrainingPlan:
    motif = OptionMotif(name, "ring", 6000, ())
    option = replace(TCP, motifs=(motif,))
    return replace(RIGHT, options=(("batch", option), RIGHT.options[1]))


def of_nine() -> TrainingPlan:
    return replace(RIGHT, workload=replace(RIGHT.workload, ranks=9))


def test_claimed_period_equals_the_computed_one() -> None:
    assert find_faults(RIGHT) == ()
    assert find_faults(layered_plan(3)) == ()


@pytest.mark.parametrize(
    ("plan", "kind", "says"),
    [
        (
            lambda: replace(RIGHT, period_ns=14499),
            "period",
            "repeat every 14500 ns, and the plan states 14499",
        ),
        (lambda: replace(RIGHT, period_ns=14501), "period", "the plan states 14501"),
        (
            lambda: replace(RIGHT, bound_ns=14501),
            "bound",
            "the stated lower bound is 14501 ns, and this plan takes 14500",
        ),
        (
            lambda: with_order(BATCH, FORWARD, BACKWARD, FIRST, OPTIMIZER),
            "order",
            "leaves out motif 1 of op 'gradients'",
        ),
        (
            lambda: with_order(BATCH, FORWARD, BACKWARD, OPTIMIZER),
            "operations",
            "the order leaves out operation 'gradients'",
        ),
        (lambda: with_order(*RIGHT.order, BATCH), "order", "has a motif twice"),
        (
            lambda: with_order(*RIGHT.order, Issue("batch", 1)),
            "order",
            "a motif twice, or an unknown one",
        ),
        (
            lambda: with_order(*RIGHT.order, Issue("checkpoint")),
            "operations",
            "the order has operation 'checkpoint', which does not exist",
        ),
        (
            lambda: with_order(
                BATCH, FORWARD, BACKWARD, FIRST, replace(SECOND, shift=1), OPTIMIZER
            ),
            "order",
            "motif 1 comes before 0, which it waits for",
        ),
        (
            lambda: with_order(BATCH, FORWARD, BACKWARD, SECOND, FIRST, OPTIMIZER),
            "order",
            "motif 1 comes before 0, which it waits for",
        ),
        (
            lambda: with_order(BATCH, FORWARD, FIRST, BACKWARD, SECOND, OPTIMIZER),
            "order",
            "'gradients' waits for 'backward', and comes before it: this deadlocks",
        ),
        (
            lambda: with_order(BATCH, replace(FORWARD, shift=2), *RIGHT.order[2:]),
            "order",
            "is done 1 iterations before it",
        ),
        (
            lambda: replace(RIGHT, options=RIGHT.options[:1]),
            "operations",
            "operation 'gradients' has not one option",
        ),
        (
            lambda: replace(RIGHT, options=(*RIGHT.options, ("batch", RING))),
            "operations",
            "has not one option",
        ),
        (
            lambda: on_channel("infiniband"),
            "operations",
            "motif 0 of 'batch' takes channel 'infiniband', which the fabric does not have",
        ),
        (of_nine, "ranks", "the workload has 9 ranks, and the fabric 8"),
    ],
)
def test_every_plan_fault_is_found(plan: Callable[[], TrainingPlan], kind: str, says: str) -> None:
    (fault,) = find_faults(plan())
    assert fault.kind == kind
    assert says in fault.message
    assert "\n" not in fault.message


def test_memory_is_counted_from_the_first_motif_to_the_last_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the same time: the batch of this iteration, that of the next, and the gradients.

    Gradients are held from the end of backward at 8.5 us to the end of the optimizer at 14.5. The
    next batch is exchanged from 11 us on, when their second motif is issued. The batch of this
    iteration is held until forward of the next one has ended, at 17.5. Waits for memory forbid
    that, and without them the judge would detect it.
    """
    held = {"batch": 100, "gradients": 1000}
    ops = tuple(
        replace(op, holds_bytes=held[op.id]) if isinstance(op, CommOp) else op
        for op in RIGHT.workload.ops
    )
    plan = replace(RIGHT, workload=replace(RIGHT.workload, ops=ops))
    assert peak_result_bytes(plan, simulate_timeline(plan)) == 1200
    assert find_faults(replace(plan, memory_bytes=1200)) == ()
    (fault,) = find_faults(replace(plan, memory_bytes=1199))
    assert fault.kind == "order"
    assert "op 'batch' waits for 'forward', and comes before it" in fault.message
    monkeypatch.setattr("sccl.training.scheduling.workload_problem.memory_waits", lambda *_: ())
    (fault,) = find_faults(replace(plan, memory_bytes=1199))
    assert fault == (
        "memory",
        "results of up to 1200 bytes are held at once, allowed are 1199",
    )


@pytest.mark.parametrize(("share", "start"), [(500, 0), (501, 6000)])
def test_links_that_are_full_are_waited_for(share: int, start: int) -> None:
    motif = OptionMotif("cpu", "direct", 6000, (("cpu: links", share),))
    option = replace(TCP, motifs=(motif,))
    submits = tuple(HostEvent(HostAction.SUBMIT, name) for name, _ in RIGHT.options)
    workload = replace(RIGHT.workload, deps=(), submits=(HostProgram("all", submits),))
    plan = replace(
        RIGHT,
        workload=workload,
        options=tuple((name, option) for name, _ in RIGHT.options),
        order=(BATCH, FIRST, FORWARD, BACKWARD, OPTIMIZER),
    )
    spans = {s.op: s for s in reversed(simulate_timeline(plan).spans) if s.iteration == 0}
    assert (spans["batch"].start_ns, spans["gradients"].start_ns) == (0, start)
