"""Readers of traces: their common contract, and the content of small traces."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.errors import FormatError, InputError
from sccl.training.traces import readers
from sccl.training.traces.readers import StepSelection, kineto, pytorch_et
from sccl.training.traces.readers.common.contract import Kernel, StreamEvent, TracedCall, TracedWait
from sccl.training.traces.readers.common.kineto_events import EventArguments
from sccl.training.traces.readers.common.torch_names import (
    collective_of,
    count_elements,
    dtype_of,
    parse_integers,
    value_of,
)
from sccl.training.types.workload_ops import COLLECTIVES
from tests.kit.traces import (
    GEMM,
    PREFETCHING,
    WANTED,
    check_trace_reader,
    execution_trace,
    profile,
    refusal_of,
    workload_of,
)


@pytest.mark.parametrize("name", readers.names())
def test_conforms(name: str) -> None:
    check_trace_reader(name)


WORDS = st.sampled_from(["traceEvents", "nodes", "schema", "op_schema", "ph", "inputs", "args"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
)
CONTENTS = st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode())


@pytest.mark.parametrize("name", readers.names())
@given(content=CONTENTS)
def test_any_bytes_are_read_or_refused(name: str, content: bytes) -> None:
    reader = readers.load(name)
    reader.sniff(content)
    with contextlib.suppress(InputError):
        reader.read(content, "any", WANTED)


ARGUMENTS = st.sampled_from(EventArguments.__struct_fields__)


@given(arguments=st.dictionaries(ARGUMENTS, VALUES))
def test_any_arguments_of_a_call_are_read_or_refused(arguments: dict[str, Any]) -> None:
    fields = EventArguments.__struct_fields__
    named = dict(zip(fields, EventArguments.__struct_encode_fields__, strict=True))
    trace = json.loads(kineto.EXAMPLE)
    trace["traceEvents"][-1]["args"] |= {named[name]: one for name, one in arguments.items()}
    assert "\n" not in refusal_of(json.dumps(trace).encode())


def test_execution_trace_is_read_in_the_order_of_its_nodes() -> None:
    trace = pytorch_et.read(execution_trace(1, PREFETCHING), "t", WANTED)
    assert (trace.rank, trace.world, trace.main, trace.step) == (1, 2, "main", None)
    assert [type(event) for event in trace.events] == [
        *(TracedWait, Kernel, TracedCall, Kernel, TracedCall, TracedWait, Kernel)
    ]
    first, second = trace.calls()
    assert (first.collective, first.input_elements, first.request, first.send_splits) == (
        "alltoall",
        40,
        7,
        (20, 20),
    )
    assert (second.collective, second.dtype, second.thread) == ("allreduce", "float32", "backward")


def test_profile_is_read_in_the_order_of_its_launches() -> None:
    trace = kineto.read(profile(1, PREFETCHING, steps=3), "t", WANTED)
    assert (trace.rank, trace.world, trace.main, trace.step) == (1, 2, "main", 4)
    assert trace.iteration_us == 90
    assert [type(event) for event in trace.events] == [
        *(TracedWait, Kernel, TracedCall, Kernel, TracedCall, TracedWait, Kernel)
    ]
    assert {event.duration_us for event in trace.events if isinstance(event, Kernel)} == {5}
    assert kineto.read(profile(1, PREFETCHING, steps=3), "t", StepSelection(3)).step == 3
    told = kineto.read(profile(1, PREFETCHING, told=True), "t", WANTED)
    assert [event.request for event in told.events if isinstance(event, TracedWait)] == [5, 8]
    assert [call.group for call in told.calls()] == [(0, 1), (0, 1)]


def test_kernels_of_collectives_are_no_computation_and_tell_what_combines() -> None:
    events = json.loads(profile(0, [GEMM, ("call", 1, "allreduce", 8)]))
    call = next(e for e in events["traceEvents"] if e["name"] == "record_param_comms")
    arguments = {"correlation": 77, "stream": 20}
    launch = {"name": "cudaLaunchKernel", "cat": "cuda_runtime", "ts": call["ts"] + 2}
    kernel = {"name": "ncclDevKernel_AllReduce_Max_f32_RING_LL(x)", "cat": "kernel", "ts": 2000}
    for more in (launch | {"tid": "main", "dur": 1}, kernel | {"tid": 20, "dur": 33}):
        events["traceEvents"].append({"ph": "X", **more, "args": arguments})
    trace = kineto.read(json.dumps(events).encode(), "t", WANTED)
    (found,) = trace.calls()
    assert (found.duration_us, found.reduce) == (33, "max")
    assert [event.stream for event in trace.events if isinstance(event, Kernel)] == ["7"]


def test_without_a_device_the_host_computes_between_calls() -> None:
    trace = kineto.read(profile(0, [("call", 1, "allreduce", 8), ("wait", 1)]), "t", WANTED)
    kinds = [type(event) for event in trace.events]
    assert kinds == [Kernel, TracedCall, Kernel, TracedWait, Kernel]
    assert {event.stream for event in trace.events if isinstance(event, Kernel)} == {"host-0"}
    assert any("no device" in line for line in trace.assumed)


def beside(**second: Any) -> str:
    """Return the error on two kernels of a stream, of 5 us each, or an empty text."""
    first = {"stream": 7, "device": 0, "correlation": 1}
    kernels = [("first", 10, first), ("second", 12, first | {"correlation": 2} | second)]
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "tid": 7, "ts": at, "dur": 5, "args": args}
        for name, at, args in kernels
    ]
    try:
        kineto.read(json.dumps({"traceEvents": events}).encode(), "t", WANTED)
    except InputError as error:
        return str(error)
    return ""


def test_stream_does_one_thing_after_the_other() -> None:
    assert beside() == (
        "t: on stream 7 'first' and 'second', at 12.000 us, run at the same time for 3.000 us: "
        "expected one after the other, as of one device and one run"
    )
    assert not beside(device=1)
    assert not beside(stream=8)
    assert not beside(correlation=1)  # of one graph


def gloo(at: int, operator: str, event: str, elements: int, late: int, *, waits: bool) -> list[Any]:
    """Return Kineto's events of a call of Gloo, which a separate thread begins later."""
    dims = {"Input Dims": [[elements], []], "Input type": ["float", "Scalar"]}
    concrete = {"Concrete Inputs": ["", str(not waits), "-1"]}
    begun = {"ph": "X", "tid": "main", "ts": at, "dur": 4, "cat": "cpu_op", "args": dims | concrete}
    ran = {"ph": "X", "tid": f"gloo-{at}", "ts": at + late, "dur": 30, "cat": "user_annotation"}
    return [begun | {"name": operator}, ran | {"name": event, "args": dims}]


