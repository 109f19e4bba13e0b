"""The JSON output of TE-CCL, with lower bounds of concurrent collectives."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import Meta

from sccl.core.bound import require_at_least_bound
from sccl.core.files.outputs import build_output
from sccl.core.files.shapes import FileText, Part
from sccl.synth.common.synthesis import AUTO, Synthesis, SynthesisOutput, synthesis_output

if TYPE_CHECKING:
    from sccl.core.packed_schedule import AnySchedule
    from sccl.core.schedule import Schedule


class TenantPart(Part, frozen=True, kw_only=True):
    """When one of several collectives has finished."""

    collective: str
    priority: Annotated[int, Meta(ge=1), "Weight in the weighted mean completion time."]
    finish_us: Annotated[float, "When its last chunk arrives."]
    bound_us: Annotated[float, "Lower bound for this collective alone."]


class TecclOutput(SynthesisOutput, frozen=True, kw_only=True):
    """The JSON output of 'sccl synth teccl'."""

    kind: Literal["teccl"] = "teccl"
    model: Annotated[str, "Requested model."]
    switch: Annotated[str, "Capability of switches."]
    epoch_us: Annotated[float | None, "How long an epoch of the model is."]
    epochs: Annotated[int | None, "Number of epochs of the schedule."]
    tenants: Annotated[
        tuple[TenantPart, ...], "Results of concurrent collectives with priorities; else empty."
    ]
    weighted_us: Annotated[
        float | None, "Weighted mean of their completion times, which is minimized; or null."
    ]
    weighted_bound_us: Annotated[float | None, "Lower bound on this mean; or null."]
    bound_of: Annotated[str, "Schedules that the bound covers, and its source."]
    bandwidth: Annotated[FileText | None, "File with the reduced bandwidth of links; null: none."]
    by: Annotated[
        str | None,
        "Method that produced it: list scheduling, the initial schedule of the models, or a model; "
        "null for reductions.",
    ]
    combined: Annotated[str | None, "For reductions: method of the best schedule; else null."]


def teccl_output(
    result: Synthesis, file: Path | None, bandwidth: str | Path | None = None
) -> TecclOutput:
    """Return the JSON output.

    Args:
        result: The schedule, with its events.
        file: File of the schedule. None: not written.
        bandwidth: File of the reduced bandwidth. None: full bandwidth.
    """
    from sccl.synth.teccl.combining import CombiningChoice  # noqa: PLC0415 - loads solvers
    from sccl.synth.teccl.phase_search import EpochProgress, ScheduleOrigin  # noqa: PLC0415

    options: Any = result.problem.options
    model, priorities, best = options.model, options.priorities, result.best
    epochs, origin = result.event(EpochProgress), result.event(ScheduleOrigin)
    choice = result.event(CombiningChoice)
    if model == AUTO:
        model = epochs.model if epochs else "continuous"
    return synthesis_output(
        TecclOutput,
        result,
        file,
        bound_us=_check_last_finish(result) if priorities else best.bound.value,
        model=model,
        switch=options.switch,
        epoch_us=epochs.epoch_us if epochs else None,
        epochs=epochs.epochs if epochs else None,
        tenants=_concurrent_parts(result, priorities),
        weighted_us=best.objective if priorities else None,
        weighted_bound_us=best.bound.value if priorities else None,
        bandwidth=bandwidth,
        by="lp" if options.model == "lp" else origin.found_by if origin else None,
        combined=choice.by if choice else None,
    )


def _check_last_finish(result: Synthesis) -> Fraction:
    """Return the lower bound for schedules of these chunks, for any priorities.

    Raises:
        ContradictionError: The schedule finishes before this bound.
    """
    from sccl.synth.packing.by_time.time_bound import compute_time_bound  # noqa: PLC0415 - loads NumPy

    request, plan = result.problem.request, result.plan
    bound = compute_time_bound(request.topology, request.spec, plan.collective, plan.clock)
    lower_bound = Fraction(bound.value * plan.tick_ps, 10**6)
    _require_not_before(plan, plan.finish, lower_bound, "of a schedule of several collectives")
    return lower_bound


def _concurrent_parts(result: Synthesis, priorities: tuple[int, ...]) -> tuple[TenantPart, ...]:
    """Return the completion times of concurrent collectives. Without priorities none.

    Raises:
        ContradictionError: A collective finishes before its lower bound.
    """
    from sccl.prove.bounds.time_cuts import completion_time_bound  # noqa: PLC0415 - loads solvers

    if not priorities:
        return ()
    request, plan = result.problem.request, cast("Schedule", result.plan)
    parts, model = request.spec.single_specs(), plan.clock.model
    finishes = plan.part_finishes([part.pattern_chunks for part in parts])
    tenants = []
    for part, priority, finish in zip(parts, priorities, finishes, strict=True):
        lower_bound = completion_time_bound(request.topology, part, model).us(request.size_bytes)
        _require_not_before(plan, finish, lower_bound, f"of {part.name} among several collectives")
        tenants.append(
            build_output(
                TenantPart,
                collective=part,
                priority=priority,
                finish_us=plan.clock.us(finish),
                bound_us=lower_bound,
            )
        )
    return tuple(tenants)


def _require_not_before(plan: AnySchedule, finish: int, lower_bound: Fraction, of: str) -> None:
    """Check that a part of a schedule does not finish before its lower bound.

    Args:
        plan: The schedule.
        finish: Completion time of the part, ticks.
        lower_bound: Lower bound on it, microseconds.
        of: Name of the part in the message.

    Raises:
        ContradictionError: The part finishes before its lower bound.
    """
    require_at_least_bound(
        Fraction(finish * plan.tick_ps, 10**6),
        lower_bound,
        result=f"the completion time {of}",
        limit="the lower bound on it",
        unit="us",
    )
