"""Motif times on channels: durations and loads follow from the sends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import ParameterError, UnreachableError
from sccl.judge import violations
from sccl.topo import resolve_topology
from sccl.topo.degrade import remove_parts
from sccl.training.fabric_names import resolve_fabric
from sccl.training.motifs import apply_recipe, build_collective_motif, parse_recipe
from sccl.training.options.carriers import CARRIERS, LinkedRings
from sccl.training.options.motif_costs import MotifCost, MotifCosts, pattern_of
from sccl.training.types.fabric import Channel, Fabric, Incast, SharedBudget
from tests.kit.nightly import times
from tests.kit.tacos import found, schedule

DIRECT = CARRIERS[0]

PAIR = Fabric("pair", (Channel("only", resolve_topology("full:2@1GB+3us"), launch_us=2.0),))


class Counting:
    """TACOS as a planner, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, topology: Topology, spec: Spec, size: int) -> Schedule:
        self.asked += 1
        return schedule(found(topology, spec, size))


def loads(costs: MotifCosts, cost: MotifCost) -> dict[str, int]:
    """Return the loads that a cost has, by the names of pipes."""
    names = costs.pipes.names
    return {names[pipe]: int(cost.loads[pipe]) for pipe in np.flatnonzero(cost.loads)}


def test_motif_takes_its_launch_and_what_is_sent() -> None:
    """1,000 bytes over a link of 1 GB/s after 3 us, and 2 us to launch."""
    costs = MotifCosts(PAIR)
    cost = costs.carrier_cost(build_collective_motif("broadcast", [1, 0], 250), 0, DIRECT, 4)
    assert cost.ns == 6000
    assert loads(costs, cost) == {
        "only: rank 1 to rank 0": 167,
        "only: streams of rank 0": 1000,
        "only: streams of rank 1": 1000,
    }


def test_allreduce_is_a_reducescatter_and_an_allgather_launched_as_one() -> None:
    """Each moves 500 bytes each way in 0.5 us after 3 us: 7 us, and 2 to launch."""
    costs = MotifCosts(PAIR)
    cost = costs.carrier_cost(build_collective_motif("allreduce", range(2), 250), 0, DIRECT, 4)
    assert cost.ns == 9000
    assert loads(costs, cost)["only: rank 0 to rank 1"] == 112  # 1,000 of 9,000 bytes


def test_empty_collective_takes_its_launch() -> None:
    costs = MotifCosts(PAIR)
    cost = costs.launch_cost([1], 0)
    assert (cost.ns, loads(costs, cost)) == (2000, {"only: streams of rank 1": 1000})


def test_within_a_node_messages_do_not_leave_it() -> None:
    """NVSwitch and RoCE join ranks of a node by as many links."""
    costs = MotifCosts(resolve_fabric("hgx2x4"))
    cost = costs.carrier_cost(build_collective_motif("alltoall", range(8), 1 << 20), 0, DIRECT, 4)
    assert {name.split(" to ")[-1][:8] for name in loads(costs, cost)} == {
        *("NVSwitch", *(f"rank {k}" for k in range(8))),
        *(name[:8] for name in loads(costs, cost) if "streams" in name),
    }


def test_shared_resource_is_loaded_by_each_channel() -> None:
    costs = MotifCosts(resolve_fabric("hgx2x2"))
    for channel in range(2):
        cost = costs.carrier_cost(
            build_collective_motif("broadcast", [0, 8], 1 << 20), channel, DIRECT, 4
        )
        load = loads(costs, cost)
        assert load["PCIe from GPU 0"] == load["PCIe to GPU 8"] > 900
        assert "PCIe from GPU 1" not in load


def test_shared_resource_may_be_slower_than_its_links() -> None:
    """1,000 bytes over a bus of 0.5 GB/s, 2 us, after 3 us of latency and 2 to launch."""
    bus = SharedBudget("bus", (("only", (0, 1)), ("only", (1, 0))), 0.5)
    costs = MotifCosts(replace(PAIR, shared=(bus,)))
    cost = costs.carrier_cost(build_collective_motif("broadcast", [1, 0], 250), 0, DIRECT, 4)
    assert cost.ns == 7000
    assert loads(costs, cost)["bus"] == 286
    both = costs.carrier_cost(build_collective_motif("alltoall", [1, 0], 500), 0, DIRECT, 4)
    assert both.ns == 9000  # each way, together


def test_ranks_that_a_channel_does_not_join_are_reported() -> None:
    machine = remove_parts(resolve_topology("ring:3"), links=[(0, 1), (2, 1)])
    with pytest.raises(UnreachableError, match="no path leads from rank 0 to rank 1 on topology"):
        MotifCosts(Fabric("one", (Channel("one", machine),))).carrier_cost(
            build_collective_motif("alltoall", range(3), 3), 0, DIRECT, 4
        )


