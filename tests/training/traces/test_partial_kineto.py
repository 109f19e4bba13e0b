"""Parts of Kineto's traces that are cut, of other steps, or of devices that are not read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.kit.traces import refusal_of, workload_of

Events = list[dict[str, Any]]


def event(name: str, category: str, at: float, took: float, **more: Any) -> dict[str, Any]:
    timed = {"ph": "X", "cat": category, "name": name, "tid": 1, "ts": at, "dur": took}
    return {**timed, "args": more}


def kernel(at: float, took: float, number: int, begin: float, category: str = "kernel") -> Events:
    """Return a launch and its kernel."""
    return [
        event("launch", "cuda_runtime", at, 1, correlation=number),
        event("gemm", category, begin, took, correlation=number, stream=7),
    ]


def call(at: float, name: str = "allreduce", elements: int = 128, **more: Any) -> dict[str, Any]:
    told = {"Collective name": name, "dtype": "Float", "In msg nelems": elements, **more}
    return event("record_param_comms", "cpu_op", at, 2, **told)


def trace(events: Sequence[dict[str, Any]], ranks: int = 2, **info: Any) -> bytes:
    told = {"rank": 0, "world_size": ranks, **info}
    return json.dumps({"distributedInfo": told, "traceEvents": [*events]}).encode()


def shortened(numbers: Sequence[int], last: bool) -> str:
    """Return a list as PyTorch's profiler writes it, up to 30 elements."""
    if len(numbers) <= 30:
        return str([*numbers])
    shown = [*numbers[:29], "...", numbers[-1]] if last else [*numbers[:30], "..."]
    return "[" + ", ".join(map(str, shown)) + "]"


STRIDED = [*range(1, 96, 2)]


def in_group(config: list[dict[str, Any]], begin: int = 0) -> bytes:
    ranks = [*range(begin), *STRIDED[begin:]]
    named: dict[str, Any] = {"Process Group Name": "12", "Group size": 48}
    named |= {"Process Group Ranks": shortened(ranks, last=True)}
    one = call(10, **named)
    return trace([one], 96, rank=1, pg_config=config)


def test_kineto_refuses_a_trace_merged_of_several_ranks() -> None:
    """Tools write the events of all ranks into one file, each with the process that it is of."""
    ranks = [{**call(at), "pid": pid} for pid in (7, 8) for at in (10, 20)]
    told = refusal_of(trace(ranks))
    assert told.startswith("t0: 2 processes call operators (7, 8), as in a merged trace of several")
    alone = [{**one, "pid": 7} for one in ranks] + [{**event("k", "kernel", 30, 1), "pid": 0}]
    assert len([*workload_of(trace(alone)).workload.collectives()]) == 4


def test_kineto_takes_long_groups_from_the_list_of_groups() -> None:
    found = workload_of(in_group([{"pg_name": "12", "ranks": STRIDED}]))
    evens = tuple(range(0, 96, 2))
    assert {op.group for op in found.workload.collectives()} == {tuple(STRIDED), evens}
    assert not any("lists of ranks" in line for line in found.unread)


def test_kineto_refuses_groups_that_contradict_the_list_of_groups() -> None:
    told = refusal_of(in_group([{"pg_name": "12", "ranks": STRIDED}], begin=1))
    assert (
        "process group '12' begins with ranks (0, 3, 5, 7) in a call and with (1, 3, 5, 7)" in told
    )


@pytest.mark.parametrize(
    "config",
    [[], [{"pg_name": "12", "ranks": STRIDED}, {"pg_name": "12", "ranks": STRIDED[::-1]}]],
)
def test_kineto_does_not_guess_long_groups(config: list[dict[str, Any]]) -> None:
    assert "does not show the corresponding groups of 96 ranks (48 ranks)" in refusal_of(
        in_group(config)
    )


