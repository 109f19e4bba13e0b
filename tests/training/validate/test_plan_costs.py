"""The judge of training plans derives options anew: edits of recipes, times and loads are seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from sccl.training.fabric_names import resolve_fabric
from sccl.training.motifs import build_collective_motif
from sccl.training.options.carriers import CARRIERS
from sccl.training.options.measured_costs import COLUMNS, parse_cost_table
from sccl.training.options.motif_costs import MotifCosts
from sccl.training.planner import Planner, PlanSettings
from sccl.training.types.training_plan import Option, OptionMotif, TrainingPlan
from sccl.training.validate.plan_faults import find_faults, find_plan_bound_fault
from tests.kit.training_plans import TABLE, layered_plan


@cache
def found() -> TrainingPlan:
    """Return a plan of collectives of 8 MiB that may go two ways."""
    workload = layered_plan(2).workload
    planner = Planner(workload, resolve_fabric("hgx2"), PlanSettings(seconds=0.0))
    planner.run()
    return planner.plan()


def edited(change: Callable[[Option], Option]) -> TrainingPlan:
    """Return it with options that are changed."""
    options = tuple((name, change(option)) for name, option in found().options)
    return replace(found(), options=options)


def each(option: Option, change: Callable[[OptionMotif], OptionMotif]) -> Option:
    """Return an option with motifs that are changed."""
    return replace(option, motifs=tuple(map(change, option.motifs)))


def test_claimed_costs_are_correct() -> None:
    assert find_faults(found()) == ()
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
    assert kind in {fault.kind for fault in find_faults(edited(change))}


def test_times_of_a_table_that_is_not_given_are_taken_as_told() -> None:
    shorter = edited(lambda o: each(o, lambda m: replace(m, ns=m.ns - 1)))
    assert "cost" not in {fault.kind for fault in find_faults(replace(shorter, costs=TABLE))}


def test_times_of_a_table_are_derived_from_it() -> None:
    """A ring over the GPUs with half or twice the computed time has such loads, too."""
    for times in (0.5, 2.0):
        rows = [("allgather", "gpu ring", 8, 2**23, reckoned_us("allgather") * times)]
        text = "\n".join(",".join(map(str, row)) for row in (COLUMNS, *rows))
        table = parse_cost_table(text, "c.csv")
        asked = PlanSettings(seconds=0.0, measured=table)
        planner = Planner(layered_plan(2).workload, resolve_fabric("hgx2"), asked)
        planner.run()
        plan = planner.plan()
        assert plan.costs == table.digest
        assert find_faults(plan) == ()
        assert find_faults(plan, None, table) == ()
        assert find_plan_bound_fault(plan, None, table) == ""
        other = parse_cost_table(text.replace("gpu", "cpu"), "other.csv")
        (fault,) = find_faults(plan, None, other)
        assert fault.kind == "cost"
        assert "other.csv has sha256:" in fault.message
        short = tuple(
            (name, each(option, lambda m: replace(m, ns=m.ns - 1))) for name, option in plan.options
        )
        assert "cost" in {f.kind for f in find_faults(replace(plan, options=short), None, table)}


def reckoned_us(name: str) -> float:
    """Return the time of a ring of 8 MiB among 8 GPUs, microseconds."""
    motif = build_collective_motif(name, range(8), 2**22)
    ring = next(carrier for carrier in CARRIERS if carrier.name == "ring")
    return MotifCosts(resolve_fabric("hgx2")).carrier_cost(motif, 0, ring, 2).ns / 1000


def test_bounds_are_proved_again() -> None:
    assert find_plan_bound_fault(found()) == ""
    wider = replace(found(), bound_ns=found().bound_ns + 1)
    assert "are proved" in find_plan_bound_fault(wider)
    fewer = replace(found(), max_motifs=1)
    split = any(len(option.motifs) > 1 for _, option in found().options)
    assert ("none of its" in find_plan_bound_fault(fewer)) == split
