"""What motifs take on channels: durations and loads come from what is sent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec
from sccl.core.fabric import Channel, Fabric, Incast, SharedBudget
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import ParameterError, UnreachableError
from sccl.judge import violations
from sccl.motif import motifs_of, recipe_of, whole
from sccl.topo import fabric_of, resolve
from sccl.topo.degrade import without
from sccl.train.carriers import CARRIERS
from sccl.train.costs import MotifCost, MotifCosts
from sccl.train.motif_patterns import pattern_of
from sccl.train.rings import LinkedRings
from tests.kit.nightly import times
from tests.kit.tacos import found, schedule

DIRECT = CARRIERS[0]

PAIR = Fabric("pair", (Channel("only", resolve("full:2@1GB+3us"), launch_us=2.0),))


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


def test_a_motif_takes_its_launch_and_what_is_sent() -> None:
    """1,000 bytes over a link of 1 GB/s after 3 us, and 2 us to launch."""
    costs = MotifCosts(PAIR)
    cost = costs.of(whole("broadcast", [1, 0], 250), 0, DIRECT, 4)
    assert cost.ns == 6000
    assert loads(costs, cost) == {
        "only: rank 1 to rank 0": 167,
        "only: streams of rank 0": 1000,
        "only: streams of rank 1": 1000,
    }


def test_an_allreduce_is_a_reducescatter_and_an_allgather_launched_as_one() -> None:
    """Each moves 500 bytes each way in 0.5 us after 3 us: 7 us, and 2 to launch."""
    costs = MotifCosts(PAIR)
    cost = costs.of(whole("allreduce", range(2), 250), 0, DIRECT, 4)
    assert cost.ns == 9000
    assert loads(costs, cost)["only: rank 0 to rank 1"] == 112  # 1,000 of 9,000 bytes


def test_what_moves_nothing_takes_its_launch() -> None:
    costs = MotifCosts(PAIR)
    cost = costs.nothing([1], 0)
    assert (cost.ns, loads(costs, cost)) == (2000, {"only: streams of rank 1": 1000})


def test_within_a_node_messages_do_not_leave_it() -> None:
    """NVSwitch and RoCE join ranks of a node by as many links."""
    costs = MotifCosts(fabric_of("hgx2x4"))
    cost = costs.of(whole("alltoall", range(8), 1 << 20), 0, DIRECT, 4)
    assert {name.split(" to ")[-1][:8] for name in loads(costs, cost)} == {
        *("NVSwitch", *(f"rank {k}" for k in range(8))),
        *(name[:8] for name in loads(costs, cost) if "streams" in name),
    }


def test_what_channels_share_is_loaded_by_each() -> None:
    costs = MotifCosts(fabric_of("hgx2x2"))
    for channel in range(2):
        cost = costs.of(whole("broadcast", [0, 8], 1 << 20), channel, DIRECT, 4)
        load = loads(costs, cost)
        assert load["PCIe from GPU 0"] == load["PCIe to GPU 8"] > 900
        assert "PCIe from GPU 1" not in load


def test_what_is_shared_may_be_slower_than_its_links() -> None:
    """1,000 bytes over a bus of 0.5 GB/s, 2 us, after 3 us of latency and 2 to launch."""
    bus = SharedBudget("bus", (("only", (0, 1)), ("only", (1, 0))), 0.5)
    costs = MotifCosts(replace(PAIR, shared=(bus,)))
    cost = costs.of(whole("broadcast", [1, 0], 250), 0, DIRECT, 4)
    assert cost.ns == 7000
    assert loads(costs, cost)["bus"] == 286
    both = costs.of(whole("alltoall", [1, 0], 500), 0, DIRECT, 4)
    assert both.ns == 9000  # each way, together


def test_ranks_that_a_channel_does_not_join_are_told() -> None:
    machine = without(resolve("ring:3"), links=[(0, 1), (2, 1)])
    with pytest.raises(UnreachableError, match="no way leads from rank 0 to rank 1 on topology"):
        MotifCosts(Fabric("one", (Channel("one", machine),))).of(
            whole("alltoall", range(3), 3), 0, DIRECT, 4
        )


def test_many_senders_at_once_leave_less() -> None:
    """Of 7 to a rank with 700 bytes in all half is left; 3 of 4 at once is as told, too."""
    rows = (Incast(4, 0, 0.8), Incast(7, 700, 0.5))
    machine = fabric_of("hgx2").channels[0].topology
    plain = MotifCosts(Fabric("plain", (Channel("one", machine),)))
    costs = MotifCosts(Fabric("incast", (Channel("one", machine, incast=rows),)))
    motif = whole("alltoall", range(8), 8 * 10**6)
    alpha = 700
    time = plain.of(motif, 0, DIRECT, 1).ns - alpha
    assert costs.of(motif, 0, DIRECT, 1).ns - alpha == pytest.approx(2 * time, abs=2)
    parts = motifs_of(motif, recipe_of("spline(2)"))
    took = [(costs.of(one, 0, DIRECT, 1), plain.of(one, 0, DIRECT, 1)) for one in parts]
    assert took[0][0].ns == took[0][1].ns  # of offsets 1 to 3, as many senders
    assert took[1][0].ns - alpha == pytest.approx((took[1][1].ns - alpha) / 0.8, abs=2)
    assert loads(costs, took[1][0])["one: NVSwitch 0 to rank 0"] >= 950  # it is busy all the time


@settings(max_examples=times(40))
@given(st.data())
def test_loads_are_what_is_sent_over_links(data: st.DataObject) -> None:
    """On a machine in which all ranks are joined, each link carries what its ends send."""
    carrier = data.draw(st.sampled_from(CARRIERS))
    name = data.draw(st.sampled_from(carrier.of))
    places = data.draw(st.integers(2, 6))
    count = data.draw(st.integers(1, 10**6))
    costs = MotifCosts(Fabric("one", (Channel("one", resolve(f"full:{places}@2GB+1us")),)))
    motif = whole(name, data.draw(st.permutations(range(places))), count)
    cost, sends = (
        costs.of(motif, 0, carrier, 4),
        carrier.sends(motif, LinkedRings(costs.fabric.channels[0].topology)),
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
    planner, costs = Counting(), MotifCosts(fabric_of("hgx2"))
    made = motifs_of(whole("allgather", range(8), 1 << 12), recipe_of("seg(4)"))
    assert len({id(costs.planned(motif, 0, planner, 4)) for motif in made}) == 1
    assert planner.asked == 1
    costs.planned(made[0], 1, planner, 4)
    assert planner.asked == 2


def test_uneven_parts_are_chunks_of_so_many_elements() -> None:
    splits = [[0, 1, 2], [3, 0, 5], [1, 1, 1]]
    spec, size = pattern_of(whole("alltoall", range(3), 1, splits=splits), 4, 4)
    assert (spec.counts, spec.pattern_chunks, size) == ((1, 2, 3, 5, 1, 1), 6, 4)


def test_parts_that_do_not_divide_are_as_large_as_the_largest() -> None:
    spec, size = pattern_of(whole("allgather", range(3), 10), 3, 2)
    assert (spec.counts, size) == ((), 8)


RECIPES = ["whole", "seg(2)", "spline(2)", "levels(2)", "sag", "sources(2)"]


@settings(max_examples=times(40, by_day=20))
@given(st.data())
def test_patterns_of_motifs_are_collectives_that_the_judge_takes(data: st.DataObject) -> None:
    names = ["allgather", "alltoall", "broadcast", "gather", "reduce", "reducescatter", "scatter"]
    name, recipe = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(RECIPES))
    group = data.draw(st.permutations(range(4)))
    try:
        motifs = motifs_of(whole(name, group, 32), recipe_of(recipe))
    except ParameterError:
        assume(False)
    ring = resolve("ring:5")
    for motif in motifs:
        spec, size = pattern_of(motif, 5, 1)
        assert violations(schedule(found(ring, spec, size))) == []
