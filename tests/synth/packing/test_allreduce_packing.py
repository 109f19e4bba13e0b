"""Allreduce as one packing of trees up and down: they are the cheapest, and schedules are right."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import dual_of, named_spec
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Link, Topology
from sccl.judge import violations
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.packing.by_time.allreduce_packing import (
    AllreducePackingSearch,
    is_tree_allreduce,
    merge_roots,
    pack_allreduce,
)
from sccl.synth.packing.flow_problem import FlowProblem, build_flow_problem
from sccl.synth.packing.price_pairs import TreePairPricing, reverse_costs
from sccl.synth.packing.slots import rounded_slots, variable_slots
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.schedule_executor import executes_correctly
from tests.kit.small_budgets import small_tacos_budget
from tests.kit.strategies import topologies, unequal

FLUID = registry.load("limits-time")


def asked(machine: str | Topology, size: int) -> Request:
    topology = resolve_topology(machine) if isinstance(machine, str) else machine
    return Request(topology, named_spec("allreduce", topology.ranks), size)


def by_trees(request: Request) -> Solution:
    """Return the plan of trees up and down, without phases."""
    floor = completion_time_bound(request.topology, request.spec).us(request.size_bytes)
    told = (floor, 0.01, 0.5, inf, lambda _low, _high: None)
    found, interrupted = pack_allreduce(request, None, *told)
    assert found is not None
    assert not interrupted
    assert isinstance(found.plan, Schedule)
    return found


@pytest.mark.parametrize(
    ("machine", "size", "phases"),
    [("dgx1", 1_000_000, 13.067), ("z52", 1_000_000, 33.807), ("switch:4x2", 64_000, 3.32)],
)
def test_all_links_are_busy_until_an_alpha_before_the_end(
    machine: str, size: int, phases: float
) -> None:
    """Two phases leave links idle for an alpha each, but re-rooted trees meet the bound."""
    best = registry.plan(FLUID, asked(machine, size), FLUID.Options(gap=0.005))
    assert isinstance(best, Solution)
    assert float(best.objective) < 1.005 * float(best.bound.value) < phases
    assert isinstance(best.plan, Schedule)
    assert executes_correctly(best.plan)


def test_two_ranks_exchange_where_few_bytes_turn() -> None:
    """On a DGX-1 everything arrives in 3 alphas. A single rank takes 4 of them, and 2.8 us."""
    best = registry.plan(FLUID, asked("dgx1", 64_000))
    assert isinstance(best, Solution)
    assert float(best.objective) < 2.8
    assert isinstance(best.plan, Schedule)
    assert executes_correctly(best.plan)


@settings(max_examples=times(25, by_day=4))
@given(st.data())
@small_tacos_budget()
def test_schedules_are_right_whatever_the_machine(data: st.DataObject) -> None:
    machine = data.draw(unequal() | topologies(max_ranks=5))
    links = tuple(replace(link, alpha_us=link.alpha_us or 0.5) for link in machine.links)
    request = asked(replace(machine, links=links), data.draw(st.sampled_from([1, 1000, 1 << 20])))
    assert is_tree_allreduce(request.topology, request.spec)
    one, two = by_trees(request), by_trees(request)
    assert isinstance(one.plan, Schedule)
    assert violations(one.plan) == []
    assert executes_correctly(one.plan)
    assert isinstance(two.plan, Schedule)
    assert [getattr(one.plan, name).tolist() for name in ("start", "chunk", "link")] == [
        getattr(two.plan, name).tolist() for name in ("start", "chunk", "link")
    ]


@pytest.mark.parametrize("seed", range(6))
def test_cheapest_trees_are_those_of_all_that_turn(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the same each time
    edges = [(u, v) for u in range(3) for v in range(3) if u != v]
    some = sorted(rng.sample(edges, 5)) if seed % 2 else edges  # all reach all over any five
    alphas = [rng.choice([0.5, 1.0]) for _ in some]
    links = tuple(Link(u, v, 1, alpha, 1.0) for (u, v), alpha in zip(some, alphas, strict=True))
    topology = Topology("three", 3, links, 1.0, 1.0)
    problem = merge_roots(build_flow_problem(topology, dual_of(named_spec("allreduce", 3)), 3000))
    slots = rounded_slots(problem.alpha, Fraction(1, 2), 5)
    prices = np.array([[rng.choice([0.0, 1.0, 2.0, 5.0]) for _ in range(5)] for _ in some])
    ((price, tree),) = TreePairPricing(problem).cheapest(prices, slots.arrive)
    assert price == pytest.approx(sum(prices[use] for use in tree))
    assert price == pytest.approx(min(_all_prices(problem, prices, slots.arrive.tolist())))


Uses = tuple[tuple[int, int], ...]


def _all_prices(
    problem: FlowProblem, prices: np.ndarray, arrive: list[list[int]]
) -> Iterator[float]:
    """Yield the costs of all trees into and out of each rank or exchanging pair, one by one."""
    count = len(arrive[0])
    every = [(e, k) for e in range(len(arrive)) for k in range(count) if arrive[e][k] >= 0]
    number = {edge: e for e, edge in enumerate(problem.edges)}

    def ups(roots: tuple[int, ...], until: int) -> Iterator[Uses]:
        """Yield a way out for each other rank, such that all is at the roots by a slot."""
        others = [rank for rank in range(3) if rank not in roots]
        for uses in product(*([u for u in every if problem.edges[u[0]][0] == r] for r in others)):
            left = dict(zip(others, (k for _, k in uses), strict=True)) | dict.fromkeys(
                roots, until
            )
            if all(arrive[e][k] <= left[problem.edges[e][1]] for e, k in uses):
                yield uses

    def downs(roots: tuple[int, ...], since: int) -> Iterator[Uses]:
        """Yield a way in for each other rank, such that nothing leaves before it has come."""
        others = [rank for rank in range(3) if rank not in roots]
        for uses in product(*([u for u in every if problem.edges[u[0]][1] == r] for r in others)):
            come = {r: arrive[e][k] for r, (e, k) in zip(others, uses, strict=True)}
            come |= dict.fromkeys(roots, since)
            if all(come[problem.edges[e][0]] <= k for e, k in uses):
                yield uses

    def paid(uses: Uses) -> float:
        return float(sum(prices[use] for use in uses))

    turns = [((r,), (), k, k) for r in range(3) for k in range(count + 1)]
    for (u, v), there_by in number.items():
        if u < v and (v, u) in number:
            pair = (there_by, number[v, u])
            for k in range(count):
                there = [arrive[e][k] for e in pair]
                if min(there) >= 0:
                    exchanged = tuple((e, k) for e in pair)
                    turns.append(((u, v), exchanged, k, max(there)))  # type: ignore[arg-type]
    for roots, exchanged, until, since in turns:
        up = min(map(paid, ups(roots, until)), default=inf)
        yield up + paid(exchanged) + min(map(paid, downs(roots, since)), default=inf)


def test_time_runs_backwards_on_links_that_are_turned_round() -> None:
    """A send in slot 1 of 4 that arrives by slot 3 is, backwards, sent in slot 1 and there by 3."""
    topology = resolve_topology("ring:3")
    problem = build_flow_problem(topology, dual_of(named_spec("allreduce", 3)), 3000)
    slots = variable_slots(problem, (Fraction(0),) * 3, problem.alpha[0] / 2, 4)
    cost = np.arange(slots.arrive.size).reshape(slots.arrive.shape)
    costs = reverse_costs(cost, slots.arrive)
    assert slots.arrive[0].tolist() == [2, 3, 4, -1]
    assert costs.up.arrive[0].tolist() == [2, 3, 4, -1]
    assert costs.slot_of[0].tolist() == [2, 1, 0, -1]
    assert costs.up.cost[0, :3].tolist() == [2, 1, 0]


def test_interrupt_keeps_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: AllreducePackingSearch) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(AllreducePackingSearch, "run", interrupted)
    outcome = registry.plan(
        FLUID, asked("ring:4", 100_000), FLUID.Options(gap=0), Effort(units=0.1)
    )
    assert isinstance(outcome, Inconclusive)
    assert str(outcome.reason) == "interrupted"
    assert isinstance(outcome.best, Solution)


def test_without_alpha_nothing_turns() -> None:
    """Arrivals and forwards may coincide there, so phases serve it."""
    topology = resolve_topology("ring:3")
    links = tuple(replace(link, alpha_us=0.0) for link in topology.links)
    still = replace(topology, links=links)
    assert not is_tree_allreduce(still, named_spec("allreduce", 3))
    assert not is_tree_allreduce(topology, named_spec("allgather", 3))
    assert is_tree_allreduce(topology, named_spec("allreduce", 3))
