"""Workloads from traces: calls of waits, dependencies, and agreement of ranks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from sccl.core.files.json_text import to_text
from sccl.training.files.workloads import workload_to_wire
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import Dependency, Role
from tests.kit.traces import (
    GEMM,
    PREFETCHING,
    Event,
    execution_trace,
    profile,
    refusal_of,
    workload_of,
)
from tests.kit.workloads import SUBMIT, WAIT

AHEAD = Dependency("alltoall-0", "all/7/1", 1)


def program(workload: Workload, role: int = 0) -> list[str]:
    """Return the lines of a role's program, shortly."""
    return [
        {SUBMIT: "+", WAIT: "-"}[event.action] + event.op + "'" * event.lag
        for event in workload.submits[role].events
    ]


def both(events: tuple[Event, ...]) -> list[bytes]:
    return [profile(rank, events) for rank in (0, 1)]


def test_wait_for_the_step_before_is_a_dependency_across_iterations() -> None:
    found = workload_of(*both(PREFETCHING)).workload
    assert program(found) == ["-alltoall-0'", "+alltoall-0", "+allreduce-1", "-allreduce-1"]
    assert found.deps == (
        AHEAD,
        Dependency("all/7/1", "alltoall-0"),
        Dependency("all/7/2", "allreduce-1"),
        Dependency("allreduce-1", "all/7/4"),
    )
    assert [(op.id, op.duration_us) for op in found.computation()] == [
        *(("all/7/1", 5), ("all/7/2", 5), ("all/7/4", 5))
    ]
    assert [(role.name, role.ranks) for role in found.roles] == [("all", (0, 1))]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_every_step_and_every_form_tells_the_same(steps: int) -> None:
    """Traces with numbers and without, of one step and of several."""
    wanted = [
        *workload_of(*both(PREFETCHING)).workload.deps,
    ]
    for told in (False, True):
        traces = [profile(rank, PREFETCHING, steps=steps, told=told) for rank in (0, 1)]
        for step in range(3, 3 + steps):
            assert [*workload_of(*traces, step=step).workload.deps] == wanted
    named = [execution_trace(rank, PREFETCHING, steps=steps) for rank in (0, 1)]
    for step in range(3, 3 + steps):
        paired = workload_of(*traces, *named, step=step)
        assert [*paired.workload.deps] == wanted
        alone = workload_of(*named, step=step).workload
        again = [
            Dependency(dep.before.replace("device", "7"), dep.after.replace("device", "7"), dep.lag)
            for dep in alone.deps
        ]
        assert again == wanted


def test_two_traces_of_a_rank_are_paired() -> None:
    uneven = [
        ("call", 7, "all_to_allv", 40, [30, 10], [30, 10]),
        ("call", 7, "all_to_allv", 20, [10, 10], [10, 10]),
    ]
    events = [(GEMM, one, ("wait", 7), GEMM) for one in uneven]
    named = [execution_trace(rank, events[rank]) for rank in (0, 1)]
    timed = [profile(rank, events[rank]) for rank in (0, 1)]
    (op,) = workload_of(*timed, *named).workload.collectives()
    assert (op.splits, op.count) == (((30, 10), (10, 10)), 40)
    assert [one.duration_us for one in workload_of(*timed, *named).workload.computation()] == [5, 5]
    (alone,) = workload_of(*timed).workload.collectives()
    assert alone.splits == ((20, 20), (10, 10))  # dimensions tell no splits
    says = "t0 and t1 come from different steps or ranks: call or wait number 0 is "
    assert refusal_of(timed[0], named[1].replace(b'99, 1, "', b'99, 0, "')).startswith(says)
    longer = execution_trace(0, (*events[0], ("call", 8, "allreduce", 1)))
    assert "t0 has 2 calls and waits, t1 has 3" in refusal_of(timed[0], longer)


def test_calls_that_nobody_waits_for_are_waited_for_where_the_step_goes_on() -> None:
    bucket = ("call", 1, "allreduce", 8, "backward")
    found = workload_of(*both((GEMM, bucket, ("kernel", 2, "backward"), GEMM))).workload
    assert program(found) == ["+allreduce-0", "-allreduce-0"]
    assert Dependency("allreduce-0", "all/7/2") in found.deps
    late = workload_of(*both((GEMM, ("call", 1, "allreduce", 8)))).workload
    assert Dependency("allreduce-0", "all/7/0", 1) in late.deps


