"""The page of a training plan: all that it shows, in plain values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from sccl.core.cost import bytes_text, duration_text
from sccl.core.step_timeline import StepSpan
from sccl.core.training_plan import Option
from sccl.core.words import gap_text
from sccl.core.workload_ops import CommOp
from sccl.errors import TooLargeError
from sccl.formats import SteppedPlan, arrows
from sccl.tasks.show_training import ShownTrainingPart, shown_training
from sccl.tasks.step_pictures import begin_of, notes_of, rows_of
from sccl.tasks.training_files import LoadedTraining, right_timeline
from sccl.view.explorer.html import step_page

MAX_SPANS = 50_000
"""Computations and motifs of a page, up to which it is quick."""

_REPEATING = 2
"""Iterations that are shown once they repeat."""


def training_page(one: LoadedTraining) -> str:
    """Return the page of a training plan.

    Raises:
        InputError: it fails verification, or it is too large for a page.
    """
    from sccl.train.jobs import all_waits  # noqa: PLC0415 - loads NumPy

    timeline = right_timeline(one)
    stepped = SteppedPlan(
        one.name, one.plan, timeline, all_waits(one.plan.workload, one.plan.memory_bytes)
    )
    return step_page(one.name, _data(stepped, shown_training(one)))


def _data(stepped: SteppedPlan, shown: ShownTrainingPart) -> dict[str, Any]:
    plan, timeline = stepped.plan, stepped.timeline
    spans = _spans(stepped)
    begun = spans[0].iteration if spans else 0
    shift = min((span.start_ns for span in spans), default=0)
    rows, places = rows_of(plan, spans)
    number = {span: k for k, span in enumerate(spans)}
    kinds = sorted({op.collective for op in plan.workload.collectives()})
    options = list(dict.fromkeys(option for _, option in plan.options))
    taken = {name: options.index(option) for name, option in plan.options}
    place = {op.id: k for k, op in enumerate(plan.workload.ops)}
    first = begin_of(timeline, timeline.first) - shift
    return {
        "title": stepped.name,
        "subtitle": "; ".join(notes_of(plan, timeline)),
        "facts": _facts(shown),
        "rows": [{"name": name} for name in rows],
        "spans": list(
            chain.from_iterable(
                (row, s.start_ns - shift, s.end_ns - shift, place[s.op], s.motif, s.iteration)
                for s, row in zip(spans, places, strict=True)
            )
        ),
        "arrows": list(
            chain.from_iterable((number[a], number[b]) for a, b in arrows(stepped, spans))
        ),
        "ops": [
            {
                "name": op.id,
                "kind": kinds.index(op.collective) if isinstance(op, CommOp) else -1,
                "option": taken.get(op.id),
                "what": _what(op) if isinstance(op, CommOp) else f"computation of role {op.role}",
            }
            for op in plan.workload.ops
        ],
        "options": [_option(option) for option in options],
        "kinds": kinds,
        "marks": [
            (k, max(0, begin_of(timeline, k) - shift))
            for k in range(begun, timeline.first + _REPEATING)
        ],
        "window": (first, first + _REPEATING * timeline.period_ns),
        "lanes": [
            {"name": lane.name, "busy": duration_text(lane.busy_us), "part": lane.share}
            for lane in shown.lanes
        ],
        "taken": [
            (
                one.collective,
                str(one.group_ranks),
                bytes_text(one.bytes),
                str(one.operations),
                one.recipe,
                str(one.motifs),
                duration_text(one.us),
                f"{', '.join(one.channels)}: {', '.join(one.carriers)}",
            )
            for one in shown.options
        ],
    }


def _spans(stepped: SteppedPlan) -> Sequence[StepSpan]:
    """Return the shown spans: from the beginning, or of steady iterations.

    They include simultaneous work for later iterations.

    Raises:
        TooLargeError: There are too many.
    """
    timeline = stepped.timeline
    until = timeline.first + _REPEATING
    end = begin_of(timeline, timeline.first) + _REPEATING * timeline.period_ns
    every = [s for s in timeline.spans if s.iteration < until or s.start_ns < end]
    if len(every) <= MAX_SPANS:
        return every
    repeating = [span for span in every if span.iteration >= timeline.first]
    if len(repeating) > MAX_SPANS:
        raise TooLargeError(
            f"{stepped.name}: {len(repeating)} computations and motifs in {_REPEATING} iterations, "
            f"more than a page shows smoothly (at most {MAX_SPANS}): draw it with 'sccl plot'"
        )
    return repeating


def _facts(shown: ShownTrainingPart) -> list[tuple[str, str, str]]:
    least = duration_text(shown.bound_us) if shown.bound_us else "not known"
    gap = "-" if shown.gap is None else gap_text(shown.gap) if shown.gap else "met, not verified"
    gap = "proved" if shown.proved else gap
    return [
        ("Iteration", duration_text(shown.period_us), "from one to the next"),
        ("Lower bound", least, shown.binding if shown.bound_us else ""),
        ("Gap", gap, "of period and bound"),
        ("Search", shown.search, f"seed {shown.seed}"),
    ]


def _what(call: CommOp) -> str:
    size = bytes_text(call.size_bytes)
    beside = f", and {len(call.beside)} such parallel groups" if call.beside else ""
    return f"{call.collective} of {size} among {len(call.group)} ranks{beside}"


def _option(option: Option) -> dict[str, Any]:
    motifs = [
        {
            "channel": motif.channel,
            "carrier": motif.carrier,
            "loads": ", ".join(f"{load / 10:g} % of {name}" for name, load in motif.loads),
        }
        for motif in option.motifs
    ]
    return {"recipe": option.recipe, "bitwise": option.bitwise, "motifs": motifs}
