"""Chakra execution traces: their content and its order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.errors import FormatError, TooLargeError
from sccl.formats.chakra import Node, encode_trace
from sccl.training.files.chakra_records import NodeKind, message_types, read_records, write_records
from sccl.training.traces import iterate_files, readers
from sccl.training.traces.readers import chakra
from sccl.training.traces.readers.common.chakra_nodes import read_nodes
from sccl.training.traces.readers.common.contract import Kernel, TracedCall, TracedWait
from sccl.training.traces.trace_completion import read_group_list
from sccl.training.types.workload_ops import Dependency
from tests.kit.samples import sample
from tests.kit.traces import WANTED, refusal_of, workload_of


def computes(number: int, after: Iterable[int] = (), micros: int = 5, **more: int | bool) -> Node:
    return Node(number, NodeKind.COMPUTE, tuple(after), micros, more)


def calls(number: int, after: Iterable[int] = (), kind: int = 0, size: int = 64) -> Node:
    attributes = {"comm_type": kind, "comm_size": size}
    return Node(number, NodeKind.COLLECTIVE, tuple(after), 0, attributes)


def jsonized(nodes: Iterable[Node]) -> bytes:
    """Return nodes as chakra_jsonizer prints them: numbers of 64 bits are texts, 0 is left out."""
    names = {4: "COMP_NODE", 5: "COMM_SEND_NODE", 6: "COMM_RECV_NODE", 7: "COMM_COLL_NODE"}
    found: list[dict[str, object]] = [{"version": "0.0.4"}]
    for node in nodes:
        attributes: list[dict[str, object]] = [{"name": "is_cpu_op", "boolVal": False}]
        for name, value in node.attributes.items():
            if isinstance(value, str):
                attributes.append({"name": name, "stringVal": value})
            elif isinstance(value, bool):
                attributes.append({"name": name, "boolVal": value})
            else:
                attributes.append({"name": name, "int64Val": str(value)})
        told = {"name": node.name or f"{node.kind.name.lower()} {node.number}"}
        told |= {"type": names[node.kind], "id": str(node.number)}
        told |= {"durationMicros": str(node.micros)} if node.micros else {}
        deps = {"dataDeps": node.after, "ctrlDeps": node.control}
        lists = {name: [*map(str, which)] for name, which in deps.items() if which}
        found.append({**told, **lists, "attr": attributes})
    return "".join(json.dumps(one, indent=2) for one in found).encode()


def graph(nodes: Iterable[Node]) -> bytes:
    """Return nodes as simulators take them, attributes as fields."""
    found = [
        {
            "Id": node.number,
            "Name": node.name or node.kind.name,
            "NodeType": int(node.kind),
            "runtime": node.micros,
            "data_deps": [*node.after],
            "is_cpu_op": False,
            **node.attributes,
        }
        for node in nodes
    ]
    return json.dumps({"workload_graph": found}).encode()


def order(*nodes: Node) -> list[str]:
    """Return the content of a trace: microseconds, bytes of calls, nodes with waits."""
    found = []
    for event in chakra.read(encode_trace(nodes), "t", WANTED).events:
        match event:
            case Kernel():
                found.append(f"{event.duration_us:g}")
            case TracedCall():
                found.append(f"+{event.input_elements}")
            case TracedWait():
                found.append(f"-{event.request}")
    return found


def test_collectives_come_as_soon_as_they_can_and_are_waited_for_where_they_are_needed() -> None:
    found = order(computes(0), computes(1, [0], 7), calls(5, [0]), computes(3, [1, 5], 9))
    assert found == ["5", "+64", "7", "-5", "9"]


def test_host_operations_take_no_time_and_pass_dependencies() -> None:
    host = computes(2, [1], 1000, is_cpu_op=True)
    assert order(computes(0), calls(1, [0]), host, computes(3, [2])) == ["5", "+64", "-1", "5"]
    told = chakra.read(encode_trace([computes(0), calls(1, [0]), host]), "t", WANTED).assumed
    assert "host activity in 1 node is left out" in told
    alone = [computes(number, micros=3, is_cpu_op=True) for number in range(2)]
    assert not any(
        "left out" in line for line in chakra.read(encode_trace(alone), "t", WANTED).assumed
    )
    assert order(*alone, calls(4)) == ["+64", "3", "3"]


def test_nodes_that_are_not_there_are_not_waited_for() -> None:
    assert order(computes(7, [3, 4]), calls(8, [7, 99])) == ["5", "+64"]


def test_ranks_are_told_by_names_and_merged() -> None:
    nodes = [computes(0), calls(1, [0], kind=6), computes(2, [1])]
    assert chakra.read(encode_trace(nodes), "x/step.7.et.gz", WANTED).rank == 7
    found = workload_of(encode_trace(nodes), encode_trace(nodes)).workload
    assert (found.ranks, [role.ranks for role in found.roles]) == (2, [(0, 1)])
    assert [(op.collective, op.size_bytes) for op in found.collectives()] == [("alltoall", 64)]
    assert found.deps == (
        Dependency("all/npu/0", "alltoall-0"),
        Dependency("alltoall-0", "all/npu/2"),
    )
    other = [computes(0), calls(1, [0], size=32), computes(2, [1])]
    assert "ranks disagree about call 0" in refusal_of(encode_trace(nodes), encode_trace(other))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            encode_trace([computes(0), calls(1)])[:-3],
            "t0, record 2: it is cut off, or no record of a Chakra trace",
        ),
        (
            encode_trace([Node(0, NodeKind.SEND, (), 0, {"comm_type": 5, "comm_size": 8})]),
            "t0: node 0, 'send 0': it is a send between two ranks inside a collective",
        ),
        (
            encode_trace([computes(0), Node(1, NodeKind.SEND, (), 0, {"comm_size": 8})]),
            "t0: node 1, 'send 1': its comm_dst is None, expected a rank",
        ),
        (encode_trace([calls(1, kind=9)]), "t0: node 1: its comm_type is 9, not of 0 allreduce"),
        (
            encode_trace([Node(1, NodeKind.COLLECTIVE)]),
            "t0: node 1, 'collective 1': its size is not in the trace (comm_size): give the",
        ),
        (
            encode_trace([computes(1, [2]), computes(2, [1])]),
            "t0: nodes form a dependency cycle, among them 1, 2",
        ),
        (encode_trace([computes(1), computes(1)]), "t0, record 2: node 1 is there twice"),
        (b'{"workload_graph": 3}', "t0: its workload_graph is no list of nodes"),
        (b'{"workload_graph": [{"Id": 1}]}', "t0, node 0: its NodeType is None, expected a number"),
        (b'{"workload_graph": [{"Id": 1', "t0: no JSON of Chakra, or one that is cut off"),
        (jsonized([calls(1)]).replace(b'"64"', b'"-4"'), "t0: node 1, 'collective 1': its size"),
        (jsonized([calls(1), calls(1)]), "t0, node 1: node 1 is there twice"),
        (b"\xff" * 20, "t0, record 0: it is cut off, or no record of a Chakra trace"),
    ],
)
def test_bad_traces_are_a_sentence(content: bytes, says: str) -> None:
    told = refusal_of(content, format="chakra", ranks=2)
    assert told.startswith(says)
    assert "\n" not in told


def test_records_follow_their_lengths() -> None:
    (empty, node) = read_records(b"\x00\x05\x08\x96\x01\x18\x04", "t")
    assert not empty.ListFields()
    assert (node.id, node.type) == (150, NodeKind.COMPUTE)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80",  # a length without an end
        b"\xff" * 9 + b"\x01!",  # more bytes than any file has
        b"\x05\x08\x01",
        b"\x02\x10\x80",
        b"\x01\x07",  # a field of kind 7
        b"\x03\x52\x01\xff",  # an attribute that is no message
    ],
)
def test_damaged_record_is_reported_with_its_number(content: bytes) -> None:
    with pytest.raises(FormatError, match=r"^t, record 1: it is cut off, or no record") as refused:
        [*read_records(b"\x02\x08\x05" + content, "t")]
    assert "\n" not in str(refused.value)


@given(st.data())
def test_cut_off_trace_has_its_first_nodes_or_is_rejected(data: st.DataObject) -> None:
    content = encode_trace([computes(0), calls(1, [0]), computes(300, [1])])
    end = data.draw(st.integers(0, len(content)))
    try:
        records = [*read_records(content[:end], "t")]
    except FormatError:
        return
    assert write_records(records) == content[:end]


@pytest.mark.parametrize(
    "kind", ["int32", "uint64", "sint32", "sint64", "sfixed32", "fixed64", "bool", "string"]
)
def test_attribute_may_have_any_type_of_whole_numbers(kind: str) -> None:
    attribute = {"name": b"root", f"{kind}_val": b"1" if kind == "string" else 1}
    record = message_types().Node(id=1, type=NodeKind.COLLECTIVE, attr=[attribute])
    (node,) = read_nodes(write_records([record]), "t").values()
    assert node.attributes == {"root": 1}
    assert not node.unread


@pytest.mark.parametrize(
    "value",
    [
        b"\x1d\x00\x00\x80\x3f",  # field 3 with 4 bytes, which should have 8
        b"\x2d\x00\x00\x80\x3f",  # float_val
        b"\x42\x03\x0a\x01\x05",  # int32_list
        b"\x92\x02\x01\x05",  # field 34, of a later version
    ],
)
def test_attribute_of_another_type_is_reported_as_unused(value: bytes) -> None:
    attribute = b"\x0a\x09comm_size" + value
    record = b"\x08\x01\x18\x07\x52" + bytes([len(attribute)]) + attribute
    (node,) = read_nodes(bytes([len(record)]) + record, "t").values()
    assert (node.attributes, node.unread) == ({}, {"comm_size"})


def test_texts_that_are_not_utf8_are_read() -> None:
    attributes = [{"name": b"pg_name", "string_val": b"\xff"}, {"name": b"\xff", "int32_val": -1}]
    record = message_types().Node(id=0, name=b"\xff", type=NodeKind.COMPUTE, attr=attributes)
    (node,) = read_nodes(write_records([record]), "t").values()
    assert (node.name, node.group_name, node.unread) == ("\ufffd", "\ufffd", {"\ufffd"})


def test_number_that_a_trace_cannot_hold_is_rejected() -> None:
    with pytest.raises(TooLargeError, match=r"^node 1, 'collective 1': Chakra traces cannot hold"):
        encode_trace([calls(1, size=2**63)])


@pytest.mark.parametrize("rank", [0, 1])
def test_trace_of_2023_keeps_its_first_node(rank: int) -> None:
    ((where, content),) = iterate_files(sample(f"traces/chakra/resnet50_DataParallel.{rank}.et"))
    found = chakra.read(content, where, WANTED)
    kernels = [event for event in found.events if isinstance(event, Kernel)]
    assert (found.rank, len(kernels), len(found.calls())) == (rank, 161, 54)
    assert kernels[0].duration_us == 13003
    assert {call.request for call in found.calls()} <= set(range(215 * rank, 215 * rank + 215))
    assert {call.collective for call in found.calls()} == {"allreduce"}
    assert any("which may have kept nanoseconds" in line for line in found.assumed)


def test_trace_of_pytorch_by_chakra_has_collectives_of_the_device() -> None:
    ((where, content),) = iterate_files(sample("traces/chakra/chakra.0.et.gz"))
    _, *nodes = read_records(content, where)
    assert len(nodes) == 3664
    found = chakra.read(content, where, WANTED).calls()
    assert [call.collective for call in found] == ["broadcast"] * 2 + ["allreduce"] * 5
    assert workload_of(content, ranks=2).workload.ranks == 2


def test_nodes_that_need_too_many_collectives_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chakra, "_MAX_DEPENDENCIES", 10)
    nodes = [*map(calls, range(4)), *(computes(number, range(4)) for number in range(4, 8))]
    told = refusal_of(encode_trace(nodes), format="chakra", ranks=2)
    assert "its nodes need too many collectives" in told


def test_json_that_does_not_tell_sizes_and_traces_of_algorithms_are_rejected() -> None:
    for name in ("traces/chakra/small_chakra.0.json", "traces/chakra/chakra.0.json.gz"):
        ((_, content),) = iterate_files(sample(name))
        assert "its size is not in the trace (comm_size): give the original .et" in refusal_of(
            content
        )
    folder = sample("chakra_et/custom_ring_allreduce_8npus_1MB")
    (_, content), *_ = iterate_files(folder)
    assert "not of an algorithm" in refusal_of(content)
    (_, content), *_ = iterate_files(sample("chakra_et/microbenchmarks"))
    assert len(list(workload_of(content, ranks=4).workload.collectives())) == 1


JOB = [computes(0), calls(1, [0], kind=6), computes(2, [1]), calls(3, [2]), computes(4, [2, 3], 9)]


def test_both_forms_of_json_are_read_as_the_trace_is() -> None:
    of_trace = chakra.read(encode_trace(JOB), "t", WANTED)
    for content in (jsonized(JOB), graph(JOB)):
        assert readers.detect_reader(content, "t") is readers.load("chakra")
        assert chakra.read(content, "t", WANTED) == of_trace
    assert chakra.read(jsonized(JOB), "step.3.json", WANTED).rank == 3
    host = [computes(9, is_cpu_op=True), *JOB]
    assert chakra.read(jsonized(host), "t", WANTED) == chakra.read(encode_trace(host), "t", WANTED)


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "allreduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_float(...)", "reducescatter"),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t", "allgather"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "alltoall"),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t", "broadcast"),
    ],
)
def test_collective_kind_may_come_from_its_name(name: str, collective: str) -> None:
    node = Node(1, NodeKind.COLLECTIVE, (), 0, {"comm_size": 64}, name=name)
    (call,) = chakra.read(graph([node]), "t", WANTED).calls()
    assert (call.collective, call.input_elements) == (collective, 64)
    with pytest.raises(FormatError, match="its comm_type is None"):
        chakra.read(encode_trace([node]), "t", WANTED)


def test_sends_are_those_of_two_ranks() -> None:
    ends = {"comm_size": 40, "comm_tag": 1, "comm_src": 0, "comm_dst": 1}
    gives = [computes(0), Node(1, NodeKind.SEND, (0,), 3, ends)]
    takes = [Node(1, NodeKind.RECEIVE, (), 3, ends), computes(2, [1])]
    found = workload_of(encode_trace(gives), encode_trace(takes)).workload
    (sent,) = found.collectives()
    assert (sent.collective, sent.group, sent.root, sent.size_bytes) == ("broadcast", (0, 1), 0, 40)
    assert {(dep.before, dep.after) for dep in found.deps} == {
        ("role-0/npu/0", sent.id),
        (sent.id, "role-0/npu/0"),  # of the next iteration
        (sent.id, "role-1/npu/2"),
    }
    other = [Node(1, NodeKind.RECEIVE, (), 3, {**ends, "comm_size": 41}), computes(2, [1])]
    assert "ranks disagree about send 0 of ranks (0, 1)" in refusal_of(
        encode_trace(gives), encode_trace(other)
    )


def grouped(number: int, name: str | int, **more: int | str) -> Node:
    one = calls(number)
    return Node(number, one.kind, one.after, 0, {**one.attributes, "pg_name": name, **more})


@pytest.mark.parametrize("form", [encode_trace, jsonized, graph])
def test_chakra_groups_are_those_that_call_by_their_name(form: Callable[..., bytes]) -> None:
    files = [form([grouped(1, "odd" if rank % 2 else "even")]) for rank in range(4)]
    found = workload_of(*files, ranks=4)
    assert {op.group for op in found.workload.collectives()} == {(0, 2), (1, 3)}
    assert not any("without ranks in the trace has all ranks" in line for line in found.assumed)
    told = refusal_of(*files[:3], ranks=4)
    assert "it names groups ('even', 'odd') without their ranks" in told


def listed(**groups: list[int]) -> bytes:
    return json.dumps({name.removeprefix("g"): ranks for name, ranks in groups.items()}).encode()


def test_chakra_groups_are_those_that_a_file_lists() -> None:
    """Traces of two of four ranks: without the list their groups are those of the two."""
    files = [
        encode_trace([grouped(1, "7"), grouped(2, str(rank), comm_size=9)]) for rank in range(2)
    ]
    groups = listed(g7=[1, 0], g0=[2, 0], g1=[1, 3], g8=[2, 3])
    found = workload_of(*files, groups)
    assert {op.group for op in found.workload.collectives()} == {(0, 1), (2, 3), (0, 2), (1, 3)}
    assert found.workload.ranks == 4
    assert "t2: 4 groups of ranks" in found.understood
    told = refusal_of(*files, groups, alike=False)
    assert told.startswith("2 of 4 ranks have no trace (2, 3)")
    without = workload_of(*files)
    assert {op.group for op in without.workload.collectives()} == {(0, 1), (0,), (1,)}
    assert any(
        line.startswith(
            "2 groups ('0', '1') with one rank, because no other rank calls it: if traces are "
        )
        for line in without.assumed
    )


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ({"g7": [0, 1]}, "t0: it calls group '0', which t2 does not list"),
        ({"g7": [0, 1], "g0": [1, 2]}, "t0: it calls group '0', in which rank 0 is not by t2"),
        ({"g7": [0, 1], "g0": [0, 2, 0]}, "t2: group '0' is no set of ranks; expected ranks by "),
        ({"g7": [0, 1], "g0": []}, "t2: group '0' is no set of ranks"),
        ({"g7": [0, 1], "g0": [0, 10**6]}, "t2: group '0' has rank 1000000, expected up to "),
    ],
)
def test_chakra_refuses_lists_of_other_groups(groups: dict[str, list[int]], says: str) -> None:
    files = [
        encode_trace([grouped(1, "7"), grouped(2, str(rank), comm_size=9)]) for rank in range(2)
    ]
    assert refusal_of(*files, listed(**groups)).startswith(says)


def test_chakra_refuses_alike_ranks_in_groups_that_no_file_lists() -> None:
    """By the mesh of (0, 1) rank 2 would be with 3, and by the list it is with 4."""
    told = refusal_of(encode_trace([grouped(1, "7")]), listed(g7=[0, 1], g8=[2, 4], g9=[3, 5]))
    assert told.startswith("t1: it lists no group (2, 3), which rank 2 would call as others call")


def test_chakra_refuses_two_lists_of_groups_and_a_list_alone() -> None:
    groups = listed(g7=[0, 1])
    file = encode_trace([grouped(1, "7")])
    assert refusal_of(file, groups, groups) == "t1 and t2 both list groups: give one of them"
    assert refusal_of(groups) == "there are no traces: give at least one"


@pytest.mark.parametrize("content", [b"", b"{", b"[0]", b'{"0": [0, "1"]}', b'{"0": 1}', b"\xff"])
def test_list_of_groups_that_is_none_is_rejected_by_its_name(content: bytes) -> None:
    with pytest.raises(
        FormatError, match=r"x/comm_group\.json: no list of groups .*expected ranks"
    ):
        read_group_list(content, "x/comm_group.json")


def test_trace_is_no_list_of_groups() -> None:
    for name in readers.names():
        assert read_group_list(readers.load(name).EXAMPLE, "x/trace.json") is None


def test_chakra_group_of_alike_ranks_is_of_all() -> None:
    found = workload_of(encode_trace([grouped(1, "world")]), ranks=4)
    assert {op.group for op in found.workload.collectives()} == {(0, 1, 2, 3)}
    assert (
        "ranks without a trace call the same group 'world': it contains all ranks" in found.assumed
    )
    told = refusal_of(encode_trace([grouped(1, "world")]), ranks=4, alike=False)
    assert told.endswith("give the traces of all ranks, or --alike if they call that group, too")


def test_chakra_reports_unused_attributes_and_computation_without_times() -> None:
    nodes = [computes(1, micros=0, num_ops=10**9), computes(2, [9]), calls(3, [1])]
    found = workload_of(jsonized(nodes), ranks=2)
    assert "1 of 2 pieces of computation have no time: they take 0 us" in found.assumed
    assert found.unread == (
        "attributes of nodes: num_ops",
        "1 name of dependencies on missing nodes",
    )
    timed = workload_of(jsonized([computes(1), calls(3, [1])]), ranks=2)
    assert not timed.unread
    assert not any("have no time" in line for line in timed.assumed)


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"group_ranks": "0,1,..."}, "its group_ranks are '0,1,...', expected numbers of ranks"),
        ({"involved_dim": 0}, "it runs in some dimensions of a machine (involved_dim)"),
    ],
)
def test_chakra_refuses_groups_that_are_told_in_part(
    attributes: dict[str, int | str], says: str
) -> None:
    one = calls(1)
    node = Node(1, one.kind, (), 0, {**one.attributes, **attributes})
    assert says in refusal_of(jsonized([node]), ranks=2)


def test_chakra_sizes_written_as_text_are_read() -> None:
    node = Node(1, NodeKind.COLLECTIVE, (), 0, {"comm_type": 0, "comm_size": "640"})
    assert order(node) == ["+640"]
