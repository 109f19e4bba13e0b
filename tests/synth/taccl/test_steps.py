"""TACCL: within a sketch, valid, no faster than its bound, each step against full enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Link, Topology
from sccl.errors import CollectiveError, ParameterError, TopologyError, UnreachableError
from sccl.judge import violations
from sccl.sim import replay
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.scheduling import bounds
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import SchedulingProblem, build_problem
from sccl.synth.scheduling.sketch import MachineSketch
from sccl.synth.sketches.sketch import (
    Hyperedge,
    HyperedgePolicy,
    RelayPattern,
    RelayRules,
    Rotation,
    Sketch,
)
from sccl.synth.sketches.sketch_files import sketch_to_wire
from sccl.synth.taccl import phase_steps, planner
from sccl.synth.taccl.batches import Batch, BatchCosts, single_batches
from sccl.synth.taccl.contiguity import optimize_contiguity
from sccl.synth.taccl.ordering import LINK_ORDERS, order_transfers
from sccl.synth.taccl.parallel_schedule import schedule_in_parallel
from sccl.synth.taccl.routing import allowed_routes, shortest_routes, solve_routing
from sccl.synth.taccl.suggest import Suggestions
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.schedule_executor import executes_correctly
from tests.kit.sketched import nodes_of, resource_loads
from tests.kit.small_budgets import small_tacos_budget
from tests.kit.strategies import specs, topologies, unequal

TACCL = registry.load("taccl")


def planned(
    machine: str | Topology,
    collective: str,
    size: int,
    sketch: Sketch | None = None,
    units: float = 0.5,
    **told: object,
) -> Solution:
    topology = resolve_topology(machine) if isinstance(machine, str) else machine
    request = Request(topology, named_spec(collective, topology.ranks), size)
    wire = None if sketch is None else sketch_to_wire(sketch)
    outcome = registry.plan(TACCL, request, TACCL.Options(sketch=wire, **told), Effort(units=units))
    found = outcome.best if isinstance(outcome, Inconclusive) else outcome
    assert isinstance(found, Solution)
    return found


@settings(max_examples=times(20))
@given(st.data())
@small_tacos_budget()
def test_schedules_are_right_and_no_faster_than_their_bound(data: st.DataObject) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=5))
    spec = data.draw(specs(topology.ranks))
    size = data.draw(st.sampled_from([1, 1000, 1 << 20]))
    told = TACCL.Options(
        sketch=sketch_to_wire(Sketch("all", 1)),
        chunks=data.draw(st.sampled_from([1, 2])),
        steps=data.draw(st.sampled_from(["auto", "three"])),
    )
    best = registry.plan(TACCL, Request(topology, spec, size), told, Effort(units=0.3))
    assert isinstance(best, Solution)
    plan = best.plan
    assert isinstance(plan, Schedule)
    assert violations(plan) == []
    assert executes_correctly(plan)
    assert best.bound.value <= best.objective
    assert replay(plan).finish == plan.finish
    assert best.objective == Fraction(plan.finish * plan.tick_ps, 10**6)


@settings(max_examples=times(25, by_day=6))
@given(st.composite(nodes_of)(), st.sampled_from(["allgather", "alltoall", "reducescatter"]))
@small_tacos_budget()
def test_plans_keep_to_their_sketch(drawn: tuple[Topology, Sketch], collective: str) -> None:
    topology, sketch = drawn
    assert sketch.relays is not None
    local = topology.ranks // sketch.nodes
    found = planned(topology, collective, 4096 * topology.ranks, sketch, units=0.2)
    plan = found.plan
    assert isinstance(plan, Schedule)
    assert violations(plan) == []
    reduces = collective == "reducescatter"
    for chunk, link in zip(plan.chunk.tolist(), plan.link.tolist(), strict=True):
        src, dst = topology.links[link].edge
        if src // local == dst // local:
            continue
        assert dst % local in sketch.relays.receivers(src % local, local)
        ends = plan.collective.destinations(chunk) if reduces else plan.collective.holders(chunk)
        by = sketch.relays.senders(min(ends) % local)
        if by is not None:
            assert src % local in by


def tiny(chunks: int, model: str = "occupies") -> tuple[SchedulingProblem, list[tuple[int, int]]]:
    """Return a line of three ranks, all of whose chunks go from the first to the last."""
    links = (Link(0, 1, 1, 3.0, 1.0), Link(1, 2, 1, 1.0, 2.0))
    topology = Topology("line", 3, links, 1.0, 1.0)
    collective = named_spec("broadcast", 3).at(chunks)
    clock = Clock.from_topology(topology, 1000, AlphaModel(model))
    posed = build_problem(topology, collective, clock)
    return posed, [(chunk, way) for chunk in range(chunks) for way in (0, 1)]


def partitions(count: int) -> list[list[int]]:
    """Return all ways to cut a row of so many into runs, as their lengths."""
    if not count:
        return [[]]
    return [[n, *rest] for n in range(1, count + 1) for rest in partitions(count - n)]


def in_runs(posed: SchedulingProblem, first: list[int], then: list[int]) -> int:
    """Return the units after which all has come, of runs on both links of the line."""
    costs, at, there = BatchCosts(posed), 0, list[int]()
    for run in first:
        at += costs.cost(0, run)
        there += [at] * run
    at = place = 0
    for run in then:
        at = max(at, there[place + run - 1]) + costs.cost(1, run)
        place += run
    return at


@pytest.mark.parametrize("chunks", [1, 2, 3, 5])
def test_chunks_go_together_as_in_the_best_of_all_cuts(chunks: int) -> None:
    posed, routes = tiny(chunks)
    best = min(in_runs(posed, a, b) for a, b in product(partitions(chunks), repeat=2))
    begin = single_batches(order_transfers(posed, routes, LINK_ORDERS[0]))
    found, _ = optimize_contiguity(posed, begin, 0, Effort(units=5.0))
    assert BatchCosts(posed).finish(found) == best
    by_filling = min(
        BatchCosts(posed).finish(schedule_in_parallel(posed, routes, order, most))
        for order in LINK_ORDERS
        for most in (1, 2, 3, 5)
    )
    assert best <= by_filling <= BatchCosts(posed).finish(begin)


def test_one_alpha_is_paid_where_all_links_cost_alike() -> None:
    found = planned("line:2", "broadcast", 4096, chunks=4, alpha="occupies")
    plan = found.plan
    assert isinstance(plan, Schedule)
    assert found.is_optimal
    assert plan.finish == plan.clock.busy_combined(0, range(4))


def test_bounds_say_whether_chunks_may_be_sent_together() -> None:
    alone = planned("line:2", "broadcast", 4096, chunks=4, alpha="occupies", together=False)
    assert alone.is_optimal
    assert alone.bound.scope == "4 chunks of 1024 bytes, each sent separately"
    assert "itself" not in planned("line:2", "broadcast", 4096, chunks=4).bound.scope


@pytest.mark.parametrize("collective", ["alltoall", "allgather", "reducescatter", "allreduce"])
def test_bounds_are_about_the_machine_and_not_what_a_sketch_leaves_of_it(collective: str) -> None:
    shares = Sketch(
        "shares", 2, relays=RelayRules(RelayPattern.FULLY_CONNECTED, shares=((0, 4), (1, 4)))
    )
    slow = planned("full:4", collective, 1 << 20, shares, units=0.1)
    fast = planned("full:4", collective, 1 << 20, Sketch("all", 2), units=0.1)
    assert slow.bound.scope == fast.bound.scope
    assert slow.bound.value == fast.bound.value
    assert slow.objective > fast.objective


def test_travelling_alpha_joins_no_sends() -> None:
    posed, routes = tiny(3, "travels")
    assert not any(BatchCosts(posed).can_batch)
    assert all(
        len(b.chunks) == 1
        for order in LINK_ORDERS
        for b in schedule_in_parallel(posed, routes, order, 8)
    )


@settings(max_examples=times(25))
@given(st.data())
def test_orders_of_routes_are_right_and_take_no_less_than_their_loads(
    data: st.DataObject,
) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=5))
    collective = named_spec(data.draw(st.sampled_from(["allgather", "alltoall"])), topology.ranks)
    model = AlphaModel(data.draw(st.sampled_from(["travels", "occupies"])))
    clock = Clock.from_topology(topology, 1000, model)
    posed = build_problem(topology, collective.at(collective.unit), clock)
    action = SymmetryAction.identity(posed)
    ways = data.draw(st.sampled_from([allowed_routes, shortest_routes]))
    chosen = {chunk: ways(posed, chunk) for chunk in action.representatives}
    found = solve_routing(posed, action, chosen, (), Effort(units=1.0))
    assert found is not None
    assert found.lower_bound <= found.relaxed_time
    pairs = found.all_routes(action)
    assert int(resource_loads(posed, pairs).max()) <= found.relaxed_time
    for order in LINK_ORDERS:
        sends = order_transfers(posed, pairs, order)
        assert sorted((s.chunk, s.route) for s in sends) == sorted(pairs)
        assert posed.finish(sends) >= found.relaxed_time
        there = {(c, r): 0 for c, own in enumerate(posed.holders) for r in own}
        free = [0] * len(topology.links)
        for s in sends:
            assert there[s.chunk, posed.src[s.route]] <= s.start
            there[s.chunk, posed.dst[s.route]] = posed.arrival(s)
            if not topology.budgets and not topology.switches:
                assert free[s.route] <= s.start
                free[s.route] = s.start + posed.route_uses[s.route][0].busy


def test_images_of_routes_are_routes() -> None:
    topology = resolve_topology("ndv2x2")
    sketch = Sketch("half", 2, relays=RelayRules(((0, (1,)),)), rotations=(Rotation(8, 16),))
    sketched = MachineSketch(sketch, topology)
    posed = build_problem(
        topology,
        named_spec("allgather", 16).at(1),
        Clock.from_topology(topology, 1000),
        sketched=sketched,
    )
    action = SymmetryAction.of(posed, sketched.group)
    assert len(action.representatives) == 8
    chosen = {chunk: allowed_routes(posed, chunk) for chunk in action.representatives}
    found = solve_routing(posed, action, chosen, (), Effort(units=2.0))
    assert found is not None
    pairs = set(found.all_routes(action))
    turned = {(action.chunks[1][chunk], action.routes[1][way]) for chunk, way in pairs}
    assert turned == pairs


@pytest.mark.parametrize(
    ("policy", "used"), [(HyperedgePolicy.MIN, {4}), (HyperedgePolicy.MAX, {12})]
)
def test_policies_say_how_many_connections_are_used(
    policy: HyperedgePolicy, used: set[int]
) -> None:
    """The capacity of a port bounds the time, so a ring is as good as a full mesh."""
    topology = resolve_topology("switch:4@10GB+0.01us")
    sketch = Sketch("switch", 1, hyperedges=(Hyperedge((0, 1, 2, 3), policy),))
    sketched = MachineSketch(sketch, topology)
    clock = Clock.from_topology(topology, 1000)
    posed = build_problem(topology, named_spec("allgather", 4).at(4), clock, sketched=sketched)
    action = SymmetryAction.identity(posed)
    chosen = {chunk: allowed_routes(posed, chunk) for chunk in action.representatives}
    edges = list(sketched.hyperedge_routes(posed.src, posed.dst))
    assert [sorted(own) for _, own in edges] == [list(range(12))]
    found = solve_routing(posed, action, chosen, edges, Effort(units=4.0))
    assert found is not None
    assert {len({way for _, way in found.all_routes(action)})} == used


@pytest.mark.parametrize(
    ("topology", "nodes", "words"),
    [
        ("ndv2x2", 2, {"any"}),
        ("ndv2x4", 4, {"any"}),
        ("dgx2:2", 2, {"any", "spread"}),
        ("rail:4x4", 4, {"any", "own", "direct"}),
        ("dgx1", 1, {"any"}),
        ("torus:4x4", 1, {"any"}),
    ],
)
def test_suggested_sketches_match_machines(topology: str, nodes: int, words: set[str]) -> None:
    hints = Suggestions(resolve_topology(topology), 10**6, is_symmetric=True)
    assert hints.nodes == nodes
    assert {word for word, _ in hints.relays()} <= words


def test_sketch_that_writes_itself_is_no_worse_than_one_by_hand() -> None:
    by_hand = Sketch("hand", 2, relays=RelayRules(((0, (1,)),)), rotations=(Rotation(8, 16),))
    one = planned("ndv2x2", "allgather", 10**6 // 16, by_hand, units=0.5)
    own = planned("ndv2x2", "allgather", 10**6 // 16, units=0.5)
    assert own.objective < one.objective


def test_collective_with_a_root_has_no_rotations() -> None:
    sketch = Sketch("turned", 2, rotations=(Rotation(8, 16),))
    with pytest.raises(CollectiveError, match="symmetry_offsets: broadcast is not the same"):
        planned("ndv2x2", "broadcast", 1000, sketch)


def own_first_machine() -> tuple[Topology, Sketch]:
    """Return two nodes of three, of which own chunks last would be faster."""
    inside = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0)]
    links = [Link(n + a, n + b, 1, 0.5, 40.0) for n in (0, 3) for a, b in inside]
    across = [(1, 0), (1, 1), (1, 2), (2, 2)]
    links += [Link(n + a, 3 - n + b, 1, 1.0, 5.0) for n in (0, 3) for a, b in across]
    relays = RelayRules(((1, (1, 2)), (2, (2,))), local_first=True)
    sketch = Sketch("own", 2, chunks=2, relays=relays, rotations=(Rotation(3, 6),))
    return Topology("nodes", 6, tuple(links), 1.0, 10.0), sketch


@pytest.mark.parametrize("alpha", ["travels", "occupies"])
def test_own_chunks_leave_first_where_that_is_asked_for(alpha: str) -> None:
    topology, sketch = own_first_machine()
    plan = planned(topology, "alltoall", 98304, sketch, alpha=alpha).plan
    assert isinstance(plan, Schedule)
    for number, link in enumerate(topology.links):
        if link.src // 3 == link.dst // 3:
            continue
        rows = np.flatnonzero(plan.link == number)
        own = [link.src in plan.collective.holders(int(c)) for c in plan.chunk[rows]]
        starts = plan.start[rows].tolist()
        owns = [s for s, one in zip(starts, own, strict=True) if one]
        others = [s for s, one in zip(starts, own, strict=True) if not one]
        assert max(owns, default=0) <= min(others, default=max(owns, default=0))


def test_orders_from_the_end_do_not_let_own_chunks_leave_first() -> None:
    topology, sketch = own_first_machine()
    with pytest.raises(ParameterError, match="enforce_ordering"):
        planned(topology, "alltoall", 98304, sketch, order="soonest-end")


def test_look_that_is_interrupted_keeps_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> tuple[Batch, ...]:
        raise KeyboardInterrupt

    monkeypatch.setattr(phase_steps, "schedule_in_parallel", interrupted)  # after the first order
    request = Request(resolve_topology("dgx1"), named_spec("allgather", 8), 10**6)
    outcome = registry.plan(TACCL, request, TACCL.Options(alpha="occupies"))
    assert isinstance(outcome, Inconclusive)
    assert str(outcome.reason) == "interrupted"
    assert outcome.best is not None


@pytest.mark.parametrize("sketch", [None, Sketch("all", 1)])
@pytest.mark.parametrize("collective", ["allgather", "allreduce"])
def test_there_is_something_to_keep_before_anything_is_bounded(
    collective: str, sketch: Sketch | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> Fraction:
        raise KeyboardInterrupt

    monkeypatch.setattr(planner, "any_chunks_bound", interrupted)
    request = Request(resolve_topology("dgx1"), named_spec(collective, 8), 8 * 10**5)
    told = None if sketch is None else sketch_to_wire(sketch)
    outcome = registry.plan(TACCL, request, TACCL.Options(sketch=told))
    assert isinstance(outcome, Inconclusive)
    assert str(outcome.reason) == "interrupted"
    assert outcome.best is not None
    assert isinstance(outcome.best.plan, Schedule)
    assert executes_correctly(outcome.best.plan)
    assert 0 < outcome.best.bound.value <= outcome.best.objective


def test_blocked_chunk_is_reported() -> None:
    sketch = Sketch("far", 2, relays=RelayRules(RelayPattern.FULLY_CONNECTED))
    with pytest.raises(TopologyError, match="internode_conn is 'fully-connected': no link"):
        planned("ndv2x2", "allgather", 1000, sketch)
    within = tuple((n, ()) for n in range(8))
    shut = Sketch("shut", 2, intranode_links=within, relays=RelayRules(((0, (1,)),)))
    with pytest.raises(UnreachableError, match="cannot reach rank 1"):
        planned("ndv2x2", "allgather", 1000, shut)


def test_batches_cost_one_alpha() -> None:
    posed, _ = tiny(3)
    costs = BatchCosts(posed)
    us = 10**6 // posed.unit
    assert costs.cost(0, 1) == (3 + 1) * us
    assert costs.cost(0, 3) == (3 + 3) * us
    assert costs.arrival(Batch(5, 0, (0, 1))) == 5 + (3 + 2) * us


@pytest.mark.parametrize(("machine", "times_bounded"), [("ring:4", 1), ("ndv2x2", 2)])
def test_phases_on_machines_alike_are_bounded_once(
    machine: str, times_bounded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With symmetric links. For two NDv2 the links between nodes are not symmetric."""
    bounded = []

    def least_of(*asked: object, **how: object) -> int:
        bounded.append(asked[0])
        return bounds.compute_lower_bound(*asked, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(phase_steps, "compute_lower_bound", least_of)
    size = 1 << 12
    found = planned(machine, "allreduce", size, Sketch("all", 1), units=0.1, steps="three")
    assert len(bounded) == times_bounded
    assert found.bound.value <= found.objective
