"""Rooted collectives without search: one flow, trees that give way, scatter and then allgather."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import dual_of, named_spec
from sccl.core.answer import Sat, Unknown, Unsat
from sccl.core.instance import Candidate, Instance
from sccl.core.topology import Budget, Topology
from sccl.judge import violations
from sccl.prove.bounds.lower_bounds import farthest_pair, lower_bounds
from sccl.prove.bounds.timed_cuts import TimedRelaxation, timed_bound
from sccl.synth.constructions import rip_up_trees, scatter_flow
from sccl.synth.constructions.scatter_allgather import (
    breadth_first_allgather,
    scatter_then_allgather,
)
from sccl.synth.packing.by_steps.limits_by_steps import (
    LimitWithPacking,
    check_size,
    has_packing_limits,
    step_limit,
)
from sccl.synth.packing.by_steps.rounding import round_to_algorithm
from sccl.synth.syncoll import solve
from sccl.synth.syncoll.level import Level
from sccl.topo.catalogue import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import topologies


def limit_of(machine: str, name: str, more: int = 0) -> LimitWithPacking:
    topology = resolve_topology(machine)
    spec = named_spec(name, topology.ranks)
    bounds = lower_bounds(topology, spec)
    return step_limit(topology, spec, bounds.steps + more, bounds)


def bound_of(machine: str, name: str, steps: int) -> TimedRelaxation:
    topology = resolve_topology(machine)
    spec = named_spec(name, topology.ranks)
    found = timed_bound(topology, spec.at(spec.unit), steps)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("machine", "name", "chunks", "steps", "rounds"),
    [
        ("dgx1", "gather", 6, 2, 7),
        ("dragonfly:4x5", "scatter", 100, 3, 29),
        ("dragonfly:4x5", "gather", 3, 4, 15),
        ("torus:8x8", "scatter", 256, 8, 63),
        ("torus:8x8", "gather", 4, 8, 63),
        ("hypercube:6", "scatter", 128, 6, 21),
        ("mesh:4x4", "scatter", 32, 6, 15),
    ],
)
def test_flows_attain_the_limit_with_few_chunks(
    machine: str, name: str, chunks: int, steps: int, rounds: int
) -> None:
    topology = resolve_topology(machine)
    spec = named_spec(name, topology.ranks)
    relaxation = bound_of(machine, name, steps)
    found = scatter_flow.attain_bound(topology, spec.at(spec.unit), relaxation)
    assert found is not None
    assert found.bandwidth_cost == relaxation.bound.value == Fraction(rounds, chunks)
    assert (found.steps, found.collective.chunks) == (steps, chunks)
    assert violations(found) == []
    with_limit = step_limit(topology, spec, steps, lower_bounds(topology, spec))
    assert with_limit.limit.is_exact
    assert with_limit.packings == ()


@settings(max_examples=times(60, by_day=30), deadline=None)
@given(topologies(max_ranks=5), st.sampled_from(["scatter", "gather"]), st.data())
def test_whole_rounds_decide_as_a_solver_does(
    machine: Topology, name: str, data: st.DataObject
) -> None:
    topology = replace(machine, budgets=())
    spec = named_spec(name, topology.ranks, data.draw(st.integers(0, topology.ranks - 1)))
    collective = spec.at(spec.unit * data.draw(st.integers(1, 2)))
    steps = farthest_pair(topology, collective).steps + data.draw(st.integers(0, 1))
    rounds = steps + data.draw(st.integers(0, 4))
    instance = Instance(topology, collective, steps, rounds)
    found = scatter_flow.answer(instance)
    assert found is not None
    assert isinstance(found, Sat) == isinstance(solve.solve(instance), Sat)
    if isinstance(found, Sat):
        assert violations(found.algorithm) == []
        assert (found.algorithm.steps, found.algorithm.rounds) == (steps, rounds)


def test_flows_are_of_links_alone() -> None:
    """If links share a budget, an integer flow need not exist, and packings prove more."""
    topology = resolve_topology("ring:6")
    shared = replace(topology, budgets=(Budget("nic", ((0, 1), (0, 5)), 1),))
    spec = named_spec("scatter", 6)
    relaxation = timed_bound(shared, spec.at(6), 3)
    assert relaxation is not None
    assert scatter_flow.attain_bound(shared, spec.at(6), relaxation) is None
    found = step_limit(shared, spec, 3, lower_bounds(shared, spec))
    assert found.limit.lower == found.limit.upper == relaxation.bound.value
    assert found.packings


def test_large_questions_are_decided_before_any_solver() -> None:
    topology = resolve_topology("torus:8x8")
    collective = named_spec("scatter", 64).at(256)
    sat, unsat = (solve.solve(Instance(topology, collective, 8, r)) for r in (63, 62))
    assert isinstance(sat, Sat)
    assert isinstance(unsat, Unsat)
    assert {sat.solver, unsat.solver} == {scatter_flow.NAME}


@settings(max_examples=times(30, by_day=15), deadline=None)
@given(topologies(max_ranks=5), st.integers(0, 2))
def test_trees_are_algorithms_no_better_than_their_bound(topology: Topology, more: int) -> None:
    spec = named_spec("broadcast", topology.ranks)
    collective = spec.at(1)
    steps = farthest_pair(topology, collective).steps + more
    relaxation = timed_bound(topology, collective, steps)
    assume(relaxation is not None)
    assert relaxation is not None
    found = rip_up_trees.approach_bound(topology, collective, relaxation)
    assert violations(found) == []
    assert found.steps == steps
    assert found.bandwidth_cost >= relaxation.bound.value


@pytest.mark.parametrize(
    ("machine", "more", "ratio"),
    [
        ("torus:8x8", 1, 1.25),
        ("torus:8x8", 4, 1.15),
        pytest.param("hypercube:6", 2, 1.3, marks=pytest.mark.nightly),
    ],
)
def test_trees_come_near_the_bound_of_many_ranks(machine: str, more: int, ratio: float) -> None:
    packed = limit_of(machine, "broadcast", more)
    assert packed.direct is not None
    assert violations(packed.direct) == []
    assert packed.limit.lower <= packed.limit.required_upper <= ratio * packed.limit.lower
    again = limit_of(machine, "reduce", more)
    assert again.limit.upper == packed.limit.upper
    assert again.direct == packed.direct


def test_sweeps_skip_what_trees_come_nowhere_near() -> None:
    topology = resolve_topology("torus:16x16")
    collective = named_spec("broadcast", 256).at(18)
    found = rip_up_trees.answer(Instance(topology, collective, 16, 21))
    assert isinstance(found, Unknown)
    assert found.best is not None
    assert found.best > Fraction(7, 6)
    cheaper = [Candidate(Fraction(21, c), c, 16, 21) for c in (18, 17, 16)]
    dear = Candidate(Fraction(21), 1, 16, 21)
    level = Level(16, (*cheaper, dear)).record(found, cheaper[0])
    assert level.undecided == (dear,)
    assert [one.candidate for one in level.open] == cheaper
    none = rip_up_trees.answer(Instance(topology, collective, 16, 20))
    assert isinstance(none, Unsat)
    assert "7/6" in none.evidence
    easy = rip_up_trees.answer(Instance(topology, named_spec("broadcast", 256).at(4), 16, 30))
    assert isinstance(easy, Sat)
    assert (easy.algorithm.steps, easy.algorithm.rounds) == (16, 30)
    assert violations(easy.algorithm) == []


@pytest.mark.parametrize(
    ("machine", "links"), [("ring:9", 2), ("torus:5x5", 4), ("hypercube:4", 4)]
)
def test_scatter_and_then_allgather(machine: str, links: int) -> None:
    topology = resolve_topology(machine)
    ranks = topology.ranks
    found = scatter_then_allgather(topology, named_spec("broadcast", ranks).at(1))
    assert found is not None
    assert found.cost == Fraction(2 * (ranks - 1), ranks * links)
    far = farthest_pair(topology, named_spec("broadcast", ranks).at(1)).steps
    assert found.steps == 2 * far
    assert found.algorithm is not None
    assert violations(found.algorithm) == []
    assert found.algorithm.bandwidth_cost == found.cost


def test_machines_that_are_not_alike_have_no_allgather_at_hand() -> None:
    assert breadth_first_allgather(resolve_topology("mesh:3x3")) is None
    assert breadth_first_allgather(resolve_topology("dgx1")) is None
    assert breadth_first_allgather(replace(resolve_topology("mesh:3x3"), name="torus:3x3")) is None
    scatter = named_spec("scatter", 9)
    assert scatter_then_allgather(resolve_topology("torus:3x3"), scatter.at(9)) is None


def test_sizes_beyond_packings_are_not_refused() -> None:
    topology = resolve_topology("hypercube:10")
    spec = named_spec("broadcast", topology.ranks)
    check_size(topology, spec)
    assert not has_packing_limits(topology, spec)
    assert has_packing_limits(resolve_topology("dgx1"), named_spec("broadcast", 8))
    assert has_packing_limits(topology, named_spec("allgather", topology.ranks))


def test_unwritten_algorithm_is_none() -> None:
    packed = limit_of("torus:8x8", "broadcast", 1)
    dual = dual_of(named_spec("broadcast", 64))
    assert round_to_algorithm(packed, dual, None) == (packed.direct, "construction")
    assert round_to_algorithm(replace(packed, direct=None), dual, None) is None