def test_calls_of_gloo_are_those_of_their_operators() -> None:
    events = gloo(20, "c10d::_allgather_base_", "gloo:all_gather", 6, 1, waits=False)
    events += gloo(40, "c10d::allreduce_", "gloo:all_reduce", 8, 25, waits=True)
    events += gloo(50, "c10d::barrier", "gloo:barrier", 1, 2, waits=True)
    mark = {"ph": "X", "name": "ProfilerStep#1", "tid": "main", "ts": 10, "dur": 100}
    info = {"rank": 0, "world_size": 2}
    text = json.dumps({"distributedInfo": info, "traceEvents": [mark, *events]}).encode()
    trace = kineto.read(text, "t", WANTED)
    found = [e for e in trace.events if not isinstance(e, Kernel)]
    assert [type(event) for event in found] == [
        TracedCall,
        TracedCall,
        TracedWait,
        TracedCall,
        TracedWait,
    ]
    assert {e.thread for e in trace.events if not isinstance(e, StreamEvent)} == {"main"}
    assert [(c.collective, c.input_elements) for c in trace.calls()] == [
        *(("allgather", 6), ("allreduce", 8), ("allreduce", 1))
    ]
    assert sum(event.duration_us for event in trace.events if isinstance(event, Kernel)) == 88
    (gathered, summed, _) = workload_of(text).workload.collectives()
    assert (gathered.count, summed.count) == (12, 8)


