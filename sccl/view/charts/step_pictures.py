"""Draw training plans: an iteration, and one of its layers enlarged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from sccl.core.cost import format_bytes, format_duration
from sccl.core.formatting import format_gap
from sccl.training.plan_summary import covered_ns
from sccl.training.types.training_plan import StepSpan, StepTimeline, TrainingPlan, lane_rows
from sccl.view.charts import COMPUTATION, StepBar, StepPanel

MAX_BARS = 20_000

_LAYER = re.compile(r".*?\d+(?![^/])")
"""The part of an operation's id that names a layer, such as ``forward/layer-3``."""

_MARGIN = 0.15
"""Margin before and after a layer, as a fraction of its time."""

_SMALLEST_PART = 1 / 50
"""Minimum length of an enlarged part, as a fraction of an iteration."""

_MAX_LABELED_SPANS = 40
"""Maximum number of bars of an iteration that needs no enlargement."""

_BOUNDS = {
    "computation": "time of the computation",
    "load": "load of a link",
    "circle": "dependency cycle",
    "stretches": "work between dependencies",
    "spans": "work within dependency windows",
}
"""Descriptions of the kinds of lower bounds on the period."""


@dataclass(frozen=True, slots=True)
class RunningPlan:
    """A training plan with its name and its timeline."""

    plan: TrainingPlan
    timeline: StepTimeline
    name: str

    @property
    def title(self) -> str:
        """Return the name, and the search that found the plan."""
        how = "as submitted" if self.plan.search == "fifo" else f"planned ({self.plan.search})"
        return f"{self.name}, {how}"


def step_panels(running: Sequence[RunningPlan]) -> list[StepPanel]:
    """Return the panels of a picture: an iteration of each plan, then the same layer of each.

    All iterations have the time scale of the longest one, and so have all enlarged layers. If there
    are few operations, bars have names and no layer is enlarged.
    """
    longest = max(entry.timeline.period_ns for entry in running)
    layers = [_layers(entry.timeline) for entry in running]
    layer = _typical_layer(layers[0], set.intersection(*map(set, layers)))
    parts = [layer_spans[layer] for layer_spans in layers if layer in layer_spans]
    length = max((until - since for since, until in parts), default=0) * (1 + 2 * _MARGIN)
    length = max(length, longest * _SMALLEST_PART)
    few = all(
        len([s for s in entry.timeline.spans if s.iteration == 0]) <= _MAX_LABELED_SPANS
        for entry in running
    )
    if few or len(parts) < len(running) or 2 * length > longest:
        return [_build_panel(entry, 0, longest, entry.title, plan_notes(entry.plan, entry.timeline),
                       labeled="" if few else None) for entry in running]  # fmt: skip
    iterations, enlarged = [], []
    for entry, (since, until) in zip(running, parts, strict=True):
        begin = round((since + until - length) / 2)
        window = begin, begin + round(length)
        notes = plan_notes(entry.plan, entry.timeline)
        iterations.append(_build_panel(entry, 0, longest, entry.title, notes, outlined=window))
        title = f"{entry.title}: {layer}, enlarged"
        enlarged.append(_build_panel(entry, *window, title, (), labeled=layer))
    return [*iterations, *enlarged]


def iteration_panel(entry: RunningPlan) -> StepPanel:
    """Return the panel of one iteration of a plan, with the ids of operations on its bars."""
    notes = plan_notes(entry.plan, entry.timeline)
    return _build_panel(entry, 0, entry.timeline.period_ns, entry.title, notes, labeled="")


def _layers(timeline: StepTimeline) -> dict[str, tuple[int, int]]:
    """Return the start and end of each layer on the stream that computes most, in nanoseconds.

    A layer is a sequence of consecutive computations whose ids have the same prefix.
    """
    first = timeline.first_periodic
    begin, lane = iteration_start(timeline, first), _busiest_stream(timeline, first)
    computed = [s for s in timeline.spans if s.iteration == first and s.lane == lane and s.computes]
    layers: dict[str, tuple[int, int]] = {}
    for name, run in groupby(computed, key=lambda s: m[0] if (m := _LAYER.match(s.op)) else s.op):
        spans = list(run)
        layers.setdefault(name, (spans[0].start_ns - begin, spans[-1].end_ns - begin))
    return layers


