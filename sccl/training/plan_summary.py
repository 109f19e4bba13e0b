"""Summarize training plans: options of collectives, and utilization of resources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Meta

from sccl.core.cost import format_duration
from sccl.core.files.outputs import build_output
from sccl.core.files.shapes import FileText, NonNegative, Part
from sccl.errors import InputError
from sccl.training.plan_files import LoadedTraining, valid_timeline
from sccl.training.types.training_plan import Option, StepSpan, StepTimeline, TrainingPlan
from sccl.training.types.workload_ops import CommOp

_Us = Annotated[float, Meta(ge=0, description="Microseconds.")]


class TakenOptionPart(Part, frozen=True, kw_only=True):
    """Collectives that are alike and take the same option."""

    collective: str
    group_ranks: Annotated[int, Meta(ge=1)]
    bytes: NonNegative
    operations: Annotated[int, Meta(ge=1)]
    recipe: str
    motifs: Annotated[int, Meta(ge=1)]
    channels: tuple[str, ...]
    carriers: tuple[str, ...]
    us: Annotated[float, Meta(ge=0), "Alone, microseconds."]


class LanePart(Part, frozen=True, kw_only=True):
    """A stream of computation, or a channel, in one iteration."""

    name: str
    computes: bool
    busy_us: _Us
    share: Annotated[float, Meta(ge=0, le=1), "Fraction of the period."]


class ShownTrainingPart(Part, frozen=True, kw_only=True):
    """A training plan."""

    file: FileText
    digest_matches: Annotated[bool, "The file is as sccl wrote it."]
    workload: str
    fabric: str
    search: str
    seed: NonNegative
    period_us: _Us
    two_iterations_us: Annotated[float, Meta(ge=0), "Until the first two iterations have ended."]
    prologue_us: Annotated[
        float,
        "Extra time of the first iterations compared with the same number of periods; may be "
        "negative.",
    ]
    fluid_us: Annotated[
        float, Meta(ge=0), "Time of an iteration if concurrent motifs share the bandwidth of links."
    ]
    links_us: Annotated[
        float | None, "Time of an iteration if every message of every motif is simulated on links."
    ]
    links_apart_us: Annotated[
        float | None,
        "The same if each motif has all links to itself; the difference is time that messages wait "
        "for other motifs.",
    ]
    links_note: Annotated[str, "Reason why links_us is unknown; or empty."]
    bound_us: _Us
    gap: float | None
    binding: str
    proved: Annotated[bool, "False if times come from a table of costs: see sccl check --costs."]
    costs: Annotated[str, "Digest of the table of measured costs that sets the times; or empty."]
    steady: Annotated[bool, "Whether the simulated iterations repeat."]
    ahead: Annotated[
        tuple[str, ...], "Collectives of the next iteration that start before the current one ends"
    ]
    options: tuple[TakenOptionPart, ...]
    lanes: tuple[LanePart, ...]


def training_part(loaded: LoadedTraining) -> ShownTrainingPart:
    """Return the summary of a training plan.

    Raises:
        InputError: The plan fails verification.
    """
    plan, timeline = loaded.plan, valid_timeline(loaded)
    on_links, apart, note = links_us(plan, timeline)
    computed = {op.id for op in plan.workload.computation()}
    ahead = dict.fromkeys(i.op for i in plan.order if i.shift and i.op not in computed)
    return build_output(
        ShownTrainingPart,
        plan,
        file=loaded.file,
        digest_matches=loaded.intact,
        period_us=timeline.period_ns / 1000,
        two_iterations_us=timeline.finish_ns() / 1000,
        prologue_us=timeline.prologue_ns / 1000,
        fluid_us=fluid_us(plan, timeline),
        links_us=on_links,
        links_apart_us=apart,
        links_note=note,
        proved=plan.is_optimal,
        steady=timeline.is_steady,
        ahead=ahead,
        options=_option_parts(plan),
        lanes=_lane_parts(timeline),
    )


def fluid_us(plan: TrainingPlan, timeline: StepTimeline) -> float:
    """Return the period in microseconds if concurrent motifs share the bandwidth of links."""
    from sccl.training.timeline_models import simulate_fluid  # noqa: PLC0415 - loads NumPy

    return simulate_fluid(plan, timeline).period_ns / 1000


def links_us(plan: TrainingPlan, timeline: StepTimeline) -> tuple[float | None, float | None, str]:
    """Return the period with all messages on links, and the period with each motif alone.

    Periods are in microseconds. The third value is the reason why they are unknown, or empty.
    """
    from sccl.training.link_simulation import simulate_in_isolation, simulate_on_links  # noqa: PLC0415 - loads Numba
    from sccl.training.options.motif_costs import build_motif_planner  # noqa: PLC0415 - loads Numba

    try:
        by = build_motif_planner(plan.planned_by, plan.seed) if plan.planned_by else None
        met = simulate_on_links(plan, timeline, planner=by)
        apart = simulate_in_isolation(plan, timeline, planner=by)
    except InputError as error:
        return None, None, str(error)
    return round(met.period_ns) / 1000, round(apart.period_ns) / 1000, ""


def model_notes(shown: ShownTrainingPart) -> tuple[str, str]:
    """Return sentences on the period in the fluid model and on links."""

    def said(us: float) -> str:
        suffix = f" ({more(us)})" if shown.period_us else ""
        return f"{format_duration(us)} per iteration{suffix}"

    def more(us: float) -> str:
        """Return the relative difference to the period, with a sign. ``or 0.0`` drops -0."""
        return f"{round(us / shown.period_us - 1, 4) or 0.0:+.2%}"

    links = f"not simulated link by link: {shown.links_note}"
    if shown.links_us is not None:
        links = f"{said(shown.links_us)}, with all messages simulated link by link"
    if shown.links_us is not None and shown.links_apart_us is not None and shown.period_us:
        apart = more(shown.links_apart_us)
        if {apart, more(shown.links_us)} != {"+0.00%"}:
            links += f" ({apart} with each motif alone; waiting for other messages is the rest)"
    return f"{said(shown.fluid_us)}, if concurrent motifs share the bandwidth of links", links


def _option_parts(plan: TrainingPlan) -> Iterator[TakenOptionPart]:
    calls: dict[str, CommOp] = {op.id: op for op in plan.workload.collectives()}
    alike: dict[tuple[str, int, int, Option], int] = defaultdict(int)
    for name, option in plan.options:
        call = calls[name]
        alike[call.collective, len(call.group), call.size_bytes, option] += 1
    for (collective, ranks, size, option), count in alike.items():
        yield build_output(
            TakenOptionPart,
            option,
            collective=collective,
            group_ranks=ranks,
            bytes=size,
            operations=count,
            motifs=len(option.motifs),
            channels=dict.fromkeys(motif.channel for motif in option.motifs),
            carriers=dict.fromkeys(motif.carrier for motif in option.motifs),
            us=option.isolated_ns / 1000,
        )


def _lane_parts(timeline: StepTimeline) -> Iterator[LanePart]:
    """Yield the utilization of lanes in a steady iteration. Overlapping spans count once."""
    iteration_spans = [s for s in timeline.spans if s.iteration == timeline.first_periodic]
    spans: dict[str, list[StepSpan]] = defaultdict(list)
    computes = {span.lane: span.computes for span in timeline.spans}
    for span in iteration_spans:
        spans[span.lane].append(span)
    for lane in sorted(spans, key=lambda name: (not computes[name], name)):
        busy = covered_ns(spans[lane], 0, max(span.end_ns for span in spans[lane]))
        share = min(1.0, busy / timeline.period_ns) if timeline.period_ns else 0.0
        yield LanePart(name=lane, computes=computes[lane], busy_us=busy / 1000, share=share)


def covered_ns(spans: Iterable[StepSpan], begin: int, until: int) -> int:
    """Return the nanoseconds between ``begin`` and ``until`` during which any span is active."""
    total, last = 0, begin
    for span in sorted(spans, key=lambda s: s.start_ns):
        since, end = max(span.start_ns, last), min(span.end_ns, until)
        if end > since:
            total, last = total + end - since, end
    return total
