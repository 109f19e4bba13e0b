"""Workloads: their parts, their consistency, and their files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest

from sccl.codegen.targets.rendering import TYPES
from sccl.collectives import collective_names
from sccl.core.files.json_text import to_text
from sccl.core.sizes import ITEM_BYTES
from sccl.errors import FormatError, ParameterError
from sccl.training.files.workloads import load_workload, workload_from_text, workload_to_wire
from sccl.training.types.workload import Workload, find_cycle
from sccl.training.types.workload_ops import (
    COLLECTIVES,
    CommOp,
    ComputeOp,
    Dependency,
    HostEvent,
    HostProgram,
    Role,
)
from sccl.training.workload_outputs import workload_part
from tests.kit.nightly import seed, times
from tests.kit.workloads import SUBMIT, WAIT, prefetching

STEP = prefetching()
GIVEN = {op.id: op for op in STEP.ops}


def test_workload_reads_back_from_its_file(tmp_path: Path) -> None:
    text = to_text(workload_to_wire(STEP))
    (tmp_path / "w.json").write_text(text)
    assert load_workload(tmp_path / "w.json") == STEP
    assert to_text(workload_to_wire(workload_from_text(text, "w"))) == text
    assert [op.id for op in STEP.collectives()] == ["gradients", "batch"]
    assert [op.size_bytes for op in STEP.collectives()] == [4096, 240]
    assert len(list(STEP.computation())) == 3


def test_file_error_names_the_file() -> None:
    told = json.loads(to_text(workload_to_wire(STEP)))
    told["ops"][0]["duration_us"] += 1.0
    with pytest.raises(FormatError, match=r"^w.json: edited since sccl wrote it \(its digest"):
        workload_from_text(json.dumps(told), "w.json")
    del told["digest"]
    assert workload_from_text(json.dumps(told), "w.json") != STEP
    told["ops"][0]["stream"] = " "
    with pytest.raises(FormatError, match=r"^w.json: operation 'forward': its stream is ' '"):
        workload_from_text(json.dumps(told), "w.json")
    told["ops"][0] = {"op": "sleep"}
    with pytest.raises(FormatError, match=r"^w.json: .*sleep.*; expected a workload file"):
        workload_from_text(json.dumps(told), "w.json")


def test_workload_uses_the_vocabulary_of_the_project() -> None:
    assert {name for name in collective_names() if not name.endswith("v")} <= set(COLLECTIVES)
    assert {name.lower() for name in TYPES} <= set(ITEM_BYTES)


WRONG: dict[str, Callable[[], object]] = {
    r"the name of a role is ' ', expected a name": lambda: Role(" ", (0,)),
    r"the name of a role is 'aaaaaa.*'... and has 257 characters, expected 256": lambda: Role(
        "a" * 257, (0,)
    ),
    r"the id of an operation is 'aaaaaa.*'... and has 999999 characters": lambda: ComputeOp(
        "a" * 999_999, "a", "s", 1
    ),
    r"operation 'c': its role is 'bbb": lambda: ComputeOp("c", "b" * 999, "s", 1),
    r"in a dependency is 'bbb": lambda: Dependency("a", "b" * 999),
    r"in a wait is 'bbb": lambda: HostEvent(WAIT, "b" * 999),
    r"the role of a program is 'bbb": lambda: HostProgram("b" * 999, ()),
    r"role 'a': ranks are \(1, 0\), expected one or more, in ascending": lambda: Role("a", (1, 0)),
    r"duration_us is -1, expected microseconds": lambda: ComputeOp("c", "a", "s", -1),
    r"duration_us is nan": lambda: ComputeOp("c", "a", "s", float("nan")),
    r"'x': collective is 'send', expected one of allgather, allreduce": lambda: CommOp(
        "x", "send", (0, 1), 1, "int8"
    ),
    r"dtype is 'int7', expected one of int8": lambda: CommOp("x", "scatter", (0, 1), 2, "int7", 0),
    r"group is \(0, 0\), expected different ranks": lambda: CommOp(
        "x", "alltoall", (0, 0), 2, "int8"
    ),
    r"count is -2, expected 0 to": lambda: CommOp("x", "alltoall", (0, 1), -2, "int8"),
    r"3 elements do not divide into equal blocks for 2 ranks": lambda: CommOp(
        "x", "allgather", (0, 1), 3, "int8"
    ),
    r"root is 2, expected a rank of its group \(0, 1\)": lambda: CommOp(
        "x", "broadcast", (0, 1), 2, "int8", 2
    ),
    r"alltoall has no root": lambda: CommOp("x", "alltoall", (0, 1), 2, "int8", 0),
    r"reduce is 'None', expected one of avg": lambda: CommOp("x", "allreduce", (0, 1), 2, "int8"),
    r"alltoall does not reduce": lambda: CommOp("x", "alltoall", (0, 1), 2, "int8", reduce="sum"),
    r"splits apply to an alltoall only, and this is allgather": lambda: CommOp(
        "x", "allgather", (0, 1), 2, "int8", splits=((1, 1), (1, 1))
    ),
    r"splits are 1 rows, expected 2 rows of 2": lambda: CommOp(
        "x", "alltoall", (0, 1), 2, "int8", splits=((1, 1),)
    ),
    r"count is 2, and the largest row sum of its splits is 3": lambda: CommOp(
        "x", "alltoall", (0, 1), 2, "int8", splits=((1, 1), (1, 2))
    ),
    r"dependency of 'b' on 'a': lag is -1": lambda: Dependency("a", "b", -1),
    r"submit of 'a': lag is 1, expected none": lambda: HostEvent(SUBMIT, "a", 1),
    r"ranks is 0, expected 1 to": lambda: prefetching(ranks=0),
    r"role 'all': there are 1 ranks, expected 0 to 0": lambda: prefetching(ranks=1),
    r"there are no roles": lambda: prefetching(roles=()),
    r"rank 1 has roles 'all' and 'b', expected one": lambda: prefetching(
        roles=(*STEP.roles, Role("b", (1,)))
    ),
    r"role 'all' is there twice": lambda: prefetching(roles=STEP.roles * 2),
    r"operation 'forward' is there twice": lambda: prefetching(ops=(*STEP.ops, STEP.ops[0])),
    r"operation 'z': there is no role 'b', expected one of all": lambda: prefetching(
        ops=(*STEP.ops, ComputeOp("z", "b", "s", 1))
    ),
    r"operation 'z': rank 2 is in a group of it, and there are 2 ranks": lambda: prefetching(
        ops=(*STEP.ops, CommOp("z", "alltoall", (0, 2), 2, "int8"))
    ),
    r"operation 'z': rank 3 is in a group of it, and there": lambda: prefetching(
        ops=(*STEP.ops, _beside((3,)))
    ),
    r"a parallel group is \(1, 2\), expected 1 different ranks from 0": lambda: _beside((1, 2)),
    r"a parallel group is \(\), expected 1 different ranks": lambda: _beside(()),
    r"a parallel group is \(-1\), expected 1 different ranks": lambda: _beside((-1,)),
    r"rank 1 is in two parallel groups": lambda: _beside((1,), (2,), (1,)),
    r"there is no operation 'z'": lambda: prefetching(deps=(Dependency("z", "forward"),)),
    r"'forward' on 'batch' is there twice": lambda: prefetching(deps=(STEP.deps[0],) * 2),
    r"wait for one another: .*gradients -> optimizer": lambda: prefetching(
        deps=(Dependency("optimizer", "gradients"), Dependency("gradients", "optimizer"))
    ),
    # The first operation of a stream waits for a later one.
    r"wait for one another: (\w+) -> \w+ -> \w+ -> \1;": lambda: prefetching(
        deps=(Dependency("backward", "gradients"), Dependency("gradients", "forward"))
    ),
    r"role 'all' computes on 129 streams, expected 128 at most": lambda: prefetching(
        ops=(*STEP.ops, *(ComputeOp(f"c{k}", "all", f"s{k}", 1) for k in range(128)))
    ),
    r"a program has role 'b', which the workload does not define": lambda: prefetching(
        submits=(*STEP.submits, HostProgram("b", ()))
    ),
    r"role 'all' has two programs": lambda: prefetching(submits=STEP.submits * 2),
    r"operation 'gradients' is submitted by no role": lambda: prefetching(submits=()),
    r"'gradients': ranks of role 'all' are in a group of it, and the role's": lambda: prefetching(
        roles=(Role("all", (0,)), Role("b", (1,))),
        submits=(HostProgram("all", (HostEvent(SUBMIT, "batch"),)), _of_b()),
    ),
    r"line 0: submit of 'forward', which is no collective": lambda: prefetching(
        submits=(HostProgram("all", (HostEvent(SUBMIT, "forward"),)),)
    ),
    r"line 1: submit of 'batch', which was submitted before": lambda: prefetching(
        submits=(HostProgram("all", (HostEvent(SUBMIT, "batch"),) * 2),)
    ),
    r"line 0: wait of 'batch', which was not submitted before": lambda: prefetching(
        submits=(HostProgram("all", (HostEvent(WAIT, "batch"), HostEvent(SUBMIT, "batch"))),)
    ),
    r"'z': ranks of role 'b' are in a group of it, and the role's": lambda: prefetching(
        roles=(Role("all", (0,)), Role("b", (1,))),
        ops=(*STEP.ops, _beside((1,))),
        submits=(
            HostProgram("all", (*STEP.submits[0].events, HostEvent(SUBMIT, "z"))),
            _of_b(),
        ),
    ),
    r"but its groups lack some ranks of the role": lambda: prefetching(
        ops=(*STEP.ops, CommOp("z", "alltoall", (0,), 2, "int8")),
        submits=(HostProgram("all", (*STEP.submits[0].events, HostEvent(SUBMIT, "z"))),),
    ),
}


def _beside(*groups: tuple[int, ...]) -> CommOp:
    return CommOp("z", "allreduce", (0,), 2, "int8", reduce="sum", beside=groups)


def _of_b() -> HostProgram:
    return HostProgram("b", (HostEvent(SUBMIT, "batch"), HostEvent(SUBMIT, "gradients")))


@pytest.mark.parametrize("says", WRONG)
def test_contradictory_workload_gives_one_sentence(says: str) -> None:
    with pytest.raises(ParameterError, match=says) as error:
        WRONG[says]()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_role_that_was_not_traced_has_no_program() -> None:
    roles = (Role("all", (0,)), Role("others", (1,)))
    left = prefetching(roles=roles, submits=(*STEP.submits, HostProgram("others", ())))
    assert isinstance(left, Workload)


def test_groups_that_do_the_same_at_once_are_one_operation(tmp_path: Path) -> None:
    op = CommOp("z", "broadcast", (0, 2), 4, "int8", 2, beside=((3, 1),))
    assert op.groups == ((0, 2), (3, 1))
    assert op.members == {0, 1, 2, 3}
    job = prefetching(
        ranks=4,
        roles=(Role("senders", (1, 2)), Role("receivers", (0, 3))),
        ops=(op,),
        deps=(),
        submits=tuple(
            HostProgram(name, (HostEvent(SUBMIT, "z"),)) for name in ("senders", "receivers")
        ),
    )
    (tmp_path / "w.json").write_text(to_text(workload_to_wire(job)))
    assert load_workload(tmp_path / "w.json") == job
    (told,) = workload_part(job).collectives
    assert (told.group_ranks, told.groups, told.operations) == (2, 2, 1)
    assert '"beside"' not in to_text(workload_to_wire(STEP))  # the files are unchanged


def test_cycle_is_one_wherever_there_is_one() -> None:
    draw = random.Random(seed("cycles"))  # noqa: S311 - the same graphs every time
    found = 0
    for _ in range(times(300)):
        count = draw.randint(1, 8)
        edges = {(draw.randrange(count), draw.randrange(count)) for _ in range(draw.randint(0, 9))}
        after = {str(a): [str(b) for x, b in sorted(edges) if x == a] for a in range(count)}
        cycle = find_cycle(after)
        assert bool(cycle) != nx.is_directed_acyclic_graph(nx.DiGraph(list(edges)))
        found += bool(cycle)
        if cycle:
            assert all(b in after[a] for a, b in pairwise([*cycle, cycle[0]]))
    assert found
