"""Write schedules and training plans as traces for chrome://tracing and Perfetto.

Source: Trace Event Format (Google, 2016), "complete" events (``ph`` X) with ``ts`` and ``dur`` in
microseconds, and metadata events (``ph`` M) that name processes and threads.

For a schedule, a process is a rank or a switch, and its threads are its outgoing links, so that
Perfetto shows a row for each link by sender. ``args`` of an event has the chunk, its destination,
bytes, and arrival. A transfer of several chunks is one event, with ``chunks`` in its ``args``. The
format is only written, because a trace does not contain the collective.

For a training plan there are two processes: computation, with a thread for each stream of a role,
and communication, with a thread for each channel and additional threads for concurrent motifs. Flow
events (``ph`` s and f) lead along dependencies. Instants (``ph`` i) mark the begins of iterations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from sccl.core.schedule import Schedule
from sccl.errors import TooLargeError
from sccl.formats.common.contract import (
    FormatOptions,
    SizedPlan,
    VerifiedTrainingPlan,
    WrittenFiles,
    dependency_arrows,
    write_only,
)
from sccl.training.types.training_plan import StepSpan, lane_rows

NAME = "chrome-trace"
ABOUT = "trace of the load of links over time, for Perfetto and chrome://tracing"
SOURCE = "Trace Event Format, Google 2016"
TAKES = (Schedule,)
BY_SIZE = True
MIXES = False

MAX_EVENTS = 2_000_000
"""Largest number of events of a trace. Perfetto needs several GB of memory for more."""

Options = FormatOptions
"""The format has no options."""


def write(plans: Sequence[SizedPlan], options: FormatOptions) -> WrittenFiles:  # noqa: ARG001 - the contract's
    """Return the trace of schedules, with separate processes for each.

    Raises:
        TooLargeError: They have too many transfers for a viewer.
    """
    transfers = sum(len(_require_schedule(entry).start) for entry in plans)
    if transfers > MAX_EVENTS:
        raise TooLargeError(
            f"{transfers} transfers, and viewers take up to {MAX_EVENTS}: export a part, as "
            "'sccl show' writes one"
        )
    events = (event for n, entry in enumerate(plans) for event in _schedule_events(n, entry))
    return _trace_file("ns", events)


def _trace_file(unit: str, events: Iterable[dict[str, Any]], *notes: str) -> WrittenFiles:
    rows = b",\n".join(map(msgspec.json.Encoder().encode, events))
    text = b'{"displayTimeUnit": "%s", "traceEvents": [\n%s\n]}\n' % (unit.encode(), rows)
    command = "open https://ui.perfetto.dev and drop {path} on it"
    return WrittenFiles({"trace.json": text}, command, notes)


sniff, read = write_only("a trace has the load of links, not the demand")


def _require_schedule(entry: SizedPlan) -> Schedule:
    assert isinstance(entry.plan, Schedule)
    return entry.plan


def _schedule_events(number: int, entry: SizedPlan) -> Iterator[dict[str, Any]]:
    """Yield the events of the ``number``-th schedule, which numbers its processes."""
    schedule = _require_schedule(entry)
    topology = schedule.topology
    names = [f"rank {topology.label(rank)}" for rank in range(topology.ranks)]
    names += [f"switch {switch.name}" for switch in topology.switches]
    first_pid = number * len(names) + 1
    for node, name in enumerate(names):
        shown = {"name": f"{entry.name}: {name}"}
        yield {"ph": "M", "name": "process_name", "pid": first_pid + node, "args": shown}
    for link, (src, dst) in enumerate(k.edge for k in topology.links):
        where = {"pid": first_pid + src, "tid": link}
        yield {"ph": "M", "name": "thread_name", **where, "args": {"name": f"to {names[dst]}"}}
    us, lags = schedule.tick_ps / 10**6, schedule.clock.lag
    sizes = schedule.chunk_bytes
    rows: dict[int, list[int]] = defaultdict(list)
    for i, first in enumerate(schedule.transfer_starts().tolist()):
        rows[first].append(i)
    for i, together in rows.items():
        start, end, link = int(schedule.start[i]), int(schedule.end[i]), int(schedule.link[i])
        chunks = schedule.chunk[together].tolist()
        reduces = bool(schedule.reduce[together].any())
        src, dst = topology.links[link].edge
        label = f"chunk{'s' * (len(chunks) > 1)} {', '.join(map(str, chunks))}"
        yield {
            "ph": "X",
            "name": label + (", reduced" if reduces else ""),
            "cat": "reduce" if reduces else "copy",
            "pid": first_pid + src,
            "tid": link,
            "ts": round(start * us, 6),
            "dur": round((end - start) * us, 6),
            "args": {
                **({"chunk": chunks[0]} if len(chunks) == 1 else {"chunks": chunks}),
                "to": names[dst],
                "bytes": sum(sizes if isinstance(sizes, int) else sizes[c] for c in chunks),
                "arrives_us": round((end + lags(link)) * us, 6),
            },
        }


MAX_SPANS = 200_000
"""Largest number of spans of a trace. Each may have several arrows."""

_REPEATING = 2
_COMPUTATION, _COMMUNICATION = 1, 2
"""Number of periodic iterations to write, and numbers of the two processes."""


def write_step(stepped: VerifiedTrainingPlan) -> WrittenFiles:
    """Return the trace of a plan: its first iterations, including two periodic ones.

    Raises:
        TooLargeError: There are too many spans for a viewer.
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
    events = (
        *_names(threads),
        *_iteration_marks(spans),
        *_span_events(stepped, threads),
        *_arrow_events(stepped, threads),
    )
    note = f"it has the first {until} iterations"
    if timeline.is_steady:
        note += f"; from iteration {timeline.first_periodic} on they repeat"
    return _trace_file("ms", events, note)


_Threads = dict[StepSpan, tuple[str, dict[str, int]]]
"""Name and ids of the thread of each span."""


def _threads(stepped: VerifiedTrainingPlan, spans: Sequence[StepSpan]) -> _Threads:
    """Return the threads: of streams, then of channels in the order of the fabric."""
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
