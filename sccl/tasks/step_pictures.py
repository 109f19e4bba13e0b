"""What is drawn of training plans: rows of streams and channels, and what they do when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sccl.core.cost import duration_text
from sccl.core.step_timeline import StepSpan, StepTimeline, slots_of
from sccl.core.training_plan import TrainingPlan
from sccl.core.words import gap_text
from sccl.core.workload_ops import CommOp
from sccl.view.charts.steps import COMPUTATION, StepBar, StepRows

MOST_BARS = 20_000
"""That are drawn: of longer plans, fewer iterations."""

_ITERATIONS = 2


def step_rows(plan: TrainingPlan, timeline: StepTimeline, name: str) -> StepRows:
    """Return what streams and channels do in two iterations, once these repeat.

    Channels have as many rows as motifs are on them at once.
    """
    first = timeline.first
    begin = begin_of(timeline, first)
    until = begin + _ITERATIONS * timeline.period_ns
    shown = [s for s in timeline.spans if s.start_ns < until and s.end_ns > begin]
    shown = [s for s in shown if s.end_ns > s.start_ns]
    if len(shown) > MOST_BARS:
        until = begin + timeline.period_ns
        shown = [s for s in shown if s.start_ns < until][:MOST_BARS]
    rows, places = rows_of(plan, shown)
    calls = {op.id: op for op in plan.workload.collectives()}
    options = dict(plan.options)
    bars = []
    for span, row in zip(shown, places, strict=True):
        kind, told = COMPUTATION, span.op
        if not span.computes:
            call, option = calls[span.op], options[span.op]
            kind = call.collective
            motif = option.motifs[span.motif]
            told = f"{span.op}: {_of(call)}, {option.recipe} {span.motif}, {motif.carrier}"
        bars.append(
            StepBar(
                row,
                (span.start_ns - begin) / 1000,
                (span.end_ns - begin) / 1000,
                kind,
                f"{told}, iteration {span.iteration}",
                span.op,
            )
        )
    marks = [begin_of(timeline, k) for k in range(first, first + _ITERATIONS + 1)]
    return StepRows(
        title=name,
        notes=tuple(notes_of(plan, timeline)),
        rows=rows,
        bars=tuple(bars),
        since_us=0.0,
        until_us=(until - begin) / 1000 or 1.0,
        marks_us=tuple((mark - begin) / 1000 for mark in marks if begin <= mark <= until),
    )


def notes_of(plan: TrainingPlan, timeline: StepTimeline) -> Iterable[str]:
    """Yield what a plan comes to, in sentences."""
    period, bound = duration_text(timeline.period_ns / 1000), plan.bound_ns
    meets = "no bound is known"
    if plan.gap is not None:
        met = "proved to be the least" if plan.proved else "the least there is, as told"
        above = f"{gap_text(plan.gap)} above {duration_text(bound / 1000)}"
        meets = f"{above if plan.gap else met} ({plan.binding})"
    yield f"{period} an iteration, {meets}; dashed: iterations begin"
    begin = begin_of(timeline, timeline.first)
    until = begin + timeline.period_ns
    computes = covered_ns((s for s in timeline.spans if s.computes), begin, until)
    calls = covered_ns((s for s in timeline.spans if not s.computes), begin, until)
    both = covered_ns(timeline.spans, begin, until)
    whole = timeline.period_ns or 1
    overlapped = computes + calls - both
    share = overlapped / calls if calls else 0.0
    yield (
        f"some computation {computes / whole:.0%} of the time, some communication "
        f"{calls / whole:.0%}, of which {share:.0%} beside computation; neither "
        f"{1 - both / whole:.0%}"
    )


def _of(call: CommOp) -> str:
    return f"{call.collective} of {call.size_bytes} bytes among {len(call.group)}"


def begin_of(timeline: StepTimeline, iteration: int) -> int:
    """Return when an iteration begins on the stream that computes most, or else its first motif.

    Of several that compute as much, it is the one that begins first.
    """
    own = [s for s in timeline.spans if s.iteration == iteration]
    busy: dict[str, int] = {}  # by start
    for span in own:
        if span.computes:
            busy[span.lane] = busy.get(span.lane, 0) + span.end_ns - span.start_ns
    lane = max(busy, key=lambda name: busy[name], default="")
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