def test_call_waits_for_calls_where_nothing_is_computed_between() -> None:
    events = [GEMM, ("call", 1, "allreduce", 8), ("wait", 1)] * 2
    events[3:4] = []
    found = workload_of(*both(tuple(events))).workload
    assert Dependency("allreduce-0", "allreduce-1") in found.deps
    many: list[Event] = [GEMM]
    for number in range(200):
        many += [("call", number, "allreduce", 8), ("wait", number)]
    assert len(workload_of(*both(tuple(many))).workload.deps) < 1200


def test_waits_that_name_no_call_are_for_the_last_or_of_broadcasts_the_oldest() -> None:
    broadcasts = [
        ("call", 1, "broadcast", 8),
        ("call", 2, "broadcast", 8),
        ("wait", 1),
        ("wait", 2),
    ]
    told = workload_of(*both((GEMM, *broadcasts))).workload
    assert program(told) == ["+broadcast-0", "+broadcast-1", "-broadcast-0", "-broadcast-1"]
    exchanges = [("call", 1, "all_to_allv", 8), ("call", 2, "all_to_allv", 4)]
    found = workload_of(*both((GEMM, *exchanges, ("wait", 2), ("wait", 1)))).workload
    assert program(found) == ["+alltoall-0", "+alltoall-1", "-alltoall-1", "-alltoall-0"]


def test_ranks_of_other_programs_are_other_roles() -> None:
    first = profile(0, (GEMM, ("call", 1, "allreduce", 8), ("wait", 1), GEMM))
    second = profile(1, (("call", 1, "allreduce", 8), GEMM, ("wait", 1), ("wait", 1)), told=True)
    found = workload_of(first, second).workload
    assert [(role.name, role.ranks) for role in found.roles] == [("role-0", (0,)), ("role-1", (1,))]
    assert program(found, 1) == ["+allreduce-0", "-allreduce-0", "-allreduce-0"]


def test_ranks_without_a_trace_are_asked_for_or_do_as_those_with_one() -> None:
    events = (GEMM, ("call", 1, "allreduce", 8), ("wait", 1))
    eight = [profile(rank, events, ranks=8) for rank in range(8)]
    assert refusal_of(*eight[:3], alike=False) == (
        "5 of 8 ranks have no trace (3, 4, 5, 6, 7): give their traces, too, or --alike if they "
        "behave like traced ranks"
    )
    assert "7 of 8 ranks have no trace (0, 1, 2" in refusal_of(eight[3], alike=False)
    alone, some = workload_of(eight[3]), workload_of(eight[0], eight[2], eight[6])
    assert alone.workload.roles == some.workload.roles == (Role("all", tuple(range(8))),)
    assert "7 of 8 ranks were not traced: they do the same" in alone.assumed
    assert "5 of 8 ranks were not traced: they do the same in groups of theirs" in some.assumed
    assert some.workload.source == "kineto of 3 ranks, step 3"
    whole = workload_of(*eight, alike=False)
    assert whole.workload.ops == some.workload.ops == alone.workload.ops
    assert not any("not traced" in line for line in whole.assumed)


def mesh(rank: int, groups: Sequence[Sequence[int]]) -> bytes:
    """Return the trace of a rank of 8, which adds up among each of some groups of 2."""
    calls = tuple(("call", number, "allreduce", 8) for number in range(len(groups)))
    text = profile(rank, (GEMM, *calls), told=True).replace(b'"world_size": 2', b'"world_size": 8')
    listed = iter(groups)
    return re.sub(rb"\[0, 1\]", lambda _: str(list(next(listed))).encode(), text)


def test_groups_of_ranks_without_a_trace_are_those_of_a_mesh() -> None:
    alone = workload_of(mesh(2, [(2, 3), (2, 6)]))
    every = [mesh(rank, [(rank & ~1, rank | 1), (rank & ~4, rank | 4)]) for rank in range(8)]
    whole = workload_of(*every, alike=False)
    groups = [op.group for op in whole.workload.collectives()]
    assert sorted(groups) == sorted(op.group for op in alone.workload.collectives())
    assert len(set(groups)) == 8
    assert {op.id: op for op in alone.workload.ops} == {op.id: op for op in whole.workload.ops}
    assert alone.workload.roles == whole.workload.roles
    assert "7 of 8 ranks were not traced: they do the same in groups of theirs" in alone.assumed
    assert "6 of 8 ranks have no trace" in refusal_of(every[0], every[1], alike=False)
    for group in ((2, 7), (3, 2), (0, 3)):
        said = refusal_of(mesh(2 if 2 in group else 0, [group]))
        assert f"the corresponding groups of 8 ranks ({group[0]}, {group[1]}): give" in said


