"""The picture of a training plan: an iteration of each plan, and one layer of each enlarged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sccl.errors import ParameterError
from sccl.training.timeline import simulate_timeline
from sccl.training.types.training_plan import TrainingPlan
from sccl.view.chart_files import render_svg
from sccl.view.charts import StepPanel, step_gantt_chart
from sccl.view.charts.step_pictures import RunningPlan, step_panels
from tests.kit.svg import overlapping
from tests.kit.training_plans import layered_plan, prefetching_plan


def running(plan: TrainingPlan) -> RunningPlan:
    return RunningPlan(plan, simulate_timeline(plan), "layers")


def span_us(panel: StepPanel) -> float:
    return panel.until_us - panel.since_us


def test_one_layer_of_a_plan_is_enlarged() -> None:
    plan = layered_plan(30)
    whole, layer = step_panels([running(plan)])
    assert span_us(whole) == plan.period_ns / 1000
    assert not any(bar.label for bar in whole.bars)
    assert layer.title == "layers, planned (none): backward-19, enlarged"
    assert whole.outlined_us == (layer.since_us, layer.until_us)
    assert span_us(layer) == pytest.approx(1.3 * 1800, abs=1)
    (middle,) = (bar for bar in layer.bars if bar.label == "backward-19")
    assert middle.since_us - layer.since_us == pytest.approx(layer.until_us - middle.until_us)
    assert "Time (ms)" in render_svg(step_gantt_chart([whole]))
    assert "Time (\u00b5s)" in render_svg(step_gantt_chart([layer]))


def test_submitted_and_planned_steps_share_scales_and_layer() -> None:
    plan = layered_plan(30)
    slow = layered_plan(30, us=1000.0)
    panels = step_panels([running(replace(slow, search="fifo")), running(plan)])
    before, after, before_layer, after_layer = panels
    assert before.title == "layers, as submitted"
    assert span_us(before) == span_us(after) == slow.period_ns / 1000 > plan.period_ns / 1000
    assert span_us(before_layer) == span_us(after_layer)
    assert before_layer.title.endswith(": backward-19, enlarged")
    assert after_layer.title.endswith(": backward-19, enlarged")
    assert len(after.marks_us) == 2
    assert overlapping(render_svg(step_gantt_chart(panels))) == []
    legend = render_svg(step_gantt_chart(panels)).count(">reducescatter<")
    assert legend == 1


def test_steps_of_few_operations_or_other_layers_are_not_enlarged() -> None:
    (only,) = step_panels([running(prefetching_plan())])
    assert only.outlined_us is None
    assert {"forward", "backward", "gradients"} <= {bar.label for bar in only.bars}
    assert len(step_panels([running(layered_plan(30)), running(prefetching_plan())])) == 2


def test_layer_of_a_step_is_what_its_operations_have_in_common() -> None:
    plan = layered_plan(20)
    names = {
        op.id: op.id.replace("-", "/layer-") + "/attention" for op in plan.workload.computation()
    }
    ops = tuple(replace(op, id=names.get(op.id, op.id)) for op in plan.workload.ops)
    deps = tuple(
        replace(d, before=names.get(d.before, d.before), after=names.get(d.after, d.after))
        for d in plan.workload.deps
    )
    order = tuple(replace(i, op=names.get(i.op, i.op)) for i in plan.order)
    plan = replace(plan, workload=replace(plan.workload, ops=ops, deps=deps), order=order)
    _, layer = step_panels([running(plan)])
    assert ": backward/layer-" in layer.title
    assert "attention" in {bar.label for bar in layer.bars}


def test_steps_chart_refuses_to_draw_nothing() -> None:
    with pytest.raises(ParameterError, match="nothing to draw"):
        step_gantt_chart([])
