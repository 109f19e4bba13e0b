"""Generated machines of several levels against closed forms, costs in their names, bad names."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.topology import Topology
from sccl.errors import InputError, ParameterError, TopologyError
from sccl.topo import resolve_topology
from sccl.topo.generators import generators
from sccl.topo.machine_model import machine_model
from sccl.topo.measures import measure_topology
from sccl.topo.wiring import ALPHA_US, GB_PER_S


def out_gb_per_s(machine: Topology) -> list[float]:
    """Return the egress rate of each rank, GB/s."""
    speed = [0.0] * (machine.ranks + len(machine.switches))
    for link in machine.links:
        speed[link.src] += link.lanes * link.gb_per_s
    return speed[: machine.ranks]


def bisection(machine: Topology) -> float:
    """Return the rate from the first half of the ranks to the second, GB/s."""
    graph = nx.DiGraph()
    for link in machine.links:
        graph.add_edge(link.src, link.dst, capacity=link.lanes * link.gb_per_s)
    for rank in range(machine.ranks):
        if rank < machine.ranks // 2:
            graph.add_edge("from", rank)
        else:
            graph.add_edge(rank, "to")
    return float(nx.maximum_flow_value(graph, "from", "to"))


def degrees(machine: Topology) -> list[int]:
    """Return how many links leave each switch, ascending."""
    out = [link.src for link in machine.links]
    return sorted(out.count(machine.ranks + i) for i in range(len(machine.switches)))


@pytest.mark.parametrize(
    ("text", "ranks", "switches", "links", "diameter", "leaves", "halves"),
    [
        ("torus:4x4x4@50,25,12.5GB", 64, [], 384, 6, 175.0, 2 * 16 * 50.0),
        ("torus:6x4@2,1GB", 24, [], 96, 5, 6.0, 2 * 4 * 2.0),
        ("torus:2x2x2@4,2,1GB", 8, [], 24, 3, 7.0, 4 * 4.0),
        ("mesh:4x3@5,7GB", 12, [], 34, 5, None, 3 * 5.0),
        ("mesh:5x5x5", 125, [], 600, 12, None, None),
        ("hypercube:3@4,2,1GB", 8, [], 24, 3, 7.0, 4 * 4.0),
        ("dragonfly:4x5@400,200GB", 20, [], 80, 3, 1400.0, None),
        ("dragonfly:4x2:3,2@10,1GB", 8, [], 26, 3, None, 2.0),
        ("switch2d:8x4", 32, [4] * 8 + [8] * 4, 128, 4, 325.0, 16 * 25.0),
        ("switch2d:2x3@9,1GB", 6, [2] * 3 + [3] * 2, 24, 4, 10.0, None),
        ("rfs:2x4x8", 64, [8] * 8, 384, 4, 550.0, 32 * 50.0),
        ("rfs:2x4x2", 16, [2] * 8, 96, 4, 550.0, 8 * 50.0),
        ("rfs:3x2x2", 12, [2] * 6, 60, 4, 550.0, 6 * 50.0),
        ("fattree:2", 2, [2] * 5, 12, 6, 25.0, 25.0),
        ("fattree:4", 16, [4] * 20, 96, 6, 25.0, 8 * 25.0),
        ("fattree:6@10,20,30GB", 54, [6] * 45, 324, 6, 10.0, 27 * 10.0),
        ("fattree:4@8,2,1GB", 16, [4] * 20, 96, 6, 8.0, 8 * 1.0),
        ("rail:8x4", 32, [4] * 8 + [8] * 4, 128, 4, 500.0, 16 * 50.0),
        ("rail:8x4:2", 32, [6] * 8 + [8] * 6, 160, 4, 500.0, 16 * 50.0),
        ("rail:4x3x2:1", 24, [4] * 8 + [4] * 6 + [8], 112, 4, 500.0, 12 * 50.0),
        ("rail:2x2x2:3@9,2,1GB", 8, [2] * 4 + [4] * 3 + [5] * 4, 56, 4, 11.0, 2 * 3 * 1.0),
    ],
)
def test_levels_against_closed_forms(
    text: str,
    ranks: int,
    switches: list[int],
    links: int,
    diameter: int,
    leaves: float | None,
    halves: float | None,
) -> None:
    machine = resolve_topology(text)
    assert (machine.ranks, len(machine.links)) == (ranks, links)
    assert degrees(machine) == sorted(switches)
    assert measure_topology(machine).diameter == diameter
    assert leaves is None or set(out_gb_per_s(machine)) == {leaves}
    assert halves is None or bisection(machine) == halves
    assert machine.reversed().same_capacities(machine)
    assert len(set(machine.switches)) == len(machine.switches)


def test_ranks_of_rings_full_groups_and_nodes_follow_one_another() -> None:
    near = resolve_topology("rfs:3x4x2@300,200,100GB").successors()
    assert set(near[0]) == {1, 2, 3, 6, 9, 24}
    assert set(near[12 + 4]) == {15, 17, 13, 19, 22, 24 + 4}
    machine = resolve_topology("rfs:3x4x2")
    assert machine.chassis == (tuple(range(12)), tuple(range(12, 24)))


def test_ith_gpus_of_a_pod_share_a_leaf_switch() -> None:
    machine = resolve_topology("rail:4x3x2:2")
    leaf = {s.name: machine.ranks + i for i, s in enumerate(machine.switches)}
    into = {s: sorted(k.src for k in machine.links if k.dst == s) for s in leaf.values()}
    assert into[leaf["leaf 0.1"]] == [1, 5, 9, leaf["spine 0"], leaf["spine 1"]]
    assert into[leaf["leaf 1.3"]] == [15, 19, 23, leaf["spine 0"], leaf["spine 1"]]
    assert into[leaf["node 4"]] == [16, 17, 18, 19]


def test_torus_of_twos_is_a_hypercube() -> None:
    torus, cube = (
        resolve_topology("torus:2x2x2@4,2,1GB+3,2,1us"),
        resolve_topology("hypercube:3@4,2,1GB+3,2,1us"),
    )
    assert torus.links == cube.links


@pytest.mark.parametrize("text", ["switch2d:8x4", "rfs:2x4x4", "rail:8x4"])
def test_switches_that_lead_to_ranks_only_are_solved_as_links(text: str) -> None:
    model = machine_model(resolve_topology(text)).topology
    assert not model.switches
    assert {k.alpha_us for k in model.links} == ({0.5} if "rail" not in text else {1.4})


@pytest.mark.parametrize("text", ["fattree:4", "rail:8x4:2"])
def test_cascades_of_switches_are_not_solved_by_steps(text: str) -> None:
    with pytest.raises(TopologyError, match="leads to switch"):
        machine_model(resolve_topology(text))


def test_names_without_costs_have_those_of_an_nvlink() -> None:
    machine = resolve_topology("torus:3x3")
    assert {(k.alpha_us, k.gb_per_s) for k in machine.links} == {(ALPHA_US, GB_PER_S)}
    assert "NVLink 2.0" in machine.source
    assert "costs from its name" in resolve_topology("torus:3x3@1GB").source


@pytest.mark.parametrize("example", [g.example for g in generators()])
def test_every_generator_takes_costs(example: str) -> None:
    plain, priced = resolve_topology(example), resolve_topology(f"{example}@12.5GB+0us")
    assert priced.lanes() == plain.lanes()
    assert {(k.alpha_us, k.gb_per_s) for k in priced.links} == {(0.0, 12.5)}
    late = resolve_topology(f"{example}@0.25us")
    assert [k.gb_per_s for k in late.links] == [k.gb_per_s for k in plain.links]
    assert {k.alpha_us for k in late.links} == {0.25}


DECIMALS = st.decimals(min_value="0.001", max_value=10**6, places=3).map(lambda d: f"{d:f}")


@given(st.lists(st.tuples(st.integers(1, 4), DECIMALS, DECIMALS), min_size=1, max_size=4))
def test_each_side_of_a_grid_has_its_own_costs(sides: list[tuple[int, str, str]]) -> None:
    lengths = [side for side, _, _ in sides]
    if prod(lengths) < 2:
        return
    name = "x".join(map(str, lengths))
    speeds = ",".join(speed for _, speed, _ in sides)
    delays = ",".join(delay for _, _, delay in sides)
    machine = resolve_topology(f"torus:{name}@{speeds}GB+{delays}us")
    turned = resolve_topology(f"torus:{name}@{delays}us+{speeds}GB")
    assert replace(turned, name=machine.name) == machine
    for link in machine.links:
        apart = abs(link.src - link.dst)
        strides = [prod(lengths[i + 1 :]) for i in range(len(lengths))]
        own = [
            (float(delay), float(speed))
            for (length, speed, delay), stride in zip(sides, strides, strict=True)
            if length > 1 and apart in {stride, (length - 1) * stride}
        ]
        assert (link.alpha_us, link.gb_per_s) in own


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("torus:4x4@", "numbers in GB (10^9 bytes per second) or us (microseconds) after '@'"),
        ("torus:4x4@5", "and there is none, as in 'torus:4x4x4@50GB+0.5us'"),
        ("torus:4x4@5GiB", "not 'GiB'"),
        ("torus:4x4@5gb", "not 'gb'"),
        ("torus:4x4@GB", "plain numbers above 0"),
        ("torus:4x4@-5GB", "for GB after '@', not '-5'"),
        ("torus:4x4@0GB", "not '0'"),
        ("torus:4x4@0.0,1GB", "not '0.0'"),
        ("torus:4x4@-1us", "plain numbers of 0 or more"),
        ("torus:4x4@5 GB", "not '5 '"),
        ("torus:4x4@1e400GB", "not 'e400GB'"),
        ("torus:4x4@infGB", "not 'infGB'"),
        ("torus:4x4@99999999999GB", "of up to 9 digits"),
        ("torus:4x4@٣GB", "not '٣'"),
        ("torus:4x4@1,2,3GB", "one number in GB after '@', or 2 (side 1 (4), side 2 (4)), not 3"),
        ("ring:8@1,2GB", "one number in GB after '@', not 2"),
        ("hypercube:9@1,2GB", "dimension 6, ...), not 2"),
        ("dragonfly:4x5@1,2,3us", "links within groups, links between groups"),
        ("torus:4x4@5GB+6GB", "GB once after '@'"),
        ("torus:4x4@5GB+", "and there is none"),
        ("torus:4x4@5GB@6us", "not 'GB@6us'"),
        ("switch2d:8", "ranks per node x nodes"),
        ("switch2d:8x1", "both at least 2"),
        ("switch2d:999999x999999", "at most 65536 ranks"),
        ("rfs:2x4", "all at least 2"),
        ("rfs:1x4x4", "all at least 2"),
        ("rfs:2x16000x2", "joined pairs"),
        ("fattree:3", "an even number of ports"),
        ("fattree:0", "a whole number from 2"),
        ("fattree:-4", "a whole number from 2"),
        ("fattree:9998", "at most 65536 ranks"),
        ("rail:8", "GPUs per node x nodes"),
        ("rail:8x4x2", "a number of spine switches"),
        ("rail:8x4:0", "a whole number from 1"),
        ("rail:8x4:", "a whole number from 1"),
        ("rail:8x-4", "sides of at least 1"),
        ("rail:8x4:9999999", "at most 1024 spine switches"),
        ("rail:9999x999x99:1", "at most 65536 ranks"),
    ],
)
def test_bad_names_say_what_was_expected(text: str, says: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(says)) as error:
        resolve_topology(text)
    assert str(error.value).startswith(f"topology {text!r}")
    assert "\n" not in str(error.value)


@given(st.text(alphabet="0123456789x:,.@+-GBusraileftswch", max_size=16))
def test_no_name_does_worse_than_being_refused(text: str) -> None:
    for family in ("rail:2x", "torus:2x2@", "switch2d:2x", "rfs:2x2x2"):
        try:
            machine = resolve_topology(family + text)
        except InputError:
            continue
        assert machine.ranks >= 2


@pytest.mark.parametrize(
    ("name", "chassis", "theirs", "switches"),
    [("ndv2", 4, "teccl-ndv2x4", 1), ("dgx2", 2, "teccl-dgx2x2", 2)],
)
def test_chassis_are_those_of_the_catalogue(
    name: str, chassis: int, theirs: str, switches: int
) -> None:
    """TE-CCL's machines count the lanes of a speed differently."""
    made, known = resolve_topology(f"{name}:{chassis}"), resolve_topology(theirs)

    def costs(topology: Topology) -> list[tuple[object, ...]]:
        return sorted((*k.edge, k.lanes * k.gb_per_s, k.alpha_us) for k in topology.links)

    assert costs(made) == costs(known)
    assert (made.chassis, len(made.switches)) == (known.chassis, switches)
    with pytest.raises(ParameterError, match="a whole number from 2 to 9999999"):
        resolve_topology(f"{name}:1")


@pytest.mark.parametrize("chassis", [3, 4, 8])
def test_nics_of_dgx2_chassis_meet_at_one_switch(chassis: int) -> None:
    """A way from chassis to chassis takes 2.6 us, and a chassis has eight out and eight in."""
    made = resolve_topology(f"dgx2:{chassis}")
    assert (made.ranks, len(made.switches)) == (16 * chassis, chassis + 1)
    assert len(made.links) == 16 * chassis * 2 + 16 * chassis
    network = made.ranks + chassis
    sends = [k for k in made.links if k.dst == network]
    hears = [k for k in made.links if k.src == network]
    assert [k.src for k in sends] == list(range(1, made.ranks, 2))
    assert [k.dst for k in hears] == list(range(0, made.ranks, 2))
    assert {k.alpha_us for k in sends + hears} == {1.3}
    assert {k.lanes * k.gb_per_s for k in sends + hears} == {12.5}
