"""Messages over several links in a step: routes, loads, known results of rings."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.graphs import UNREACHED, distances
from sccl.core.topology import Budget, Link, Topology
from sccl.errors import InputError
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.packing.by_steps.limits_by_steps import step_limit
from sccl.topo import resolve_topology
from sccl.topo.degrade import remove_parts
from sccl.topo.machine_model import machine_model
from sccl.topo.measures import measure_topology
from sccl.topo.multihop import machine_from_routes, multihop_machine
from tests.kit.commands import sccl
from tests.kit.strategies import topologies


def wires(machine: Topology) -> dict[str, int]:
    """Return how many routes pass each link."""
    return {b.name.removeprefix("wire "): len(b.edges) for b in machine.budgets}


@pytest.mark.parametrize(
    ("steps", "cost"), [(1, Fraction(10)), (2, Fraction(6)), (3, Fraction(14, 3)), (4, Fraction(4))]
)
def test_ring_of_nine_by_counting_hops(steps: int, cost: Fraction) -> None:
    """In one step all ranks within 4 receive directly: 1+2+3+4 routes use each link.

    In 4 steps each rank's chunk goes over one link per step.
    """
    machine = resolve_topology("routed:ring:9")
    spec = named_spec("allgather", 9)
    found = step_limit(machine, spec, steps, lower_bounds(machine, spec), 60.0).limit
    if steps != 3:
        assert (found.lower, found.upper) == (cost, cost)
    else:  # between its neighbours
        assert Fraction(4) <= found.lower <= Fraction(6)


@pytest.mark.parametrize(
    ("name", "loads"),
    [
        ("ring:9", {10}),  # 1 + 2 + 3 + 4 each way
        ("ring:8", {6, 10}),  # routes of 4 links all go upwards
        ("line:4", {3, 4}),
        ("hypercube:3", {4}),
        ("torus:3x3", {3}),
        ("mesh:2x2", {2}),
    ],
)
def test_multihop_links_have_the_expected_loads(name: str, loads: set[int]) -> None:
    machine = resolve_topology(f"routed:xy:{name}")
    plain = resolve_topology(name)
    assert len(machine.links) == plain.ranks * (plain.ranks - 1)
    assert measure_topology(machine).diameter == 1
    assert set(wires(machine).values()) == loads
    assert sum(wires(machine).values()) == sum(
        d for r in range(plain.ranks) for d in distances(plain.successors(), [r])
    )


def test_dimension_by_dimension_is_first_side_first() -> None:
    machine = resolve_topology("routed:xy:torus:4x4")
    passing = {b.name: set(b.edges) for b in machine.budgets}
    assert (0, 5) in passing["wire 0->4"] & passing["wire 4->5"]
    assert (0, 5) not in passing["wire 0->1"]
    assert (0, 15) in passing["wire 0->12"] & passing["wire 12->15"]
    assert (0, 10) in passing["wire 0->4"] & passing["wire 4->8"] & passing["wire 8->9"]


def test_translations_are_left_by_routes_dimension_by_dimension() -> None:
    """Each link of one direction and dimension has the same load: so it is, moved by one."""
    machine = resolve_topology("routed:xy:torus:4x4")
    moved = [4 * (r // 4) + (r + 1) % 4 for r in range(16)]
    sets = {frozenset(b.edges) for b in machine.budgets}
    assert {frozenset((moved[u], moved[v]) for u, v in edges) for edges in sets} == sets


@given(topologies(max_ranks=6))
def test_shortest_routes_are_shortest_and_load_what_they_pass(plain: Topology) -> None:
    far = [distances(plain.successors(), [r]) for r in range(plain.ranks)]
    pairs = list(permutations(range(plain.ranks), 2))
    if any(far[u][v] == UNREACHED for u, v in pairs):
        with pytest.raises(InputError, match="no links lead from rank"):
            multihop_machine(plain, "shortest")
        return
    try:
        machine = multihop_machine(plain, "shortest")
    except InputError as error:
        assert "passes budget" in str(error)  # noqa: PT017 - drawn budgets may be met twice
        return
    assert machine.edges == set(pairs)
    lanes = plain.lanes()
    passed = Counter[tuple[int, int]]()
    by_name = {b.name: b for b in machine.budgets}
    for edge, width in lanes.items():
        wire = by_name.get(f"wire {edge[0]}->{edge[1]}")
        if wire is not None:
            assert wire.chunks_per_round == width
            passed.update(wire.edges)
    for u, v in pairs:
        if far[u][v] > 1:
            assert passed[u, v] <= far[u][v]
    spec = named_spec("allgather", plain.ranks)
    if plain.switches or not plain.has_uniform_lanes:
        return
    whole, steps = lower_bounds(machine, spec), lower_bounds(plain, spec)
    assert whole.steps == 1
    assert whole.bandwidth == steps.bandwidth or whole.bandwidth <= steps.bandwidth


def test_routes_through_switches_join_ranks() -> None:
    machine = machine_model(resolve_topology("routed:rail:2x2")).topology
    assert (machine.ranks, machine.switches) == (4, ())
    assert measure_topology(machine).diameter == 1


def test_costs_and_budgets_go_along() -> None:
    plain = Topology(
        "slow-middle",
        3,
        (Link(0, 1, 2, 1.0, 10.0), Link(1, 2, 1, 3.0, 5.0), Link(2, 0, 4, 2.0, 10.0)),
        1.0,
        10.0,
        budgets=(Budget("shared", ((0, 1),), 3),),
    )
    machine = multihop_machine(plain, "shortest")
    link = {k.edge: k for k in machine.links}
    assert (link[0, 2].lanes, link[0, 2].alpha_us, link[0, 2].gb_per_s) == (1, 3.0, 5.0)
    shared = next(b for b in machine.budgets if b.name == "shared")
    assert set(shared.edges) == {(0, 1), (0, 2), (2, 1)}
    assert shared.chunks_per_round == 3


def test_budgets_that_are_passed_twice_are_rejected() -> None:
    plain = replace(resolve_topology("ring:3"), budgets=(Budget("bus", ((0, 1), (1, 2)), 1),))
    plain = remove_parts(plain, links=[(0, 2), (2, 0)])
    with pytest.raises(InputError, match="passes budget"):
        multihop_machine(plain, "shortest")


def test_file_says_routes(tmp_path: Path) -> None:
    file = tmp_path / "routes.json"
    file.write_text(json.dumps({"routes": [[0, 1, 2], [1, 2], [2, 3, 0], [0, 3], [3, 0]]}))
    machine = multihop_machine(resolve_topology("ring:4"), str(file))
    assert machine.edges == {(0, 2), (1, 2), (2, 0), (0, 3), (3, 0)}
    assert {b.name: b.edges for b in machine.budgets} == {
        "wire 1->2": ((0, 2), (1, 2)),
        "wire 3->0": ((2, 0), (3, 0)),
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"routes": [[0, 2]]}', "$.routes[0]: topology 'ring:4' has no link 0->2"),
        ('{"routes": [[0]]}', "expected two nodes or more"),
        ('{"routes": [[0, 1, 0]]}', "none of them twice"),
        ('{"routes": [[0, 1], [0, 1]]}', "$.routes[1]: there is another route from 0 to 1"),
        ('{"routes": []}', "there are no routes"),
        ('{"routes": [[0, 1]], "more": 1}', "unknown field `more`"),
    ],
)
def test_routes_that_do_not_fit_are_rejected(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "routes.json"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(says)):
        multihop_machine(resolve_topology("ring:4"), str(file))


@pytest.mark.parametrize(
    ("machine", "how", "says"),
    [
        ("dgx1", "xy", "is no grid, torus or hypercube by its name"),
        ("ring:4", "up", "routes are 'up', expected xy, shortest or the .json file of your own"),
        ("ring:300", "shortest", "routes are printed for at most 256"),
        ("circulant:8:4", "shortest", "no links lead from rank 0 to rank 1"),
    ],
)
def test_machines_without_such_routes(machine: str, how: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        multihop_machine(resolve_topology(machine), how)


def test_route_loads_each_link_once_a_message() -> None:
    """Two messages over one link take two rounds, in one step."""
    plain = resolve_topology("line:3")
    routes = {(0, 1): (0, 1), (0, 2): (0, 1, 2)}
    machine = machine_from_routes(plain, routes, "two")
    assert machine.budgets == (Budget("wire 0->1", ((0, 1), (0, 2)), 1, gb_per_s=25.0),)
    assert lower_bounds(machine, named_spec("broadcast", 3)).steps == 1
    assert all(link in plain.edges for route in routes.values() for link in pairwise(route))


@given(st.sampled_from(["ring:6", "torus:3x3", "hypercube:3", "mesh:3x2"]))
def test_names_survive_the_printer(name: str) -> None:
    """Ring is an emoji to the library that prints."""
    code, told, _ = sccl("topo", "show", f"routed:{name}")
    assert code == 0
    assert f"routed:{name}: " in told
