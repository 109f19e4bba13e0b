"""Write traces for chrome://tracing and Perfetto: the transfers of every link over time.

Source: Trace Event Format (Google, 2016), "complete" events (``ph`` X) with ``ts`` and ``dur`` in
microseconds, and metadata events (``ph`` M) that name processes and threads. A process is a rank or
a switch, and its threads are its outgoing links, so that Perfetto shows a row for each link by
sender. ``args`` of an event has the chunk, its destination, bytes, and arrival. A transfer of
several chunks is one event, whose ``args`` have all of them as ``chunks``. The format is only
written, because a trace does not contain the collective.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from sccl.core.schedule import Schedule
from sccl.errors import TooLargeError
from sccl.formats.format_contract import FormatOptions, SizedPlan, WrittenFiles, write_only

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
    """Return the trace of some schedules, each as processes of its own.

    Raises:
        TooLargeError: they have more transfers than a viewer takes.
    """
    transfers = sum(len(_require_schedule(entry).start) for entry in plans)
    if transfers > MAX_EVENTS:
        raise TooLargeError(
            f"{transfers} transfers, and viewers take up to {MAX_EVENTS}: export a part, as "
            "'sccl show' writes one"
        )
    encoder = msgspec.json.Encoder()
    rows = [
        encoder.encode(event)
        for n, entry in enumerate(plans)
        for event in _schedule_events(n, entry)
    ]
    text = b'{"displayTimeUnit": "ns", "traceEvents": [\n' + b",\n".join(rows) + b"\n]}\n"
    return WrittenFiles({"trace.json": text}, "open https://ui.perfetto.dev and drop {path} on it")


sniff, read = write_only("a trace has the load of links, not the demand")


def _require_schedule(entry: SizedPlan) -> Schedule:
    assert isinstance(entry.plan, Schedule)
    return entry.plan


def _schedule_events(number: int, entry: SizedPlan) -> Iterator[dict[str, Any]]:
    """Yield the events of a schedule. Its processes are numbered after those of others."""
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
