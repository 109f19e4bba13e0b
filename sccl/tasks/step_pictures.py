"""Pictures of training plans: one iteration, and one layer of it enlarged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from sccl.core.cost import bytes_text, duration_text
from sccl.core.step_timeline import StepSpan, StepTimeline, slots_of
from sccl.core.training_plan import TrainingPlan
from sccl.core.words import gap_text
from sccl.core.workload_ops import CommOp
from sccl.view.charts import COMPUTATION, StepBar, StepRows

MOST_BARS = 20_000

_LAYER = re.compile(r".*?\d+(?![^/])")
"""The part of an operation's id that names a layer, such as ``forward/layer-3``."""

_MARGIN = 0.15
"""Margin before and after a layer, as a fraction of its time."""

_SMALLEST_PART = 1 / 50
"""Fraction of an iteration. Shorter layers are drawn with operations around them."""

_FEW = 40
"""Bars of an iteration that can be read without an enlargement."""

_BOUNDS = {
    "computation": "time of the computation",
    "load": "load of a link",
    "circle": "dependency cycle",
    "stretches": "work between dependencies",
    "spans": "work within dependency windows",
}
"""Kinds of lower bounds on the period, in words."""


@dataclass(frozen=True, slots=True)
class RunningPlan:
    """A training plan and the timeline by which it runs."""

    plan: TrainingPlan
    timeline: StepTimeline
    name: str

    @property
    def title(self) -> str:
        """Return the name, and how the plan was made."""
        how = "as submitted" if self.plan.search == "fifo" else f"planned ({self.plan.search})"
        return f"{self.name}, {how}"


def step_panels(running: Sequence[RunningPlan]) -> list[StepRows]:
    """Return the panels of a picture: an iteration of each plan, then the same layer of each.

    All iterations have the time scale of the longest, and so have all enlarged layers. In a step of
    few operations the bars have names, and no layer is enlarged.
    """
    longest = max(one.timeline.period_ns for one in running)
    layers = [_layers(one.timeline) for one in running]
    layer = _typical(layers[0], set.intersection(*map(set, layers)))
    parts = [own[layer] for own in layers if layer in own]
    length = max((until - since for since, until in parts), default=0) * (1 + 2 * _MARGIN)
    length = max(length, longest * _SMALLEST_PART)
    few = all(len([s for s in one.timeline.spans if s.iteration == 0]) <= _FEW for one in running)
    if few or len(parts) < len(running) or 2 * length > longest:
        return [_panel(one, 0, longest, one.title, notes_of(one.plan, one.timeline),
                       labelled="" if few else None) for one in running]  # fmt: skip
    iterations, enlarged = [], []
    for one, (since, until) in zip(running, parts, strict=True):
        begin = round((since + until - length) / 2)
        window = begin, begin + round(length)
        notes = notes_of(one.plan, one.timeline)
        iterations.append(_panel(one, 0, longest, one.title, notes, outlined=window))
        title = f"{one.title}: {layer}, enlarged"
        enlarged.append(_panel(one, *window, title, (), labelled=layer))
    return [*iterations, *enlarged]


def iteration_panel(one: RunningPlan) -> StepRows:
    """Return one iteration of a plan, with the ids of operations on its bars."""
    notes = notes_of(one.plan, one.timeline)
    return _panel(one, 0, one.timeline.period_ns, one.title, notes, labelled="")


def _layers(timeline: StepTimeline) -> dict[str, tuple[int, int]]:
    """Return the start and end of each layer on the stream that computes most, in nanoseconds.

    A layer is a run of computations whose ids start alike.
    """
    first = timeline.first
    begin, lane = begin_of(timeline, first), _busiest(timeline, first)
    computed = [s for s in timeline.spans if s.iteration == first and s.lane == lane and s.computes]
    layers: dict[str, tuple[int, int]] = {}
    for name, run in groupby(computed, key=lambda span: _layer_of(span.op)):
        spans = list(run)
        layers.setdefault(name, (spans[0].start_ns - begin, spans[-1].end_ns - begin))
    return layers


def _layer_of(op: str) -> str:
    named = _LAYER.match(op)
    return named[0] if named else op


