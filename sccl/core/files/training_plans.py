"""Training plans as files and back."""

from __future__ import annotations

from pathlib import Path

from sccl.core.files.disk import read_text
from sccl.core.files.fabrics import TopologyResolver, fabric_from_wire, fabric_to_wire
from sccl.core.files.json_text import has_valid_digest, parse
from sccl.core.files.training_plan_shapes import (
    OptionMotifWire,
    OptionWire,
    PlannedOpWire,
    TrainingPlanWire,
)
from sccl.core.files.workloads import workload_from_wire, workload_to_wire
from sccl.core.merges import merge_collectives, merged_id_rows
from sccl.core.training_plan import Issue, Option, OptionMotif, TrainingPlan
from sccl.errors import FormatError, ParameterError


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
    return TrainingPlan(
        workload=workload,
        fabric=fabric_from_wire(wire.fabric, where, named),
        options=tuple((op.op, options[op.option]) for op in wire.ops),
        order=tuple(Issue(*row) for row in wire.order),
        period_ns=wire.period_ns,
        bound_ns=wire.bound_ns,
        binding=wire.binding,
        search=wire.search,
        seed=wire.seed,
        memory_bytes=wire.memory_bytes,
        costs=wire.costs,
        max_motifs=wire.max_motifs,
        bitwise=wire.bitwise,
        planned_by=wire.planned_by,
        merge_bytes=wire.merge_bytes,
        unmerged_workload=original if wire.merges else None,
    )


def option_from_wire(wire: OptionWire, where: str) -> Option:
    """Return the option of a file shape.

    Raises:
        FormatError: a motif waits for one that is not before it.
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
    motifs = (
        OptionMotifWire(
            channel=m.channel, carrier=m.carrier, ns=m.ns, loads=dict(m.loads), after=m.after
        )
        for m in option.motifs
    )
    return OptionWire(recipe=option.recipe, bitwise=option.bitwise, motifs=tuple(motifs))


def training_plan_to_wire(plan: TrainingPlan) -> TrainingPlanWire:
    """Return the file shape of a training plan; options that are alike are there once."""
    places = {option: None for _, option in plan.options}
    number = {option: k for k, option in enumerate(places)}
    return TrainingPlanWire(
        search=plan.search,
        seed=plan.seed,
        memory_bytes=plan.memory_bytes,
        costs=plan.costs,
        max_motifs=plan.max_motifs,
        bitwise=plan.bitwise,
        planned_by=plan.planned_by,
        merge_bytes=plan.merge_bytes,
        merges=merged_id_rows(plan.workload),
        period_ns=plan.period_ns,
        bound_ns=plan.bound_ns,
        binding=plan.binding,
        options=tuple(map(option_to_wire, places)),
        ops=tuple(PlannedOpWire(op=name, option=number[option]) for name, option in plan.options),
        order=tuple((issue.op, issue.motif, issue.shift) for issue in plan.order),
        workload=workload_to_wire(plan.input_workload),
        fabric=fabric_to_wire(plan.fabric),
    )
