"""Small traces of training jobs, and the conformance of their readers: `check_trace_reader`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any

from sccl.errors import InputError
from sccl.training.traces import ParsedWorkload, TraceHints, read_workload, readers
from sccl.training.traces.readers import StepSelection, TraceReader
from tests.kit.nightly import seed, times

WANTED = StepSelection()
HINTS: dict[str, dict[str, Any]] = {"astra": {"ranks": 4}, "chakra": {"ranks": 4}}
"""Options that a format's traces require."""

GEMM = ("kernel", 5)
"""A kernel of 5 us."""

SENDS = ("send", "recv")

Event = tuple[Any, ...]
"""("kernel", us), ("wait", request), or ("call", request, PyTorch's name, elements) with splits
behind. Each may end in the name of a thread, and a wait for a send in the word sent.
"""

PREFETCHING: tuple[Event, ...] = (
    ("wait", 5),
    GEMM,
    ("call", 7, "all_to_allv", 40),
    GEMM,
    ("call", 8, "allreduce", 100, "backward"),
    ("wait", 8, "backward"),
    GEMM,
)
"""Two calls a step: request 5 is the first of the step before."""


def _thread(event: Event) -> str:
    return event[-1] if isinstance(event[-1], str) and event[-1] == "backward" else "main"


def execution_trace(rank: int, events: Iterable[Event], ranks: int = 2, steps: int = 0) -> bytes:
    """Build an execution trace of schema 1.0.1.

    Args:
        steps: Number of marks of steps, each before all events, with continuing requests. 0 for
            none.
    """
    nodes: list[dict[str, Any]] = []
    given = list(events)
    calls = sum(event[0] == "call" for event in given)
    for step in range(max(steps, 1)):
        if steps:
            nodes.append({"name": f"ProfilerStep#{step + 3}"})
        for event in given:
            nodes.append(_node(rank, event, ranks, step * calls))
    for number, node in enumerate(nodes):
        thread = node.pop("tid", "main")
        nodes[number] = {"op_schema": "", "rf_id": number, **node, "id": number + 2, "tid": thread}
    return json.dumps({"schema": "1.0.1", "nodes": nodes}).encode()


