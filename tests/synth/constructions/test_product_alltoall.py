"""Alltoall on Cartesian products: by those of their factors, in every rotation."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.answer import Sat
from sccl.core.instance import Instance
from sccl.core.topology import Budget, Topology
from sccl.judge import steps, violations
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth import constructions
from sccl.synth.constructions.product_alltoall import factorize, product_alltoall
from sccl.topo import resolve_topology
from sccl.topo.expansions import cartesian_product
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.topo.symmetry.group_choice import candidate_groups
from tests.kit.nightly import times
from tests.kit.strategies import topologies


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("mesh:4x4", [4, 4]),
        ("mesh:2x3x4", [2, 3, 4]),
        ("product:dgx1_x_line:3", [8, 3]),
        ("power:3:line:3", [3, 3, 3]),
        ("hypercube:3", [2, 2, 2]),
        ("line:7", [7]),
        ("dgx1", [8]),
        ("dragonfly:4x5", [20]),
        ("cayley:7x3^2:1.0,0.1", [21]),
    ],
)
def test_products_are_seen_from_their_links(text: str, sizes: list[int]) -> None:
    assert [part.ranks for part in factorize(resolve_topology(text))] == sizes


def test_link_more_or_wider_makes_it_none() -> None:
    mesh = resolve_topology("mesh:3x3")
    first, *others = mesh.links
    assert len(factorize(mesh)) == 2
    assert len(factorize(replace(mesh, links=tuple(others)))) == 1
    assert len(factorize(replace(mesh, links=(replace(first, lanes=2), *others)))) == 1
    assert len(factorize(replace(mesh, budgets=(Budget("bus", (first.edge,), 1),)))) == 1


def of_unit(machine: Topology, s: int) -> Fraction:
    spec = named_spec("alltoall", machine.ranks)
    made = constructions.construct_algorithm(machine, spec.at(spec.unit), s)
    assert made is not None
    assert violations(made) == []
    return made.bandwidth_cost


@pytest.mark.parametrize(
    ("text", "c", "s", "r"),
    [
        ("mesh:4x4", 32, 6, 32),
        ("mesh:8x8", 128, 14, 256),
        ("mesh:4x4x4", 192, 9, 192),
        ("product:slimfly:5_x_slimfly:5", 5000, 4, 1300),
    ],
)
def test_powers_of_what_meets_its_bounds_meet_them(text: str, c: int, s: int, r: int) -> None:
    machine = resolve_topology(text)
    product = product_alltoall(machine)
    assert product is not None
    assert product.has_equal_rounds
    assert (len(product.rounds), sum(product.rounds)) == (s, r)
    if c < 1000:
        bounds = lower_bounds(machine, named_spec("alltoall", machine.ranks))
        assert (bounds.steps, bounds.bandwidth) == (s, Fraction(r, c))
        assert of_unit(machine, s) == Fraction(r, c)


@settings(max_examples=times(15, by_day=8), deadline=None)
@given(topologies(max_ranks=3), topologies(max_ranks=3), st.integers(1, 2))
def test_they_are_algorithms(a: Topology, b: Topology, times_: int) -> None:
    machine = cartesian_product(replace(a, budgets=()), replace(b, budgets=()))
    product = product_alltoall(machine)
    assert product is not None
    question = named_spec("alltoall", machine.ranks).at(
        len(product.factors) * times_ * machine.ranks
    )
    rounds = sum(product.rounds) * times_
    asked = Instance(machine, question, len(product.rounds), rounds)
    found = constructions.answer(asked, candidate_groups(machine, question, "none"))
    assert isinstance(found, Sat)
    assert steps.violations(expand_algorithm(found.algorithm)) == []
    assert found.algorithm.rounds == rounds


def test_better_of_both_is_taken_where_factors_differ() -> None:
    machine = resolve_topology("mesh:4x8")
    product = product_alltoall(machine)
    assert product is not None
    assert not product.has_equal_rounds
    assert 2 <= of_unit(machine, 10) <= Fraction(sum(product.rounds), 2 * 32)