@pytest.mark.parametrize(("ranks", "cut"), [(40, True), (8, False)])
def test_kineto_says_that_splits_are_cut(ranks: int, cut: bool) -> None:
    splits = [6, 2] * (ranks // 2)
    told = shortened(splits, last=False)
    one = call(10, "all_to_allv", sum(splits), **{"In split size": told, "Group size": ranks})
    found = workload_of(trace([one], ranks))
    (op,) = found.workload.collectives()
    assert bool(op.splits) is not cut
    line = "splits of an alltoall are cut after 30 of 40: equal parts for each"
    assert (line in found.assumed) is cut


@pytest.mark.parametrize(("told", "assumed"), [({"In split size": "[]"}, False), ({}, True)])
def test_kineto_says_that_no_splits_are_reported(told: dict[str, Any], assumed: bool) -> None:
    found = workload_of(trace([call(10, "all_to_all", **told)]))
    assert any("an alltoall has no splits" in line for line in found.assumed) is assumed


def steps(behind: float) -> Events:
    """Return three steps of 100 us, whose kernels of 90 us begin so much later."""
    found: Events = []
    for number in range(3):
        at = 100 * number
        found += kernel(at + 1, 90, number, at + behind + 5)
        found += [event(f"ProfilerStep#{number}", "user_annotation", at, 100), call(at + 20)]
    return found


@pytest.mark.parametrize(("behind", "idle"), [(0, 10.0), (60, 10.0), (150, 55.0)])
def test_kineto_idle_time_counts_kernels_of_other_steps(behind: float, idle: float) -> None:
    """In the window of step 1, from 100 to 200 us, kernels of step 0 run as well."""
    assert workload_of(trace(steps(behind)), step=1).workload.left_out_us == idle


@pytest.mark.parametrize(
    ("overlap", "step", "refused"), [(2, 1, False), (3, 1, True), (3, 2, False)]
)
def test_kineto_checks_overlaps_of_the_step_that_is_read(
    overlap: int, step: int, refused: bool
) -> None:
    events = steps(0) + kernel(150, 4, 99, 195 - overlap)
    assert ("run at the same time" in refusal_of(trace(events), step=step)) is refused


def test_kineto_overlaps_of_exact_times_are_rejected() -> None:
    events = steps(0) + kernel(150, 4, 99, 193) + kernel(170, 0.5, 98, 199.25)
    assert "run at the same time for 2.000 us" in refusal_of(trace(events), step=1)


def test_kineto_durations_of_other_steps_do_not_matter() -> None:
    events = [*steps(0), event("odd", "cpu_op", 250, -3)]
    assert not refusal_of(trace(events), step=1)
    assert "event 'odd' begins at 250 and takes -3" in refusal_of(trace(events), step=2)


def test_kineto_reports_events_that_are_not_read() -> None:
    events = [*kernel(1, 5, 1, 3, "npu_events"), call(10), {"ph": "B", "name": "x", "ts": 1}]
    found = workload_of(trace(events))
    assert found.unread == ("1 event of category 'npu_events'", "1 event of kind 'B'")
    assert not any("there is no device" in line for line in found.assumed)
    assert any("counts as computation" in line for line in found.assumed)


def test_kineto_reports_metadata_that_is_not_used() -> None:
    named: dict[str, Any] = {"Process Group Rank List": "[1, 0]", "Group size": 2, "Seq": 4}
    found = workload_of(trace([call(10, **named), event("x", "cpu_op", 1, 2, other=3)]))
    assert found.unread == ("metadata of collectives: 'Process Group Rank List', 'Seq'",)


def test_kineto_reports_reductions_that_are_no_operation() -> None:
    events = [*kernel(11, 5, 1, 13), call(10)]
    events[1]["name"] = "ncclDevKernel_AllReduce_PreMulSum_f32_RING_LL(x)"
    found = workload_of(trace(events))
    assert found.unread == ("the reduction PreMulSum in names of kernels, which is taken for sum",)
    assert not any("what combines" in line for line in found.assumed)