def _typical_layer(layers: dict[str, tuple[int, int]], common: set[str]) -> str:
    """Return the layer to enlarge. Empty: no layer is common to all plans.

    It is the layer after the first third of the long layers, where a typical model has finished its
    forward pass.
    """
    lengths = {n: until - since for n, (since, until) in layers.items() if n in common}
    longest = max(lengths.values(), default=0)
    long = [name for name, length in lengths.items() if 2 * length > longest]
    return long[len(long) // 3] if long else ""


def _build_panel(  # noqa: PLR0913 - a plan, its part, and texts
    entry: RunningPlan,
    since: int,
    until: int,
    title: str,
    notes: Iterable[str],
    *,
    outlined: tuple[int, int] | None = None,
    labeled: str | None = None,
) -> StepPanel:
    """Return the panel of a part of a plan's timeline.

    Args:
        since: Start of the part, in nanoseconds from the start of an iteration.
        until: End of the part, in nanoseconds from the start of an iteration.
        outlined: Part of the panel that another panel enlarges.
        labeled: Layer whose name is omitted from the labels of its operations. None: no labels.
    """
    begin = iteration_start(entry.timeline, entry.timeline.first_periodic)
    inside = (s for s in entry.timeline.spans if s.end_ns > begin + since)
    inside = (s for s in inside if s.start_ns < min(begin + until, s.end_ns))
    shown = list(islice(inside, MAX_BARS))
    rows, places = assign_rows(entry.plan, shown)
    calls = {op.id: op for op in entry.plan.workload.collectives()}
    options = dict(entry.plan.options)
    bars = []
    for span, row in zip(shown, places, strict=True):
        kind, description = COMPUTATION, span.op
        if not span.computes:
            call, option = calls[span.op], options[span.op]
            kind = call.collective
            motif = option.motifs[span.motif]
            description = (
                f"{span.op}: {kind} of {format_bytes(call.size_bytes)} on {len(call.group)} ranks, "
                f"{option.recipe} {span.motif}, {motif.carrier}"
            )
        label = "" if labeled is None else span.op.removeprefix(labeled).removeprefix("/")
        bars.append(
            StepBar(
                row,
                (span.start_ns - begin) / 1000,
                (span.end_ns - begin) / 1000,
                kind,
                f"{description}, iteration {span.iteration}",
                label or (span.op if labeled is not None else ""),
            )
        )
    marks = (
        iteration_start(entry.timeline, entry.timeline.first_periodic + k) - begin for k in (0, 1)
    )
    return StepPanel(
        title=title,
        notes=tuple(notes),
        rows=rows,
        bars=tuple(bars),
        since_us=since / 1000,
        until_us=until / 1000 or 1.0,
        marks_us=tuple(mark / 1000 for mark in marks if since <= mark <= until),
        outlined_us=None if outlined is None else (outlined[0] / 1000, outlined[1] / 1000),
    )


def plan_notes(plan: TrainingPlan, timeline: StepTimeline) -> Iterable[str]:
    """Yield sentences on the period of a plan, its gap, and the overlap of communication."""
    period = f"{format_duration(timeline.period_ns / 1000)} per iteration"
    if plan.gap is None:
        yield f"{period}; no lower bound is known"
    else:
        kind = f" ({_BOUNDS.get(plan.binding, plan.binding)})" if plan.binding else ""
        gap = f"gap {format_gap(plan.gap)}" if plan.gap else "optimal" if plan.is_optimal else "met"
        yield f"{period}; lower bound {format_duration(plan.bound_ns / 1000)}{kind}, {gap}"
    begin = iteration_start(timeline, timeline.first_periodic)
    until = begin + timeline.period_ns
    computes = covered_ns((s for s in timeline.spans if s.computes), begin, until)
    calls = covered_ns((s for s in timeline.spans if not s.computes), begin, until)
    both = covered_ns(timeline.spans, begin, until)
    total_ns = timeline.period_ns or 1
    overlapped = computes + calls - both
    share = overlapped / calls if calls else 0.0
    yield (
        f"computation {computes / total_ns:.0%} of the time, communication {calls / total_ns:.0%} "
        f"({share:.0%} of it overlaps computation), idle {1 - both / total_ns:.0%}"
    )


def _busiest_stream(timeline: StepTimeline, iteration: int) -> str:
    """Return the stream with the most computation in an iteration. Empty: none computes.

    Ties go to the stream that begins first.
    """
    busy: dict[str, int] = {}  # ordered by start
    for span in timeline.spans:
        if span.computes and span.iteration == iteration:
            busy[span.lane] = busy.get(span.lane, 0) + span.end_ns - span.start_ns
    return max(busy, key=lambda name: busy[name], default="")


def iteration_start(timeline: StepTimeline, iteration: int) -> int:
    """Return the start of an iteration: of its busiest stream, or else of its first motif."""
    lane = _busiest_stream(timeline, iteration)
    iteration_spans = (s for s in timeline.spans if s.iteration == iteration)
    return min((s.start_ns for s in iteration_spans if s.lane == lane or not lane), default=0)


def assign_rows(plan: TrainingPlan, shown: Sequence[StepSpan]) -> tuple[tuple[str, ...], list[int]]:
    """Return the names of rows, and the row of each span."""
    slots = [(span.lane, slot) for span, slot in zip(shown, lane_rows(shown), strict=True)]
    streams = sorted({lane for lane, _ in slots} - {c.name for c in plan.fabric.channels})
    lanes = [*streams, *(c.name for c in plan.fabric.channels)]
    count = {lane: 1 + max((s for name, s in slots if name == lane), default=0) for lane in lanes}
    place = {key: k for k, key in enumerate((n, s) for n in lanes for s in range(count[n]))}
    names = tuple(n if count[n] == 1 else f"{n} {s + 1}" for n, s in place)
    return names, [place[slot] for slot in slots]