@pytest.mark.parametrize("backend", ["hccl", "xccl", "a_backend2"])
def test_calls_of_backends_without_a_reader_of_their_own_are_counted(backend: str) -> None:
    events = gloo(20, "c10d::allgather_", f"{backend}:allgather", 6, 1, waits=False)
    events += gloo(40, "c10d::allreduce_", f"{backend}:all_reduce", 8, 5, waits=False)
    events += gloo(60, "other::reduce", f"{backend}::reduce", 8, 5, waits=False)
    events += gloo(80, "aten::relu", f"{backend}:relu", 8, 5, waits=False)
    text = json.dumps({"traceEvents": events}).encode()
    calls = kineto.read(text, "t", WANTED).calls()
    assert [call.collective for call in calls] == ["allgather", "allreduce"]
    inputs = {"values": [[1, 2, 0, 8, 4, "cpu"]], "types": ["Tensor(float)"]}
    nodes = [{"id": 5, "name": f"{backend}:all_reduce", "inputs": inputs, "op_schema": "x"}]
    nodes.append({"id": 6, "name": f"{backend}:relu", "inputs": inputs, "op_schema": "x"})
    text = json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes, "rf_id": 0}).encode()
    trace = pytorch_et.read(text, "t", WANTED)
    assert [type(event) for event in trace.events] == [TracedCall, Kernel]


def test_execution_traces_of_gloo_have_calls_in_operators() -> None:
    tensor = [1, 2, 0, 8, 4, "cpu"]
    types = {"types": ["Tensor(float)"]}
    nodes: list[dict[str, Any]] = [
        {"id": 3, "name": "## process_group:init ##", "inputs": {"values": [GROUPS]}},
        {"id": 4, "name": "c10d::allreduce_", "inputs": {"values": [[tensor], "", False, -1]}},
        {
            "id": 5,
            "name": "gloo:all_reduce",
            "inputs": {"values": [tensor]} | types,
            "ctrl_deps": 4,
        },
        {"id": 6, "name": "c10d::barrier", "inputs": {"values": [tensor, True, -1]} | types},
        {"id": 7, "name": "gloo:barrier", "inputs": {"values": [], "types": []}, "ctrl_deps": 6},
    ]
    text = json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes, "rf_id": 0}).encode()
    trace = pytorch_et.read(text, "t", WANTED)
    assert (trace.rank, trace.world) == (None, 4)
    assert [type(event) for event in trace.events] == [TracedCall, TracedWait, TracedCall]
    assert [call.input_elements for call in trace.calls()] == [8, 8]
    assert workload_of(text).workload.ranks == 4


GROUPS = '[{"pg_name": "0", "ranks": [], "group_size": 4}]'


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (StepSelection(9), "t: step 9 is not in it: give --step one of 3, 4, 5"),
        (StepSelection(9, marked=False), "t: step 9 is not in it"),
    ],
)
def test_step_that_is_not_there_is_rejected(wanted: StepSelection, says: str) -> None:
    for reader, made in ((kineto, profile), (pytorch_et, execution_trace)):
        with pytest.raises(InputError, match=says):
            reader.read(made(0, PREFETCHING, steps=3), "t", wanted)
    with pytest.raises(InputError, match=r"t: it has no step markers .* leave --step out"):
        pytorch_et.read(execution_trace(0, PREFETCHING), "t", StepSelection(9))
    assert pytorch_et.read(execution_trace(0, PREFETCHING), "t", StepSelection(9, marked=False))


