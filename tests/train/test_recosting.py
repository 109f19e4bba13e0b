"""The judge of training plans derives options anew: edits of recipes, times and loads are seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from sccl.core.training_plan import Option, OptionMotif, TrainingPlan
from sccl.topo import fabric_of
from sccl.train.planner import Planner, PlanSettings
from sccl.train.rebounding import wrong_bound
from sccl.train.verdict import faults_in
from tests.kit.training_plans import layered_plan


@cache
def found() -> TrainingPlan:
    """Return a plan of collectives of 8 MiB that may go two ways."""
    workload = layered_plan(2).workload
    planner = Planner(workload, fabric_of("hgx2"), PlanSettings(seconds=0.0))
    planner.run()
    return planner.plan()


def edited(change: Callable[[Option], Option]) -> TrainingPlan:
    """Return it with options that are changed."""
    options = tuple((name, change(option)) for name, option in found().options)
    return replace(found(), options=options)


def each(option: Option, change: Callable[[OptionMotif], OptionMotif]) -> Option:
    """Return an option with motifs that are changed."""
    return replace(option, motifs=tuple(map(change, option.motifs)))


def test_what_is_found_is_right() -> None:
    assert faults_in(found()) == ()
    assert found().bound_ns <= found().period_ns


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda o: each(o, lambda m: replace(m, ns=m.ns - 1)), "cost"),
        (lambda o: each(o, lambda m: replace(m, loads=())), "load"),
        (lambda o: replace(o, recipe="seg(16)"), "recipe"),
        (lambda o: replace(o, recipe="nothing"), "recipe"),
        (lambda o: each(o, lambda m: replace(m, carrier="nobody")), "recipe"),
        (lambda o: each(o, lambda m: replace(m, carrier="ring")), "cost"),
        (lambda o: each(o, lambda m: replace(m, channel="cpu")), "cost"),
    ],
)
def test_edits_are_seen(change: Callable[[Option], Option], kind: str) -> None:
    assert kind in {fault.kind for fault in faults_in(edited(change))}


def test_times_that_were_measured_are_taken_as_they_are() -> None:
    shorter = edited(lambda o: each(o, lambda m: replace(m, ns=m.ns - 1)))
    assert "cost" not in {fault.kind for fault in faults_in(replace(shorter, measured=True))}


def test_bounds_are_proved_again() -> None:
    assert wrong_bound(found()) == ""
    wider = replace(found(), bound_ns=found().bound_ns + 1)
    assert "are proved" in wrong_bound(wider)
    fewer = replace(found(), max_motifs=1)
    split = any(len(option.motifs) > 1 for _, option in found().options)
    assert ("none of its" in wrong_bound(fewer)) == split
