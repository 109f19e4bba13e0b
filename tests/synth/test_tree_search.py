"""Trees up and down of many ranks: the search against dynamic programming, and known limits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named
from sccl.core.algorithm import Algorithm
from sccl.core.topology import Topology
from sccl.judge import violations
from sccl.prove.bounds import any_bounds
from sccl.prove.check.members import is_by_trees
from sccl.synth.limit.pricing import pricer
from sccl.synth.limit.problem import Problem, pose_allreduce
from sccl.synth.limit.trees import MAX_RANKS, tree_bounds, tree_frontier
from sccl.synth.limit.up_and_down import UpAndDown
from sccl.synth.limit.up_and_down_search import UpAndDownSearch
from sccl.synth.limit.window import Window
from sccl.topo import resolve
from tests.kit.nightly import times
from tests.kit.strategies import topologies


def posed(topology: Topology, steps: int, *, symmetric: bool = True) -> Problem:
    unit = named("allreduce", topology.ranks).at(topology.ranks)
    return pose_allreduce(topology, unit, steps, symmetric=symmetric)


@settings(max_examples=times(25), deadline=None)
@given(topologies(max_ranks=5), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_the_search_finds_what_dynamic_programming_does(
    topology: Topology, more: int, seed: int
) -> None:
    problem = posed(topology, tree_bounds(topology).steps + more, symmetric=False)
    window = Window(problem, problem.commodities[0])
    numbers = np.random.default_rng(seed)
    prices = numbers.integers(0, 6, (len(problem.edges), problem.steps)).astype(np.int64)
    by_sets, search = UpAndDown(window), UpAndDownSearch(window, problem)
    cost, tree = search.exact(prices)
    assert cost == by_sets.exact(prices)[0] == window.cost(prices, tree)
    assert len(tree) <= 2 * (topology.ranks - 1)
    quick, other = search.quick(prices)
    assert quick == window.cost(prices, other) >= cost


@settings(max_examples=times(20), deadline=None)
@given(topologies(max_ranks=5), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_a_tree_does_not_depend_on_what_it_is_to_be_cheaper_than(
    topology: Topology, more: int, seed: int
) -> None:
    problem = posed(topology, tree_bounds(topology).steps + more, symmetric=False)
    search = UpAndDownSearch(Window(problem, problem.commodities[0]), problem)
    numbers = np.random.default_rng(seed)
    prices = numbers.integers(0, 6, (len(problem.edges), problem.steps)).astype(np.int64)
    for way in (search.pairs[0].up, search.pairs[0].down):
        own = way.prices(prices)
        cost, tree = way.search.exact(own)
        for below in range(max(cost - 1, 0), cost + 4):
            found = way.search.cheaper(own, below)
            assert found == ((cost, tree) if cost < below else None)


def test_so_few_steps_that_no_tree_turns_are_refused() -> None:
    problem = posed(resolve("hypercube:4"), 6)
    with pytest.raises(ValueError, match="no tree goes up and down within 6 steps"):
        pricer(problem, problem.commodities[0])


@pytest.mark.parametrize(
    ("machine", "limits"),
    [
        ("hypercube:4", [(7, "15/32", (32, 15))]),
        ("torus:4x4", [(7, "15/32", (64, 30))]),
        ("hypercube:5", [(9, "31/80", (160, 62))]),
        ("ndv2x2", [(7, "7/4", (16, 28))]),
    ],
)
def test_limits_of_many_ranks(
    machine: str, limits: list[tuple[int, str, tuple[int, int] | None]]
) -> None:
    """They are those of all S up to the last, and what attains them is written and judged."""
    topology = resolve(machine)
    last = limits[-1][0]
    (trees,) = tree_frontier(topology, last).classes
    assert [(x.steps, x.lower, x.upper) for x in trees.limits] == [
        (steps, Fraction(cost), Fraction(cost)) for steps, cost, _ in limits
    ]
    for point, (steps, cost, shape) in zip(trees.points, limits, strict=True):
        found = point.algorithm
        assert isinstance(found, Algorithm)
        assert (point.proved, point.attained) == (True, True)
        assert shape in {None, (found.collective.chunks, found.rounds)}
        assert (found.steps, found.bandwidth_cost) == (steps, Fraction(cost))
        assert not violations(found)
        assert is_by_trees(found)


def test_trees_of_64_ranks_meet_what_no_allreduce_beats() -> None:
    topology = resolve("torus:8x8")
    assert topology.ranks == MAX_RANKS
    (trees,) = tree_frontier(topology).classes
    (point,) = trees.points
    assert (point.steps, point.cost) == (
        15,
        any_bounds(topology, named("allreduce", topology.ranks)).bandwidth,
    )
    assert point.attained
    assert trees.complete
