"""TE-CCL in epochs: solutions are valid, with the fewest epochs if these are known."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.core.stop import StopReason
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import ParameterError, TooLargeError
from sccl.judge import violations
from sccl.sim import replay
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.limits import INFINITE
from sccl.synth.network.symmetries import free_symmetries
from sccl.synth.scheduling.bounds import compute_lower_bound
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem, build_problem
from sccl.synth.scheduling.serial import prune_sends, serial_schedule
from sccl.synth.teccl import epoch_search
from sccl.synth.teccl.epoch_search import EpochSearch
from sccl.synth.teccl.epochs import Epochs, build_epochs, epoch_length
from sccl.synth.teccl.milp import EpochMilp, MilpResult, OutOfTimeError
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.schedule_executor import executes_correctly
from tests.kit.strategies import topologies, unequal

TECCL = registry.load("teccl")


def planned(
    topology: Topology, collective: str, size: int, units: float = 2.0, **told: Any
) -> tuple[Solution, list[Any]]:
    """Return the plan and the events of the search."""
    request = Request(topology, named_spec(collective, topology.ranks), size)
    events: list[Any] = []
    outcome = registry.plan(
        TECCL, request, TECCL.Options(**told), Effort(units=units), events.append
    )
    assert isinstance(outcome, Solution)
    return outcome, events


def plan_of(found: Solution) -> Schedule:
    assert isinstance(found.plan, Schedule)
    return found.plan


def counted(events: list[Any]) -> int:
    """Return in how many epochs the best was found."""
    return int([event.epochs for event in events if hasattr(event, "epochs")][-1])


def posed_of(
    topology: Topology, collective: str, chunk_bytes: int, chunks: int = 1
) -> SchedulingProblem:
    spec = named_spec(collective, topology.ranks)
    clock = Clock.from_topology(topology, chunk_bytes, AlphaModel.TRAVELS)
    return build_problem(topology, spec.at(spec.unit * chunks), clock)


def at_once(topology: Topology) -> Topology:
    """Return a machine without alphas."""
    links = tuple(replace(k, alpha_us=0.0) for k in topology.links)
    return replace(topology, alpha_us=0.0, links=links)


def check(epochs: Epochs, sends: tuple[ChunkSend, ...], buffers: int | None = None) -> int:
    """Check the sends by epoch of a model independently, and return their number of epochs."""
    posed, last = epochs.problem, 0
    there = {(c, r): 0 for c, own in enumerate(posed.holders) for r in own}
    loads: dict[tuple[int, int], dict[tuple[int, int, int], int]] = defaultdict(dict)
    leaves: dict[tuple[int, int], list[int]] = defaultdict(list)
    for send in sorted(sends, key=lambda s: s.start):
        here, comes = (send.chunk, posed.src[send.route]), send.start + epochs.delay[send.route]
        assert here in there
        assert there[here] <= send.start
        leaves[here].append(send.start)
        to = send.chunk, posed.dst[send.route]
        assert to not in there
        there[to] = comes
        last = max(last, comes)
        for span in epochs.spans[send.route]:
            for k in range(send.start + span.first_epoch, send.start + span.last_epoch + 1):
                loads[span.resource, k][send.chunk, send.start, span.multicast_group] = span.load
    for (thing, _), own in loads.items():
        assert sum(own.values()) <= posed.capacity[thing] * epochs.length
    for chunk, rank in product(range(posed.chunks), range(posed.ranks)):
        assert rank not in posed.wanted[chunk] or (chunk, rank) in there
    if buffers is not None:
        kept: dict[tuple[int, int], int] = defaultdict(int)
        for (chunk, rank), starts in leaves.items():
            if rank not in posed.holders[chunk]:
                for k in range(there[chunk, rank] + 1, max(starts) + 1):
                    kept[rank, k] += 1
        assert all(count <= buffers for count in kept.values())
    return last


machines = (
    unequal()
    | topologies(max_ranks=5)
    | st.sampled_from(["rail:2x2", "switch2d:2x2"]).map(resolve_topology)
)


@settings(max_examples=times(25, by_day=12))
@given(st.data())
def test_schedules_are_right_and_no_faster_than_their_bound(data: st.DataObject) -> None:
    topology = data.draw(machines)
    collective = data.draw(st.sampled_from(["allgather", "broadcast", "alltoall", "reducescatter"]))
    best, _ = planned(
        topology,
        collective,
        data.draw(st.sampled_from([1 << 10, 1 << 20])) * topology.ranks,
        units=1.0,
        model=data.draw(st.sampled_from(["milp", "astar"])),
        epoch=data.draw(st.sampled_from(["fastest", "slowest"])),
        multiplier=data.draw(st.sampled_from([1, 2])),
        switch=data.draw(st.sampled_from(["machine", "hyperedge"][: 1 + bool(topology.switches)])),
    )
    plan = plan_of(best)
    assert violations(plan) == []
    assert topology.switches or executes_correctly(plan)
    assert best.bound.value <= best.objective
    assert replay(plan).finish == plan.finish


@settings(max_examples=times(25))
@given(st.data())
def test_model_solution_is_valid_in_epochs(data: st.DataObject) -> None:
    topology = data.draw(machines)
    posed = posed_of(topology, data.draw(st.sampled_from(["allgather", "alltoall"])), 1 << 20)
    rule = data.draw(st.sampled_from(["fastest", "slowest"]))
    epochs = build_epochs(posed, epoch_length(posed, rule, 1), ports=data.draw(st.booleans()))
    buffers = data.draw(st.sampled_from([None, 0, 1]))
    count = epochs.min_epochs + data.draw(st.integers(0, 12))
    found = EpochMilp(epochs, SymmetryAction.identity(posed), count, buffers=buffers).solve(
        Effort(units=1.0)
    )
    if found.sends is not None:
        assert check(epochs, found.sends, buffers) <= count


@pytest.mark.parametrize(
    ("chunks", "count"),
    [
        (1, 2),
        (2, 3),
        (3, 4),
        *(pytest.param(c, c + 1, marks=pytest.mark.nightly) for c in (4, 5, 6)),
    ],
)
def test_allgather_of_dgx1_in_epochs_is_as_published(chunks: int, count: int) -> None:
    """TE-CCL, appendix G, Table 7: 25 KB chunks, no alpha. The paper takes 50.57 s for the last."""
    posed = posed_of(at_once(resolve_topology("teccl-dgx1")), "allgather", 25_000, chunks)
    epochs = build_epochs(posed, epoch_length(posed, "slowest", 1))
    found = EpochMilp(epochs, SymmetryAction.identity(posed), count).solve(Effort(units=20))
    assert found.sends is not None
    assert check(epochs, found.sends) == count
    fewer = EpochMilp(epochs, SymmetryAction.identity(posed), count - 1).solve(Effort(units=2))
    assert fewer.sends is None
    assert fewer.refuted or chunks > 2  # counts per rank show it, a search hardly


@pytest.mark.parametrize(
    ("chunks", "count"), [(1, 3), pytest.param(3, 8, marks=pytest.mark.nightly)]
)
def test_alltoall_of_dgx1_in_epochs_is_as_published(chunks: int, count: int) -> None:
    """Table 7 again."""
    topology = at_once(resolve_topology("teccl-dgx1"))
    told = {"chunks": chunks, "model": "milp", "epoch": "slowest", "epochs": count}
    best, events = planned(topology, "alltoall", 8 * chunks * 25_000, units=20, **told)
    assert counted(events) == count
    assert float(best.objective) <= count


@pytest.mark.parametrize("model", ["milp", "astar"])
def test_ndv2_of_two_chassis_is_the_best_there_is(model: str) -> None:
    """1 MB: TE-CCL finishes after 48.75 us, in 39 epochs of 1.25."""
    best, _ = planned(resolve_topology("teccl-ndv2x2"), "allgather", 62_500, units=10, model=model)
    assert float(best.objective) == pytest.approx(46.45)
    assert best.is_optimal


def test_symmetric_schedules_hold_for_all() -> None:
    topology = resolve_topology("teccl-dgx2x2")
    posed = posed_of(topology, "allgather", 31_250_000)
    group = next(free_symmetries(topology, posed.collective))
    action = SymmetryAction.of(posed, group)
    epochs = build_epochs(posed, epoch_length(posed, "slowest", 1))
    found = EpochMilp(epochs, action, 4).solve(Effort(units=5))
    assert found.sends is not None
    assert check(epochs, found.sends) == 4  # as published, 10,000 us: 12 s there


def copying(topology: Topology) -> Topology:
    return replace(topology, switches=tuple(replace(s, copies=True) for s in topology.switches))


@pytest.mark.parametrize("model", ["continuous", "milp", "astar"])
def test_switches_that_copy_send_a_chunk_up_once(model: str) -> None:
    """Seven ranks get the data of one link to the switch in the time of one."""
    links = [Link(*edge, 1, 0.5, 10.0) for rank in range(8) for edge in ((rank, 8), (8, rank))]
    plain = Topology("star", 8, tuple(links), 0.5, 10.0, switches=(Switch("hub"),))
    switches = copying(plain)
    once, _ = planned(switches, "broadcast", 1 << 20, units=5, model=model)
    often, _ = planned(plain, "broadcast", 1 << 20, units=1, model="continuous")
    plan = plan_of(once)
    assert violations(plan) == []
    assert replay(plan).finish == plan.finish
    assert once.objective * 2 < often.objective
    up = [k for k, link in enumerate(switches.links) if link.src < switches.ranks]
    assert len(set(plan.link.tolist()) & set(up)) == 1


def test_ports_take_one_chunk_in_an_epoch() -> None:
    posed = posed_of(resolve_topology("teccl-dgx2x2"), "allgather", 31_250_000)
    length = epoch_length(posed, "slowest", 1)
    free, ports = build_epochs(posed, length), build_epochs(posed, length, ports=True)
    links, ranks = posed.topology.links, posed.ranks
    loads = {(s.resource, s.load) for spans in ports.spans for s in spans}
    assert all(load == length for thing, load in loads if max(links[thing].edge) >= ranks)
    assert any(s.load < length for spans in free.spans for s in spans)


def test_useless_sends_are_removed() -> None:
    posed = posed_of(resolve_topology("ring:4"), "broadcast", 1000)
    way = {(posed.src[w], posed.dst[w]): w for w in range(len(posed.src))}
    scatter = replace_wanted(posed, {1})
    sends = tuple(ChunkSend(k, 0, way[0, rank]) for k, rank in ((0, 1), (0, 3)))
    assert prune_sends(scatter, sends) == sends[:1]
    assert prune_sends(posed, (*sends, ChunkSend(2, 0, way[1, 2]))) == (
        *sends,
        ChunkSend(2, 0, way[1, 2]),
    )


def replace_wanted(posed: SchedulingProblem, ranks: set[int]) -> SchedulingProblem:
    return replace(posed, wanted=(frozenset(ranks),))


def test_sends_are_placed_as_soon_as_may_be_and_never_together() -> None:
    posed = posed_of(resolve_topology("ring:4@10GB+0us"), "broadcast", 10_000, chunks=3)
    way, busy = posed.routes_from[0][0], posed.route_uses[posed.routes_from[0][0]][0].busy
    exact = serial_schedule(posed, [ChunkSend(k, k, way) for k in range(3)], 0)
    assert [s.start for s in exact] == [0, busy, 2 * busy]
    late = serial_schedule(posed, [ChunkSend(k, k, way) for k in range(3)], 3 * busy)
    assert [s.start for s in late] == [0, 3 * busy, 6 * busy]


def test_horizon_that_is_too_short_is_said_with_one_that_is_not() -> None:
    told: dict[str, Any] = {"model": "milp", "epoch": "slowest", "epochs": 3}
    with pytest.raises(ParameterError, match=r"epochs is 3: it is proved .* too few: 4 will do"):
        planned(at_once(resolve_topology("ring:8")), "allgather", 1 << 20, **told)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"epoch": "soon"}, "epoch is 'soon', expected 'fastest', 'slowest' or microseconds"),
        ({"epoch": "0"}, "epoch is '0', expected"),
        ({"epoch": "0.001"}, "give that, or 'fastest'"),
        (
            {"buffers": 0, "model": "astar"},
            "buffers are limited to 0 in model astar, expected milp",
        ),
    ],
)
def test_impossible_request_is_rejected(told: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        planned(
            resolve_topology("ring:4@1GB+0.001us"),
            "allgather",
            1 << 24,
            **{"model": "milp", **told},
        )


def test_models_that_are_too_large_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_search, "MAX_VARIABLES", 10)
    with pytest.raises(TooLargeError, match="give longer epochs, fewer chunks"):
        planned(resolve_topology("ring:4"), "alltoall", 1 << 20, model="milp", buffers=0)


def test_missing_solution_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = MilpResult(None, refuted=False, effort_units=0.0)
    monkeypatch.setattr(EpochMilp, "solve", lambda *_: nothing)
    ring = resolve_topology("ring:4")
    request = Request(ring, named_spec("allgather", 4), 4000)
    told = TECCL.Options(model="milp", epochs=20)
    outcome = registry.plan(TECCL, request, told, Effort(units=1.0))
    assert outcome == Inconclusive(StopReason.parse("no schedule within a budget of 1"))


def test_effort_that_is_spent_between_symmetries_ends_the_search() -> None:
    request = Request(resolve_topology("teccl-ndv2x2"), named_spec("allgather", 16), 62_500)
    told = TECCL.Options(model="milp", epoch="slowest", epochs=14)
    outcome = registry.plan(TECCL, request, told, Effort(units=0.001))
    assert outcome == Inconclusive(StopReason.parse("no schedule within a budget of 0.001"))


def test_model_is_not_made_to_its_end_after_time_is_over() -> None:
    posed = posed_of(resolve_topology("ring:4"), "alltoall", 1000)
    epochs = build_epochs(posed, epoch_length(posed, "slowest", 1))
    with pytest.raises(OutOfTimeError):
        EpochMilp(epochs, SymmetryAction.identity(posed), 8, deadline_passed=lambda: True)
    told: list[object] = []
    alone = [SymmetryAction.identity(posed)]
    search = EpochSearch(epochs, alone, 0, None, lambda *found: told.append(found))
    spending = EffortMeter(Effort(timeout_s=1e-9))
    assert search.solve_epochs(8, spending) == MilpResult(None, refuted=False, effort_units=0.0)
    assert not told


def test_equal_seeds_give_equal_results() -> None:
    told: dict[str, Any] = {"model": "astar", "units": 2.0}
    plans = [
        planned(resolve_topology("dgx1"), "allgather", 1 << 20, **told)[0].plan for _ in range(2)
    ]
    assert plans[0] == plans[1]


@pytest.mark.parametrize("solver", ["scip", "highs"])
@pytest.mark.parametrize("model", ["milp", "astar"])
def test_programs_say_what_models_of_clauses_do(solver: str, model: str) -> None:
    """Epochs are asked for, so that there is no schedule before those of the model."""
    ring = resolve_topology("ring:4")
    told: dict[str, Any] = {"model": model, "epoch": "slowest", "epochs": 12}
    found, events = planned(ring, "allgather", 4000, solver=solver, **told)
    assert executes_correctly(plan_of(found))
    if model == "milp":
        assert counted(events) == counted(planned(ring, "allgather", 4000, **told)[1])
        with pytest.raises(ParameterError, match=r"1 epoch of .* too few"):
            planned(ring, "allgather", 4000, solver=solver, **(told | {"epochs": 1}))


@settings(max_examples=times(8, by_day=4), deadline=None)
@given(st.data())
def test_programs_are_feasible_where_clauses_are(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_ranks=4))
    posed = build_problem(
        topology, named_spec("allgather", topology.ranks).at(1), Clock.from_topology(topology, 1000)
    )
    epochs = build_epochs(posed, epoch_length(posed, "slowest", 1))
    count = data.draw(st.integers(1, 5))
    model = EpochMilp(epochs, SymmetryAction.identity(posed), count)
    by = {solver: model.solve(Effort(units=5), solver) for solver in ("auto", "scip")}
    assert (by["auto"].sends is None) == (by["scip"].sends is None)
    assert by["auto"].refuted == by["scip"].refuted


def test_per_hop_release_may_save_an_epoch() -> None:
    """Two hops of 10.3 us are two epochs of 9.6: a tenth is let go at each."""
    told: dict[str, Any] = {"model": "milp", "buffers": 0}
    best, events = planned(resolve_topology("ring:5"), "allgather", 240_000, **told)
    assert counted(events) == 2
    assert best.is_optimal
    assert float(best.objective) == pytest.approx(20.6)


def test_horizons_are_looked_at_from_what_exact_time_fills() -> None:
    """Counts below it that are neither found nor refuted would use the budget."""
    posed = posed_of(resolve_topology("ring:5"), "allgather", 240_000)
    epochs = build_epochs(posed, epoch_length(posed, "fastest", 1))
    looked_at: list[int] = []

    class Watched(EpochSearch):
        """Notes which horizons are looked at."""

        def solve_epochs(self, count: int, spending: EffortMeter) -> MilpResult:
            looked_at.append(count)
            return super().solve_epochs(count, spending)

    alone, least = [SymmetryAction.identity(posed)], posed.route_costs[0] * 2
    search = Watched(epochs, alone, least, 0, lambda *_: None)
    assert search.find_min_epochs(EffortMeter(Effort(units=9)), least, None) == 2
    assert looked_at[0] == -(-(least - epochs.length // 10) // epochs.length)
    assert looked_at[-1] == 2
    assert search.find_min_epochs(EffortMeter(Effort(units=9)), least, least) is None


@settings(max_examples=times(25, by_day=10), deadline=None)
@given(st.data())
def test_no_horizon_is_passed_over_that_has_a_schedule(data: st.DataObject) -> None:
    """From below all that is passed over is refuted, too."""
    topology = data.draw(machines)
    collective = data.draw(st.sampled_from(["allgather", "broadcast", "alltoall"]))
    posed = posed_of(topology, collective, data.draw(st.sampled_from([10_000, 200_000])))
    length = epoch_length(posed, data.draw(st.sampled_from(["fastest", "slowest"])), 1)
    epochs = build_epochs(posed, length * data.draw(st.sampled_from([1, 3])))
    spec = named_spec(collective, topology.ranks)
    least = (
        compute_lower_bound(topology, spec, posed, posed.clock.sizes[0] * spec.unit, INFINITE)
        // posed.unit
    )
    first = epochs.lower_bound(least)
    assert first >= epochs.min_epochs
    if first > 1:
        fewer = EpochMilp(epochs, SymmetryAction.identity(posed), first - 1).solve(Effort(units=2))
        assert fewer.sends is None
