"""Trees up and down of many ranks: the search against dynamic programming, and known limits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec, named_spec
from sccl.collectives import resolve_collective as collective
from sccl.core.algorithm import Algorithm
from sccl.core.topology import Topology
from sccl.judge import violations
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.check.allreduce import is_tree_allreduce
from sccl.synth.allreduce.any_family_bound import any_family_proof
from sccl.synth.limits import MAX_CUT_RANKS
from sccl.synth.packing.by_steps.allreduce_trees import tree_bounds, tree_frontier
from sccl.synth.packing.by_steps.solve import make_pricer, solve_packing
from sccl.synth.packing.price_pair_search import ReduceBroadcastSearch
from sccl.synth.packing.price_steps import PairPricer, PricedTimeWindow
from sccl.synth.packing.problem import PackingProblem, build_allreduce_problem
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import topologies


def posed(topology: Topology, steps: int, *, symmetric: bool = True) -> PackingProblem:
    unit = named_spec("allreduce", topology.ranks).at(topology.ranks)
    return build_allreduce_problem(topology, unit, steps, symmetric=symmetric)


@st.composite
def in_groups(draw: st.DrawFn, ranks: int) -> Spec:
    """Return an allreduce of all ranks, or in one or two groups."""
    order = draw(st.permutations(range(ranks)))
    size = draw(st.integers(2, ranks))
    groups = [order[:size]] + ([order[size:]] if ranks - size > 1 and draw(st.booleans()) else [])
    text = "/".join(",".join(map(str, sorted(group))) for group in groups)
    return collective(f"allreduce@{text}", ranks)


@settings(max_examples=times(25), deadline=None)
@given(topologies(max_ranks=5), st.data(), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_search_finds_what_dynamic_programming_does(
    topology: Topology, data: st.DataObject, more: int, seed: int
) -> None:
    spec = data.draw(in_groups(topology.ranks))
    steps = tree_bounds(topology, spec).steps + more
    problem = build_allreduce_problem(topology, spec.at(spec.unit), steps, symmetric=False)
    window = PricedTimeWindow(problem, data.draw(st.sampled_from(problem.commodities)))
    numbers = np.random.default_rng(seed)
    prices = numbers.integers(0, 6, (len(problem.edges), problem.steps)).astype(np.int64)
    by_sets, search = PairPricer(window, problem), ReduceBroadcastSearch(window, problem)
    with pytest.MonkeyPatch.context() as patch:  # CP-SAT goes on where nodes are too many
        patch.setattr(
            "sccl.synth.packing.price_branching.MAX_ITERATIONS",
            data.draw(st.sampled_from((0, 1, 2, 2000))),
        )
        cost, tree, *others = search.exact(prices)
    assert all(window.cost(prices, each) > cost for each in others)
    assert cost == by_sets.exact(prices)[0] == window.cost(prices, tree)
    assert len(tree) <= 2 * (topology.ranks - 1)
    quick, other = search.quick(prices)
    assert quick == window.cost(prices, other) >= cost


@settings(max_examples=times(20, by_day=10), deadline=None)
@given(topologies(max_ranks=4), st.data())
def test_group_allreduce_uses_trees_and_respects_the_bound(
    topology: Topology, data: st.DataObject
) -> None:
    """Over ranks of no group, too, and a packing under fewer symmetries is as good."""
    spec = data.draw(in_groups(topology.ranks))
    bounds = any_class_bounds(topology, spec)
    last = tree_bounds(topology, spec).steps + 1
    (trees,) = tree_frontier(topology, spec, last).classes
    for point in trees.points:
        assert isinstance(point.algorithm, Algorithm)
        assert violations(point.algorithm) == []
        assert is_tree_allreduce(point.algorithm)
        assert any_family_proof(topology, spec, bounds, point.steps).bound <= point.cost
    alone = build_allreduce_problem(topology, spec.at(spec.unit), last, symmetric=False)
    assert solve_packing(alone).upper == trees.limits[-1].upper


def test_rank_of_no_group_to_which_nothing_comes_up_exchanges_nothing() -> None:
    """On 16 ranks trees are searched for, and the first may turn beside a group."""
    topology = resolve_topology("torus:4x4")
    spec = collective("allreduce@0-2/5-7", 16)
    (trees,) = tree_frontier(topology, spec, 4).classes
    assert [x.upper for x in trees.limits] == [Fraction(2), Fraction(3, 4), Fraction(8, 13)]
    assert all(p.algorithm and violations(p.algorithm) == [] for p in trees.points)


@settings(max_examples=times(20, by_day=10), deadline=None)
@given(topologies(max_ranks=5), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_tree_does_not_depend_on_what_it_is_to_be_cheaper_than(
    topology: Topology, more: int, seed: int
) -> None:
    steps = tree_bounds(topology, named_spec("allreduce", topology.ranks)).steps + more
    problem = posed(topology, steps, symmetric=False)
    search = ReduceBroadcastSearch(PricedTimeWindow(problem, problem.commodities[0]), problem)
    numbers = np.random.default_rng(seed)
    prices = numbers.integers(0, 6, (len(problem.edges), problem.steps)).astype(np.int64)
    for way in (search.pairs[0].up, search.pairs[0].down):
        own = way.prices(prices)
        cost, tree = way.search.exact(own)
        for below in range(max(cost - 1, 0), cost + 4):
            found = way.search.cheapest_below(own, below)
            assert found == ((cost, tree) if cost < below else None)


def test_so_few_steps_that_no_tree_turns_are_rejected() -> None:
    problem = posed(resolve_topology("hypercube:4"), 6)
    with pytest.raises(ValueError, match="no tree reduces and broadcasts within 6 steps"):
        make_pricer(problem, problem.commodities[0])


@pytest.mark.parametrize(
    ("machine", "limits"),
    [
        ("hypercube:4", [(7, "15/32", (32, 15))]),
        ("torus:4x4", [(7, "15/32", (64, 30))]),
        pytest.param("hypercube:5", [(9, "31/80", (160, 62))], marks=pytest.mark.nightly),
        ("ndv2x2", [(7, "7/4", (16, 28))]),
    ],
)
def test_limits_of_many_ranks(
    machine: str, limits: list[tuple[int, str, tuple[int, int] | None]]
) -> None:
    """They are those of all S up to the last, with written and verified algorithms."""
    topology = resolve_topology(machine)
    last = limits[-1][0]
    (trees,) = tree_frontier(topology, named_spec("allreduce", topology.ranks), last).classes
    assert [(x.steps, x.lower, x.upper) for x in trees.limits] == [
        (steps, Fraction(cost), Fraction(cost)) for steps, cost, _ in limits
    ]
    for point, (steps, cost, shape) in zip(trees.points, limits, strict=True):
        found = point.algorithm
        assert isinstance(found, Algorithm)
        assert (point.is_proved, point.is_attained) == (True, True)
        assert shape in {None, (found.collective.chunks, found.rounds)}
        assert (found.steps, found.bandwidth_cost) == (steps, Fraction(cost))
        assert not violations(found)
        assert is_tree_allreduce(found)


@pytest.mark.nightly
def test_trees_of_64_ranks_meet_what_no_allreduce_beats() -> None:
    topology = resolve_topology("torus:8x8")
    assert topology.ranks == MAX_CUT_RANKS
    (trees,) = tree_frontier(topology, named_spec("allreduce", topology.ranks)).classes
    (point,) = trees.points
    assert (point.steps, point.cost) == (
        15,
        any_class_bounds(topology, named_spec("allreduce", topology.ranks)).bandwidth,
    )
    assert point.is_attained
    assert trees.is_complete
