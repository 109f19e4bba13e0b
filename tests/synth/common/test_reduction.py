"""Collectives that reduce, by schedules of collectives that copy, read backwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.outcome import Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import UnreachableError
from sccl.judge import violations
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.common.reduction import Phase, reduce_request, reverse_request
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import reductions, topologies, unequal

COPYING = ("allgather", "alltoall", "broadcast", "gather", "scatter")
REDUCING = ("allreduce", "reduce", "reducescatter")


@st.composite
def star(draw: st.DrawFn) -> Topology:
    """Return ranks around one or two switches, with links of several latencies and speeds."""
    ranks = draw(st.integers(2, 4))
    cost = st.tuples(st.sampled_from([0.0, 0.7, 3.0]), st.sampled_from([10.0, 12.5, 40.0]))
    hubs = draw(st.integers(1, 2))
    ends = [(r, ranks + r % hubs) for r in range(ranks)]
    ends += [(ranks, ranks + 1)] if hubs == 2 else []
    edges = sorted([*ends, *((v, u) for u, v in ends)])
    links = tuple(Link(u, v, 1, *draw(cost)) for u, v in edges)
    copies, cut_through = draw(st.booleans()), draw(st.booleans())
    hub = Switch("hub", copies=copies, buffer_chunks=None, cut_through=cut_through)
    switches = tuple(replace(hub, name=f"hub {i}") for i in range(hubs))
    return Topology("star", ranks, links, 0.0, 10.0, switches=switches)


def phase_schedule(phase: Phase, alpha: str, chunks: int) -> Schedule:
    """Return a valid schedule of a phase."""
    tacos = registry.load("tacos")
    request = Request(phase.topology, phase.spec, phase.size_bytes)
    options = tacos.Options(chunks=chunks, alpha=alpha, improve=0.0)
    outcome = registry.plan(tacos, request, options, Effort())
    assert isinstance(outcome, Solution)
    assert isinstance(outcome.plan, Schedule)
    return outcome.plan


@settings(max_examples=times(300, by_day=60), deadline=None)
@given(st.data())
def test_inverse_of_valid_schedules_is_valid_and_takes_as_long(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_ranks=5) | unequal() | star())
    names = st.sampled_from([*COPYING, *REDUCING])
    named = names.map(lambda name: named_spec(name, topology.ranks))
    spec = data.draw(named | reductions(topology.ranks))
    request = Request(topology, spec, data.draw(st.sampled_from([1000, 1 << 20])))
    reduction = reduce_request(request)
    alpha, chunks = (
        data.draw(st.sampled_from(["travels", "occupies"])),
        data.draw(st.integers(1, 2)),
    )
    try:
        schedules = [phase_schedule(phase, alpha, chunks) for phase in reduction.solved_phases]
    except UnreachableError:
        return
    made = reduction.invert(schedules)
    assert violations(made) == []
    assert (made.topology, made.collective.name) == (topology, spec.name)
    uses = len(reduction.phases) // len(schedules)
    assert made.finish == uses * sum(schedule.finish for schedule in schedules)
    assert made.collective.served_bytes(made.chunk_bytes) >= request.size_bytes


@settings(max_examples=times(100, by_day=30), deadline=None)
@given(st.data())
def test_chunks_with_one_source_and_one_end_may_go_the_way_back(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_ranks=5) | unequal() | star())
    name = data.draw(st.sampled_from(["alltoall", "gather", "scatter"]))
    request = Request(topology, named_spec(name, topology.ranks), 1 << 20)
    reduction = reverse_request(request)
    (phase,) = reduction.solved_phases
    alpha = data.draw(st.sampled_from(["travels", "occupies"]))
    try:
        schedule = phase_schedule(phase, alpha, 1)
    except UnreachableError:
        return
    made = reduction.invert([schedule])
    assert violations(made) == []
    assert (made.finish, made.collective) == (schedule.finish, request.spec.at(request.spec.unit))


def test_collective_that_copies_is_its_own_phase() -> None:
    request = Request(resolve_topology("ring:4"), named_spec("alltoall", 4), 1 << 20)
    reduction = reduce_request(request)
    assert reduction.phases == (Phase(request.topology, request.spec, 1 << 20, False),)
    schedule = phase_schedule(reduction.phases[0], "travels", 1)
    assert reduction.invert([schedule]) is schedule


@pytest.mark.parametrize(("machine", "solved"), [("ring:4", 1), ("star:4", 1), ("kautz:2x6", 2)])
def test_one_schedule_serves_an_allreduce_if_both_directions_cost_the_same(
    machine: str, solved: int
) -> None:
    topology = resolve_topology(machine)
    spec = named_spec("allreduce", topology.ranks)
    reduction = reduce_request(Request(topology, spec, 1 << 20))
    assert [phase.is_backwards for phase in reduction.phases] == [True, False]
    assert len(reduction.solved_phases) == solved


def test_switch_does_not_copy_backwards() -> None:
    links = tuple(Link(u, v, 1, 1.0, 1.0) for u, v in ((0, 2), (1, 2), (2, 0), (2, 1)))
    machine = Topology("hub", 2, links, 1.0, 1.0, switches=(Switch("hub", copies=True),))
    reduction = reduce_request(Request(machine, named_spec("allreduce", 2), 1000))
    assert [p.topology.switches[0].copies for p in reduction.solved_phases] == [False, True]
