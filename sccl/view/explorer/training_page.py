"""Build the web page of a training plan from plain JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from sccl.core.cost import format_bytes, format_duration
from sccl.core.formatting import format_gap
from sccl.errors import TooLargeError
from sccl.formats.common.contract import VerifiedTrainingPlan, dependency_arrows
from sccl.training.plan_files import LoadedTraining, valid_timeline
from sccl.training.plan_summary import ShownTrainingPart, training_part
from sccl.training.types.training_plan import Option, StepSpan
from sccl.training.types.workload_ops import CommOp
from sccl.view.charts.step_pictures import assign_rows, iteration_start, plan_notes
from sccl.view.explorer.page_html import render_step_page

MAX_SPANS = 50_000
"""Maximum number of computations and motifs on a page, so that it stays responsive."""

_REPEATING = 2
"""Number of iterations to show in the periodic part of the timeline."""


def training_page(loaded: LoadedTraining) -> str:
    """Return the page of a training plan.

    Raises:
        InputError: the plan fails verification, or is too large for a page.
    """
    from sccl.training.scheduling.workload_problem import all_waits  # noqa: PLC0415 - loads NumPy

    timeline = valid_timeline(loaded)
    stepped = VerifiedTrainingPlan(
        loaded.name,
        loaded.plan,
        timeline,
        all_waits(loaded.plan.workload, loaded.plan.memory_bytes),
    )
    return render_step_page(loaded.name, _page_data(stepped, training_part(loaded)))


def _page_data(stepped: VerifiedTrainingPlan, shown: ShownTrainingPart) -> dict[str, Any]:
    plan, timeline = stepped.plan, stepped.timeline
    spans = _shown_spans(stepped)
    begun = spans[0].iteration if spans else 0
    shift = min((span.start_ns for span in spans), default=0)
    rows, places = assign_rows(plan, spans)
    number = {span: k for k, span in enumerate(spans)}
    kinds = sorted({op.collective for op in plan.workload.collectives()})
    options = list(dict.fromkeys(option for _, option in plan.options))
    taken = {name: options.index(option) for name, option in plan.options}
    place = {op.id: k for k, op in enumerate(plan.workload.ops)}
    first = iteration_start(timeline, timeline.first_periodic) - shift
    return {
        "title": stepped.name,
        "subtitle": "; ".join(plan_notes(plan, timeline)),
        "facts": _fact_rows(shown),
        "rows": [{"name": name} for name in rows],
        "spans": list(
            chain.from_iterable(
                (row, s.start_ns - shift, s.end_ns - shift, place[s.op], s.motif, s.iteration)
                for s, row in zip(spans, places, strict=True)
            )
        ),
        "arrows": list(
            chain.from_iterable(
                (number[a], number[b]) for a, b in dependency_arrows(stepped, spans)
            )
        ),
        "ops": [
            {
                "name": op.id,
                "kind": kinds.index(op.collective) if isinstance(op, CommOp) else -1,
                "option": taken.get(op.id),
                "what": _call_text(op)
                if isinstance(op, CommOp)
                else f"computation of role {op.role}",
            }
            for op in plan.workload.ops
        ],
        "options": [_option_data(option) for option in options],
        "kinds": kinds,
        "marks": [
            (k, max(0, iteration_start(timeline, k) - shift))
            for k in range(begun, timeline.first_periodic + _REPEATING)
        ],
        "window": (first, first + _REPEATING * timeline.period_ns),
        "lanes": [
            {"name": lane.name, "busy": format_duration(lane.busy_us), "part": lane.share}
            for lane in shown.lanes
        ],
        "taken": [
            (
                entry.collective,
                str(entry.group_ranks),
                format_bytes(entry.bytes),
                str(entry.operations),
                entry.recipe,
                str(entry.motifs),
                format_duration(entry.us),
                f"{', '.join(entry.channels)}: {', '.join(entry.carriers)}",
            )
            for entry in shown.options
        ],
    }


def _shown_spans(stepped: VerifiedTrainingPlan) -> Sequence[StepSpan]:
    """Return the spans to show: from the start or, if these are too many, of periodic iterations.

    They include simultaneous work for later iterations.

    Raises:
        TooLargeError: The periodic iterations have too many spans.
    """
    timeline = stepped.timeline
    until = timeline.first_periodic + _REPEATING
    end = iteration_start(timeline, timeline.first_periodic) + _REPEATING * timeline.period_ns
    shown_spans = [s for s in timeline.spans if s.iteration < until or s.start_ns < end]
    if len(shown_spans) <= MAX_SPANS:
        return shown_spans
    repeating = [span for span in shown_spans if span.iteration >= timeline.first_periodic]
    if len(repeating) > MAX_SPANS:
        raise TooLargeError(
            f"{stepped.name}: {len(repeating)} computations and motifs in {_REPEATING} iterations, "
            f"more than a page shows smoothly (at most {MAX_SPANS}): draw it with 'sccl plot'"
        )
    return repeating


def _fact_rows(shown: ShownTrainingPart) -> list[tuple[str, str, str]]:
    bound_text = format_duration(shown.bound_us) if shown.bound_us else "not known"
    gap = "-" if shown.gap is None else format_gap(shown.gap) if shown.gap else "met, not verified"
    gap = "proved" if shown.proved else gap
    return [
        ("Iteration", format_duration(shown.period_us), "from one to the next"),
        ("Lower bound", bound_text, shown.binding if shown.bound_us else ""),
        ("Gap", gap, "of period and bound"),
        ("Search", shown.search, f"seed {shown.seed}"),
    ]


def _call_text(call: CommOp) -> str:
    size = format_bytes(call.size_bytes)
    suffix = f", and {len(call.beside)} such parallel groups" if call.beside else ""
    return f"{call.collective} of {size} among {len(call.group)} ranks{suffix}"


def _option_data(option: Option) -> dict[str, Any]:
    motifs = [
        {
            "channel": motif.channel,
            "carrier": motif.carrier,
            "loads": ", ".join(f"{load / 10:g} % of {name}" for name, load in motif.loads),
        }
        for motif in option.motifs
    ]
    return {"recipe": option.recipe, "bitwise": option.bitwise, "motifs": motifs}
