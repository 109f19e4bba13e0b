"""Trees of routes as they grow, and where a search over sketches ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.clock import Clock
from sccl.core.outcome import Solution
from sccl.errors import UnreachableError
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Notify, Request
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import SchedulingProblem, build_problem
from sccl.synth.scheduling.sketch import MachineSketch
from sccl.synth.sketches.sketch import RelayRules, Sketch
from sccl.synth.taccl import greedy_routes, phase_steps, planner
from sccl.synth.taccl.greedy_routes import GrowthRule, find_greedy_routes, relaxed_makespan
from sccl.synth.taccl.options import Options
from sccl.synth.taccl.routing import allowed_routes
from sccl.synth.taccl.suggest import Suggestions
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.sketched import resource_loads
from tests.kit.strategies import specs, topologies, unequal

TACCL = registry.load("taccl")


def pairs_of(action: SymmetryAction, ways: greedy_routes.ChunkRoutes) -> list[tuple[int, int]]:
    return [
        (chunks[chunk], images[way])
        for chunk, own in ways.items()
        for way in own
        for chunks, images in zip(action.chunks, action.routes, strict=True)
    ]


def longest(posed: SchedulingProblem, ways: greedy_routes.ChunkRoutes) -> int:
    """Return the units of the longest way, each tree being walked from its source."""
    latest = 0
    for chunk, own in ways.items():
        there = dict.fromkeys(posed.holders[chunk], 0)
        left = set(own)
        while left:
            way = next(way for way in left if posed.src[way] in there)
            assert posed.dst[way] not in there
            there[posed.dst[way]] = there[posed.src[way]] + posed.costs_of_chunk(chunk)[way]
            left.discard(way)
        assert posed.wanted[chunk] <= set(there)
        leaves = set(there) - {posed.src[way] for way in own} - posed.holders[chunk]
        assert leaves <= posed.wanted[chunk]
        latest = max(latest, *there.values())
    return latest


@settings(max_examples=times(25))
@given(st.data())
def test_all_kinds_of_trees_are_trees_of_the_time_that_is_reported(data: st.DataObject) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=5))
    spec = data.draw(specs(topology.ranks).filter(lambda spec: not spec.combining))
    posed = build_problem(topology, spec.at(spec.unit), Clock.from_topology(topology, 1000))
    action = SymmetryAction.identity(posed)
    chosen = {chunk: allowed_routes(posed, chunk) for chunk in action.representatives}
    times_of = []
    for growth in GrowthRule:
        trees = greedy_routes._TreeGrower(posed, action)
        ways = {
            chunk: trees.grow_tree(chunk, chosen[chunk], growth) for chunk in action.representatives
        }
        assert all(set(own) <= chosen[chunk] for chunk, own in ways.items())
        loads = resource_loads(posed, pairs_of(action, ways))
        time = max(int(loads.max(initial=0)), longest(posed, ways))
        assert relaxed_makespan(posed, action, ways) == time
        if not posed.is_multicast:  # a branch to no destination is removed
            counted = [load > 0 for load in trees.loads]
            assert counted == [bool(load) for load in loads]
        times_of.append(time)
    assert relaxed_makespan(posed, action, find_greedy_routes(posed, action, chosen)) in times_of


def test_branches_of_one_tree_keep_out_of_one_anothers_way() -> None:
    """All chunks are images of one, so that the tree has nothing but itself to look at."""
    topology = resolve_topology("dgx2:4")
    hints = Suggestions(topology, 10**6, is_symmetric=True)
    sketch = Sketch("all", hints.nodes, rotations=hints.rotations(None)[0])
    sketched = MachineSketch(sketch, topology)
    posed = build_problem(
        topology,
        named_spec("allgather", 64).at(1),
        Clock.from_topology(topology, 10**6),
        sketched=sketched,
    )
    action = SymmetryAction.of(posed, sketched.group)
    chosen = {chunk: allowed_routes(posed, chunk) for chunk in action.representatives}
    time = relaxed_makespan(posed, action, find_greedy_routes(posed, action, chosen))
    trees = greedy_routes._TreeGrower(posed, action)
    alone = {c: trees.grow_tree(c, own, GrowthRule.NEAREST) for c, own in chosen.items()}
    assert time * 3 < relaxed_makespan(posed, action, alone)
    pairs = pairs_of(action, find_greedy_routes(posed, action, chosen))
    assert len(pairs) == len(set(pairs)) == 64 * 63


def test_each_chunk_is_looked_at_whether_it_can_come_there() -> None:
    """Also where one with the same source, which is looked at first, can."""
    relays = RelayRules(((0, (1,)),), leaves_by=((0, (0,)),))
    within = ((0, ()),)
    with pytest.raises(UnreachableError, match="cannot reach rank"):
        planner.SketchPlan(
            Request(resolve_topology("ndv2x2"), named_spec("alltoall", 16), 1000),
            Sketch("shut", 2, intranode_links=within, relays=relays),
            TACCL.Options(),
            lambda _: None,
        )


def asked_for(monkeypatch: pytest.MonkeyPatch, **told: object) -> tuple[list[Sketch], Solution]:
    """Plan on a small pod, and return the examined sketches and the plan."""
    sketches: list[Sketch] = []

    made = planner.SketchPlan

    def within(
        request: Request, sketch: Sketch, options: Options, notify: Notify
    ) -> planner.SketchPlan:
        sketches.append(sketch)
        return made(request, sketch, options, notify)

    monkeypatch.setattr(planner, "SketchPlan", within)
    request = Request(resolve_topology("rail:4x4"), named_spec("allgather", 16), 10**5)
    found = registry.plan(TACCL, request, TACCL.Options(**told), Effort(units=0.2))
    assert isinstance(found, Solution)
    return sketches, found


def test_sketches_that_come_to_the_same_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sketches, _ = asked_for(monkeypatch, chunks=1)
    plain = [replace(sketch, name="") for sketch in sketches]
    assert len(plain) == len(set(plain))
    assert {sketch.chunks for sketch in sketches} == {1}


def test_huge_machines_are_done_near_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    sketches, found = asked_for(monkeypatch, chunks=1)
    assert len(sketches) > 1
    monkeypatch.setattr(phase_steps, "MAX_NEIGHBORHOOD_SIZE", 0)
    monkeypatch.setattr(phase_steps, "NEAR_GAP", 100)
    monkeypatch.setattr(planner, "NEAR_GAP", 100)
    few, quickly = asked_for(monkeypatch, chunks=1)
    assert len(few) == 1
    assert quickly.objective >= found.objective