def test_many_senders_at_once_leave_less() -> None:
    """With 7 to a rank and 700 bytes half is left. With 3 of 4 at once it is also as given."""
    rows = (Incast(4, 0, 0.8), Incast(7, 700, 0.5))
    machine = resolve_fabric("hgx2").channels[0].topology
    plain = MotifCosts(Fabric("plain", (Channel("one", machine),)))
    costs = MotifCosts(Fabric("incast", (Channel("one", machine, incast=rows),)))
    motif = build_collective_motif("alltoall", range(8), 8 * 10**6)
    alpha = 700
    time = plain.carrier_cost(motif, 0, DIRECT, 1).ns - alpha
    assert costs.carrier_cost(motif, 0, DIRECT, 1).ns - alpha == pytest.approx(2 * time, abs=2)
    parts = apply_recipe(motif, parse_recipe("spline(2)"))
    took = [
        (costs.carrier_cost(one, 0, DIRECT, 1), plain.carrier_cost(one, 0, DIRECT, 1))
        for one in parts
    ]
    assert took[0][0].ns == took[0][1].ns  # of offsets 1 to 3, as many senders
    assert took[1][0].ns - alpha == pytest.approx((took[1][1].ns - alpha) / 0.8, abs=2)
    assert loads(costs, took[1][0])["one: NVSwitch 0 to rank 0"] >= 950  # it is busy all the time


@settings(max_examples=times(40))
@given(st.data())
def test_loads_are_what_is_sent_over_links(data: st.DataObject) -> None:
    """On a fully connected machine, each link carries the data of its ends."""
    carrier = data.draw(st.sampled_from(CARRIERS))
    name = data.draw(st.sampled_from(carrier.collectives))
    places = data.draw(st.integers(2, 6))
    count = data.draw(st.integers(1, 10**6))
    costs = MotifCosts(Fabric("one", (Channel("one", resolve_topology(f"full:{places}@2GB+1us")),)))
    motif = build_collective_motif(name, data.draw(st.permutations(range(places))), count)
    cost, sends = (
        costs.carrier_cost(motif, 0, carrier, 4),
        carrier.build_transfers(motif, LinkedRings(costs.fabric.channels[0].topology)),
    )
    load = loads(costs, cost)
    for source in range(places):
        for target in set(range(places)) - {source}:
            between = (sends.source == source) & (sends.target == target)
            size = int((sends.stop - sends.start)[between].sum()) * 4
            told = load.get(f"one: rank {source} to rank {target}", 0)
            assert told == -(-size * 1000 // (2 * cost.ns))
    assert max(load.values()) <= 1000


def test_motifs_that_are_alike_are_planned_once() -> None:
    planner, costs = Counting(), MotifCosts(resolve_fabric("hgx2"))
    made = apply_recipe(
        build_collective_motif("allgather", range(8), 1 << 12), parse_recipe("seg(4)")
    )
    assert len({id(costs.planned_cost(motif, 0, planner, 4)) for motif in made}) == 1
    assert planner.asked == 1
    costs.planned_cost(made[0], 1, planner, 4)
    assert planner.asked == 2


def test_uneven_parts_are_chunks_of_so_many_elements() -> None:
    splits = [[0, 1, 2], [3, 0, 5], [1, 1, 1]]
    spec, size = pattern_of(build_collective_motif("alltoall", range(3), 1, splits=splits), 4, 4)
    assert (spec.counts, spec.pattern_chunks, size) == ((1, 2, 3, 5, 1, 1), 6, 4)


def test_parts_that_do_not_divide_are_as_large_as_the_largest() -> None:
    spec, size = pattern_of(build_collective_motif("allgather", range(3), 10), 3, 2)
    assert (spec.counts, size) == ((), 8)


RECIPES = ["whole", "seg(2)", "spline(2)", "levels(2)", "sag", "sources(2)"]


@settings(max_examples=times(40, by_day=20))
@given(st.data())
def test_patterns_of_motifs_are_collectives_that_the_judge_takes(data: st.DataObject) -> None:
    names = ["allgather", "alltoall", "broadcast", "gather", "reduce", "reducescatter", "scatter"]
    name, recipe = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(RECIPES))
    group = data.draw(st.permutations(range(4)))
    try:
        motifs = apply_recipe(build_collective_motif(name, group, 32), parse_recipe(recipe))
    except ParameterError:
        assume(False)
    ring = resolve_topology("ring:5")
    for motif in motifs:
        spec, size = pattern_of(motif, 5, 1)
        assert violations(schedule(found(ring, spec, size))) == []
