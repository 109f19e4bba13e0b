"""Carriers of motifs: their sends perform the motif in the expected time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.core.clock import Clock, StepAlignment
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.sim import Messages, simulate
from sccl.topo import resolve_topology
from sccl.training.fabric_names import resolve_fabric
from sccl.training.motifs import (
    apply_recipe,
    build_collective_motif,
    find_motif_fault,
    parse_recipe,
)
from sccl.training.motifs.collective_motif import NAMES
from sccl.training.options.carriers import (
    CARRIERS,
    LinkedRings,
    MotifCarrier,
    RingOrder,
    Transfers,
    rank_order,
)
from sccl.training.options.motif_costs import MotifCosts
from sccl.training.types.fabric import Channel, Fabric
from sccl.training.types.motif import Motif, MotifShare
from tests.kit.nightly import times

BY_NAME = {carrier.name: carrier for carrier in CARRIERS}

PAIRS = [(carrier, name) for carrier in CARRIERS for name in carrier.collectives]

RECIPES = ["whole", "seg(3)", "spline(2)", "levels(2)", "sag", "sources(2)", "ring", "tree(2)"]
RECIPES += ["levels(3)", "levels(3+5)", "levels(1+3)", "levels(2+3)"]


def one_by_one(sends: Transfers) -> list[Motif]:
    """Return transfers as motifs of two ranks, each after those of the steps before."""
    found = []
    columns = (sends.start, sends.stop, sends.source, sends.target, sends.reduces)
    for number, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        start, stop, source, target, adds = row
        share = MotifShare((source, target), (start, stop), root=1 if adds else 0)
        after = (number - 1,) if number else ()
        found.append(Motif("reduce" if adds else "broadcast", (share,), after=after))
    return found


@pytest.mark.parametrize(("carrier", "name"), PAIRS, ids=lambda one: getattr(one, "name", one))
@settings(max_examples=times(15))
@given(st.data())
def test_sends_of_a_carrier_perform_the_motif(
    carrier: MotifCarrier, name: str, data: st.DataObject
) -> None:
    places = data.draw(st.integers(2, 8))
    group = data.draw(st.permutations(range(places)))
    count = data.draw(st.integers(1, 40))
    recipe = data.draw(st.sampled_from(RECIPES))
    splits: list[list[int]] = []
    if name == "alltoall" and data.draw(st.booleans()):
        row = st.lists(st.integers(0, 5), min_size=places, max_size=places)
        splits = data.draw(st.lists(row, min_size=places, max_size=places))
        assume(any(map(any, splits)))
    try:
        motifs = apply_recipe(
            build_collective_motif(name, group, count, splits=splits), parse_recipe(recipe)
        )
    except ParameterError:
        assume(False)
    order: RingOrder = (
        rank_order if data.draw(st.booleans()) else LinkedRings(resolve_topology("full:8"))
    )
    for motif in motifs:
        if motif.collective in carrier.collectives:
            sends = carrier.build_transfers(motif, order)
            assert (np.diff(sends.step) >= 0).all()
            assert not find_motif_fault(motif, one_by_one(sends))


def test_step_sends_what_was_there_before_it() -> None:
    """A rank that gets something of an element in a step does not send it in that step."""
    for carrier, name in PAIRS:
        sends = carrier.build_transfers(build_collective_motif(name, range(6), 60), rank_order)
        rows = np.stack([sends.step, sends.start, sends.source], axis=1).tolist()
        got = np.stack([sends.step, sends.start, sends.target], axis=1).tolist()
        assert not {tuple(row) for row in rows} & {tuple(row) for row in got}


def simulated(sends: Transfers, machine: Topology, item_bytes: int, *, barrier: bool) -> int:
    """Return the picoseconds that the simulator takes for transfers of elements alike in size."""
    spans, chunk = np.unique(
        np.stack([sends.start, sends.stop], axis=1), axis=0, return_inverse=True
    )
    sizes = tuple(((spans[:, 1] - spans[:, 0]) * item_bytes).tolist())
    turn = (sends.target - sends.source) % machine.ranks  # so that nobody sends to the same at once
    step = sends.step if barrier else sends.step * machine.ranks + turn
    messages = Messages.from_steps(
        step,
        chunk.astype(np.int64),
        sends.source,
        sends.target,
        sends.reduces,
        stepping=StepAlignment.BARRIER if barrier else StepAlignment.PIPELINED,
    )
    return simulate(messages, machine, Clock.from_topology(machine, sizes)).finish


def only(machine: Topology) -> Fabric:
    return Fabric("one", (Channel("one", machine),))


@pytest.mark.parametrize("name", NAMES)
def test_around_a_switch_carriers_take_what_the_simulator_says(name: str) -> None:
    machine = resolve_fabric("hgx2").channels[0].topology
    motif = build_collective_motif(name, range(8), 8 * 5000)
    for carrier in CARRIERS:
        if name not in carrier.collectives:
            continue
        sends = carrier.build_transfers(motif, rank_order)
        cost = MotifCosts(only(machine)).carrier_cost(motif, 0, carrier, 4)
        barrier = carrier.name != "direct"
        assert cost.ns == -(-simulated(sends, machine, 4, barrier=barrier) // 1000)


@settings(max_examples=times(60))
@given(st.data())
def test_elsewhere_they_take_half_as_long_or_less_than_twice_as_long(data: st.DataObject) -> None:
    machine = resolve_topology(
        data.draw(st.sampled_from(["ring:6", "full:6", "dgx1", "torus:3x3", "hypercube:3"]))
    )
    carrier, name = data.draw(st.sampled_from(PAIRS))
    group = data.draw(st.permutations(range(machine.ranks)))
    motif = build_collective_motif(
        name, group[: data.draw(st.integers(2, machine.ranks))], 5040 * 16
    )
    sends = carrier.build_transfers(motif, LinkedRings(machine))
    cost = MotifCosts(only(machine)).carrier_cost(motif, 0, carrier, 4)
    steps = simulated(sends, machine, 4, barrier=carrier.name != "direct") / 1000
    assert steps / 2.2 <= cost.ns <= steps * 1.8


def test_rings_follow_links_of_the_most_bandwidth() -> None:
    """A DGX-1 has one over pairs of links alone."""
    dgx1 = resolve_topology("dgx1")
    order = LinkedRings(dgx1)(np.arange(8))
    assert order.tolist() == [0, 3, 2, 1, 5, 6, 7, 4]
    lanes = dgx1.lanes()
    ends = zip(order.tolist(), np.roll(order, -1).tolist(), strict=True)
    assert {lanes[edge] for edge in ends} == {2}


def test_rings_without_links_go_by_number() -> None:
    assert LinkedRings(resolve_topology("dgx1"))(np.array([5, 2, 4])).tolist() == [1, 2, 0]
    assert LinkedRings(resolve_fabric("hgx2").channels[0].topology)(np.array([5, 2])).tolist() == [
        1,
        0,
    ]