def _typical(layers: dict[str, tuple[int, int]], common: set[str]) -> str:
    """Return a layer to enlarge. Empty: none is common to all plans.

    It is one of the long layers. A third of them are before it, which is past the forward pass of
    most models.
    """
    lengths = {n: until - since for n, (since, until) in layers.items() if n in common}
    longest = max(lengths.values(), default=0)
    long = [name for name, length in lengths.items() if 2 * length > longest]
    return long[len(long) // 3] if long else ""


def _panel(  # noqa: PLR0913 - a plan, its part, and the words around it
    one: RunningPlan,
    since: int,
    until: int,
    title: str,
    notes: Iterable[str],
    *,
    outlined: tuple[int, int] | None = None,
    labelled: str | None = None,
) -> StepRows:
    """Return a part of a plan's timeline.

    Args:
        one: Plan to draw.
        since: Start of the part, nanoseconds after an iteration begins.
        until: Its end.
        title: Title of the panel.
        notes: Sentences below the title.
        outlined: Part of the panel that another one enlarges.
        labelled: Layer whose operations have the last part of their ids on them. None: no labels.
    """
    begin = begin_of(one.timeline, one.timeline.first)
    inside = (s for s in one.timeline.spans if s.end_ns > begin + since)
    inside = (s for s in inside if s.start_ns < min(begin + until, s.end_ns))
    shown = list(islice(inside, MOST_BARS))
    rows, places = rows_of(one.plan, shown)
    calls = {op.id: op for op in one.plan.workload.collectives()}
    options = dict(one.plan.options)
    bars = []
    for span, row in zip(shown, places, strict=True):
        kind, description = COMPUTATION, span.op
        if not span.computes:
            call, option = calls[span.op], options[span.op]
            kind = call.collective
            motif = option.motifs[span.motif]
            description = f"{span.op}: {_of(call)}, {option.recipe} {span.motif}, {motif.carrier}"
        label = "" if labelled is None else span.op.removeprefix(labelled).removeprefix("/")
        bars.append(
            StepBar(
                row,
                (span.start_ns - begin) / 1000,
                (span.end_ns - begin) / 1000,
                kind,
                f"{description}, iteration {span.iteration}",
                label or (span.op if labelled is not None else ""),
            )
        )
    marks = (begin_of(one.timeline, one.timeline.first + k) - begin for k in (0, 1))
    return StepRows(
        title=title,
        notes=tuple(notes),
        rows=rows,
        bars=tuple(bars),
        since_us=since / 1000,
        until_us=until / 1000 or 1.0,
        marks_us=tuple(mark / 1000 for mark in marks if since <= mark <= until),
        outlined_us=None if outlined is None else (outlined[0] / 1000, outlined[1] / 1000),
    )


def notes_of(plan: TrainingPlan, timeline: StepTimeline) -> Iterable[str]:
    """Yield the period of a plan, its gap, and how much of it overlaps, in sentences."""
    period = f"{duration_text(timeline.period_ns / 1000)} per iteration"
    if plan.gap is None:
        yield f"{period}; no lower bound is known"
    else:
        kind = f" ({_BOUNDS.get(plan.binding, plan.binding)})" if plan.binding else ""
        gap = f"gap {gap_text(plan.gap)}" if plan.gap else "optimal" if plan.proved else "met"
        yield f"{period}; lower bound {duration_text(plan.bound_ns / 1000)}{kind}, {gap}"
    begin = begin_of(timeline, timeline.first)
    until = begin + timeline.period_ns
    computes = covered_ns((s for s in timeline.spans if s.computes), begin, until)
    calls = covered_ns((s for s in timeline.spans if not s.computes), begin, until)
    both = covered_ns(timeline.spans, begin, until)
    whole = timeline.period_ns or 1
    overlapped = computes + calls - both
    share = overlapped / calls if calls else 0.0
    yield (
        f"computation {computes / whole:.0%} of the time, communication {calls / whole:.0%} "
        f"({share:.0%} of it overlaps computation), idle {1 - both / whole:.0%}"
    )


def _of(call: CommOp) -> str:
    return f"{call.collective} of {bytes_text(call.size_bytes)} on {len(call.group)} ranks"


def _busiest(timeline: StepTimeline, iteration: int) -> str:
    """Return the stream with the most computation in an iteration. Empty: none computes.

    Ties go to the stream that begins first.
    """
    busy: dict[str, int] = {}  # by start
    for span in timeline.spans:
        if span.computes and span.iteration == iteration:
            busy[span.lane] = busy.get(span.lane, 0) + span.end_ns - span.start_ns
    return max(busy, key=lambda name: busy[name], default="")


def begin_of(timeline: StepTimeline, iteration: int) -> int:
    """Return when an iteration begins on the stream that computes most, or else its first motif."""
    lane = _busiest(timeline, iteration)
    own = (s for s in timeline.spans if s.iteration == iteration)
    return min((s.start_ns for s in own if s.lane == lane or not lane), default=0)


def covered_ns(spans: Iterable[StepSpan], begin: int, until: int) -> int:
    """Return for how many nanoseconds between two times any of some spans goes on."""
    total, last = 0, begin
    for span in sorted(spans, key=lambda s: s.start_ns):
        since, end = max(span.start_ns, last), min(span.end_ns, until)
        if end > since:
            total, last = total + end - since, end
    return total


def rows_of(plan: TrainingPlan, shown: Sequence[StepSpan]) -> tuple[tuple[str, ...], list[int]]:
    """Return the names of rows, and on which each span is."""
    slots = [(span.lane, slot) for span, slot in zip(shown, slots_of(shown), strict=True)]
    streams = sorted({lane for lane, _ in slots} - {c.name for c in plan.fabric.channels})
    lanes = [*streams, *(c.name for c in plan.fabric.channels)]
    count = {lane: 1 + max((s for name, s in slots if name == lane), default=0) for lane in lanes}
    place = {key: k for k, key in enumerate((n, s) for n in lanes for s in range(count[n]))}
    names = tuple(n if count[n] == 1 else f"{n} {s + 1}" for n, s in place)
    return names, [place[slot] for slot in slots]
