"""Trees of routes as they grow, and where a search over sketches ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named
from sccl.core.clock import Clock
from sccl.core.outcome import Found
from sccl.core.sketch import Relays, Sketch
from sccl.errors import UnreachableError
from sccl.solvers.effort import Effort
from sccl.synth import registry
from sccl.synth.contract import Notify, Request
from sccl.synth.intervals.model import Action
from sccl.synth.intervals.posed import Posed, pose
from sccl.synth.intervals.sketched import Sketched
from sccl.synth.taccl import growing, phase, plans
from sccl.synth.taccl.automatic import Suggestions
from sccl.synth.taccl.growing import GrowsBy, grown, relaxed
from sccl.synth.taccl.options import Options
from sccl.synth.taccl.routing import loads_of, open_ways
from sccl.topo import resolve
from tests.kit.nightly import times
from tests.kit.strategies import specs, topologies, unequal

TACCL = registry.load("taccl")


def pairs_of(action: Action, ways: growing.Ways) -> list[tuple[int, int]]:
    return [
        (chunks[chunk], images[way])
        for chunk, own in ways.items()
        for way in own
        for chunks, images in zip(action.chunks, action.ways, strict=True)
    ]


def longest(posed: Posed, ways: growing.Ways) -> int:
    """Return the units of the longest way, each tree being walked from its source."""
    latest = 0
    for chunk, own in ways.items():
        there = dict.fromkeys(posed.holders[chunk], 0)
        left = set(own)
        while left:
            way = next(way for way in left if posed.src[way] in there)
            assert posed.dst[way] not in there
            there[posed.dst[way]] = there[posed.src[way]] + posed.cost_of(chunk)[way]
            left.discard(way)
        assert posed.wanted[chunk] <= set(there)
        leaves = set(there) - {posed.src[way] for way in own} - posed.holders[chunk]
        assert leaves <= posed.wanted[chunk]
        latest = max(latest, *there.values())
    return latest


@settings(max_examples=times(25))
@given(st.data())
def test_all_kinds_of_trees_are_trees_of_the_time_that_is_said(data: st.DataObject) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=5))
    spec = data.draw(specs(topology.ranks).filter(lambda spec: not spec.combining))
    posed = pose(topology, spec.at(spec.unit), Clock.of(topology, 1000))
    action = Action.alone(posed)
    chosen = {chunk: open_ways(posed, chunk) for chunk in action.firsts}
    times_of = []
    for growth in GrowsBy:
        trees = growing._Growing(posed, action)
        ways = {chunk: trees.tree(chunk, chosen[chunk], growth) for chunk in action.firsts}
        assert all(set(own) <= chosen[chunk] for chunk, own in ways.items())
        loads = loads_of(posed, pairs_of(action, ways))
        time = max(int(loads.max(initial=0)), longest(posed, ways))
        assert relaxed(posed, action, ways) == time
        if not posed.copied:  # what leads to nobody is taken back
            counted = [load > 0 for load in trees.loads]
            assert counted == [bool(load) for load in loads]
        times_of.append(time)
    assert relaxed(posed, action, grown(posed, action, chosen)) in times_of


def test_branches_of_one_tree_keep_out_of_one_anothers_way() -> None:
    """All chunks are images of one, so that the tree has nothing but itself to look at."""
    topology = resolve("dgx2:4")
    hints = Suggestions(topology, 10**6, symmetric=True)
    sketch = Sketch("all", hints.nodes, rotations=hints.rotations(None)[0])
    sketched = Sketched(sketch, topology)
    posed = pose(
        topology, named("allgather", 64).at(1), Clock.of(topology, 10**6), sketched=sketched
    )
    action = Action.of(posed, sketched.group)
    chosen = {chunk: open_ways(posed, chunk) for chunk in action.firsts}
    time = relaxed(posed, action, grown(posed, action, chosen))
    trees = growing._Growing(posed, action)
    alone = {c: trees.tree(c, own, GrowsBy.NEAREST) for c, own in chosen.items()}
    assert time * 3 < relaxed(posed, action, alone)
    pairs = pairs_of(action, grown(posed, action, chosen))
    assert len(pairs) == len(set(pairs)) == 64 * 63


def test_each_chunk_is_looked_at_whether_it_can_come_there() -> None:
    """Also where one with the same source, which is looked at first, can."""
    relays = Relays(((0, (1,)),), leaves_by=((0, (0,)),))
    within = ((0, ()),)
    with pytest.raises(UnreachableError, match="cannot come to rank"):
        plans.WithinSketch(
            Request(resolve("ndv2x2"), named("alltoall", 16), 1000),
            Sketch("shut", 2, within=within, relays=relays),
            TACCL.Options(),
            lambda _: None,
        )


def asked_for(monkeypatch: pytest.MonkeyPatch, **told: object) -> tuple[list[Sketch], Found]:
    """Plan on a small pod; return which sketches were looked at, and what was found."""
    sketches: list[Sketch] = []

    made = plans.WithinSketch

    def within(
        request: Request, sketch: Sketch, options: Options, notify: Notify
    ) -> plans.WithinSketch:
        sketches.append(sketch)
        return made(request, sketch, options, notify)

    monkeypatch.setattr(plans, "WithinSketch", within)
    request = Request(resolve("rail:4x4"), named("allgather", 16), 10**5)
    found = registry.plan(TACCL, request, TACCL.Options(**told), Effort(units=0.2))
    assert isinstance(found, Found)
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
    monkeypatch.setattr(phase, "MOST_JOINED", 0)
    monkeypatch.setattr(phase, "NEAR", 100)
    monkeypatch.setattr(plans, "NEAR", 100)
    few, quickly = asked_for(monkeypatch, chunks=1)
    assert len(few) == 1
    assert quickly.bound.attained >= found.bound.attained
