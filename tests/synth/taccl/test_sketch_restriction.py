"""Machines restricted by a sketch, for synthesizers without sketches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sccl as api
from sccl.collectives import named_spec
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import ParameterError, TopologyError, UnreachableError
from sccl.judge import violations
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.sketches.sketch import (
    Hyperedge,
    HyperedgePolicy,
    RelayPattern,
    RelayRules,
    Rotation,
    Sketch,
)
from sccl.synth.taccl.sketch_restriction import RestrictedMachine, SketchRestriction
from sccl.topo import resolve_topology
from tests.kit.commands import sccl
from tests.kit.nightly import times
from tests.kit.schedule_executor import executes_correctly
from tests.kit.sketched import nodes_of

ONE = Sketch("one", 2, relays=RelayRules(((0, (1,)),)), rotations=(Rotation(8, 16),))


def planned(by: str, machine: Topology, collective: str, sketch: Sketch) -> Solution:
    synthesizer = registry.load(by)
    request = Request(machine, named_spec(collective, machine.ranks), 1 << 12)
    told = synthesizer.Options(chunks=sketch.chunks)
    outcome = registry.plan(
        SketchRestriction(synthesizer, sketch), request, told, Effort(units=0.1)
    )
    found = outcome.best if isinstance(outcome, Inconclusive) else outcome
    assert isinstance(found, Solution)
    return found


def pairs_of(plan: Schedule) -> set[tuple[int, int]]:
    edges = [k.edge for k in plan.topology.links]
    return {edges[link] for link in plan.link.tolist()}


@settings(max_examples=times(5))
@given(st.data())
def test_schedules_are_of_the_whole_machine_and_keep_to_the_sketch(data: st.DataObject) -> None:
    topology, sketch = data.draw(st.composite(nodes_of)())
    assert sketch.relays is not None
    share = data.draw(st.integers(1, 3))
    sender = min(n for n in range(3) if sketch.relays.receivers(n, 3))
    relays = replace(sketch.relays, leaves_by=(), shares=((sender, share),))
    sketch = replace(sketch, relays=relays, rotations=(Rotation(1, topology.ranks),))
    collective = data.draw(st.sampled_from(["allgather", "alltoall", "reducescatter", "broadcast"]))
    by = data.draw(st.sampled_from(["tacos", "teccl"]))
    found = planned(by, topology, collective, sketch)
    plan = found.plan
    assert isinstance(plan, Schedule)
    assert plan.topology == topology
    assert violations(plan) == []
    assert executes_correctly(plan)
    assert found.bound.value <= found.objective
    assert found.bound.scope.endswith("within sketch drawn")
    local = topology.ranks // sketch.nodes
    for src, dst in pairs_of(plan):
        if src // local != dst // local:
            assert dst % local in relays.receivers(src % local, local)
    slow = {
        link
        for link, k in enumerate(topology.links)
        if k.src // local != k.dst // local and k.src % local == sender
    }
    least = plan.clock.beta[0]
    for link, took in zip(plan.link.tolist(), (plan.end - plan.start).tolist(), strict=True):
        assert took >= least[link] * (share if link in slow else 1) - share


def test_bound_is_of_what_the_sketch_leaves() -> None:
    """GPU 0 alone sends, at half of the bandwidth: no schedule of the whole is as slow."""
    machine = resolve_topology("full:4")
    half = Sketch("half", 2, relays=RelayRules(((0, (0,)),), shares=((0, 2),)))
    within, free = (
        planned("teccl", machine, "allgather", half),
        planned("teccl", machine, "allgather", Sketch("all", 1)),
    )
    assert within.is_optimal
    assert free.is_optimal
    assert within.objective > free.objective


def switched() -> Topology:
    """Two nodes of two ranks, all joined by one switch."""
    links = [Link(*pair, 1, 1.0, 10.0) for a in range(4) for pair in ((a, 4), (4, a))]
    return Topology("switched", 4, tuple(links), 0.5, 10.0, switches=(Switch("s"),))


def test_switch_that_no_longer_joins_all_is_several() -> None:
    """Each to the one of its number: one for each way, if the nodes themselves are apart."""
    rails = Sketch("rails", 2, intranode_links=(), relays=RelayRules(RelayPattern.DIRECT_MAP))
    left = RestrictedMachine(rails, switched()).topology
    ways = {(a.src, b.dst) for a in left.links for b in left.links if a.dst == b.src >= 4}
    assert (len(left.switches), ways) == (4, {(0, 2), (2, 0), (1, 3), (3, 1)})
    with pytest.raises(TopologyError, match="route 1 -> 3 is excluded, but the switches of the"):
        RestrictedMachine(Sketch("a", 2, relays=RelayRules(((0, (0,)),))), switched()).topology  # noqa: B018


def test_ways_through_switches_are_lifted() -> None:
    found = planned("tacos", resolve_topology("ndv2:2"), "alltoall", ONE)
    assert isinstance(found.plan, Schedule)
    assert found.plan.topology == resolve_topology("ndv2:2")


@pytest.mark.parametrize(
    ("sketch", "words"),
    [
        (
            Sketch("a", 2, hyperedges=(Hyperedge((0, 1), HyperedgePolicy.MAX),)),
            r"switch_hyperedge_strategy\[0\] asks for uc-max",
        ),
        (
            Sketch("b", 2, relays=RelayRules(RelayPattern.FULLY_CONNECTED, relay_map=(2, 1))),
            "chunk_to_relay_map asks",
        ),
        (
            Sketch("c", 2, relays=RelayRules(RelayPattern.FULLY_CONNECTED, ((0, (1,)),))),
            "gpus_to_sender_rev_map asks",
        ),
        (
            Sketch("d", 2, relays=RelayRules(RelayPattern.FULLY_CONNECTED, local_first=True)),
            "enforce_ordering asks",
        ),
    ],
)
def test_sketch_switch_without_links_is_rejected(sketch: Sketch, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        RestrictedMachine(sketch, resolve_topology("full:4"))


@pytest.mark.parametrize("by", ["tacos", "teccl"])
def test_chunks_that_cannot_come_are_told_of_the_sketch(by: str) -> None:
    apart = Sketch("apart", 2, intranode_links=(), relays=RelayRules(RelayPattern.DIRECT_MAP))
    with pytest.raises(
        UnreachableError, match="sketch apart, on 'full:4': its routes do not deliver"
    ):
        planned(by, resolve_topology("full:4"), "allgather", apart)


def test_verbs_and_the_api_keep_to_a_sketch(tmp_path: Path) -> None:
    """Its chunks are taken, its symmetry is not imposed, and a machine of others contradicts it."""
    file, out = tmp_path / "one.json", tmp_path / "out.json"
    wire: dict[str, Any] = {
        "nnodes": 2,
        "intranode_sketch": {"strategy": "none"},
        "internode_sketch": {"strategy": "relay", "internode_conn": {"0": [1]}},
        "symmetry_offsets": [[3, 4]],
        "hyperparameters": {"input_chunkup": 2},
    }
    file.write_text(json.dumps(wire))
    asked = ("--collective", "allgather", "--topo", "full:4", "--size", "4096", "--sketch", file)
    for verb in (("tacos",), ("synth", "teccl", "--budget", "0.1")):
        code, text, err = sccl(*verb, *asked, "--json", "-o", out)
        shown = json.loads(text)
        assert (code, shown["chunks"], shown["sketch"]) == (0, 2, "one")
        assert "symmetry_offsets are ignored" in err
        assert sccl("check", out)[0] == 0
    assert f"--sketch {file}" in json.loads(sccl("synth", "tacos", *asked, "--json")[1])["again"]
    found = api.tacos("allgather", "full:4", size=4096, sketch=file, chunks=1, progress=False)
    assert {(0, 3), (2, 1)} <= pairs_of(found.value)
    bandwidth = tmp_path / "bandwidth.json"
    slow = {"from_us": 0, "to_us": 9, "fraction": 0.5}
    bandwidth.write_text(json.dumps({"kind": "bandwidth", "intervals": [slow]}))
    out.unlink()
    for options, words in (
        (("--topo", "full:5"), "nnodes is 2, and 5 ranks"),
        (("--bandwidth", bandwidth), "bandwidth and sketch are both given"),
        (("--sketch", tmp_path), "Is a directory"),
    ):
        code, _, err = sccl("synth", "teccl", *asked, *options, "-o", out)
        assert (code, words in err, out.exists()) == (2, True, False), err
