"""Preservation of the reduction order by options, recomputed for each."""

from __future__ import annotations

from sccl.training.fabric_names import resolve_fabric
from sccl.training.options.option_catalog import find_options
from sccl.training.options.option_enumeration import OptionEnumerator, OptionSettings, lane_recipes
from tests.kit.training_plans import layered_plan


def test_reduction_order_round_trips() -> None:
    workload, fabric = layered_plan(1).workload, resolve_fabric("hgx2")
    finder, seen = OptionEnumerator(fabric, OptionSettings()), set[bool]()
    of = find_options(workload, fabric).by_collective
    for op in workload.collectives():
        for option in of[op.id]:
            assert finder.keeps_reduction_order(op, option) == option.bitwise, option.recipe
            seen.add(option.bitwise)
    assert seen == {True, False}


def test_lanes_are_first_divided_as_channels_are_fast() -> None:
    """In as small weights as there are, and then in eighths around."""
    twice = list(lane_recipes({"fast": 100, "slow": 200}))
    weights = ((2, 1), (5, 3), (3, 1), (1, 1))
    assert twice == [f"lanes(fast:{fast}, slow:{slow})" for fast, slow in weights]
    alike = list(lane_recipes({"a": 7, "b": 7}, "levels(4)"))
    assert alike[:2] == ["lanes(a:1, b:1)", "lanes(a:1, b:1).levels(4)"]
    assert len(set(alike)) == len(alike) == 4
    far = list(lane_recipes({"a": 1, "b": 1000}))
    assert far == ["lanes(a:7, b:1)", "lanes(a:3, b:1)"]
