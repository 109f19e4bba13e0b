"""TE-CCL in rounds: each continues the last, and all end in time or keep the former plan."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from sccl.collectives import named_spec
from sccl.core.clock import Clock
from sccl.core.outcome import Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem, build_problem
from sccl.synth.teccl import epoch_search
from sccl.synth.teccl.astar import solve_rounds
from sccl.synth.teccl.epoch_search import EpochSearch
from sccl.synth.teccl.epochs import build_epochs, epoch_length
from sccl.synth.teccl.milp import EpochMilp, EpochState, MilpResult, OutOfTimeError
from sccl.topo import resolve_topology
from tests.kit.schedule_executor import executes_correctly

TECCL = registry.load("teccl")


def posed_of(topology: Topology, chunk_bytes: int) -> SchedulingProblem:
    spec = named_spec("allgather", topology.ranks)
    return build_problem(topology, spec.at(spec.unit), Clock.from_topology(topology, chunk_bytes))


def rounds_of(ring: Topology) -> tuple[Schedule, list[str]]:
    """Return the plan and its method."""
    events: list[Any] = []
    request = Request(ring, named_spec("allgather", ring.ranks), 4000)
    told = TECCL.Options(model="astar")
    outcome = registry.plan(TECCL, request, told, Effort(units=1.0), events.append)
    assert isinstance(outcome, Solution)
    assert isinstance(outcome.plan, Schedule)
    return outcome.plan, [e.found_by for e in events if hasattr(e, "found_by")]


def test_rounds_go_on_from_what_is_on_its_way() -> None:
    """A transfer beyond a round occupies its link in the next one, and late arrivals come then."""
    posed = posed_of(resolve_topology("ring:3@10GB+0.5us"), 10_000)
    epochs = build_epochs(posed, max(1, posed.route_uses[0][0].busy // 4))
    first = EpochState.initial(epochs)
    send = ChunkSend(1, 0, posed.routes_from[0][0])
    after = first.advance(epochs, [send], 2)
    span, delay = epochs.spans[send.route][0], epochs.delay[send.route]
    assert after.available_from[0, posed.dst[send.route]] == 1 + delay - 2
    assert {k for _, k in after.reservations} == set(range(1 + span.last_epoch - 2 + 1))


def test_rounds_that_bring_nothing_end() -> None:
    posed = posed_of(resolve_topology("ring:4"), 1000)
    epochs = build_epochs(posed, epoch_length(posed, "fastest", 1))
    told: list[object] = []
    search = EpochSearch(
        epochs, [SymmetryAction.identity(posed)], 0, None, lambda *_: told.append(1)
    )
    assert not solve_rounds(search, EffortMeter(Effort(units=0.0)), 4)
    assert not told


def test_rounds_that_do_not_end_leave_what_list_scheduling_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ring = resolve_topology("ring:4")
    assert rounds_of(ring)[1] == ["astar"]
    nothing = MilpResult(None, refuted=False, effort_units=0.0)
    monkeypatch.setattr(EpochMilp, "solve", lambda *_: nothing)
    plan, by = rounds_of(ring)
    assert executes_correctly(plan)
    assert by == ["list scheduling"]
    monkeypatch.setattr(epoch_search, "MAX_VARIABLES", 200)  # of twice as many epochs it is more
    assert rounds_of(ring)[0] == plan


def test_round_leaves_time_to_others_and_to_the_end_of_presolve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a clock that advances a second with each query."""
    ticks = count(0)
    given: list[float] = []

    def solved(_model: EpochMilp, effort: Effort, _solver: str) -> MilpResult:
        given.append(effort.seconds)
        return MilpResult(None, refuted=False, effort_units=0.0)

    monkeypatch.setattr(EpochMilp, "solve", solved)
    monkeypatch.setattr("sccl.solvers.effort.time.perf_counter", lambda: float(next(ticks)))
    posed = posed_of(resolve_topology("ring:3"), 1000)
    epochs = build_epochs(posed, epoch_length(posed, "slowest", 1))
    search = EpochSearch(epochs, [SymmetryAction.identity(posed)], 0, None, lambda *_: None)
    spending = EffortMeter(Effort(timeout_s=1000))
    assert not solve_rounds(search, spending, 2)
    assert len(given) == 3
    assert all(300 < seconds < 500 for seconds in given)
    assert given == sorted(given, reverse=True)
    monkeypatch.undo()


@pytest.mark.parametrize("part", ["_add_capacities", "_add_distance_objective"])
def test_deadline_is_heard_while_a_model_is_made(part: str) -> None:
    posed = posed_of(resolve_topology("ring:3"), 1000)
    epochs = build_epochs(posed, epoch_length(posed, "slowest", 1))
    model = EpochMilp(epochs, SymmetryAction.identity(posed), 3, is_complete=False)
    with pytest.raises(OutOfTimeError):
        getattr(model, part)(lambda: True)