def test_groups_whose_ranks_are_not_told_stand_for_no_others() -> None:
    text = mesh(0, [(0, 1)]).replace(b'"Process Group Ranks"', b'"Group"')
    said = (
        "t0: rank 0 calls allreduce, and its trace does not show the corresponding groups of 8 "
        "ranks (2 ranks): give"
    )
    assert said in refusal_of(text)
    assert "7 of 8 ranks have no trace" in refusal_of(text, alike=False)


def test_group_of_more_ranks_than_the_job_is_rejected() -> None:
    one = (("call", 1, "allreduce", 8),)
    told = profile(0, one, told=True)
    listed = told.replace(b'"[0, 1]"', b'"[0, 1, 2, 3, 4, 5, 6, 7, 8]"')
    assert refusal_of(listed).endswith(
        "a group has 2 ranks by its size, and 9 are listed: give the trace as it was written"
    )
    larger = listed.replace(b'"Group size": 2', b'"Group size": 9')
    assert refusal_of(larger) == (
        "t0: the job has 2 ranks by the trace, and allreduce is called by a group of 9, up to rank "
        "8: give the trace as it was written"
    )
    beside = execution_trace(0, one, ranks=4)
    assert "the job has 2 ranks by the trace" in refusal_of(told, beside_of(beside))


def beside_of(text: bytes) -> bytes:
    """Return an execution trace with the group that all ranks are in, which are 9."""
    graph = json.loads(text)
    made = '[{"pg_name": "99", "ranks": [], "group_size": 9}]'
    node = {"name": "## process_group:init ##", "id": 1, "inputs": [made], "op_schema": ""}
    graph["nodes"].insert(0, node)
    return json.dumps(graph).encode()


def test_how_many_ranks_there_are_is_told_or_said_to_be_assumed() -> None:
    first, second = (profile(None, (GEMM, ("call", 1, "allreduce", 8))) for _ in range(2))
    found = workload_of(first, second, alike=False)
    assert found.workload.ranks == 2
    assert "the job has 2 ranks, the number of traces (not in the traces)" in found.assumed
    assert "1 of 3 ranks have no trace (2)" in refusal_of(first, second, ranks=3, alike=False)


def test_which_rank_it_is_may_be_told() -> None:
    unknown = profile(None, PREFETCHING, told=True)
    assert "the trace belongs to rank 0 (not in the trace)" in workload_of(unknown).assumed
    assert workload_of(unknown, rank=1).understood[0].startswith("rank 1, step 3 (kineto): 2 coll")
    two = both(PREFETCHING)
    assert len(workload_of(*two, rank=1).understood) == 1
    assert refusal_of(*two, rank=5) == "there is no trace of rank 5: expected one of 0, 1"
    assert refusal_of(unknown, rank=-1) == "rank is -1, expected 0 to 65536"
    assert "the number of ranks is not in the traces: give --ranks N" in refusal_of(
        profile(None, PREFETCHING)
    )
    assert workload_of(profile(None, PREFETCHING), ranks=4).workload.ranks == 4
    assert refusal_of(*two, ranks=1) == "--ranks is 1, and the traces have 2 ranks"
    assert refusal_of(*two[:1], *two) == "t0 and t1 are both of rank 0: give one of them"
    several = workload_of(unknown, unknown)
    assert [line[:6] for line in several.understood] == ["rank 0", "rank 1"]
    assert any("0, 1, and so on, in the given order" in line for line in several.assumed)
    assert "its rank is not in the trace" in refusal_of(*two, unknown)
    assert "t2: its rank is 2, and the job has 2 ranks" in refusal_of(unknown, unknown, unknown)
    assert refusal_of() == "there are no traces: give at least one"
    assert refusal_of(b"{}", format="nsys").startswith("unknown format 'nsys'")


