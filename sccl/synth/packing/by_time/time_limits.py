"""Compute lower bounds over all chunkings by size, and schedules close to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from sccl.core.cost import format_bytes
from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import FileText, Part, Seconds
from sccl.core.outcome import Inconclusive, Solution, best_plan
from sccl.core.schedule import Schedule
from sccl.core.stop import INTERRUPTED, StopKind, StopReason
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request, SearchProgress
from sccl.synth.common.problem import CollectiveProblem
from sccl.synth.common.synthesis import parse_options
from sccl.synth.limits import SWEEP_EFFORT
from sccl.synth.packing.by_time.options import NAME

if TYPE_CHECKING:
    from sccl.core.outcome import Outcome


class TimePointPart(Part, frozen=True, kw_only=True):
    """The result at a size."""

    size_bytes: Annotated[int, Meta(ge=1), "Size of a rank's buffer."]
    bound_us: Annotated[float | None, "Lower bound for plans with any chunks; null: none yet."]
    finish_us: Annotated[float | None, "When the schedule's last chunk arrives; null: none yet."]
    gap: Annotated[float | None, "finish_us / bound_us - 1."]
    chunks: Annotated[int | None, "C of the schedule."]
    sends: Annotated[int | None, "Transfers over links."]
    found_by: Annotated[
        str,
        "Method of the schedule: packing, matching, tree pairs, limit by steps, teccl, or tacos; "
        "or empty: there is none.",
    ]
    seconds: Seconds
    ended: Annotated[str, "Reason why it ended early; or empty."]
    file: FileText | None


class TimeLimitOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl synth fastest'."""

    kind: Literal["time-limit"] = "time-limit"
    collective: str
    topology: str
    within: Annotated[float, Meta(ge=0), "The gap that was near enough."]
    points: tuple[TimePointPart, ...]


@dataclass(frozen=True, slots=True)
class TimePoint:
    """The result at a size.

    Attributes:
        end_reason: Reason why it ended early.
    """

    size_bytes: int
    plan: Solution | None
    seconds: float
    end_reason: StopReason


def compute_time_limits(  # noqa: PLR0913, PLR0917 - a problem, its limits, and callbacks
    subject: CollectiveProblem,
    sizes: Sequence[int],
    gap: float,
    timeout_s: float | None,
    on_progress: Callable[[str], None] = lambda _: None,
    first: Callable[[], None] = lambda: None,
) -> Iterator[TimePoint]:
    """Yield the result at each size, one after another. An interrupt ends the sequence.

    Args:
        gap: Relative gap at which a schedule is good enough.
        timeout_s: Seconds for each size. None: only the budget.
        on_progress: Function that receives progress.
        first: Function that is called before a compilation without a cache.

    Raises:
        InputError: The machine or the collective is not supported, or the gap is out of range.
    """
    from sccl.compiled import compiling  # noqa: PLC0415 - loads Numba

    synthesizer = registry.load(NAME)
    options = parse_options(NAME, gap=gap)
    for size in sizes:
        began = time.perf_counter()
        request = Request(subject.topology, subject.spec, size)

        def tell(event: object, size: int = size) -> None:
            if isinstance(event, SearchProgress):
                best = f"found {event.us:.6g} us" if event.us < float("inf") else "no schedule yet"
                lower_bound = f"at least {event.lower_bound_us:.6g} us"
                on_progress(f"{format_bytes(size)}: {lower_bound}, {best}")
            elif sends := getattr(event, "send_count", 0):
                on_progress(
                    f"{format_bytes(size)}: interrupted; {sends} sends of the best schedule are "
                    "being verified"
                )

        try:
            with compiling(first):
                outcome: Outcome = registry.plan(
                    synthesizer,
                    request,
                    options,
                    Effort(timeout_s, units=SWEEP_EFFORT),
                    notify=tell,
                )
        except KeyboardInterrupt:
            outcome = Inconclusive(INTERRUPTED)
        result, ended = best_plan(outcome)
        yield TimePoint(size, result, time.perf_counter() - began, ended)
        if ended.kind is StopKind.INTERRUPTED:
            return


def point_part(point: TimePoint, file: Path | None) -> TimePointPart:
    """Return the printed fields of a size."""
    result = point.plan
    plan = result.plan if result else None
    assert plan is None or isinstance(plan, Schedule)
    return build_output(
        TimePointPart,
        point,
        bound_us=result.bound.value if result else None,
        finish_us=result.objective if result else None,
        gap=result.gap if result else None,
        chunks=plan.collective.chunks if plan else None,
        sends=plan.num_sends if plan else None,
        found_by=result.found_by if result else "",
        ended=point.end_reason,
        file=file,
    )


def time_limit_output(
    subject: CollectiveProblem, within: float, points: Sequence[TimePointPart]
) -> TimeLimitOutput:
    """Return the JSON output."""
    inputs = question_digests(subject.topology, subject.spec)
    return build_output(
        TimeLimitOutput,
        subject,
        inputs=inputs,
        collective=subject.spec,
        within=within,
        points=points,
    )