CALLED = '"name": "record_param_comms", "id": 3, "inputs": [[1, 2, 0, 8, 4, "cpu"], 1, 0, 0, '
UNNAMED = '"name": "record_param_comms", "id": 3, "inputs": [1, 2]}]}'
GRAPH = '{"schema": "1.0.1", "nodes": [{"op_schema": "", '


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (profile(0, PREFETCHING)[:-5], r"no trace of Kineto, or one that is cut off \("),
        (execution_trace(0, PREFETCHING)[:-5], r"no execution trace, or one that is cut off \("),
        (b'{"schema": "2.0", "op_schema": "", "nodes": []}', "its schema is '2.0', expected 1.0.1"),
        (b'{"traceEvents": [{"ph": "X", "name": "k", "dur": -3}]}', "takes -3: expected microsec"),
        (b'{"traceEvents": [{"ph": "X", "name": "k", "ts": 1e99}]}', "begins at 1e"),
        (b'{"traceEvents": [], "distributedInfo": {"rank": -1}}', "distributedInfo has rank -1"),
        (b'{"schema": "1.0.1", "op_schema": "", "nodes": [' + b"[" * 5000, "no execution trace"),
        (b'{"traceEvents": ' + b"[" * 5000, "no trace of Kineto"),
        (
            GRAPH + CALLED + '"send", [], []]}]}',
            "node 3: the element type is 'None', expected a type such as float",
        ),
        (
            GRAPH + CALLED + '"recv_any", [], []]}]}',
            "node 3: 'recv_any' is no collective that is read: expected one of",
        ),
        (
            GRAPH + CALLED + '"reduce", [], []]}]}',
            "node 3: the element type is 'None', expected a type such as float",
        ),
        (
            GRAPH + UNNAMED,
            "node 3, record_param_comms: no collective name",
        ),
        (b"{}", "t0 is no trace that sccl knows: name its format with --format"),
    ],
)
def test_bad_traces_are_a_sentence(content: bytes | str, says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        raise InputError(refusal_of(content.encode() if isinstance(content, str) else content))
    assert "\n" not in str(error.value)


def test_depth_is_limited() -> None:
    assert value_of(b"[" * 60 + b"]" * 60, "t") is not None
    with pytest.raises(FormatError, match="more than 64 deep"):
        value_of(b"[" * 70 + b"]" * 70, "t")


def test_words_of_pytorch_are_known() -> None:
    words = ["_allgather_base", "nccl:_all_gather_base", "all_gather_into_tensor", "all_gather"]
    assert {collective_of(word) for word in words} == {"allgather"}
    for name in COLLECTIVES:
        assert collective_of(name) == name
    assert collective_of("barrier") == "allreduce"
    assert collective_of("send") is None
    types = ("Tensor(long int)", "GenericList[Tensor(float)]", "c10::Half", "BFloat16", "Byte")
    found = [dtype_of(word, "t") for word in types]
    assert found == ["int64", "float32", "float16", "bfloat16", "uint8"]
    assert count_elements([[2, 3], [4]]) == 10
    assert count_elements([[], []]) is None
    assert parse_integers("[1, 2]") == (1, 2)
    assert parse_integers("[0, 1, ..., 7]") == parse_integers(None) == parse_integers([1, -1]) == ()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            '{"pg_name": "7", "ranks": [0, 1], "group_size": 9}',
            "node 3, process group '7': a group ",
        ),
        ('{"pg_name": "7", "ranks": [0, "..."], "group_size": 2}', "its ranks are "),
        ('{"pg_name": "7", "ranks": [0, 1, ...', "node 3: its list of process groups is cut off"),
        ('{"pg_name": "7", "ranks": {"4": 0, "9": 1}}', "rank 9 is in a process group, and that"),
        ('{"pg_name": "5", "ranks": [0, 1], "group_size": 2}', "t: node 8: its group has 9 "),
    ],
)
def test_process_groups_that_contradict_one_another_are_rejected(made: str, said: str) -> None:
    groups = f'[{{"pg_name": "0", "ranks": [], "group_size": 4}}, {made}]'
    values = [[1, 2, 0, 8, 4, "cpu"], 12, ["5", ""], 0, "all_reduce", [], [], 0, 1, 9]
    nodes = [
        {"id": 3, "name": "## process_group:init ##", "inputs": {"values": [groups]}},
        {
            "id": 8,
            "name": "record_param_comms",
            "inputs": {"values": values, "types": ["Tensor(float)"]},
        },
    ]
    text = json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes, "rf_id": 0}).encode()
    with pytest.raises(FormatError, match=re.escape(said)):
        pytorch_et.read(text, "t", WANTED)