def test_ranks_that_disagree_are_told_with_what_they_call() -> None:
    others: list[tuple[Event, ...]] = [
        (("call", 1, "allreduce", 9),),
        (("call", 1, "all_to_allv", 8),),
        (),
        (("call", 1, "allreduce", 8), ("call", 2, "allreduce", 8)),
    ]
    mine = "rank 0 calls allreduce of 8 float32 (t0), and rank 1"
    said = [
        f"call 0 of group (0, 1): {mine} allreduce of 9 float32 (t1): give",
        f"call 0 of group (0, 1): {mine} alltoall float32 (t1): give",
        f"call 0 of group (0, 1): {mine} nothing more (t1): give",
        "call 1 of group (0, 1): rank 1 calls allreduce of 8 float32 (t1), and rank 0 nothing more",
    ]
    for other, says in zip(others, said, strict=True):
        told = refusal_of(profile(0, (GEMM, ("call", 1, "allreduce", 8))), profile(1, other))
        assert told.startswith(f"ranks disagree about {says}")
        assert "\n" not in told


def test_splits_that_contradict_one_another_are_reported() -> None:
    rows = [[30, 10], [30, 10]], [[10, 10], [12, 10]]
    traces = [
        execution_trace(rank, (GEMM, ("call", 7, "all_to_allv", sum(row[0]), *row)))
        for rank, row in enumerate(rows)
    ]
    says = "alltoall-0: rank 1 gets 12 elements of rank 0, which gives it 10: give traces of"
    assert says in refusal_of(*traces)


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ((GEMM,), "the selected part has no collectives"),
        ((GEMM, ("wait", 1)), "the selected part has no collectives"),
        (
            (("wait", 7), ("wait", 6), ("wait", 5), ("call", 9, "allreduce", 8)),
            "thread main waits more often than it calls collectives: trace whole steps",
        ),
    ],
)
def test_invalid_step_is_rejected(events: tuple[Event, ...], says: str) -> None:
    assert says in refusal_of(*both(events))


def test_wait_for_an_unknown_request_is_rejected() -> None:
    events = (("wait", 11), GEMM, ("call", 9, "allreduce", 8))
    says = "t0: it waits for request 11, which was not submitted earlier in this step or"
    assert refusal_of(*(execution_trace(rank, events) for rank in (0, 1))).startswith(says)
    old = (("wait", 5), GEMM, ("call", 9, "allreduce", 8))
    (dep, _) = workload_of(*(execution_trace(rank, old) for rank in (0, 1))).workload.deps
    assert dep == Dependency("allreduce-0", "all/device/1", 4)


def test_ranks_that_wait_for_one_another_in_a_circle_are_reported() -> None:
    """Two groups, and each rank waits for the one's collective before it calls the other's."""
    events = (GEMM, ("call", 1, "allreduce", 8), ("wait", 1), GEMM, ("call", 2, "allreduce", 8))
    traces = []
    for rank, groups in enumerate((("[0, 1]", "[1, 0]"), ("[1, 0]", "[0, 1]"))):
        trace = json.loads(profile(rank, (*events, ("wait", 2)), told=True))
        calls = [e for e in trace["traceEvents"] if "Collective name" in e.get("args", {})]
        for call, group in zip(calls, groups, strict=True):
            call["args"]["Process Group Ranks"] = group
        traces.append(json.dumps(trace).encode())
    says = refusal_of(*traces)
    assert "operations of one iteration wait for one another: " in says
    assert "allreduce-0 -> role-0/7/2 -> allreduce-1" in says.partition(": ")[2] * 2


def test_steps_that_differ_are_rejected() -> None:
    marks = profile(0, PREFETCHING), profile(1, PREFETCHING).replace(b"Step#3", b"Step#8")
    assert refusal_of(*marks) == (
        "traces contain different steps, t0 has step 3 and t1 has step 8: give --step N "
        "for a step in all of them"
    )


def test_same_traces_make_the_same_bytes() -> None:
    first, second = both(PREFETCHING)
    texts = {
        to_text(workload_to_wire(workload_of(*pair).workload)) for pair in [(first, second)] * 2
    }
    assert texts == {to_text(workload_to_wire(workload_of(second, first).workload))}


def test_groups_of_millions_are_rejected() -> None:
    huge = [("call", 1, "allreduce", 8)] * 140
    told = profile(0, tuple(huge), ranks=2).replace(b'"world_size": 2', b'"world_size": 65536')
    assert "the groups of all its calls together have more than 8388608 ranks" in refusal_of(told)
    one = ("call", 1, "allreduce", 8)
    assert "distributedInfo has rank 0 of 99999 ranks" in refusal_of(
        profile(0, (one,)).replace(b'"world_size": 2', b'"world_size": 99999')
    )
    strided = profile(None, (one,), told=True).replace(b"Process Group Ranks", b"Global rank start")
    strided = strided.replace(b'"[0, 1]"', b'5, "Global rank stride": 70000')
    assert refusal_of(strided) == "the traces have 70006 ranks, and up to 65536 are supported"


