"""Files of training plans: round trips, and errors of one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.core.files.json_text import parse, to_text
from sccl.errors import InputError
from sccl.topo import resolve_topology
from sccl.training.files.training_plan_shapes import TrainingPlanWire
from sccl.training.files.training_plans import (
    load_timeline,
    load_training_plan,
    timeline_to_wire,
    training_plan_to_wire,
)
from sccl.training.timeline import simulate_timeline
from tests.kit.nightly import times
from tests.kit.training import random_training_plan
from tests.kit.training_plans import layered_plan, plan_file, prefetching_plan


def test_plan_comes_back_with_its_digest(tmp_path: Path) -> None:
    for plan in (prefetching_plan(memory_bytes=5000), layered_plan(4)):
        file = plan_file(plan, tmp_path / "plan.json")
        assert load_training_plan(file, resolve_topology) == (plan, True)
        before = file.read_bytes()
        assert plan_file(load_training_plan(file, resolve_topology)[0], file).read_bytes() == before


@settings(max_examples=times(50))
@given(st.integers(0, 10**9))
def test_any_plan_comes_back(seed: int) -> None:
    plan = random_training_plan(seed)
    assume(plan is not None)
    assert plan is not None
    text = to_text(training_plan_to_wire(plan))
    again = parse(text, TrainingPlanWire, "it")
    assert to_text(again) == text


@settings(max_examples=times(30, by_day=15))
@given(st.integers(0, 10**9))
def test_any_timeline_comes_back(seed: int) -> None:
    plan = random_training_plan(seed)
    assume(plan is not None)
    assert plan is not None
    timeline = simulate_timeline(plan)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "timeline.json"
        file.write_text(to_text(timeline_to_wire(plan, timeline)))
        assert load_timeline(file, resolve_topology) == (plan, timeline, True)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (("spans", 0, 0, "nobody"), "span 0: the plan has no motif 0 of 'nobody'"),
        (("spans", 1, 1, 7), "span 1: the plan has no motif 7 of "),
        (("spans", 1, 3, 9), "span 1: it is on lane 9, and there are 3, 0 to 2"),
        (("spans", 0, 5, -1), ">= 0"),
        (("prologue_ns", 3), "prologue_ns is 3, expected the time of iterations"),
        (("spans", []), "length >= 1"),
        (("plan", "ops", 0, "option", 7), "plan: operation 'batch' takes option 7"),
    ],
)
def test_bad_timelines_are_a_sentence(edit: tuple[Any, ...], says: str, tmp_path: Path) -> None:
    plan, file = prefetching_plan(), tmp_path / "timeline.json"
    told = json.loads(to_text(timeline_to_wire(plan, simulate_timeline(plan))))
    *way, to = edit
    _edit(*way, to=to)(told)
    file.write_text(json.dumps(told))
    with pytest.raises(InputError) as error:
        load_timeline(file, resolve_topology)
    assert says in str(error.value)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)


def test_timeline_without_its_first_iterations_is_none(tmp_path: Path) -> None:
    plan, file = prefetching_plan(), tmp_path / "timeline.json"
    told = json.loads(to_text(timeline_to_wire(plan, simulate_timeline(plan))))
    told["spans"] = [[row[0], row[1], row[2] + 5, *row[3:]] for row in told["spans"]]
    file.write_text(json.dumps(told))
    with pytest.raises(InputError, match=r"prologue_ns is .* the time of iterations"):
        load_timeline(file, resolve_topology)


def test_options_that_are_alike_are_written_once() -> None:
    wire = training_plan_to_wire(layered_plan(20))
    assert (len(wire.options), len(wire.ops)) == (3, 40)


def test_edited_file_is_told_from_one_as_written(tmp_path: Path) -> None:
    file = plan_file(prefetching_plan(), tmp_path / "plan.json")
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "period_ns": 14499}))
    plan, intact = load_training_plan(file, resolve_topology)
    assert (plan.period_ns, intact) == (14499, False)
    del told["digest"]
    file.write_text(json.dumps(told))
    assert load_training_plan(file, resolve_topology)[1]


def _edit(*path: str | int, to: object) -> Callable[[Any], None]:
    def edit(told: Any) -> None:
        *way, last = path
        for step in way:
            told = told[step]
        told[last] = to

    return edit


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (_edit("ops", 0, "option", to=7), "'batch' takes option 7, and the plan has 2, 0 to 1"),
        (
            _edit("options", 1, "motifs", 0, "after", to=[1]),
            "option 1: motif 0 waits for 1, which is not before",
        ),
        (_edit("options", 0, "motifs", to=[]), "length >= 1"),
        (_edit("options", 0, "motifs", 0, "loads", to={"cpu: links": 1001}), "<= 1000"),
        (_edit("options", 0, "motifs", 0, "ns", to=-1), ">= 0"),
        (_edit("order", 0, to=["batch", 0]), "order[0]"),
        (_edit("order", 0, to=["batch", 0, -1]), "order[0][2]"),
        (_edit("workload", "ranks", to=0), "ranks"),
        (_edit("workload", "ops", to=[]), "there is no operation"),
        (_edit("fabric", "channels", to=[]), "channels"),
        (_edit("searched", to=1), "unknown field `searched`"),
        (_edit("schema", to=2), "schema"),
    ],
)
def test_bad_files_are_a_sentence(edit: Callable[[Any], None], says: str, tmp_path: Path) -> None:
    file = plan_file(prefetching_plan(), tmp_path / "plan.json")
    told = json.loads(file.read_text())
    edit(told)
    file.write_text(json.dumps(told))
    with pytest.raises(InputError) as error:
        load_training_plan(file, resolve_topology)
    assert says in str(error.value)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)
