"""Whether options keep the order in which collectives reduce, told anew of each."""

from __future__ import annotations

from sccl.topo import fabric_of
from sccl.train.finding import OptionFinder, OptionSettings
from sccl.train.options import options_of
from tests.kit.training_plans import layered_plan


def test_it_is_told_anew_as_it_was_written() -> None:
    workload, fabric = layered_plan(1).workload, fabric_of("hgx2")
    finder, seen = OptionFinder(fabric, OptionSettings()), set[bool]()
    of = options_of(workload, fabric).of
    for op in workload.collectives():
        for option in of[op.id]:
            assert finder.keeps_order(op, option) == option.bitwise, option.recipe
            seen.add(option.bitwise)
    assert seen == {True, False}