PIPELINE: tuple[tuple[Event, ...], ...] = (
    (GEMM, ("call", 7, "send", 40), ("wait", 7, "sent"), ("call", 7, "allreduce", 8), ("wait", 7)),
    (("call", 7, "recv", 40), ("wait", 7, "sent"), GEMM, ("call", 7, "allreduce", 8), ("wait", 7)),
)
"""A send between two ranks, and a sum, each the seventh request of its row."""


@pytest.mark.parametrize("form", ["names", "metadata", "numbers"])
def test_both_ends_of_a_send_are_a_broadcast_of_two_ranks(form: str) -> None:
    traces = [
        execution_trace(rank, PIPELINE[rank])
        if form == "numbers"
        else profile(rank, PIPELINE[rank], told=form == "metadata")
        for rank in (0, 1)
    ]
    found = workload_of(*traces, ranks=2)
    sent, summed = found.workload.collectives()
    assert (sent.id, sent.collective, sent.group) == ("send-0", "broadcast", (0, 1))
    assert (sent.root, sent.count, sent.dtype) == (0, 40, "float32")
    assert summed.collective == "allreduce"
    assert [role.ranks for role in found.workload.roles] == [(0,), (1,)]
    for role in (0, 1):
        told = program(found.workload, role)
        assert told == ["+send-0", "-send-0", "+allreduce-1", "-allreduce-1"]
    stream = "device" if form == "numbers" else "7"
    assert Dependency(f"role-0/{stream}/0", "send-0") in found.workload.deps
    assert Dependency("send-0", f"role-1/{stream}/2") in found.workload.deps


def test_send_that_nobody_gets_is_reported() -> None:
    traces = [profile(0, PIPELINE[0]), profile(1, PIPELINE[1][3:])]
    assert refusal_of(*traces) == (
        "ranks disagree about send 0 of ranks (0, 1): rank 0 calls send of 40 float32 (t0), and "
        "rank 1 nothing more (t1): give traces of the same step"
    )
    itself = profile(0, PIPELINE[0]).replace(b"0->1", b"0->0")
    said = refusal_of(itself, traces[1])
    assert said == "t0: rank 0 sends to itself, expected another rank"
    assert "its trace does not show the calls of other ranks" in refusal_of(traces[0])
    far = profile(0, PIPELINE[0]).replace(b"0->1", b"0->5")
    said = refusal_of(far, traces[1])
    assert "rank 0 sends to, or gets from, place 5 of a group of 2 ranks" in said
    silent = profile(0, PIPELINE[0]).replace(b" 0->1", b"")
    assert "does not name its peer: also give the execution trace" in refusal_of(silent)


def synchronised(*, marked: int = 25, told: bool = True) -> bytes:
    """Return a trace in which stream 20 waits for the kernels of stream 7 up to a time."""
    events: list[dict[str, object]] = []

    def launch(at: int, stream: int, us: int) -> None:
        number = len(events) + 1
        args = {"correlation": number, "stream": stream}
        host = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": at, "dur": 1}
        ran = {"cat": "kernel", "name": "k", "tid": stream, "ts": at + 2, "dur": us}
        events.extend([host | {"args": args}, ran | {"args": args}])

    launch(10, 7, 5)
    launch(20, 20, 6)
    launch(30, 7, 7)
    runtime = {"cat": "cuda_runtime", "tid": 1, "dur": 1}
    events.append(runtime | {"name": "cudaEventRecord", "ts": marked, "args": {"correlation": 101}})
    events.append(runtime | {"name": "cudaStreamWaitEvent", "ts": 45, "args": {"correlation": 102}})
    waits = {"stream": 20, "correlation": 102, "wait_on_stream": 7}
    if told:
        waits["wait_on_cuda_event_record_corr_id"] = 101
    sync = {"cat": "cuda_sync", "name": "Stream Wait Event", "tid": 20, "ts": 46, "dur": 1}
    events.append(sync | {"args": waits})
    launch(50, 20, 8)
    called = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 8}
    call = {"cat": "cpu_op", "name": "record_param_comms", "tid": 1, "ts": 60, "dur": 1}
    events.append(call | {"args": called | {"Out msg nelems": 8, "Group size": 2}})
    info = {"rank": 0, "world_size": 2}
    return json.dumps(
        {"distributedInfo": info, "traceEvents": [{"ph": "X"} | one for one in events]}
    ).encode()


