"""Timelines of training plans, as files and back."""

from __future__ import annotations

from pathlib import Path

from sccl.core.files.disk import read_text
from sccl.core.files.fabrics import TopologyResolver
from sccl.core.files.json_text import has_valid_digest, parse
from sccl.core.files.training_plan_shapes import TimelineWire
from sccl.core.files.training_plans import training_plan_from_wire, training_plan_to_wire
from sccl.core.step_timeline import StepSpan, StepTimeline
from sccl.core.training_plan import TrainingPlan
from sccl.errors import FormatError


def load_timeline(path: Path, named: TopologyResolver) -> tuple[TrainingPlan, StepTimeline, bool]:
    """Return the timeline of a file, its plan, and whether the content still has its digest.

    The check covers only that spans belong to the plan's operations and lanes. The verifier checks
    that the plan runs like this.

    Args:
        named: function from a name to a machine, for channels given by name.

    Raises:
        InputError: the file cannot be read, is no timeline, or refers to missing parts.
    """
    where = str(path)
    wire = parse(read_text(path), TimelineWire, where)
    plan = training_plan_from_wire(wire.plan, f"{where}, plan", named)
    motifs = {name: len(option.motifs) for name, option in plan.options}
    motifs |= {op.id: 1 for op in plan.workload.computation()}
    computed = {op.id for op in plan.workload.computation()}
    spans = []
    for number, (op, motif, iteration, lane, start, end) in enumerate(wire.spans):
        if motif >= motifs.get(op, 0):
            raise FormatError(
                f"{where}, span {number}: the plan has no motif {motif} of {op!r:.60}"
            )
        if lane >= len(wire.lanes):
            raise FormatError(
                f"{where}, span {number}: it is on lane {lane}, and there are {len(wire.lanes)}, "
                f"0 to {len(wire.lanes) - 1}"
            )
        spans.append(StepSpan(op, motif, iteration, wire.lanes[lane], start, end, op in computed))
    timeline = StepTimeline(tuple(spans), wire.period_ns, wire.steady, wire.first)
    if min(span.iteration for span in spans) > 0 or timeline.prologue_ns != wire.prologue_ns:
        raise FormatError(
            f"{where}: prologue_ns is {wire.prologue_ns}, expected the time of iterations 0 to "
            f"{wire.first} beyond as many periods"
        )
    return plan, timeline, has_valid_digest(wire)


def timeline_to_wire(plan: TrainingPlan, timeline: StepTimeline) -> TimelineWire:
    """Return the file shape of a plan as it runs."""
    lanes = tuple(sorted({span.lane for span in timeline.spans}))
    number = {lane: k for k, lane in enumerate(lanes)}
    return TimelineWire(
        period_ns=timeline.period_ns,
        prologue_ns=timeline.prologue_ns,
        steady=timeline.is_steady,
        first=timeline.first_periodic,
        lanes=lanes,
        spans=tuple(
            (s.op, s.motif, s.iteration, number[s.lane], s.start_ns, s.end_ns)
            for s in timeline.spans
        ),
        plan=training_plan_to_wire(plan),
    )
