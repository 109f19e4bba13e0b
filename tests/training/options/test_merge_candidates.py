"""Merged collectives: conditions, and effects on their neighbors."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.errors import ParameterError
from sccl.training.options.merge_candidates import list_merge_candidates
from sccl.training.options.merge_candidates import merge_buckets as rows_of
from sccl.training.scheduling.workload_problem import PlanningJob, workload_waits
from sccl.training.types.merges import merge_collectives, merged_id_rows
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import (
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)
from tests.kit.nightly import times
from tests.kit.training import random_job
from tests.kit.workloads import SUBMIT, WAIT, comm


def merged(workload: Workload, most_bytes: int) -> Workload:
    """Return a workload in which all are merged that may be, up to a size."""
    return merge_collectives(workload, rows_of(workload, most_bytes))


def buckets(sizes: tuple[int, ...] = (100, 200, 300), **told: object) -> Workload:
    """Return computations that each give out an allreduce, and one that waits for all of these."""
    names = [f"b{k}" for k in range(len(sizes))]
    calls = [comm(name, "allreduce", (0, 1), size) for name, size in zip(names, sizes, strict=True)]
    events = [
        *(HostEvent(SUBMIT, name) for name in names),
        *(HostEvent(WAIT, name) for name in names),
    ]
    found = Workload(
        name="buckets",
        ranks=2,
        roles=(Role("all", (0, 1)),),
        ops=(*(ComputeOp(f"c{k}", "all", "0", 1.0) for k in range(len(sizes) + 1)), *calls),
        deps=(
            *(Dependency(f"c{k}", name) for k, name in enumerate(names)),
            *(Dependency(name, f"c{len(sizes)}") for name in names),
        ),
        submits=(HostProgram("all", tuple(events)),),
    )
    return replace(found, **told)  # type: ignore[arg-type]


def test_one_stands_for_several_and_waits_for_all_that_they_wait_for() -> None:
    found = merged(buckets(), 2400)
    (one,) = found.collectives()
    assert (one.id, one.count, one.reduce) == ("b0+b1+b2", 600, "sum")
    assert set(found.deps) == {
        *(Dependency(f"c{k}", one.id) for k in range(3)),
        Dependency(one.id, "c3"),
    }
    assert found.submits[0].events == (HostEvent(SUBMIT, one.id), HostEvent(WAIT, one.id))
    assert PlanningJob(found, {}).op_ids == ("c0", "c1", "c2", "b0+b1+b2", "c3")


def test_no_more_than_told_are_merged() -> None:
    assert [op.count for op in merged(buckets(), 1200).collectives()] == [300, 300]
    assert merged(buckets(), 1199) == buckets()
    with pytest.raises(ParameterError, match="merge is 0 bytes, expected 1 or more"):
        merged(buckets(), 0)


def test_dependent_collectives_are_not_merged() -> None:
    chained = buckets(deps=(*buckets().deps, Dependency("b0", "c1")))
    assert [op.id for op in merged(chained, 10**6).collectives()] == ["b0", "b1+b2"]
    events = [HostEvent(SUBMIT, "b0"), HostEvent(WAIT, "b0"), HostEvent(SUBMIT, "b1")]
    events += [HostEvent(SUBMIT, "b2")]
    awaited = buckets(submits=(HostProgram("all", tuple(events)),))
    assert [op.id for op in merged(awaited, 10**6).collectives()] == ["b0", "b1+b2"]


def test_two_that_were_merged_do_not_wait_for_one_another() -> None:
    """a0 before b0, and b1 before a1: merged in pairs both would wait for ever."""
    ops = [comm(f"a{k}", "allreduce", (0, 1), 4) for k in range(2)]
    ops += [comm(f"b{k}", "allgather", (0, 1), 4) for k in range(2)]
    crossed = Workload(
        name="crossed",
        ranks=2,
        roles=(Role("all", (0, 1)),),
        ops=tuple(ops),
        deps=(Dependency("a0", "b0"), Dependency("b1", "a1")),
        submits=(HostProgram("all", tuple(HostEvent(SUBMIT, o.id) for o in ops)),),
    )
    found = merged(crossed, 10**6)
    assert [op.id for op in found.collectives()] == ["a0+a1", "b0", "b1"]


def test_others_are_not_merged_with_them() -> None:
    plain = comm("x", "allreduce", (0, 1), 4)
    for other in (
        comm("y", "allgather", (0, 1), 4),
        comm("y", "allreduce", (1, 0), 4),
        comm("y", "allreduce", (0, 1), 4, reduce="max"),
        replace(plain, id="y", dtype="float16"),
    ):
        assert len(list(merged(_called(plain, other), 10**6).collectives())) == 2


def test_uneven_exchanges_are_added_up() -> None:
    uneven = comm("x", "alltoall", (0, 1), 7, splits=((3, 4), (5, 1)), holds_bytes=3)
    even = comm("y", "alltoall", (0, 1), 4, holds_bytes=4)
    (one,) = merged(_called(uneven, even), 10**6).collectives()
    assert one.splits == ((5, 6), (7, 3))
    assert (one.count, one.holds_bytes) == (11, 7)


def test_names_of_many_are_short() -> None:
    (one,) = merged(buckets((1,) * 20), 10**6).collectives()
    assert one.id == "b0+18 more+b19"


def test_candidates_differ() -> None:
    large = buckets((2**17, 2**17, 2**19, 2**19))
    found = list_merge_candidates(large, 2**24)
    assert [sum(map(len, rows)) - len(rows) for rows in found] == [3, 2, 1]
    assert list_merge_candidates(buckets((4,)), 2**24) == ()
    assert list_merge_candidates(buckets(), 2**24) == ((("b0", "b1", "b2"),),)


def test_merged_collectives_are_reported() -> None:
    found = merge_collectives(buckets(), [("b0", "b2")])
    assert merged_id_rows(found) == (("b0", "b2"),)
    (one, other) = found.collectives()
    assert ([part.id for part in other.merged], one.merged) == (["b0", "b2"], ())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("b0", "b9")], "'b9' is to be merged, expected a collective of the workload"),
        ([("b0", "c0")], "'c0' is to be merged, expected a collective"),
        ([("b0", "b1"), ("b1", "b2")], "'b1' is to be merged, .* in one row alone"),
        ([("b0",)], "expected two or more different ones"),
    ],
)
def test_unmergeable_collectives_are_rejected(rows: list[tuple[str, ...]], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        merge_collectives(buckets(), rows)


def test_different_collectives_are_not_merged() -> None:
    plain = comm("x", "allreduce", (0, 1), 4)
    with pytest.raises(ParameterError, match="'x\\+y' stands for 'y', expected collectives of its"):
        merge_collectives(_called(plain, replace(plain, id="y", dtype="float16")), [("x", "y")])


def _called(*ops: CommOp) -> Workload:
    events = tuple(HostEvent(HostAction.SUBMIT, op.id) for op in ops)
    return Workload(
        name="called",
        ranks=2,
        roles=(Role("all", (0, 1)),),
        ops=ops,
        deps=(),
        submits=(HostProgram("all", events),),
    )


@settings(max_examples=times(60))
@given(st.integers(0, 10**6), st.sampled_from([40, 80, 120, 10**6]))
def test_nothing_is_lost_and_nothing_waits_for_ever(seed: int, most: int) -> None:
    job = random_job(seed)
    if job is None:
        return
    before, after = job.workload, merged(job.workload, most)
    assert len(PlanningJob(after, {}).op_ids) == len(after.ops)
    assert sum(op.count for op in before.collectives()) == sum(
        op.count for op in after.collectives()
    )
    parts = {op.id: op.id.split("+") for op in after.ops if "more" not in op.id}
    whose = {name: op for op, names in parts.items() for name in names}
    if len(whose) == len(before.ops):
        waits = set(workload_waits(after))
        for dep in before.deps:
            assert Dependency(whose[dep.before], whose[dep.after], dep.lag) in waits
    sizes = Counter(op.size_bytes > max(most, 40) for op in after.collectives())
    assert not sizes[True]
