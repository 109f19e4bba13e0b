"""Limits of MSCCL++'s executor, and its deviations from the plan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from sccl.errors import FormatError, ParameterError
from sccl.formats import mscclpp
from sccl.formats.common.contract import SizedPlan
from sccl.formats.mscclpp_plans.executor_rules import (
    MAX_MIN_SIZE,
    MAX_OFFSET_BYTES,
    find_violations,
)
from sccl.formats.mscclpp_plans.plan_file import parse_plan
from tests.kit.easy_algorithms import frontier
from tests.kit.mscclpp import LL, write_plan

Plan = dict[str, Any]
Change = Callable[[Plan, int], None]


def plan() -> Plan:
    """Return a plan that is within all limits."""
    found: Plan = json.loads(write_plan(frontier("ring:4", "allreduce")[0], blocks=1))
    return found


def rules(changed: Plan) -> list[str]:
    return find_violations(parse_plan(json.dumps(changed).encode(), "plan"))


def block(of: Plan) -> Plan:
    found: Plan = of["gpus"][0]["threadblocks"][0]
    return found


def operation(**told: Any) -> Change:
    """Return changes that leave a single operation, with lists for repeated items."""

    def change(of: Plan, many: int) -> None:
        op = {k: v * many if isinstance(v, list) else v for k, v in told.items()}
        block(of)["ops"] = [op]

    return change


def operations(of: Plan, many: int) -> None:
    block(of)["ops"] = [{"name": "nop"}] * many


def piped(of: Plan, many: int) -> None:
    inner = [{"name": "nop"}] * (many - 1)
    context = {"unit_size": 65536, "num_chunks": 1}
    block(of)["ops"] = [{"name": "pipeline", "iter_context": context, "ops": inner}]


def channels(kind: str) -> Change:
    def change(of: Plan, many: int) -> None:
        switch = {"buffer_type": "i", "rank_groups": [{"size": 2, "ranks": [0, 1]}] * many}
        told = switch if kind == "switch" else {"connected_to": [1] * many}
        of["gpus"][0]["channels"] = [{"channel_type": kind, **told}]
        for one in of["gpus"][0]["threadblocks"]:
            one.update(channels=[], ops=[])
        block(of)["channels"] = [{"channel_type": kind, "channel_ids": list(range(many))}]

    return change


def remotes(kind: str) -> Change:
    def change(of: Plan, many: int) -> None:
        refs = [{"access_channel_type": kind, "remote_buffer_ids": [0] * many}]
        block(of).update(remote_buffer_refs=refs, ops=[])

    return change


def semaphores(of: Plan, many: int) -> None:
    of["gpus"][0]["semaphores"] = [{"init_value": 0}] * many


def acquired(of: Plan, many: int) -> None:
    semaphores(of, 1)
    operation(name="sem_acquire", semaphore_ids=[0])(of, many)


def stated(name: str) -> Change:
    return lambda of, many: of.update({name: many})


PART = {"type": "i", "index": 0, "size": 1}
WAIT = operation(name="wait", channel_type="memory", channel_ids=[0])

LIMITS: dict[str, tuple[Change, int, str]] = {
    "operations": (operations, 64, "65 operations, and there is room for 64: give its chunks to"),
    "piped operations": (piped, 64, "65 operations, and there is room for 64"),
    "memory channels": (channels("memory"), 16, "17 memory channels, and there is room for 16"),
    "port channels": (channels("port"), 16, "give its peers to more thread blocks"),
    "switch channels": (channels("switch"), 16, "give its peers to more thread blocks"),
    "remote buffers, memory": (remotes("memory"), 16, r"17 remote buffers \(memory\)"),
    "remote buffers, port": (remotes("port"), 16, "divide its writes among more thread blocks"),
    "channels of an operation": (WAIT, 8, "9 channels, and there is room for 8: write several"),
    "sources": (operation(name="re", src_buff=[PART], dst_buff=[]), 10, "11 sources"),
    "destinations": (operation(name="res", src_buff=[], dst_buff=[PART]), 10, "11 destinations"),
    "semaphores of an operation": (acquired, 16, "17 semaphores, and there is room for 16"),
    "threads": (stated("num_threads_per_block"), 1024, "1025, and thread blocks have 1 to 1024"),
    "least size": (stated("min_message_size"), MAX_MIN_SIZE, "is read as 32 bits: state less"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_at_its_edge_a_limit_is_kept_and_one_beyond_it_is_not(name: str) -> None:
    change, most, text = LIMITS[name]
    at, beyond = plan(), plan()
    change(at, most)
    change(beyond, most + 1)
    assert rules(at) == []
    (rule,) = rules(beyond)
    assert re.search(text, rule)


def within(kind: str, **told: Any) -> Change:
    """Return changes that let an operation read the chunk of an index."""

    def change(of: Plan, index: int) -> None:
        part = {"type": kind, "index": index, "size": 1}
        block(of)["ops"] = [{"src_buff": [part], "dst_buff": [PART], **told}]

    return change


def barrier(of: Plan, number: int) -> None:
    block(of)["ops"] = [{"name": "barrier", "barrier_id": number, "num_threadblocks": 1}]


def remote(of: Plan, index: int) -> None:
    at = {"buffer_id": 0, "index": index, "size": 1}
    told = {"name": "put", "channel_type": "memory", "channel_ids": [0]}
    block(of)["ops"] = [{**told, "src_buff": [PART], "dst_buff": [at]}]


def acquires(of: Plan, number: int) -> None:
    semaphores(of, 4)
    operation(name="sem_acquire", semaphore_ids=[number])(of, 1)


def packets(of: Plan, index: int) -> None:
    of["protocol"] = "LL"
    within("s", name="upkt")(of, index)


def data_beside_packets(of: Plan, index: int) -> None:
    """Data takes half the room."""
    of["protocol"] = "LL"
    within("s", name="copy")(of, index)


def last(of: Plan, name: str) -> int:
    count: int = of["gpus"][0][name]
    return count - 1


PLACES: dict[str, tuple[Change, Callable[[Plan], int], str]] = {
    "input": (within("i", name="copy"), lambda p: last(p, "input_chunks"), "beyond the end"),
    "output": (within("o", name="copy"), lambda p: last(p, "output_chunks"), "beyond the end"),
    "scratch": (within("s", name="copy"), lambda p: last(p, "scratch_chunks"), "beyond the end"),
    "at a peer": (remote, lambda p: last(p, "scratch_chunks"), "of rank 1, beyond the end"),
    "packets": (packets, lambda p: last(p, "scratch_chunks"), "give it more chunks"),
    "data": (data_beside_packets, lambda p: 2 * last(p, "scratch_chunks") + 1, "beyond the end"),
    "barriers": (
        barrier,
        lambda _: 15,
        "barrier 16, and there are 16: use one of them several times",
    ),
    "semaphores": (acquires, lambda _: 3, "beyond the 4 of its rank: add it"),
}


@pytest.mark.parametrize("name", PLACES)
def test_last_place_is_there_and_the_one_behind_it_is_not(name: str) -> None:
    change, most, text = PLACES[name]
    at, beyond = plan(), plan()
    if name != "at a peer":  # only the operation in question is left
        for one in (*at["gpus"], *beyond["gpus"]):
            for found in one["threadblocks"]:
                found["ops"] = []
    change(at, most(plan()))
    change(beyond, most(plan()) + 1)
    assert rules(at) == []
    assert any(text in rule for rule in rules(beyond)), rules(beyond)


def test_packets_need_twice_the_room_that_data_needs() -> None:
    changed: Plan = json.loads(write_plan(frontier("ring:4", "allreduce")[0], protocol=LL))
    assert rules(changed) == []
    changed["protocol"] = "Simple"
    assert any("packets) of rank" in rule for rule in rules(changed))


OTHERWISE: dict[str, tuple[Plan, Plan, str]] = {
    "pws": (
        {"name": "pws", "channel_type": "port"},
        {"name": "pws", "channel_type": "memory"},
        "write put, nop, signal",
    ),
    "flush": (
        {"name": "flush", "channel_type": "memory", "dst_buff": [PART]},
        {"name": "flush", "channel_type": "memory"},
        "as many channels as it has destinations, none: write pwsf",
    ),
    "buffers": (
        {"name": "put", "channel_type": "memory", "src_buff": [PART, PART]},
        {"name": "put", "channel_type": "memory", "src_buff": [PART, {**PART, "type": "o"}]},
        "are read from the buffer of the first: write one for each buffer",
    ),
    "get": (
        {"name": "get", "src_buff": [PART], "dst_buff": [PART]},
        {"name": "get", "src_buff": [PART], "dst_buff": [{**PART, "index": 1}]},
        "it reads at the index of its destination and writes at that of its source: write put",
    ),
    "ppkt": (
        {"name": "rppkt", "channel_type": "port"},
        {"name": "ppkt", "channel_type": "port"},
        "write rppkt",
    ),
    "pipeline": (
        {"name": "pipeline", "iter_context": {"unit_size": 1, "num_chunks": 1}, "ops": []},
        {
            "name": "pipeline",
            "iter_context": {"unit_size": 1, "num_chunks": 1},
            "ops": [{"name": "upkt"}],
        },
        "in a pipeline packets go whole each time: write it outside",
    ),
    "ports": (
        {"name": "put", "channel_type": "port", "dst_buff": []},
        {"name": "put", "channel_type": "port", "dst_buff": [PART]},
        "1 destinations over 0 ports: name one for each",
    ),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_kernel_deviations_are_reported(name: str) -> None:
    right, wrong, text = OTHERWISE[name]
    for op, broken in ((right, False), (wrong, True)):
        changed = plan()
        block(changed)["ops"] = [op]
        assert any(text in rule for rule in rules(changed)) == broken


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"collective": "broadcast"}, "MSCCL++ does not test the collective 'broadcast'"),
        ({"protocol": "LL128"}, "the protocol is 'LL128', expected Simple or LL"),
        ({"buffer_alignment": 24}, "buffer_alignment 24 is no multiple of 16"),
        ({"buffer_alignment": 0}, "buffer_alignment 0 is no multiple of 16"),
        ({"num_threads_per_block": 0}, "num_threads_per_block 0"),
    ],
)
def test_stated_fields_of_a_plan_are_checked(change: Plan, text: str) -> None:
    assert [text in rule for rule in rules({**plan(), **change})] == [True]


def test_buffers_have_chunks() -> None:
    changed = plan()
    changed["gpus"][0].update(input_chunks=0)
    refused = mscclpp.read(json.dumps(changed).encode(), "it").refused
    assert refused == ("rank 0: a buffer without chunks makes the executor divide by zero",)


def test_rank_has_as_many_semaphores_as_its_plan_lists() -> None:
    changed = plan()
    semaphores(changed, 40)
    ops = [{"name": "sem_release", "semaphore_ids": [number]} for number in range(20, 40)]
    block(changed)["ops"] = [*ops, *block(changed)["ops"]]
    assert rules(changed) == []


def _gpu(**told: Any) -> Callable[[Plan], None]:
    return lambda of: of["gpus"][0].update(told)


def _block(**told: Any) -> Callable[[Plan], None]:
    return lambda of: block(of).update(told)


def _op(**told: Any) -> Callable[[Plan], None]:
    return lambda of: block(of)["ops"].append(told)


STRUCTURE: list[tuple[Callable[[Plan], None], str]] = [
    (lambda of: of.pop("inplace"), "missing required field `inplace`"),
    (lambda of: of.update(gpus=[]), "it has no ranks"),
    (_gpu(id=1), r"gpus\[0\] has id 1, expected 0"),
    (_block(id=1), "rank 0, thread block 0 has id 1"),
    (_block(channels=[{"channel_type": "memory", "channel_ids": [99]}]), "that its rank has not"),
    (
        _block(remote_buffer_refs=[{"access_channel_type": "memory", "remote_buffer_ids": [99]}]),
        "names a remote buffer that its rank has not",
    ),
    (
        _gpu(channels=[{"channel_type": "memory", "connected_to": [4]}]),
        "rank 0 names rank 4, and there are 4",
    ),
    (_op(name="glre"), "is no operation that the executor knows"),
    (_op(name="wait", channel_type="nvls"), "is over a channel of kind 'nvls'"),
    (_op(name="wait", channel_type="memory", channel_ids=[2]), "a channel that its thread block"),
    (
        _op(name="put", channel_type="memory", dst_buff=[{"buffer_id": 9, "index": 0, "size": 1}]),
        "names remote buffer 9",
    ),
    (_op(name="copy", src_buff=[{"index": 0, "size": 1}]), "neither local"),
    (_op(name="copy", src_buff=[{**PART, "size": 0}]), "is about 0 chunks from 0"),
    (_op(name="copy", tbg_info={"tb_id": 2, "tbg_size": 2}), "is slice 2 of 2"),
    (_op(name="pipeline", ops=[{"name": "nop"}]), "lacks the sizes of their pieces"),
]


@pytest.mark.parametrize("number", range(len(STRUCTURE)))
def test_unloadable_plan_is_rejected(number: int) -> None:
    change, text = STRUCTURE[number]
    changed = plan()
    change(changed)
    with pytest.raises(FormatError, match=text):
        parse_plan(json.dumps(changed).encode(), "plan")


def test_offsets_are_of_32_bits() -> None:
    """At the most bytes that a plan states the last chunk of scratch ends within them."""
    algorithm = frontier("ring:4", "allreduce")[0]
    for protocol, times in ((mscclpp.PlanProtocol.SIMPLE, 1), (LL, 4)):
        found = parse_plan(write_plan(algorithm, protocol=protocol), "plan")
        gpu = found.gpus[0]
        chunk = found.max_message_size // gpu.input_chunks
        largest = max(gpu.input_chunks, times * gpu.scratch_chunks)
        assert chunk * largest <= MAX_OFFSET_BYTES < (chunk + 1) * largest


def test_sizes_for_which_no_plan_can_be_are_rejected() -> None:
    algorithm = frontier("ring:4", "allreduce")[0]
    for least, refused in ((MAX_MIN_SIZE, False), (MAX_MIN_SIZE + 1, True)):
        sized = SizedPlan("plan", algorithm, least)
        if refused:
            with pytest.raises(ParameterError, match="leave this plan out"):
                mscclpp.write([sized], mscclpp.Options())
        else:
            assert mscclpp.write([sized], mscclpp.Options()).files


def test_fields_that_the_executor_does_not_read_are_reported() -> None:
    changed = plan()
    changed["buffer_allignment"] = 64
    changed["gpus"][0]["semaphore"] = []
    block(changed)["ops"][0]["scr_buff"] = []
    notes = mscclpp.read(json.dumps(changed).encode(), "it").notes
    told = (
        "fields that the executor does not read: buffer_allignment, gpus[].semaphore, "
        "gpus[].threadblocks[].ops[].scr_buff"
    )
    assert told in notes
    notes = mscclpp.read(json.dumps(plan()).encode(), "it").notes
    assert not any("does not read" in note for note in notes)


def test_dynamic_templates_are_named() -> None:
    template = {
        "collective": "alltoallv",
        "dynamic": True,
        "gpus": [{"id": 0, "input_chunks": "${CHUNKS}", "operations": []}],
    }
    content = json.dumps(template).encode()
    assert mscclpp.sniff(content)
    with pytest.raises(FormatError, match=r"^it: a dynamic template of MSCCL\+\+"):
        mscclpp.read(content, "it")


def test_plans_of_the_transition_format_are_named() -> None:
    ops = [{"name": "signal", "cids": [0], "ctype": "memory"}]
    block_part = {"id": 0, "ops": ops, "channels": [], "remoteBufferIds": []}
    gpu: dict[str, object] = {"id": 0, "input_chunks": 1, "output_chunks": 1, "scratch_chunks": 0}
    gpu |= {"threadblocks": [block_part], "remote_buffers": []}
    gpu |= {"channels": [{"type": "memory", "connectedTo": [1]}]}
    told = {"name": "x", "collective": "allgather", "inplace": True, "protocol": "Simple"}
    content = json.dumps({**told, "gpus": [gpu]}).encode()
    assert mscclpp.sniff(content)
    with pytest.raises(FormatError, match=r"^it: a plan in a transition format of MSCCL"):
        mscclpp.read(content, "it")
