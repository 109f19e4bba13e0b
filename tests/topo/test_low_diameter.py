"""Networks of small degree and diameter, and machines made of machines, against closed forms."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl import collectives
from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.prove.check.case import _machine_origin
from sccl.topo import resolve_topology
from sccl.topo.expansions import cartesian_product, degree_expansion, expansions, line_graph
from sccl.topo.measures import measure_topology
from sccl.topo.symmetry.group_choice import candidate_groups
from tests.kit.strategies import topologies


def shape(name: str) -> tuple[int, int, int | None, set[int]]:
    """Return ranks, links, diameter and the degrees of a machine."""
    machine = resolve_topology(name)
    m = measure_topology(machine)
    assert Counter(m.in_lanes) == Counter(m.out_lanes)
    return machine.ranks, len(machine.links), m.diameter, set(m.out_lanes)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kautz:2x12", (12, 24, 3, {2})),  # K(2, 3)
        ("kautz:3x12", (12, 36, 2, {3})),
        ("kautz:4x5", (5, 20, 1, {4})),
        ("kautz:4x64", (64, 252, 3, {3, 4})),
        ("debruijn:2x8", (8, 14, 3, {1, 2})),
        ("debruijn:3x9", (9, 24, 2, {2, 3})),
        ("cayley:8x1:1.0", (8, 8, 7, {1})),
        ("cayley:8x1:1.0,7.0", (8, 16, 4, {2})),
        ("cayley:4x8:1.0,0.1", (32, 64, 10, {2})),
        ("cayley:6x2^5:1.0,5.0,0.1", (12, 36, 4, {3})),
        ("hyperx:4x4x4", (64, 576, 3, {9})),
        ("hyperx:3x1", (3, 6, 1, {2})),
        ("slimfly:3", (18, 90, 2, {5})),
        ("slimfly:5", (50, 350, 2, {7})),  # Hoffman and Singleton's
        ("slimfly:7", (98, 1078, 2, {11})),
        ("slimfly:11", (242, 4114, 2, {17})),
        ("linegraph:full:3", (6, 12, 2, {2})),  # K(2, 2)
        ("linegraph:2:full:3", (12, 24, 3, {2})),  # K(2, 3)
        ("linegraph:dgx1", (48, 288, 3, {6})),
        ("linegraph:2:circulant:16:3,4", (256, 1024, 5, {4})),
        ("copies:2:ring:5", (10, 40, 2, {4})),
        ("copies:3:full:2", (6, 18, 2, {3})),
        ("power:3:ring:5", (125, 750, 6, {6})),
        ("power:2:dgx1", (64, 512, 4, {12})),
        ("product:dgx1_x_ring:4", (32, 192, 4, {8})),
        ("product:line:2_x_line:2_x_line:2", (8, 24, 3, {3})),
    ],
)
def test_against_closed_forms(name: str, expected: tuple[int, int, int, set[int]]) -> None:
    assert shape(name) == expected


def test_two_of_one_graph() -> None:
    """A torus is a product of rings under every construction, and a cube a power."""
    torus, made = resolve_topology("torus:3x5"), resolve_topology("product:ring:3_x_ring:5")
    assert torus.same_capacities(made)
    assert torus.same_timing(made)
    assert resolve_topology("hypercube:4").same_capacities(resolve_topology("power:4:line:2"))
    assert resolve_topology("hyperx:3x4").same_capacities(
        resolve_topology("product:full:3_x_full:4")
    )
    assert resolve_topology("cayley:4x3:1.0,3.0,0.1,0.2").same_capacities(
        resolve_topology("torus:4x3")
    )


def test_group_that_is_not_abelian() -> None:
    """Both products of (1, 0) and (0, 1), by hand: (0, 1)(1, 0) = (2, 1)."""
    edges = resolve_topology("cayley:5x4^2:1.0,0.1").edges
    assert {(0, 4), (0, 1), (1, 9), (1, 2)} <= edges
    assert (1, 5) not in edges


@pytest.mark.parametrize("name", ["cayley:5x4^2:1.0,0.1", "cayley:6x2^5:1.0,0.1", "cayley:9x1:2.0"])
def test_translations_of_groups_are_known(name: str) -> None:
    machine = resolve_topology(name)
    (group,) = candidate_groups(
        machine, collectives.named_spec("allgather", machine.ranks).at(1), "translations"
    )
    images = [s.ranks for s in group.generators]
    reached = {0}
    for _ in range(machine.ranks):
        reached |= {image[r] for image in images for r in reached}
    assert reached == set(range(machine.ranks))


def test_budgets_switches_and_chassis_are_there_for_each_copy() -> None:
    made = resolve_topology("product:ring:3_x_dgx-h100")
    h100 = resolve_topology("dgx-h100")
    assert len(made.budgets) == 3 * len(h100.budgets)
    assert {b.chunks_per_round for b in made.budgets} == {18}
    for budget in made.budgets:
        assert len({u // 8 for edge in budget.edges for u in edge}) == 1
    switched = resolve_topology("product:rail:2x2_x_line:2")
    rail = resolve_topology("rail:2x2")
    assert len(switched.switches) == 2 * len(rail.switches)
    assert switched.chassis == tuple(
        tuple(r * 2 + b for r in members) for b in range(2) for members in rail.chassis
    ) or set(switched.chassis) == {
        tuple(r * 2 + b for r in members) for b in range(2) for members in rail.chassis
    }
    assert measure_topology(switched).unreachable is None


def test_costs_are_those_of_their_machines() -> None:
    made = resolve_topology("product:ring:3@50GB_x_ring:4@10GB+2us")
    assert {(k.gb_per_s, k.alpha_us) for k in made.links if k.src // 4 == k.dst // 4} == {(10, 2)}
    assert {k.gb_per_s for k in made.links if k.src // 4 != k.dst // 4} == {50}


@given(topologies(), topologies())
def test_products_join_what_either_joins(first: Topology, second: Topology) -> None:
    if first.switches or second.switches or first.ranks * second.ranks > 64:
        return
    made = cartesian_product(first, second)
    n = second.ranks
    everywhere = product(range(first.ranks), range(n))
    expected = {(a * n + b, c * n + b) for a, b in everywhere for u, c in first.edges if u == a}
    expected |= {
        (a * n + b, a * n + c) for a in range(first.ranks) for u, c in second.edges for b in (u,)
    }
    assert made.edges == expected
    assert made.reversed().same_capacities(cartesian_product(first.reversed(), second.reversed()))


@given(topologies(), st.integers(2, 4))
def test_expansions_keep_degrees_in_proportion(machine: Topology, number: int) -> None:
    if machine.switches or machine.budgets:
        for make in (line_graph, lambda t: degree_expansion(t, number)):
            with pytest.raises(InputError, match="is not defined"):
                make(machine)
        return
    made = degree_expansion(machine, number)
    before, after = measure_topology(machine), measure_topology(made)
    assert list(after.out_lanes) == [number * d for d in before.out_lanes for _ in range(number)]
    lanes = sum(link.lanes for link in machine.links)
    ends = dict(enumerate(before.out_lanes))
    if lanes > 1 and any(ends[k.dst] for k in machine.links):
        lines = line_graph(machine)
        assert lines.ranks == lanes
        assert len(lines.links) == sum(k.lanes * ends[k.dst] for k in machine.links)


def test_every_expansion_has_an_example_that_works_and_is_known_by_its_name() -> None:
    for e in expansions():
        machine = resolve_topology(e.example)
        assert machine.name == e.example
        assert _machine_origin(machine, timed=True) == "links and budgets as the generator's"
        forged = resolve_topology("ring:8")
        object.__setattr__(forged, "name", e.example)
        assert "NOT" in _machine_origin(forged, timed=False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kautz:4", "degree x ranks"),
        ("kautz:4x4", "more ranks than the degree"),
        ("debruijn:1000x60000", "at most 1048576 links"),
        ("debruijn:1x3", "links between different ranks"),
        ("cayley:5x4^3:0.0", "generators below 5.4 other than 0.0"),
        ("cayley:5x4^5:1.0", "5 to the power of 4 has to be 1 modulo 5"),
        ("cayley:5x3^2:1.0", "2 to the power of 3 has to be 1 modulo 5"),
        ("cayley:0x3:1.0", "group sizes"),
        ("cayley:5x4:1", "a group, a colon and generators"),
        ("hyperx:4x", "sides"),
        ("hyperx:9999", "at most 1048576 links"),
        ("slimfly:9", "an odd prime"),
        ("slimfly:997", "at most 65536"),
        ("linegraph", "as in 'linegraph:2:circulant:16:3,4'"),
        ("linegraph:0:ring:4", "a number from 1 to 99"),
        ("linegraph:ring:x", "expects a whole number from 2"),
        ("linegraph:9:full:8", "the line graph of topology 'linegraph:linegraph:linegraph:"),
        ("linegraph:dgx2", "has shared budgets, and its line graph is not defined"),
        ("copies:ring:4", "a number from 2 to 99"),
        ("copies:2:rail:2x2", "has switches"),
        ("power:9:torus:100x100", "expected at most 65536"),
        ("power:1:ring:4", "a number from 2"),
        ("product:ring:4", "machines with _x_ between them"),
        ("product:ring:4_x_", "machines with _x_ between them"),
        ("product:ring:4_x_nothing", "unknown topology 'nothing'"),
        ("linegraph:" * 40 + "ring:4", "more than 32 parts"),
    ],
)
def test_invalid_parameters_give_no_machine(text: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)) as error:
        resolve_topology(text)
    assert str(error.value).count("expect") <= 2  # only the failed part, without its factors
