"""TE-CCL in rounds: each goes on from the last, and all of them end in time, or leave what was."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from sccl.collectives import named
from sccl.core.clock import Clock
from sccl.core.outcome import Found
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.solvers.effort import Effort, Spending
from sccl.synth import registry
from sccl.synth.contract import Request
from sccl.synth.intervals.model import Action
from sccl.synth.intervals.posed import ChunkSend, Posed, pose
from sccl.synth.teccl import searched
from sccl.synth.teccl.epochs import epochs_of, length_of
from sccl.synth.teccl.expanded import EpochState, Expanded, ExpandedModel, OutOfTimeError
from sccl.synth.teccl.searched import EpochSearch
from sccl.topo import resolve
from tests.kit.executed import is_right

TECCL = registry.load("teccl")


def posed_of(topology: Topology, chunk_bytes: int) -> Posed:
    spec = named("allgather", topology.ranks)
    return pose(topology, spec.at(spec.unit), Clock.of(topology, chunk_bytes))


def rounds_of(ring: Topology) -> tuple[Schedule, list[str]]:
    """Return what was found, and what found it."""
    events: list[Any] = []
    request = Request(ring, named("allgather", ring.ranks), 4000)
    told = TECCL.Options(model="astar")
    outcome = registry.plan(TECCL, request, told, Effort(units=1.0), events.append)
    assert isinstance(outcome, Found)
    assert isinstance(outcome.plan, Schedule)
    return outcome.plan, [e.found_by for e in events if hasattr(e, "found_by")]


def test_rounds_go_on_from_what_is_on_its_way() -> None:
    """What holds a link beyond a round holds it in the next one, and what comes late comes then."""
    posed = posed_of(resolve("ring:3@10GB+0.5us"), 10_000)
    epochs = epochs_of(posed, max(1, posed.hops[0][0].busy // 4))
    first = EpochState.first(epochs)
    send = ChunkSend(1, 0, posed.out[0][0])
    after = first.after(epochs, [send], 2)
    span, delay = epochs.spans[send.way][0], epochs.delay[send.way]
    assert after.there[0, posed.dst[send.way]] == 1 + delay - 2
    assert {k for _, k in after.held} == set(range(1 + span.last - 2 + 1))


def test_rounds_that_bring_nothing_end() -> None:
    posed = posed_of(resolve("ring:4"), 1000)
    epochs = epochs_of(posed, length_of(posed, "fastest", 1))
    told: list[object] = []
    search = EpochSearch(epochs, [Action.alone(posed)], 0, None, lambda *_: told.append(1))
    assert not search.rounds(Spending(Effort(units=0.0)), 4)
    assert not told


def test_rounds_that_do_not_end_leave_what_list_scheduling_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ring = resolve("ring:4")
    assert rounds_of(ring)[1] == ["astar"]
    nothing = Expanded(None, refuted=False, units=0.0)
    monkeypatch.setattr(ExpandedModel, "solved", lambda *_: nothing)
    plan, by = rounds_of(ring)
    assert is_right(plan)
    assert by == ["list scheduling"]
    monkeypatch.setattr(searched, "MOST_VARIABLES", 200)  # of twice as many epochs it is more
    assert rounds_of(ring)[0] == plan


def test_a_round_leaves_time_to_others_and_to_the_end_of_presolve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a clock that tells a second more each time it is asked."""
    ticks = count(0)
    given: list[float] = []

    def solved(_model: ExpandedModel, effort: Effort, _solver: str) -> Expanded:
        given.append(effort.seconds)
        return Expanded(None, refuted=False, units=0.0)

    monkeypatch.setattr(ExpandedModel, "solved", solved)
    monkeypatch.setattr("sccl.solvers.effort.time.perf_counter", lambda: float(next(ticks)))
    posed = posed_of(resolve("ring:3"), 1000)
    epochs = epochs_of(posed, length_of(posed, "slowest", 1))
    search = EpochSearch(epochs, [Action.alone(posed)], 0, None, lambda *_: None)
    spending = Spending(Effort(timeout_s=1000))
    assert not search.rounds(spending, 2)
    assert len(given) == 3
    assert all(300 < seconds < 500 for seconds in given)
    assert given == sorted(given, reverse=True)
    monkeypatch.undo()


@pytest.mark.parametrize("part", ["_limit", "_near"])
def test_a_deadline_is_heard_while_a_model_is_made(part: str) -> None:
    posed = posed_of(resolve("ring:3"), 1000)
    epochs = epochs_of(posed, length_of(posed, "slowest", 1))
    model = ExpandedModel(epochs, Action.alone(posed), 3, whole=False)
    with pytest.raises(OutOfTimeError):
        getattr(model, part)(lambda: True)
