"""Collectives in process groups, and several at once: what ranks have and want, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.collectives import named, names, resolve
from sccl.core.outcome import Found
from sccl.core.schedule import Schedule
from sccl.errors import InputError
from sccl.judge import violations
from sccl.synth import registry
from sccl.synth.contract import Request
from sccl.topo import resolve as machine
from tests.kit.executed import is_right


@given(st.data())
def test_each_group_has_a_collective_of_its_own(data: st.DataObject) -> None:
    """Ranks of a group hold and want what they would if there were no others."""
    ranks = data.draw(st.integers(4, 9))
    order = data.draw(st.permutations(range(ranks)))
    cut = data.draw(st.integers(2, ranks - 2))
    name = data.draw(st.sampled_from(names()))
    groups = [order[:cut], order[cut:]]
    text = f"{name}@" + "/".join(",".join(map(str, group)) for group in groups)
    both = resolve(text, ranks).at(1)
    chunks = iter(range(both.num_chunks))
    for group in groups:
        alone = named(name, len(group))
        own = alone.at(alone.unit)
        for chunk in range(own.num_chunks):
            here = next(chunks)
            assert both.holders(here) == {group[r] for r in own.holders(chunk)}
            assert both.wanted(here) == {group[r] for r in own.wanted(chunk)}
    assert next(chunks, None) is None
    assert both.combining == own.combining


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("alltoall@2x4", "alltoall@0-3/4-7"),
        ("alltoall@2x4.strided", "alltoall@0,2,4,6/1,3,5,7"),
        ("allgather@4x2", "allgather@0,1/2,3/4,5/6-7"),
    ],
)
def test_grids_are_short_for_lists(short: str, long: str) -> None:
    assert resolve(short, 8).pre == resolve(long, 8).pre
    assert resolve(short, 8).post == resolve(long, 8).post


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
    spec = resolve(f"allgather@0-1+{tmp_path / 'mine.json'}", 4)
    collective = spec.at(2)
    assert collective.num_chunks == 2 * 4
    assert [sorted(collective.wanted(c)) for c in range(4)] == [[0, 1], [0, 1], [3], [2]]
    plus = tmp_path / "a+b.json"
    plus.write_text(json.dumps(own))
    assert resolve(str(plus), 4).name == "mine"


@pytest.mark.parametrize("synthesiser", ["tacos", "teccl", "fluid"])
@pytest.mark.parametrize(
    "text",
    ["alltoall@2x4", "reducescatter@0-3/4,5", "allgather@0-2+gather", "allreduce@0-2/3,7"],
)
def test_they_are_planned_over_links_of_others_too(text: str, synthesiser: str) -> None:
    dgx1 = machine("dgx1")
    found = registry.plan(
        registry.load(synthesiser), Request(dgx1, resolve(text, 8), 1 << 20), effort=None
    )
    assert isinstance(found, Found)
    plan = found.plan
    assert isinstance(plan, Schedule)
    assert violations(plan) == []
    assert is_right(plan)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("alltoall@3x4", "3 groups of 4 ranks, and the machine has 8"),
        ("alltoall@8x1", "of 2 ranks or more"),
        ("alltoall@0-3/3-5", "rank 3 stands twice"),
        ("allreduce@2x4+reduce", "some of its parts are reduced for all ranks of a group"),
        ("allgather+reduce", "some of its parts combine"),
        ("alltoall@0/1-3", "group '0' has one rank"),
        ("alltoall@0-8", "ascending ones from 0 to 7"),
        ("alltoall@5-2", "ascending ones from 0 to 7"),
        ("alltoall@all", "'all' names no ranks"),
        ("alltoall@", "'' names no ranks"),
        ("alltoal@2x4", "did you mean 'alltoall'"),
        ("allgather+", "unknown collective ''"),
        ("mine.json@2x4", "a .json file of your own without '@'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        resolve(text, 8)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_root_is_for_one() -> None:
    with pytest.raises(InputError, match="rooted at the first rank"):
        resolve("broadcast@2x4", 8, 3)