def _node(rank: int, event: Event, ranks: int, shift: int) -> dict[str, Any]:
    tid = _thread(event)
    if event[0] == "kernel":
        return {"name": "aten::mm", "op_schema": "aten::mm(...)", "inputs": [], "tid": tid}
    name = "record_param_comms"
    if event[0] == "wait":
        number = [event[1] + shift, True] if "sent" in event else event[1] + shift
        return {"name": name, "inputs": [number, 0, rank, "wait", [], []], "tid": tid}
    _, request, collective, elements, *more = event
    splits = [one for one in more if isinstance(one, list)]
    if not splits and collective == "all_to_allv":
        splits = [[elements // ranks] * ranks] * 2
    tensor = [1, 2, 0, elements, 4, f"cuda:{rank}"]
    place = 1 - rank if collective in SENDS else rank
    number = [request + shift, True] if collective in SENDS else request + shift
    values = [tensor, number, 99, place, collective, *(splits or [[], []])]
    got = [1, 2, 0, sum(splits[1]) if splits else elements, 4, f"cuda:{rank}"]
    types = ["Tensor(float)", "Int", "Int", "Int", "String", "", ""]
    return {"name": name, "inputs": values, "input_types": types, "outputs": [got], "tid": tid}


def profile(
    rank: int | None, events: Iterable[Event], ranks: int = 2, steps: int = 1, *, told: bool = False
) -> bytes:
    """Build a trace of Kineto: a kernel or a call every 10 us, in consecutive steps.

    Args:
        told: Whether it has metadata of collectives, and numbers of requests.
    """
    found: list[dict[str, Any]] = []
    given = list(events)
    calls = sum(event[0] == "call" for event in given)
    long = 10 * len(given) + 20
    for step in range(max(steps, 1)):
        begin = 1000 + step * long
        if steps:
            mark = {"cat": "user_annotation", "name": f"ProfilerStep#{step + 3}"}
            found.append(mark | {"tid": "main", "ts": begin, "dur": long - 1})
        for place, event in enumerate(given):
            at = begin + 10 * (place + 1)
            one = _profiled(event, at, len(found), step * calls, told=told, ranks=ranks)
            found += _between_two(one, event, rank or 0, told=told)
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": ranks}}
    return json.dumps(info | {"traceEvents": [{"ph": "X"} | one for one in found]}).encode()


def _profiled(
    event: Event, at: int, number: int, shift: int, *, told: bool, ranks: int
) -> list[dict[str, Any]]:
    host = {"tid": _thread(event), "ts": at, "dur": 8}
    args: dict[str, Any] = {"correlation": number, "stream": 7}
    if event[0] == "kernel":
        launch = host | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": args}
        ran = {"cat": "kernel", "name": "gemm", "tid": 7, "ts": at + 3, "dur": event[1]}
        return [launch, ran | {"args": args}]
    node = host | {"cat": "cpu_op", "name": "record_param_comms"}
    if event[0] == "wait":
        args = {"Concrete Inputs": [str(event[1] + shift), "", "", "wait"]} if told else {}
        return [node | {"args": args}]
    _, request, collective, elements, *_ = event
    if told:
        args = {
            "Concrete Inputs": ["", str(request + shift), "", "", collective],
            "Collective name": collective,
            "dtype": "Float",
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "Group size": ranks,
            "Process Group Ranks": str(list(range(ranks))),
        }
        return [node | {"args": args}]
    dims = {"Input Dims": [[elements], []], "Input type": ["float", "Scalar"]}
    name = "nccl:" + collective.removesuffix("v").replace("allreduce", "all_reduce")
    inner = {"cat": "user_annotation", "name": name, "tid": host["tid"], "ts": at + 1, "dur": 5}
    return [node | {"args": dims}, inner | {"args": dims}]


def _between_two(
    events: list[dict[str, Any]], event: Event, rank: int, *, told: bool
) -> list[dict[str, Any]]:
    """Return the metadata of a call, with its other end for a send of two ranks."""
    if event[0] == "call" and event[2] in SENDS:
        way = {"send": "->", "recv": "<-"}[event[2]]
        if told:
            events[0]["args"] |= {{"send": "Dst", "recv": "Src"}[event[2]] + " Rank": str(1 - rank)}
        else:
            events[1]["name"] = f"nccl:{event[2]} {rank}{way}{1 - rank}"
    return events


def workload_of(*traces: bytes, **hints: Any) -> ParsedWorkload:
    """Import traces as a workload, with the names t0, t1 and so on in messages.

    By default ranks without a trace behave like those with one.
    """
    named = [(f"t{number}", content) for number, content in enumerate(traces)]
    return read_workload(named, TraceHints(**{"alike": True} | hints), "small")


def refusal_of(*traces: bytes, **hints: Any) -> str:
    """Return the error of traces, or an empty text if they are valid."""
    try:
        workload_of(*traces, **hints)
    except InputError as error:
        return str(error)
    return ""


def check_trace_reader(name: str) -> None:
    """Check the contract of a reader on its own example and on damaged copies of it.

    Raises:
        AssertionError: The reader violates the contract.
    """
    reader = readers.load(name)
    assert name == reader.NAME
    assert reader.ABOUT
    assert reader.SOURCE
    mine = [one for one in readers.names() if readers.load(one).sniff(reader.EXAMPLE)]
    assert mine == [name]
    assert not reader.sniff(b"")
    trace = reader.read(reader.EXAMPLE, "example", WANTED)
    assert trace == reader.read(reader.EXAMPLE, "example", WANTED)
    assert trace.calls()
    assert workload_of(reader.EXAMPLE, **HINTS.get(name, {})).workload.ops
    check_damaged_trace(reader, reader.EXAMPLE, times(400, by_day=200))


def check_damaged_trace(reader: TraceReader, content: bytes, tries: int) -> None:
    """Check that a truncated trace is read, or rejected with one sentence."""
    draw = random.Random(seed(reader.NAME))  # noqa: S311 - the same damage every time
    ends = range(0, len(content), max(1, len(content) // 100))
    damaged: list[bytes] = [content[:end] for end in ends]
    pieces: Sequence[bytes] = (
        *(b"-1", b"1e999", b"99999999999999999999", b"null", b"[]", b"[[[[1]]]]", b"{}", b'"x"'),
        *(b"true", b"0", b"\xff", b",", b"", b"[" * 100, b"2147483648", b"1.5"),
    )
    for _ in range(tries):
        begin = draw.randrange(len(content))
        end = begin + draw.choice([0, 1, 1, 2, 5, 20])
        damaged.append(content[:begin] + draw.choice(pieces) + content[end:])
    for one in damaged:
        reader.sniff(one)
        assert "\n" not in refusal_of(one, format=reader.NAME, **HINTS.get(reader.NAME, {})), one
