"""Chakra execution traces: what is in them, and in which order it comes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sccl.core.workload_ops import Dependency
from sccl.formats.traces import Node, NodeKind, trace
from sccl.workloads import contents
from sccl.workloads.readers import chakra
from sccl.workloads.readers.protocol_buffers import fields, messages
from sccl.workloads.readers.rank_trace import Awaited, Call, Kernel
from tests.kit.samples import sample
from tests.kit.traces import WANTED, refusal_of, workload_of


def computes(number: int, after: Iterable[int] = (), micros: int = 5, **more: int | bool) -> Node:
    return Node(number, NodeKind.COMPUTE, tuple(after), micros, more)


def calls(number: int, after: Iterable[int] = (), kind: int = 0, size: int = 64) -> Node:
    attributes = {"comm_type": kind, "comm_size": size}
    return Node(number, NodeKind.COLLECTIVE, tuple(after), 0, attributes)


def order(*nodes: Node) -> list[str]:
    """Return what a trace is read as: microseconds, bytes that are called, nodes waited for."""
    found = []
    for event in chakra.read(trace(nodes), "t", WANTED).events:
        match event:
            case Kernel():
                found.append(f"{event.duration_us:g}")
            case Call():
                found.append(f"+{event.given}")
            case Awaited():
                found.append(f"-{event.request}")
    return found


def test_collectives_come_as_soon_as_they_can_and_are_waited_for_where_they_are_needed() -> None:
    found = order(computes(0), computes(1, [0], 7), calls(5, [0]), computes(3, [1, 5], 9))
    assert found == ["5", "+64", "7", "-5", "9"]


def test_what_the_host_does_takes_no_time_and_passes_on_what_it_needs() -> None:
    host = computes(2, [1], 1000, is_cpu_op=True)
    assert order(computes(0), calls(1, [0]), host, computes(3, [2])) == ["5", "+64", "-1", "5"]
    alone = [computes(number, micros=3, is_cpu_op=True) for number in range(2)]
    assert order(*alone, calls(4)) == ["+64", "3", "3"]


def test_nodes_that_are_not_there_are_not_waited_for() -> None:
    assert order(computes(7, [3, 4]), calls(8, [7, 99])) == ["5", "+64"]


def test_ranks_are_told_by_names_and_merged() -> None:
    nodes = [computes(0), calls(1, [0], kind=6), computes(2, [1])]
    assert chakra.read(trace(nodes), "x/step.7.et.gz", WANTED).rank == 7
    found = workload_of(trace(nodes), trace(nodes)).workload
    assert (found.ranks, [role.ranks for role in found.roles]) == (2, [(0, 1)])
    assert [(op.collective, op.size_bytes) for op in found.collectives()] == [("alltoall", 64)]
    assert found.deps == (
        Dependency("all/npu/0", "alltoall-0"),
        Dependency("alltoall-0", "all/npu/2"),
    )
    other = [computes(0), calls(1, [0], size=32), computes(2, [1])]
    assert "ranks disagree about call 0" in refusal_of(trace(nodes), trace(other))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (trace([computes(0), calls(1)])[:-3], "t0: it is cut off: a message of"),
        (trace([Node(0, NodeKind.SEND)]), "t0, record 1: it is a send between two ranks"),
        (trace([calls(1, kind=9)]), "t0: node 1: its comm_type is 9, not of 0 allreduce"),
        (
            trace([Node(1, NodeKind.COLLECTIVE)]),
            "t0: node 1, 'collective 1': its comm_size is None, expected bytes",
        ),
        (trace([computes(1, [2]), computes(2, [1])]), "t0: nodes wait for one another, among 1, 2"),
        (trace([computes(1), computes(1)]), "t0, record 2: node 1 is there twice"),
        (trace([computes(1)]), "t0: there are no collectives"),
        (b'{"workload_graph": []}', "t0: this form of Chakra, JSON, does not tell how large"),
        (b"\xff" * 20, "t0: it is cut off, or no file of protocol buffers"),
    ],
)
def test_bad_traces_are_a_sentence(content: bytes, says: str) -> None:
    told = refusal_of(content, format="chakra", ranks=2)
    assert told.startswith(says)
    assert "\n" not in told


def test_messages_are_taken_apart() -> None:
    assert list(messages(b"\x02hi\x00\x01!", "t")) == [b"hi", b"", b"!"]
    assert list(fields(b"\x08\x96\x01\x12\x02hi", "t")) == [(1, 0, 150), (2, 2, b"hi")]
    assert list(fields(b"\x1d\x01\x00\x00\x00", "t")) == [(3, 5, b"\x01\x00\x00\x00")]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_trace_of_2023_keeps_its_first_node(rank: int) -> None:
    ((where, content),) = contents(sample(f"traces/chakra/resnet50_DataParallel.{rank}.et"))
    found = chakra.read(content, where, WANTED)
    kernels = [event for event in found.events if isinstance(event, Kernel)]
    assert (found.rank, len(kernels), len(found.calls())) == (rank, 161, 54)
    assert kernels[0].duration_us == 13003
    assert {call.request for call in found.calls()} <= set(range(215 * rank, 215 * rank + 215))
    assert {call.collective for call in found.calls()} == {"allreduce"}


def test_a_trace_of_pytorch_by_chakra_has_collectives_of_the_device() -> None:
    ((where, content),) = contents(sample("traces/chakra/chakra.0.et.gz"))
    nodes = list(messages(content, where))[1:]
    assert len(nodes) == 3664
    found = chakra.read(content, where, WANTED).calls()
    assert [call.collective for call in found] == ["broadcast"] * 2 + ["allreduce"] * 5
    assert workload_of(content, ranks=2).workload.ranks == 2


def test_nodes_that_need_too_many_collectives_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chakra, "_MOST_NEEDED", 10)
    nodes = [*map(calls, range(4)), *(computes(number, range(4)) for number in range(4, 8))]
    told = refusal_of(trace(nodes), format="chakra", ranks=2)
    assert "its nodes need too many collectives" in told


def test_json_forms_and_traces_of_algorithms_are_refused() -> None:
    for name in ("traces/chakra/small_chakra.0.json", "traces/chakra/chakra.0.json.gz"):
        ((_, content),) = contents(sample(name))
        assert "this form of Chakra, JSON, does not tell how large" in refusal_of(content)
    folder = sample("chakra_et/custom_ring_allreduce_8npus_1MB")
    (_, content), *_ = contents(folder)
    assert "between two ranks, and collectives are read" in refusal_of(content)
    (_, content), *_ = contents(sample("chakra_et/microbenchmarks"))
    assert len(list(workload_of(content, ranks=4).workload.collectives())) == 1