@pytest.mark.parametrize(("marked", "awaited"), [(25, [5]), (35, [12]), (5, [])])
def test_streams_wait_for_what_was_before_a_mark(marked: int, awaited: list[int]) -> None:
    found = workload_of(synchronised(marked=marked)).workload
    own = {op.stream: 0.0 for op in found.computation()}
    for op in found.computation():
        own[op.stream] += op.duration_us
    assert own == {"7": 12, "20": 14}
    last = [op.id for op in found.computation() if op.stream == "20"][-1]
    waits = {dep.before for dep in found.deps if dep.after == last}
    assert [op.duration_us for op in found.computation() if op.id in waits] == awaited
    assert Dependency(last, "allreduce-0") in found.deps


def test_marks_that_are_not_in_the_trace_are_left_out() -> None:
    found = workload_of(synchronised(told=False)).workload
    assert [op.id for op in found.computation()] == ["all/20/0", "all/7/0"]
    assert found.deps[0] == Dependency("all/20/0", "allreduce-0")


def with_host(*, blocked: bool) -> bytes:
    """Return a step of 79 us: a kernel, a sum, a wait, and a kernel, where the host may wait."""
    events = (("kernel", 9), ("call", 1, "allreduce", 8), ("wait", 1), ("kernel", 30))
    graph = json.loads(profile(0, events, ranks=2))
    if blocked:
        sync = {"cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "tid": "main", "ph": "X"}
        graph["traceEvents"].append(sync | {"ts": 1045, "dur": 14})
    return json.dumps(graph).encode()


@pytest.mark.parametrize("blocked", [False, True])
def test_host_time_is_kept_or_its_omission_reported(blocked: bool) -> None:
    text = with_host(blocked=blocked)
    without = workload_of(text)
    idle = 59 - 9 - 16  # until the step ends, in which the second kernel does not
    said = f", in 59 us, {idle} of which the device is idle: these are left out"
    assert without.understood[0].endswith(said)
    assert (without.workload.iteration_us, without.workload.left_out_us) == (59, idle)
    kept = workload_of(text, host_time=True)
    took = [op.duration_us for op in kept.workload.computation() if op.stream == "host"]
    assert took == [20, 10, 29 - 14 * blocked]
    assert kept.understood[0].endswith(f", in 59 us, {sum(took):.0f} of the host")
    assert kept.workload.left_out_us == 0
    assert {one for one in kept.workload.deps if "host" in one.before + one.after} == {
        Dependency("all/host/0", "allreduce-0"),
        Dependency("all/host/1", "all/7/2"),
        Dependency("all/host/2", "all/7/0", 1),
        *([Dependency("all/7/2", "all/host/0", 1)] if blocked else []),
    }
    assert set(without.workload.deps) < set(kept.workload.deps)


def test_host_operations_of_other_traces_are_ignored() -> None:
    said = refusal_of(*(execution_trace(rank, PREFETCHING) for rank in range(2)), host_time=True)
    assert said == ("t0: only Kineto traces have the time of the host: leave --host-time out")


@pytest.mark.parametrize("late", [0, 1])
def test_recorded_computation_takes_the_slowest_rank(late: int) -> None:
    """Ranks are late in turns: none is in most steps, and they are in each of them."""
    found = workload_of(*(recorded(rank, late) for rank in (0, 1))).workload
    assert [op.duration_us for op in found.computation()] == [30.0 + 20.0 * late]


def recorded(rank: int, late: int) -> bytes:
    """Return five steps of an allreduce after 30 us, with a rank in turn that is 20 us late."""
    events, at = [], 0.0
    for step in range(5):
        at += 30 + 20 * (late and step % 2 == rank)
        call = {
            "collective": "allreduce",
            "dtype": "float32",
            "given": 8,
            "got": 8,
            "reduce": "sum",
        }
        own = {"thread": 0, "begin": at, "end": at, "cpu_begin": at, "cpu_end": at}
        wait = own | {"end": at + 10}
        events += [
            {"was": "call", **own, **call, "number": step, "group": [0, 1]},
            {"was": "wait", **wait, "call": step},
        ]
        at += 10
    told = {"sccl_recording": 1, "rank": rank, "world": 2, "torch": "2.13.0", "events": events}
    return json.dumps(told).encode()
