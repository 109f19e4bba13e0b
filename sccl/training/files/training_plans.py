"""Convert training plans, timelines, and offered options to files and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from sccl.core.files.disk import read_text
from sccl.core.files.json_text import has_valid_digest, parse
from sccl.core.files.outputs import build_output, copy_fields
from sccl.errors import FormatError, ParameterError
from sccl.training.files.fabrics import TopologyResolver, fabric_from_wire, fabric_to_wire
from sccl.training.files.training_plan_shapes import (
    OfferedOptionsWire,
    OfferedOpWire,
    OptionMotifWire,
    OptionWire,
    PlannedOpWire,
    TimelineWire,
    TrainingPlanWire,
)
from sccl.training.files.workloads import workload_from_wire, workload_to_wire
from sccl.training.types.merges import merge_collectives, merged_id_rows
from sccl.training.types.training_plan import (
    Issue,
    OfferedOptions,
    Option,
    OptionMotif,
    RefusedRecipe,
    StepSpan,
    StepTimeline,
    TrainingPlan,
)

T = TypeVar("T", bound=Hashable)


def load_training_plan(path: Path, named: TopologyResolver) -> tuple[TrainingPlan, bool]:
    """Return the training plan of a file, and whether its content still has its digest.

    Its workload, fabric and options are checked. The verifier checks its claims.

    Args:
        named: function from a name to a machine, for channels given by name.

    Raises:
        InputError: the file cannot be read, is no training plan, or refers to missing parts.
    """
    wire = parse(read_text(path), TrainingPlanWire, str(path))
    return training_plan_from_wire(wire, str(path), named), has_valid_digest(wire)


def training_plan_from_wire(
    wire: TrainingPlanWire, where: str, named: TopologyResolver
) -> TrainingPlan:
    """Return the training plan of a file shape.

    Raises:
        InputError: it refers to missing parts, or is inconsistent.
    """
    options = [
        option_from_wire(option, f"{where}, option {k}") for k, option in enumerate(wire.options)
    ]
    for op in wire.ops:
        if op.option >= len(options):
            raise FormatError(
                f"{where}: operation {op.op!r:.60} takes option {op.option}, and the plan has "
                f"{len(options)}, 0 to {len(options) - 1}"
            )
    original = workload_from_wire(wire.workload, where)
    try:
        workload = merge_collectives(original, wire.merges)
    except ParameterError as error:
        raise FormatError(f"{where}: merges: {error}") from error
    return copy_fields(
        TrainingPlan,
        wire,
        workload=workload,
        fabric=fabric_from_wire(wire.fabric, where, named),
        options=tuple((op.op, options[op.option]) for op in wire.ops),
        order=tuple(Issue(*row) for row in wire.order),
        unmerged_workload=original if wire.merges else None,
    )


def option_from_wire(wire: OptionWire, where: str) -> Option:
    """Return the option of a file shape.

    Raises:
        FormatError: A motif waits for a motif that does not precede it.
    """
    for number, motif in enumerate(wire.motifs):
        if later := [k for k in motif.after if k >= number]:
            raise FormatError(f"{where}: motif {number} waits for {later[0]}, which is not before")
    motifs = (
        OptionMotif(m.channel, m.carrier, m.ns, tuple(sorted(m.loads.items())), m.after)
        for m in wire.motifs
    )
    return Option(wire.recipe, tuple(motifs), wire.bitwise)


def option_to_wire(option: Option) -> OptionWire:
    """Return the file shape of an option."""
    motifs = (build_output(OptionMotifWire, m, loads=dict(m.loads)) for m in option.motifs)
    return build_output(OptionWire, option, motifs=motifs)


def training_plan_to_wire(plan: TrainingPlan) -> TrainingPlanWire:
    """Return the file shape of a training plan. Equal options are written once."""
    places = {option: None for _, option in plan.options}
    number = {option: k for k, option in enumerate(places)}
    return build_output(
        TrainingPlanWire,
        plan,
        merges=merged_id_rows(plan.workload),
        options=map(option_to_wire, places),
        ops=(PlannedOpWire(op=name, option=number[option]) for name, option in plan.options),
        order=((issue.op, issue.motif, issue.shift) for issue in plan.order),
        workload=workload_to_wire(plan.input_workload),
        fabric=fabric_to_wire(plan.fabric),
    )


# --- timelines -----------------------------------------------------------------------------------


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
    """Return the file shape of a plan's timeline."""
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


# --- offered options -----------------------------------------------------------------------------


def load_offered_options(path: Path, named: TopologyResolver) -> OfferedOptions:
    """Return the offered options in a file.

    Args:
        named: function from a name to a machine, for channels given by name.

    Raises:
        InputError: the file cannot be read, contains no such options, was edited, or refers to
            missing parts.
    """
    where = str(path)
    wire = parse(read_text(path), OfferedOptionsWire, where)
    workload = workload_from_wire(wire.workload, where)
    wanted = [op.id for op in workload.collectives()]
    if [row.op for row in wire.ops] != wanted:
        raise FormatError(
            f"{where}: its operations differ from the {len(wanted)} collectives of its workload, "
            "or their order does"
        )
    options = [option_from_wire(row, f"{where}, option {k}") for k, row in enumerate(wire.options)]
    refused = [RefusedRecipe(row.recipe, row.why) for row in wire.refused]
    return copy_fields(
        OfferedOptions,
        wire,
        workload=workload,
        fabric=fabric_from_wire(wire.fabric, where, named),
        options=tuple(
            (row.op, option)
            for row in wire.ops
            for option in _select_rows(options, row.options, f"{where}, {row.op!r:.60}: option")
        ),
        refused=tuple(
            (row.op, recipe)
            for row in wire.ops
            for recipe in _select_rows(
                refused, row.refused, f"{where}, {row.op!r:.60}: refused recipe"
            )
        ),
    )


def _select_rows(rows: Sequence[T], numbers: Iterable[int], label: str) -> list[T]:
    indices = list(numbers)
    if invalid := [k for k in indices if k >= len(rows)]:
        raise FormatError(f"{label} is {invalid[0]}, and there are {len(rows)}, counted from 0")
    return [rows[k] for k in indices]


def offered_options_to_wire(offered: OfferedOptions) -> OfferedOptionsWire:
    """Return the file shape of offered options. Equal options are written once."""
    options = {option: k for k, option in enumerate(dict.fromkeys(o for _, o in offered.options))}
    refused = {refusal: k for k, refusal in enumerate(dict.fromkeys(r for _, r in offered.refused))}
    numbers_by_op: dict[str, tuple[list[int], list[int]]] = {
        op.id: ([], []) for op in offered.workload.collectives()
    }
    for name, option in offered.options:
        numbers_by_op[name][0].append(options[option])
    for name, refusal in offered.refused:
        numbers_by_op[name][1].append(refused[refusal])
    return build_output(
        OfferedOptionsWire,
        offered,
        options=map(option_to_wire, options),
        refused=refused,
        ops=(
            OfferedOpWire(op=name, options=tuple(rows), refused=tuple(not_taken))
            for name, (rows, not_taken) in numbers_by_op.items()
        ),
        workload=workload_to_wire(offered.workload),
        fabric=fabric_to_wire(offered.fabric),
    )
