"""Chunks between chassis, planned from the end: valid plans with hardly any waits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.core.topology import Topology
from sccl.synth.packing.by_time.ingress_relay import ingress_relay_us
from sccl.synth.packing.schedules.egress_gather import find_chassis, plan_egress_gather
from sccl.synth.packing.schedules.port_matching import plan_port_matching
from sccl.synth.packing.schedules.schedule_builder import GATHER_PIECES, MATCHING_PIECES
from sccl.synth.packing.schedules.send_plans import place_plan
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.placements import build_placement, chassis, verified_schedule

_PS_PER_US = 10**6


@settings(max_examples=times(25, by_day=13))
@given(chassis(), st.sampled_from(["allgather", "broadcast", "reducescatter"]), st.data())
def test_egress_gather_is_valid(topology: Topology, collective: str, data: st.DataObject) -> None:
    """For any target time and number of pieces the plan passes verification."""
    # If the network is the faster path inside a chassis, ranks have no ports for their chassis.
    assume(topology.links[0].alpha_us <= topology.links[-1].alpha_us)
    size = topology.ranks * data.draw(st.integers(64, 50_000))
    problem, placing, floor = build_placement(topology, collective, size)
    machine = find_chassis(problem)
    if len(topology.chassis) < 2:
        assert machine is None
        return
    assert machine is not None
    horizon = floor * data.draw(st.sampled_from([0.5, 1.0, 1.1, 3.0]))
    found = plan_egress_gather(machine, placing.dual, data.draw(st.integers(1, 5)), horizon)
    assert found.plan is not None
    assert found == plan_egress_gather(machine, placing.dual, found.plan.chunks, horizon)
    placing.plan, placing.sends = found.plan, place_plan(problem, found.plan, placing.directions)
    placing.ticks = max(one.arrival for one in placing.sends)
    schedule = verified_schedule(placing, topology, collective)
    assert schedule.finish * schedule.tick_ps >= floor * _PS_PER_US * (1 - 1e-9)


@pytest.mark.parametrize(
    ("machine", "size", "pieces", "within"),
    [("dgx2:2", 31_250, 32, 0.016), ("dgx2:2", 8000, 32, 0.016), ("dgx2:4", 15_625, 8, 0.025)],
)
def test_late_chunks_come_first(machine: str, size: int, pieces: int, within: float) -> None:
    """Late data for a whole chassis take less time than in a plan made forwards."""
    problem, placing, floor = build_placement(resolve_topology(machine), "allgather", size)
    floor = max(floor, float(ingress_relay_us(problem)))
    own = find_chassis(problem)
    assert own is not None
    plans = [
        plan_egress_gather(own, placing.dual, pieces, floor * 1.01).plan,
        plan_port_matching(problem, placing.dual, pieces, floor).plan,
    ]
    took = [
        max(one.arrival for one in place_plan(problem, plan, placing.directions)) / _PS_PER_US
        for plan in plans
        if plan is not None
    ]
    assert took[0] <= floor * (1 + within)
    assert took[0] < took[1]


def test_machines_that_are_no_chassis() -> None:
    """A single switch, rails that some ranks lack, and links alone are not supported."""
    for machine in ("dgx2", "switch:4x2", "dgx1", "ndv2x2", "teccl-amdx2"):
        assert (
            find_chassis(build_placement(resolve_topology(machine), "allgather", 1000)[0]) is None
        )
    two = resolve_topology("dgx2:2")
    without = replace(two, chassis=())
    assert find_chassis(build_placement(without, "allgather", 1000)[0]) is None


def test_time_that_is_over_leaves_no_plan() -> None:
    """It is asked between looks, and there are many of those."""
    problem, placing, floor = build_placement(resolve_topology("dgx2:2"), "allgather", 31_250)
    own = find_chassis(problem)
    assert own is not None
    assert plan_egress_gather(own, placing.dual, 64, floor, lambda: True).plan is None


@settings(max_examples=times(10, by_day=6))
@given(chassis(), st.sampled_from([200, 333, 1021]))
def test_chunks_are_of_sizes_that_waste_few_bytes(topology: Topology, each: int) -> None:
    """All parts are of one size: there are as many as were tried, or some more that are shorter."""
    _, placing, floor = build_placement(topology, "allgather", each)
    placing.schedule_by_matching(floor, 0.0001, 0.0, 12.0)
    assert placing.plan is not None
    (size,), parts = set(placing.plan.sizes), placing.plan.chunks
    near = [many for many in {*GATHER_PIECES, *MATCHING_PIECES} if many <= parts <= many * 9 / 8]
    assert any(size * parts <= -(-each // many) * many for many in near)
    assert size * parts <= each * 1.04 or parts < 8
