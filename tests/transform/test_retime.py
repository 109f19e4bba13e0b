"""Algorithms as schedules: by steps with barriers, or each send as soon as it can start."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.core.clock import AlphaModel, Clock
from sccl.core.outcome import Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Link, Topology
from sccl.errors import TooLargeError
from sccl.judge import violations
from sccl.sim import StepAlignment, replay
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.topo import resolve_topology
from sccl.transform import retime
from sccl.transform.levels import algorithm_from_schedule
from sccl.transform.retime import retime_schedule, schedule_algorithm
from tests.kit.easy_algorithms import frontier
from tests.kit.nightly import times

CASES = [
    ("dgx1", "allgather"), ("dgx1", "allreduce"), ("ring:4", "allreduce"), ("star:4", "reduce"),
    ("mesh:2x3", "alltoall"), ("z52", "broadcast"), ("hypercube:3", "reducescatter"),
]  # fmt: skip


@pytest.mark.parametrize("model", AlphaModel)
@pytest.mark.parametrize(("machine", "collective"), CASES, ids="-".join)
def test_algorithm_has_its_times(machine: str, collective: str, model: AlphaModel) -> None:
    for algorithm in frontier(machine, collective):
        soon = schedule_algorithm(algorithm, 4096, model)
        stepped = schedule_algorithm(algorithm, 4096, model, StepAlignment.BARRIER)
        for schedule in (soon, stepped):
            assert violations(schedule) == []
            assert replay(schedule).finish == schedule.finish
            assert sorted(zip(schedule.chunk, schedule.link, strict=True)) == sorted(
                (s.chunk, place_of(algorithm, s.src, s.dst)) for s in algorithm.sends
            )
        assert algorithm_from_schedule(stepped).steps <= algorithm.steps


def place_of(algorithm: Algorithm, src: int, dst: int) -> int:
    return [k.edge for k in algorithm.topology.links].index((src, dst))


@pytest.mark.parametrize("machine", ["ring:4", "hypercube:3", "full:4"])
def test_with_barriers_it_takes_what_the_steps_cost(machine: str) -> None:
    """With travelling alpha: S * alpha + R * chunk * beta, each rounded up once."""
    for algorithm in frontier(machine, "allgather"):
        clock = Clock.from_topology(resolve_topology(machine), 4096)
        stepped = schedule_algorithm(algorithm, 4096, stepping=StepAlignment.BARRIER)
        costs = algorithm.steps * clock.lag(0) + algorithm.rounds * clock.busy(0)
        assert stepped.finish == costs
        assert schedule_algorithm(algorithm, 4096).finish <= costs


@given(st.data())
@settings(max_examples=times(25), deadline=None)
def test_sent_values_are_available(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["dgx1", "ring:4", "full:4"]))
    algorithm = data.draw(st.sampled_from(frontier(name, "allreduce")))
    size = data.draw(st.integers(1, 2**20))
    for stepping in StepAlignment:
        assert violations(schedule_algorithm(algorithm, size, stepping=stepping)) == []


@pytest.mark.parametrize("stepping", StepAlignment)
def test_early_sends_are_delayed(stepping: StepAlignment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks exchange all they have, over a fast link and a slow one."""
    links = (Link(0, 1, 1, 0.0, 100.0), Link(1, 0, 1, 0.0, 1.0))
    machine = Topology("uneven", 2, links, 0.0, 1.0)
    sends = tuple(make_send(c, u, 1 - u, 0, reduce=True) for c in range(4) for u in range(2))
    algorithm = Algorithm(machine, named_spec("allreduce", 2).at(4), (4,), sends)
    assert violations(algorithm) == []
    assert violations(schedule_algorithm(algorithm, 4096, stepping=stepping)) == []
    monkeypatch.setattr(retime, "MAX_DELAY_ROUNDS", 0)
    with pytest.raises(TooLargeError, match="even after 0 rounds of postponing"):
        schedule_algorithm(algorithm, 4096, stepping=stepping)


@given(st.data())
@settings(max_examples=times(25), deadline=None)
def test_schedule_keeps_its_order_at_other_sizes(data: st.DataObject) -> None:
    """At its own size it is no later, since each transfer could start when it did."""
    machine = resolve_topology(data.draw(st.sampled_from(["dgx1", "ring:4", "star:4", "rail:2x4"])))
    collective = data.draw(st.sampled_from(["allgather", "allreduce", "alltoall", "reduce"]))
    size = data.draw(st.integers(1, 2**24))
    model = data.draw(st.sampled_from(AlphaModel))
    tacos = registry.load("tacos")
    request = Request(machine, named_spec(collective, machine.ranks), size)
    outcome = registry.plan(tacos, request, tacos.Options(alpha=model.value), Effort(None, size))
    assert isinstance(outcome, Solution)
    schedule = outcome.plan
    assert isinstance(schedule, Schedule)
    assert isinstance(schedule.chunk_bytes, int)
    again = retime_schedule(schedule, schedule.chunk_bytes)
    assert violations(again) == []
    other = retime_schedule(schedule, data.draw(st.integers(1, 2**22)))
    assert violations(other) == []
    if not machine.switches:
        assert again.finish <= schedule.finish
        for link in range(len(machine.links)):
            chunks = schedule.chunk[schedule.link == link]
            assert (other.chunk[other.link == link] == chunks).all()


def test_relayed_contributions_have_times_for_another_size() -> None:
    """What is postponed holds up the links that keep their order, in rounds without end."""
    machine, teccl = resolve_topology("dgx1"), registry.load("teccl")
    request = Request(machine, named_spec("allreduce", machine.ranks), 4000)
    outcome = registry.plan(teccl, request, teccl.Options(chunks=4), Effort(None, 0, 0.1))
    assert isinstance(outcome, Solution)
    assert isinstance(outcome.plan, Schedule)
    assert outcome.plan.message is not None
    again = retime_schedule(outcome.plan, 32)
    assert violations(again) == []
    assert again.finish < outcome.plan.finish
