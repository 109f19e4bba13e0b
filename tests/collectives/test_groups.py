"""Collectives in process groups, and concurrent ones: pre- and postconditions, and errors."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.collectives import (
    collective_names,
    format_in_groups,
    named_spec,
    recover_spec,
    remove_rank,
    resolve_collective,
)
from sccl.core.outcome import Solution
from sccl.core.schedule import Schedule
from sccl.errors import InputError
from sccl.judge import violations
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.topo import resolve_topology as machine
from tests.kit.schedule_executor import executes_correctly
from tests.kit.small_budgets import small_tacos_budget


@given(st.data())
def test_each_group_has_a_collective_of_its_own(data: st.DataObject) -> None:
    """Ranks of a group hold and demand the same chunks as without other groups."""
    ranks = data.draw(st.integers(4, 9))
    order = data.draw(st.permutations(range(ranks)))
    cut = data.draw(st.integers(2, ranks - 2))
    name = data.draw(st.sampled_from(collective_names()))
    groups = [order[:cut], order[cut:]]
    roots = [data.draw(st.sampled_from([None, *group])) for group in groups]
    if named_spec(name, 2).root is None:
        roots = [None, None]
    told = [
        ",".join(map(str, group)) + ("" if root is None else f":{root}")
        for group, root in zip(groups, roots, strict=True)
    ]
    spec = resolve_collective(f"{name}@{'/'.join(told)}", ranks)
    chunks = spec.unit * data.draw(st.integers(1, 3))
    both = spec.at(chunks)
    expected = Counter[tuple[frozenset[int], frozenset[int]]]()
    for group, root in zip(groups, roots, strict=True):
        own = named_spec(name, len(group), None if root is None else group.index(root)).at(chunks)
        for chunk in range(own.num_chunks):
            expected[
                frozenset(group[r] for r in own.holders(chunk)),
                frozenset(group[r] for r in own.destinations(chunk)),
            ] += 1
    assert {pair: len(own) for pair, own in both.chunk_classes().items()} == expected
    assert both.combining == own.combining
    assert recover_spec(both) == replace(spec, parts=())


@pytest.mark.parametrize("name", collective_names())
def test_one_group_of_all_ranks_is_the_collective_itself(name: str) -> None:
    assert resolve_collective(f"{name}@0-4", 5) == named_spec(name, 5)
    turned = resolve_collective(f"{name}@4,3,2,1,0", 5)
    for chunk in range(turned.pattern_chunks):
        there, here = turned.at(turned.unit), named_spec(name, 5).at(turned.unit)
        assert there.holders(chunk) == {4 - r for r in here.holders(chunk)}
        assert there.destinations(chunk) == {4 - r for r in here.destinations(chunk)}


def test_roots_are_ranks_of_the_machine() -> None:
    assert resolve_collective("broadcast@0-3:2", 4) == named_spec("broadcast", 4, 2)
    both = resolve_collective("broadcast@0-3:2/4-7:5", 8).at(1)
    assert [sorted(both.holders(chunk)) for chunk in range(2)] == [[2], [5]]


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("alltoall@2x4", "alltoall@0-3/4-7"),
        ("alltoall@2x4.strided", "alltoall@0,2,4,6/1,3,5,7"),
        ("allgather@4x2", "allgather@0,1/2,3/4,5/6-7"),
    ],
)
def test_grids_are_short_for_lists(short: str, long: str) -> None:
    assert resolve_collective(short, 8).pre == resolve_collective(long, 8).pre
    assert resolve_collective(short, 8).post == resolve_collective(long, 8).post


def test_tenants_are_put_together(tmp_path: Path) -> None:
    own = {
        "schema": 1,
        "kind": "custom-collective",
        "name": "mine",
        "ranks": 4,
        "pre": [[0, 0], [1, 1]],
        "post": [[0, 3], [1, 2]],
    }
    (tmp_path / "mine.json").write_text(json.dumps(own))
    spec = resolve_collective(f"allgather@0-1+{tmp_path / 'mine.json'}", 4)
    collective = spec.at(2)
    assert collective.num_chunks == 2 * 4
    assert [sorted(collective.destinations(c)) for c in range(4)] == [[0, 1], [0, 1], [3], [2]]
    plus = tmp_path / "a+b.json"
    plus.write_text(json.dumps(own))
    assert resolve_collective(str(plus), 4).name == "mine"


@pytest.mark.parametrize("synthesiser", ["tacos", "teccl", "limits-time"])
@pytest.mark.parametrize(
    "text",
    ["alltoall@2x4", "reducescatter@0-3/4,5", "allgather@0-2+gather", "allreduce@0-2/3,7"],
)
@small_tacos_budget()
def test_they_are_planned_over_links_of_others_too(text: str, synthesiser: str) -> None:
    dgx1 = machine("dgx1")
    found = registry.plan(
        registry.load(synthesiser), Request(dgx1, resolve_collective(text, 8), 1 << 20), effort=None
    )
    assert isinstance(found, Solution)
    plan = found.plan
    assert isinstance(plan, Schedule)
    assert violations(plan) == []
    assert executes_correctly(plan)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("alltoall@3x4", "3 groups of 4 ranks, and the machine has 8"),
        ("alltoall@8x1", "of 2 ranks or more"),
        ("alltoall@0-3/3-5", "rank 3 stands twice"),
        ("allreduce@2x4+reduce", "it combines an allreduce with reductions for one rank each"),
        ("allgather+reduce", "some of its parts reduce"),
        ("alltoall@0/1-3", "group '0' has one rank"),
        ("alltoall@0-8", "ascending ones from 0 to 7"),
        ("alltoall@5-2", "ascending ones from 0 to 7"),
        ("alltoall@all", "'all' names no ranks"),
        ("alltoall@", "'' names no ranks"),
        ("alltoal@2x4", "did you mean 'alltoall'"),
        ("allgather+", "unknown collective ''"),
        ("broadcast@0-3:4", "root 4 is not in its group 0-3"),
        ("broadcast@0-3:", "'0-3:' names no ranks"),
        ("allgather@0-3:1", "group '0-3:1' has a root, but allgather has none"),
        ("mine.json@2x4", "a .json file of your own without '@'"),
    ],
)
def test_invalid_arguments_give_one_sentence(text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        resolve_collective(text, 8)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_root_is_for_one() -> None:
    with pytest.raises(InputError, match="give each group its own"):
        resolve_collective("broadcast@2x4", 8, 3)


def test_sizes_that_have_no_small_multiple_are_rejected() -> None:
    cuts = [0, 2, 5, 10, 17, 28, 41, 58]
    groups = "/".join(f"{a}-{b - 1}" for a, b in pairwise(cuts))
    with pytest.raises(InputError, match="C is a multiple of 510510, of the sizes of all groups"):
        resolve_collective(f"alltoall@{groups}", 58)


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ("0-3,4-7", "allgather@0-3/4-7"),
        ("0-3/4-7", "allgather@0-3/4-7"),
        ("0,2,4/1,3,5", "allgather@0,2,4/1,3,5"),
        ("0,2,4,6", "allgather@0,2,4,6"),
        ("0-2", "allgather@0-2"),
        ("0-3,6/4-5", "allgather@0-3,6/4-5"),
        ("2x4.strided", "allgather@2x4.strided"),
    ],
)
def test_commas_part_spans_where_nothing_else_parts_groups(groups: str, text: str) -> None:
    assert format_in_groups("allgather", groups) == text
    resolve_collective(text, 8)


def written(folder: Path, groups: object) -> str:
    file = folder / "groups.json"
    file.write_text(json.dumps({"kind": "groups", "groups": groups}))
    return str(file)


def test_each_group_of_a_file_may_have_its_own(tmp_path: Path) -> None:
    groups: list[dict[str, object]] = [
        {"ranks": [0, 1, 2], "collective": "broadcast", "root": 1},
        {"ranks": [6, 4]},
        {"ranks": [3, 5]},
    ]
    file = written(tmp_path, groups)
    text = format_in_groups("allgather", file)
    assert text == "broadcast@0-2:1+allgather@6,4/3,5"
    with pytest.raises(InputError, match=r"groups\[1\]: the group has no collective"):
        resolve_collective(file, 8)
    groups[1]["collective"] = groups[2]["collective"] = "allgather"
    assert resolve_collective(written(tmp_path, groups), 8) == resolve_collective(text, 8)


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([{"ranks": [0, 1]}, {"ranks": [1, 2]}], "rank 1 is in $.groups[0], too"),
        ([{"ranks": [0, 0]}], "rank 0 is in $.groups[0], too"),
        ([{"ranks": [0]}], "$.groups[0].ranks"),
        ([{"ranks": []}], "$.groups[0].ranks"),
        ([], "$.groups"),
        ([{"ranks": [0, 1], "root": 2}], "root 2 is not in its group"),
        ([{"ranks": [0, 9]}], "expected ascending ones from 0 to 7"),
        ([{"ranks": [0, 1], "collective": "allgathr"}], "did you mean 'allgather'"),
        ([{"ranks": [0, 1], "collective": "mine.json"}], "groups run one of the named collectives"),
        ([{"ranks": [0, 1], "extra": 1}], "extra"),
    ],
)
def test_files_of_groups_that_make_no_sense_are_rejected(
    tmp_path: Path, groups: object, says: str
) -> None:
    with pytest.raises(InputError) as refused:
        resolve_collective(format_in_groups("broadcast", written(tmp_path, groups)), 8)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_file_of_something_else_is_no_file_of_groups(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"kind": "topology"}')
    with pytest.raises(InputError, match="it is no file of groups"):
        format_in_groups("allgather", str(tmp_path / "mine.json"))
    for name in ("mine", "allgather@0-3", "a+b", "mine.json"):
        with pytest.raises(InputError, match="groups run one of the named collectives"):
            format_in_groups(name, "0-3,4-7")


@pytest.mark.parametrize(
    ("text", "lost", "left"),
    [
        ("allgather@0-3/4-7", 5, "allgather@0-3/4-6"),
        ("allgather@0-3/4-7", 0, "allgather@0-2/3-6"),
        ("allgather@2x4.strided", 1, "allgather@0-1,3,5/2,4,6"),
        ("alltoall@0-1/2-3", 1, "alltoall@1-2"),
        ("alltoall@1-2", 0, "alltoall@0-1"),
        ("broadcast@0-3:2/4-7:7", 0, "broadcast@0-2:1/3-6:6"),
        ("2*scatter@0-1+allgather@0-7", 7, "2*scatter@0-1+allgather@0-6"),
        ("allgather+alltoall@0-3", 5, "allgather+alltoall@0-3"),
    ],
)
def test_groups_go_on_without_a_rank(text: str, lost: int, left: str) -> None:
    assert remove_rank(text, 8, lost) == left
    resolve_collective(left, 7)


@pytest.mark.parametrize(
    ("text", "lost", "says"),
    [
        ("broadcast@0-3:2/4-7", 2, "it is the root of its group"),
        ("2*gather@0-3/4-7", 4, "it is the root of its group"),
        ("alltoall@2-3", 3, "nothing is left to do"),
    ],
)
def test_or_do_not(text: str, lost: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        remove_rank(text, 8, lost)
