"""Write traces of training plans for chrome://tracing and Perfetto: streams and channels over time.

Source: Trace Event Format (Google, 2016), as in :mod:`sccl.formats.chrome_trace`, and flow events
(``ph`` s and f) along dependencies. There are two processes: computation, with a thread for each
stream of a role, and communication, with a thread for each channel, and further ones for
simultaneous motifs. Instants (``ph`` i) mark the begins of iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from sccl.core.step_timeline import StepSpan, lane_rows
from sccl.errors import TooLargeError
from sccl.formats.format_contract import WrittenFiles
from sccl.formats.training.verified_training_plan import VerifiedTrainingPlan, dependency_arrows

MAX_SPANS = 200_000
"""Largest number of spans of a trace. Each may have several arrows."""

_REPEATING = 2
_COMPUTATION, _COMMUNICATION = 1, 2
"""Iterations that are written once they repeat; numbers of processes."""


def write_step(stepped: VerifiedTrainingPlan) -> WrittenFiles:
    """Return the trace of a plan: its first iterations, up to two that are alike.

    Raises:
        TooLargeError: there are more spans than a viewer takes.
    """
    timeline = stepped.timeline
    until = timeline.first_periodic + _REPEATING
    spans = [span for span in timeline.spans if span.iteration < until]
    if len(spans) > MAX_SPANS:
        raise TooLargeError(
            f"{stepped.name}: {len(spans)} computations and motifs in {until} iterations, and up "
            f"to {MAX_SPANS} are written: look at it with 'sccl plot'"
        )
    threads = _threads(stepped, spans)
    encoder = msgspec.json.Encoder()
    events = (
        *_names(threads),
        *_iteration_marks(spans),
        *_span_events(stepped, threads),
        *_arrow_events(stepped, threads),
    )
    rows = map(encoder.encode, events)
    text = b'{"displayTimeUnit": "ms", "traceEvents": [\n' + b",\n".join(rows) + b"\n]}\n"
    note = f"it has the first {until} iterations"
    if timeline.is_steady:
        note += f"; from iteration {timeline.first_periodic} on they repeat"
    command = "open https://ui.perfetto.dev and drop {path} on it"
    return WrittenFiles({"trace.json": text}, command, (note,))


_Threads = dict[StepSpan, tuple[str, dict[str, int]]]
"""Name and ids of the thread of each span."""


def _threads(stepped: VerifiedTrainingPlan, spans: Sequence[StepSpan]) -> _Threads:
    """Return the threads: of streams, and of channels in the order of the fabric."""
    channels = [channel.name for channel in stepped.plan.fabric.channels]
    places: dict[StepSpan, tuple[int, int, str, int]] = {}
    for span, slot in zip(spans, lane_rows(spans), strict=True):
        process = _COMPUTATION if span.computes else _COMMUNICATION
        rank = 0 if span.computes else channels.index(span.lane)
        places[span] = (process, rank, span.lane, slot)
    numbers = {place: k for k, place in enumerate(sorted(set(places.values())), 1)}
    return {
        span: (
            f"{place[2]} ({place[3] + 1})" if place[3] else place[2],
            {"pid": place[0], "tid": numbers[place]},
        )
        for span, place in places.items()
    }


def _names(threads: _Threads) -> Iterator[dict[str, Any]]:
    for process, name in ((_COMPUTATION, "computation"), (_COMMUNICATION, "communication")):
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
        sort = {"sort_index": process}
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": sort}
    for name, tid, pid in sorted({(name, at["tid"], at["pid"]) for name, at in threads.values()}):
        where = {"pid": pid, "tid": tid}
        yield {"ph": "M", "name": "thread_name", **where, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": tid}}


def _iteration_marks(spans: Sequence[StepSpan]) -> Iterator[dict[str, Any]]:
    computes = any(span.computes for span in spans)
    begun: dict[int, int] = {}
    for span in spans:
        if span.computes or not computes:
            begun.setdefault(span.iteration, span.start_ns)
    for iteration, start in begun.items():
        where = {"pid": _COMPUTATION, "tid": 1, "ts": start / 1000}
        yield {"ph": "i", "s": "g", "name": f"iteration {iteration}", **where}


def _span_events(stepped: VerifiedTrainingPlan, threads: _Threads) -> Iterator[dict[str, Any]]:
    calls = {op.id: op for op in stepped.plan.workload.collectives()}
    options = dict(stepped.plan.options)
    for span, (_, where) in threads.items():
        args: dict[str, Any] = {"op": span.op, "iteration": span.iteration}
        if not span.computes:
            call, option = calls[span.op], options[span.op]
            args |= {
                "collective": call.collective,
                "bytes": call.size_bytes,
                "ranks": len(call.group),
                "recipe": option.recipe,
                "motif": span.motif,
                "motifs": len(option.motifs),
                "carrier": option.motifs[span.motif].carrier,
                "channel": span.lane,
            }
        yield {
            "ph": "X",
            "name": span.op,
            "cat": "computation" if span.computes else calls[span.op].collective,
            **where,
            "ts": span.start_ns / 1000,
            "dur": (span.end_ns - span.start_ns) / 1000,
            "args": args,
        }


def _arrow_events(stepped: VerifiedTrainingPlan, threads: _Threads) -> Iterator[dict[str, Any]]:
    taking = [span for span in threads if span.end_ns > span.start_ns]
    for number, (before, after) in enumerate(dependency_arrows(stepped, taking)):
        flow = {"name": "waits for", "cat": "waits", "id": number}
        # A flow belongs to the span that encloses its time, so it begins before the end of that.
        yield {"ph": "s", **flow, **threads[before][1], "ts": (before.end_ns - 1) / 1000}
        yield {"ph": "f", "bp": "e", **flow, **threads[after][1], "ts": after.start_ns / 1000}
