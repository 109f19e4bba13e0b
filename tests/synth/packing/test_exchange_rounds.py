"""Allreduces in rounds: lines of a machine exchange, and everyone has everything exactly once."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import inf, prod

import numpy as np
import pytest

from sccl.collectives import dual_of, named_spec
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.network.product_coordinates import find_coordinates
from sccl.synth.packing.by_time.allreduce_packing import (
    build_two_phase_problem,
    merge_roots,
    pack_allreduce,
    separate_phases,
)
from sccl.synth.packing.flow_problem import FlowProblem, build_flow_problem
from sccl.synth.packing.price_rounds import RoundPricing
from sccl.synth.packing.schedule_builder import ScheduleBuilder
from sccl.synth.packing.send_plans import PlacedSend, PlacementDirection
from sccl.synth.packing.slots import rounded_slots
from sccl.topo import resolve_topology
from tests.kit.schedule_executor import executes_correctly

TIME_LIMITS = registry.load("limits-time")


def problem_of(machine: str, size: int = 64_000) -> FlowProblem:
    topology = resolve_topology(machine)
    return build_flow_problem(topology, dual_of(named_spec("allreduce", topology.ranks)), size)


@pytest.mark.parametrize(
    ("machine", "sizes"),
    [
        ("hypercube:3", [2, 2, 2]),
        ("torus:4x4", [2, 2, 2, 2]),  # a ring of four is a square: two by two
        ("dgx1", [2, 4]),
        ("rail:4x4", [4, 4]),
        ("mesh:2x3", [2, 3]),
        ("z52", [8]),
    ],
)
def test_coordinates_are_those_of_the_finest_product(machine: str, sizes: list[int]) -> None:
    topology = resolve_topology(machine)
    edges = problem_of(machine).edges
    order = list(range(topology.ranks))
    random.Random(1).shuffle(order)  # noqa: S311 - the same each time
    for names in (range(topology.ranks), order):
        places = find_coordinates(topology.ranks, [(names[u], names[v]) for u, v in edges])
        assert sorted(max(column) + 1 for column in zip(*places, strict=True)) == sizes
        assert len(set(places)) == prod(sizes) == topology.ranks


@pytest.mark.parametrize("machine", ["dgx1", "hypercube:3", "switch:4x2", "ring:4", "rail:4x4"])
def test_everyone_has_everything_exactly_once(machine: str) -> None:
    problem = merge_roots(problem_of(machine))
    pricing = RoundPricing(problem)
    ranks = problem.topology.ranks
    assert pricing.plans
    for plan in pricing.plans:
        has = [1 << rank for rank in range(ranks)]
        for number in plan.reduce_rounds:
            before = list(has)
            for u, v in (problem.edges[link] for link in pricing.rounds[number]):
                assert not has[v] & before[u]
                has[v] |= before[u]
        for number in plan.broadcast_rounds:
            for u, v in (problem.edges[link] for link in pricing.rounds[number]):
                assert has[u] == (1 << ranks) - 1
                has[v] = has[u]
        assert has == [(1 << ranks) - 1] * ranks


@pytest.mark.parametrize("machine", ["z52", "mesh:3x3", "ring:3"])
def test_none_are_told_where_lines_are_not_linked(machine: str) -> None:
    """A ring of eight contains no exchange, and for three ranks trees are complete."""
    problem = merge_roots(problem_of(machine))
    slots = rounded_slots(problem.alpha, Fraction(1, 2), 6)
    pricing = RoundPricing(problem)
    assert pricing.plans == []
    assert pricing.cheapest(np.ones(slots.arrive.shape, np.int64), slots.arrive)[1] == frozenset()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("machine", ["ring:4", "switch:4x2"])
def test_cheapest_is_that_of_all_plans_and_slots(machine: str, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the same each time
    problem = merge_roots(problem_of(machine))
    alpha = tuple(rng.choice([Fraction(1, 2), Fraction(1)]) for _ in problem.alpha)
    problem = replace(problem, alpha=alpha)
    arrive = rounded_slots(alpha, Fraction(1, 2), 7).arrive
    cost = np.array([[rng.choice([0, 1, 2, 5]) for _ in range(7)] for _ in alpha])
    pricing = RoundPricing(problem)
    price, tree = pricing.cheapest(cost, arrive)
    assert price == sum(cost[use] for use in tree)
    least = inf
    for plan in pricing.plans:
        for at in product(range(7), repeat=len(plan.reduce_rounds + plan.broadcast_rounds)):
            come, paid = 0, 0
            for number, k in zip(plan.reduce_rounds + plan.broadcast_rounds, at, strict=True):
                there = [int(arrive[link, k]) for link in pricing.rounds[number]]
                if k < come or min(there) < 0:
                    break
                come = max(there)
                paid += sum(int(cost[link, k]) for link in pricing.rounds[number])
            else:
                least = min(least, paid)
    assert price == least


@pytest.mark.parametrize(
    ("machine", "most"), [("torus:4x4", 1.01), ("hypercube:3", 1.01), ("dgx1", 1.05)]
)
def test_few_alphas_meet_the_bound(machine: str, most: float) -> None:
    """Trees to a rank or two take 5.0, 3.7 and 2.8 us: 1.45, 1.26 and 1.2 times the bound."""
    topology = resolve_topology(machine)
    outcome = registry.plan(
        TIME_LIMITS, Request(topology, named_spec("allreduce", topology.ranks), 64_000)
    )
    best = outcome.best if isinstance(outcome, Inconclusive) else outcome
    assert isinstance(best, Solution)
    assert float(best.objective) <= most * float(best.bound.value)
    assert isinstance(best.plan, Schedule)
    assert executes_correctly(best.plan)


@pytest.mark.parametrize("machine", ["ring:4", "switch:4x2", "hypercube:3"])
@pytest.mark.parametrize("size", [100, 64_000])
def test_schedules_are_right_and_the_same_each_time(machine: str, size: int) -> None:
    topology = resolve_topology(machine)
    request = Request(topology, named_spec("allreduce", topology.ranks), size)
    floor = completion_time_bound(topology, request.spec).us(size)
    told = (floor, 0.01, 0.5, inf, lambda _low, _high: None)
    one, two = (pack_allreduce(request, None, *told)[0] for _ in range(2))
    assert one is not None
    assert two is not None
    assert isinstance(one.plan, Schedule)
    assert executes_correctly(one.plan)
    assert one.plan == two.plan


def exchanging(machine: str, rounds: int) -> tuple[ScheduleBuilder, list[int]]:
    """Return the placement of rounds, and the patterns of so many in which all exchange."""
    topology = resolve_topology(machine)
    spec = named_spec("allreduce", topology.ranks)
    problem = build_flow_problem(topology, dual_of(spec), 1000)
    pricing = RoundPricing(merge_roots(problem))
    slots = rounded_slots(problem.alpha, problem.alpha[0], rounds)
    _, tree = pricing.cheapest(np.ones(slots.arrive.shape, np.int64), slots.arrive)
    doubled, ways = build_two_phase_problem(problem, pricing)
    sends = separate_phases(problem, slots, tree, pricing)
    placing = ScheduleBuilder(
        doubled,
        dual_of(spec),
        (PlacementDirection(topology, ways.machine_routes),),
        lambda: False,
        ways,
    )
    return placing, [way for way, _ in sorted(sends)]


@pytest.mark.parametrize(
    ("machine", "rounds", "mixes"), [("full:4", 1, True), ("ring:4", 2, False)]
)
def test_partially_shared_exchanges_are_skipped(machine: str, rounds: int, mixes: bool) -> None:
    """In an exchange of several, a late rank would forward data that the others already have.

    In an exchange of two it sends the sum, which replaces the former content.
    """
    placing, ways = exchanging(machine, rounds)
    first, *others = [PlacedSend(0, 10, 0, way) for way in ways]
    assert len(ways) == {"full:4": 12, "ring:4": 8}[machine]
    assert not placing._has_mixed_exchange([first, *others])
    assert not placing._has_mixed_exchange([first._replace(start=9, arrival=19), *others])
    assert placing._has_mixed_exchange([first._replace(start=10, arrival=20), *others]) == mixes
