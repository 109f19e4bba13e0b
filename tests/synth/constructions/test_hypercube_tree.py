"""Broadcast on hypercubes in the fewest steps, by one tree in all even permutations."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sccl.collectives import named_spec
from sccl.judge import violations
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.prove.bounds.timed_cuts import timed_bound
from sccl.synth.constructions.hypercube_tree import hypercube_broadcast
from sccl.synth.packing.by_steps.limits_by_steps import step_limit
from sccl.topo import resolve_topology


@pytest.mark.parametrize(
    ("dimensions", "root", "shape"),
    [
        (4, 0, (12, 4, 10)),
        (5, 3, (60, 5, 43)),
        pytest.param(6, 0, (360, 6, 210), marks=pytest.mark.nightly),
    ],
)
def test_single_tree_has_the_expected_cost(
    dimensions: int, root: int, shape: tuple[int, int, int]
) -> None:
    topology = resolve_topology(f"hypercube:{dimensions}")
    unit = named_spec("broadcast", topology.ranks, root).at(1)
    made, relaxation = hypercube_broadcast(topology, unit), timed_bound(topology, unit, dimensions)
    assert made is not None
    assert relaxation is not None
    assert violations(made) == []
    assert (made.collective.chunks, made.steps, made.rounds) == shape
    assert made.bandwidth_cost > relaxation.bound.value


def test_limits_of_64_ranks_have_it() -> None:
    topology = resolve_topology("hypercube:6")
    for name, cost in (("broadcast", Fraction(7, 12)), ("reduce", Fraction(7, 12))):
        spec = named_spec(name, 64)
        limit = step_limit(topology, spec, 6, lower_bounds(topology, spec)).limit
        assert (limit.lower, limit.upper) == (Fraction(13, 30), cost)


def test_torus_that_is_a_hypercube_has_it() -> None:
    topology = resolve_topology("torus:4x4")
    made = hypercube_broadcast(topology, named_spec("broadcast", 16, 6).at(1))
    assert made is not None
    assert (violations(made), made.steps, made.bandwidth_cost) == ([], 4, Fraction(5, 6))


@pytest.mark.parametrize("machine", ["hypercube:3", "torus:4x3", "hyperx:3x3", "hypercube:7"])
def test_other_machines_have_none(machine: str) -> None:
    topology = resolve_topology(machine)
    assert hypercube_broadcast(topology, named_spec("broadcast", topology.ranks).at(1)) is None
