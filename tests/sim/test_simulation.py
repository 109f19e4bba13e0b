"""Simulation: closed forms, the slow simulator, schedules, and unsupported plans."""

from __future__ import annotations

import signal
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.core.clock import AlphaModel, Clock
from sccl.core.cost import Costs
from sccl.core.schedule import Schedule, build_schedule
from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.errors import ParameterError, TopologyError, UnreachableError
from sccl.judge import violations
from sccl.sim import Messages, StartReason, StepAlignment, concatenate, replay, simulate, simulation
from sccl.topo import resolve_topology
from tests.kit.messages import Steps, build_steps, doubling, exchange, messages, ring_allgather
from tests.kit.nightly import times
from tests.kit.slow_simulator import SlowSimulator
from tests.kit.timed import TICK_PS, machines, right

ALPHA, BETA = 700_000, 1_000_000
SIZE = 25_000


def clock_of(machine: Topology, model: AlphaModel = AlphaModel.TRAVELS) -> Clock:
    return Clock.from_topology(machine, SIZE, model)


def direct(ranks: int) -> Steps:
    pairs = [(0, src, src, dst) for src in range(ranks) for dst in range(ranks) if src != dst]
    return build_steps(pairs)


@pytest.mark.parametrize("stepping", StepAlignment)
@pytest.mark.parametrize("model", AlphaModel)
def test_closed_forms(model: AlphaModel, stepping: StepAlignment) -> None:
    occupied = ALPHA if model is AlphaModel.OCCUPIES else 0
    cases = [
        ("ring:7", ring_allgather(7), 6 * (ALPHA + BETA)),
        ("full:6", direct(6), ALPHA + BETA),
        ("hypercube:1", doubling(1), ALPHA + BETA),
        ("hypercube:4", exchange(4), 4 * (ALPHA + BETA)),
    ]
    for machine, steps, finish in cases:
        topology = resolve_topology(machine)
        sent = Messages.from_steps(*steps, stepping=stepping)
        assert simulate(sent, topology, clock_of(topology, model)).finish == finish
    cube = resolve_topology(
        "hypercube:3"
    )  # 1, 2, 4 chunks one after the other over the links of a step
    sent = Messages.from_steps(*doubling(3), stepping=StepAlignment.BARRIER)
    expected = sum(n * (BETA + occupied) + ALPHA - occupied for n in (1, 2, 4))
    assert simulate(sent, cube, clock_of(cube, model)).finish == expected


@given(st.integers(2, 5), st.integers(1, 3))
def test_barriers_cost_what_the_model_of_steps_says(ranks: int, chunks: int) -> None:
    """Each link carries as many chunks as rounds in a step, and alpha travels."""
    machine = resolve_topology(f"ring:{ranks}")
    step, chunk, src, dst = ring_allgather(ranks)
    step, src, dst = (np.tile(column, chunks) for column in (step, src, dst))
    chunk = np.concatenate([chunk + ranks * i for i in range(chunks)])
    sent = Messages.from_steps(step, chunk, src, dst, stepping=StepAlignment.BARRIER)
    made = simulate(sent, machine, clock_of(machine))
    rounds = chunks * (ranks - 1)
    collective = named_spec("allgather", ranks).at(chunks)
    algorithm = Algorithm(machine, collective, (chunks,) * (ranks - 1), ())
    cost = Costs.from_topology(machine).time_us(
        algorithm.steps, algorithm.bandwidth_cost, chunks * SIZE
    )
    assert made.finish_us == pytest.approx(cost)
    assert made.finish == (ranks - 1) * ALPHA + rounds * BETA


def test_algorithms_are_the_columns_of_their_sends() -> None:
    machine = resolve_topology("ring:4")
    rows = list(zip(*(c.tolist() for c in ring_allgather(4)), strict=True))
    sends = tuple(make_send(c, u, v, s) for s, c, u, v in rows)
    algorithm = Algorithm(machine, named_spec("allgather", 4).at(1), (1, 1, 1), sends)
    for stepping in StepAlignment:
        of_columns = Messages.from_steps(*ring_allgather(4), stepping=stepping)
        step, chunk, src, dst = (column[::-1] for column in ring_allgather(4))
        for made in (Messages.from_algorithm(algorithm, stepping),
                     Messages.from_steps(step, chunk, src, dst, stepping=stepping)):  # fmt: skip
            for name in ("chunk", "src", "dst", "waits_for", "arrival_opens", "start_opens"):
                assert np.array_equal(getattr(made, name), getattr(of_columns, name)), name


def test_two_messages_queue_for_one_link_and_collectives_share_it() -> None:
    pair = resolve_topology("line:2")
    one = Messages.from_steps(*build_steps([(0, 0, 0, 1)]))
    made = simulate(concatenate([one, one]), pair, clock_of(pair))
    assert made.finish == 2 * BETA + ALPHA
    assert made.start.tolist() == [0, BETA]
    assert [s.why for s in made.critical_path()] == [StartReason.RELEASE, StartReason.LINK]
    late = simulate(concatenate([one.delayed(5), one]), pair, clock_of(pair))
    assert late.start.tolist() == [BETA, 0]
    sizes = Clock.from_topology(pair, (SIZE, 2 * SIZE))
    assert simulate(concatenate([one, one]), pair, sizes).finish == 3 * BETA + ALPHA
    assert simulate(concatenate([one, one]), pair, sizes).carried_bytes().tolist() == [3 * SIZE, 0]


@pytest.mark.parametrize("model", AlphaModel)
def test_between_ranks_that_no_link_joins_it_is_stored_and_sent_on(model: AlphaModel) -> None:
    line = resolve_topology("line:4")
    sent = Messages.from_steps(*build_steps([(0, 0, 0, 3)]))
    made = simulate(sent, line, clock_of(line, model))
    assert made.finish == 3 * (ALPHA + BETA)
    assert [line.links[k].edge for k in made.link] == [(0, 1), (1, 2), (2, 3)]
    assert [s.why for s in made.critical_path()] == [
        StartReason.RELEASE,
        StartReason.ONWARD,
        StartReason.ONWARD,
    ]


def test_replaced_value_is_sent_after_the_old_one_left() -> None:
    """Rank 1 has to begin with its own chunk 2, over a busy link, before it passes the new one."""
    line = resolve_topology("line:3")
    rows = [(0, 0, 1, 2), (0, 1, 1, 2), (0, 2, 1, 2), (0, 2, 0, 1), (1, 2, 1, 0)]
    made = simulate(
        Messages.from_steps(*build_steps(rows)), line, Clock.from_topology(line, 10 * SIZE)
    )
    sent = list(zip(*(c.tolist() for c in (made.messages.chunk, made.messages.src)), strict=True))
    came, own, new = sent.index((2, 0)), sent.index((2, 1)), len(sent) - 1
    assert made.arrive[came] < made.start[own] == made.start[new] == 20 * BETA
    assert StartReason(int(made.why[new])) is StartReason.START


def test_budgets_are_pipes_that_links_share() -> None:
    switch = resolve_topology("switch:3")  # egress and ingress of a rank: one lane
    turn = Messages.from_steps(
        *build_steps([(0, d, r, (r + d) % 3) for d in (1, 2) for r in range(3)])
    )
    made = simulate(turn, switch, clock_of(switch))
    assert made.finish == 2 * BETA + ALPHA
    occupied = simulate(turn, switch, clock_of(switch, AlphaModel.OCCUPIES))
    assert occupied.finish == made.finish  # no byte passes during alpha
    slow = replace(switch, budgets=tuple(replace(b, gb_per_s=12.5) for b in switch.budgets))
    alone = simulate(Messages.from_steps(*build_steps([(0, 0, 0, 1)])), slow, clock_of(slow))
    assert alone.finish == 2 * BETA + ALPHA
    assert StartReason.LIMIT in made.why


def star(switch: Switch, *budgets: Budget) -> Topology:
    links = tuple(Link(*edge, 1, 0.7, 25.0) for r in range(3) for edge in ((r, 3), (3, r)))
    return Topology("star", 3, links, 0.7, 25.0, budgets, (switch,))


@pytest.mark.parametrize("model", AlphaModel)
def test_switches_cut_through_or_store(model: AlphaModel) -> None:
    sent = Messages.from_steps(*build_steps([(0, 0, 0, 1), (0, 1, 2, 1)]))
    one = Messages.from_steps(*build_steps([(0, 0, 0, 1)]))
    finishes = []
    for hub in (Switch("s"), Switch("s", buffer_chunks=None), Switch("s", False, 1, False)):
        machine = star(hub)
        clock = clock_of(machine, model)
        finishes.append(simulate(one, machine, clock).finish)
        both = simulate(sent, machine, clock)
        collective = named_spec("allgather", 3).at(1)
        kinds = {v.kind for v in violations(both.schedule(collective))}
        assert kinds <= {"postcondition", "availability"}, hub
    assert finishes == [2 * ALPHA + BETA, 2 * ALPHA + BETA, 2 * (ALPHA + BETA)]


def test_full_switch_takes_no_more() -> None:
    sent = Messages.from_steps(*build_steps([(0, 0, 0, 1), (0, 1, 2, 1)]))
    few, many = (
        simulate(sent, machine, clock_of(machine))
        for machine in (star(Switch("s", False, n, False)) for n in (1, None))
    )
    assert many.start.tolist() == [0, ALPHA + BETA, 0, ALPHA + 2 * BETA]
    assert few.start[2] == few.free[1]


@settings(max_examples=times(150, by_day=75))
@given(machines(), st.sampled_from(AlphaModel), st.data())
def test_simulation_agrees_with_the_slow_simulator(
    machine: Topology, model: AlphaModel, data: st.DataObject
) -> None:
    sent = data.draw(messages(machine))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=3, max_size=3))
    clock = Clock.from_topology(machine, tuple(sizes[: sent.num_chunks]), model, TICK_PS)
    try:
        slow = SlowSimulator(sent, machine, clock).run()
        made = simulate(sent, machine, clock)
    except TopologyError:
        return
    except ParameterError:
        assert slow is None
        return
    assert list(zip(made.start.tolist(), made.free.tolist(), made.arrive.tolist())) == slow  # noqa: B905
    again = simulate(sent, machine, clock)
    assert all(np.array_equal(getattr(made, n), getattr(again, n)) for n in ("start", "why", "by"))


@settings(max_examples=times(300, by_day=100))
@given(machines(), st.sampled_from(AlphaModel), st.data())
def test_no_message_is_later_than_with_barriers(
    machine: Topology, model: AlphaModel, data: st.DataObject
) -> None:
    rank = st.integers(0, machine.ranks - 1)
    row = st.tuples(st.integers(0, 4), st.integers(0, 4), rank, rank).filter(lambda r: r[2] != r[3])
    columns = build_steps(data.draw(st.lists(row, max_size=20)))
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=5, max_size=5)))
    clock = Clock.from_topology(machine, sizes, model, TICK_PS)
    steppings = (StepAlignment.PIPELINED, StepAlignment.BARRIER)
    sent = [replace(Messages.from_steps(*columns, stepping=s), num_chunks=5) for s in steppings]
    if data.draw(st.booleans()):  # two collectives at once, one a little later
        sent = [concatenate([m, m.delayed(2)]) for m in sent]
        clock = Clock.from_topology(machine, sizes * 2, model, TICK_PS)
    try:
        made, barrier = (simulate(m, machine, clock) for m in sent)
    except (TopologyError, ParameterError):
        return
    assert (made.start <= barrier.start).all()
    order = np.lexsort((barrier.start, barrier.link))
    link, start = barrier.link[order], made.start[order]
    tied = np.diff(barrier.start[order]) == 0
    assert ((np.diff(start) >= 0) | (np.diff(link) != 0) | tied).all()


def test_link_keeps_the_order_of_steps_where_data_of_a_later_step_are_there_first() -> None:
    """Chunk 1 of step 1 is there from the start, and waits for chunk 0 of step 0 behind another."""
    line = resolve_topology("line:4")
    rows = [(0, 2, 1, 2), (1, 0, 1, 2), (2, 1, 1, 2), (0, 0, 0, 1), (2, 0, 2, 3)]
    made = simulate(Messages.from_steps(*build_steps(rows)), line, clock_of(line))
    start = {
        (int(c), line.links[k].edge): int(s)
        for c, k, s in zip(made.messages.chunk, made.link, made.start, strict=True)
    }
    assert start[2, (1, 2)] == 0
    assert start[0, (1, 2)] == ALPHA + BETA, "chunk 1 would go at BETA in the order of coming"
    assert start[1, (1, 2)] == ALPHA + 2 * BETA
    assert made.finish == 3 * (ALPHA + BETA)


@given(right())
def test_replayed_schedule_finishes_when_it_says(schedule: Schedule) -> None:
    made = replay(schedule)
    assert made.finish == schedule.finish
    assert len(made.messages) == len(np.unique(schedule.transfer_starts()))
    assert made.schedule(schedule.collective) == replace(schedule, message=None)
    sizes = np.array(schedule.chunk_bytes)[schedule.chunk]
    links = len(schedule.topology.links)
    assert np.array_equal(made.carried_bytes(), np.bincount(schedule.link, sizes, links))
    path = made.critical_path()
    assert [step.until for step in path] == [*(step.start for step in path[1:]), made.finish][
        : len(path)
    ]


@settings(max_examples=times(60, by_day=30))
@given(right(), st.integers(0, 3))
def test_schedules_are_replayed_as_tick_by_tick(schedule: Schedule, later: int) -> None:
    """Draw schedules, some invalid: a transfer starts once all its data have arrived."""
    sent = Messages.from_schedule(schedule)
    if len(sent):
        late = sent.release.copy()
        late[0] += later
        sent = replace(sent, release=late)
    made = simulate(sent, schedule.topology, schedule.clock)
    slow = SlowSimulator(sent, schedule.topology, schedule.clock).run()
    assert list(zip(made.start.tolist(), made.free.tolist(), made.arrive.tolist())) == slow  # noqa: B905


def test_transfer_of_several_chunks_waits_for_all_of_them() -> None:
    line = resolve_topology("line:3")
    clock = clock_of(line, AlphaModel.OCCUPIES)
    place = {k.edge: i for i, k in enumerate(line.links)}
    one, both = ALPHA + BETA, ALPHA + 2 * BETA
    first, second = (place[edge] for edge in ((0, 1), (1, 2)))
    rows = [(0, one, 0, first, False), (one, 2 * one, 1, first, False)]
    together_ = [(2 * one, 2 * one + both, chunk, second, False) for chunk in (0, 1)]
    collective = named_spec("broadcast", 3).at(2)
    schedule = build_schedule(line, collective, rows + together_, clock)
    assert violations(schedule) == []
    made = replay(schedule)
    assert made.finish == schedule.finish == 2 * one + both
    assert len(made.messages) == 3
    path = made.critical_path()
    assert [step.message for step in path] == [0, 1, 2]
    assert path[-1].why is StartReason.ARRIVAL
    early = [(one, one + both, *row[2:]) for row in together_]
    wrong = build_schedule(line, collective, rows + early, clock)
    assert [(v.kind, v.chunk, v.tick) for v in violations(wrong)] == [
        ("availability", 1, one),
        ("postcondition", 1, None),
    ]
    sent = Messages.from_schedule(schedule)
    late = replace(sent, release=sent.release + np.array([0, 5, 0]))
    assert simulate(late, line, clock).finish == schedule.finish + 5


def test_slow_use_of_a_budget_is_replayed_and_delays_others() -> None:
    bus = Budget("bus", ((0, 1), (2, 1)), 1)
    links = tuple(Link(*edge, 1, 0.0, 25.0) for edge in ((0, 1), (2, 1)))
    machine = Topology("bus", 3, links, 0.0, 25.0, (bus,))
    rows = [(0, 2 * BETA, 0, 0, False), (0, 2 * BETA, 2, 1, False)]
    collective = named_spec("gather", 3, 1).at(1)
    schedule = build_schedule(machine, collective, rows, clock_of(machine))
    assert violations(schedule) == []
    kept = replay(schedule)
    assert kept.finish == schedule.finish == 2 * BETA
    other = concatenate(
        [Messages.from_schedule(schedule), Messages.from_steps(*build_steps([(0, 0, 0, 1)]))]
    )
    assert simulate(other, machine, clock_of(machine)).finish == 3 * BETA


@settings(max_examples=times(60))
@given(machines(), st.sampled_from(AlphaModel), st.data())
def test_simulation_becomes_a_schedule_of_equal_length(
    machine: Topology, model: AlphaModel, data: st.DataObject
) -> None:
    """Draw a broadcast down a random tree, for any machine."""
    ranks = machine.ranks
    chunks = data.draw(st.integers(1, 2))
    rows = []
    for chunk in range(chunks):
        order = data.draw(st.permutations(range(1, ranks)))
        known = [0]
        for step, rank in enumerate(order):
            rows.append((step, chunk, data.draw(st.sampled_from(known)), rank))
            known.append(rank)
    sent = Messages.from_steps(
        *build_steps(rows), stepping=data.draw(st.sampled_from(StepAlignment))
    )
    clock = Clock.from_topology(machine, data.draw(st.integers(1, 4)), model, TICK_PS)
    try:
        made = simulate(sent, machine, clock)
    except (TopologyError, UnreachableError, ParameterError):
        return
    schedule = made.schedule(named_spec("broadcast", ranks, 0).at(chunks))
    assert violations(schedule) == []
    assert replay(schedule).finish == schedule.finish == made.finish


@settings(max_examples=times(60))
@given(machines(), st.sampled_from(AlphaModel), st.data())
def test_critical_path_leaves_no_tick_out(
    machine: Topology, model: AlphaModel, data: st.DataObject
) -> None:
    sent = data.draw(messages(machine))
    try:
        made = simulate(sent, machine, Clock.from_topology(machine, 3, model, TICK_PS))
    except (TopologyError, ParameterError):
        return
    path = made.critical_path()
    assert bool(path) == bool(len(sent))
    if not path:
        return
    assert path[0].why is StartReason.RELEASE
    assert path[0].start == sent.release[path[0].message]
    assert path[-1].until == made.finish
    for step in path[1:]:
        assert step.why is not StartReason.RELEASE
    for before, after in pairwise(path):
        assert before.start <= before.until == after.start
        assert after.ready <= after.start
    busy = made.utilization(7).mean() * made.finish * len(machine.links)
    assert busy == pytest.approx(made.busy().sum(), abs=len(machine.links) * 7)


@settings(max_examples=times(40))
@given(right())
def test_path_of_a_schedule_goes_on_with_what_ended_as_it_began(schedule: Schedule) -> None:
    made = replay(schedule)
    for before, after in pairwise(path := made.critical_path()):
        assert before.until == after.start
        assert after.start in (made.free[before.row], made.arrive[before.row])
        assert before.link == after.link or (
            schedule.topology.links[before.link].dst == schedule.topology.links[after.link].src
        )
    for step in path[:1]:  # nothing that is about its link or its chunk ends as it begins
        same = made.free[made.link == step.link]
        assert step.start not in same.tolist()


def test_long_run_hears_signals_between_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = resolve_topology("ring:8")
    sent = Messages.from_steps(*ring_allgather(8))
    from sccl.sim import engine

    pieces = []

    def interrupted(*given: Any) -> bool:
        pieces.append(given[-1])
        if len(pieces) == 2:
            signal.raise_signal(signal.SIGINT)
        return advance(*given)

    advance = engine.run_events
    monkeypatch.setattr(engine, "run_events", interrupted)
    monkeypatch.setattr(simulation, "EVENTS_PER_CALL", 10)
    with pytest.raises(KeyboardInterrupt):
        simulate(sent, ring, clock_of(ring))
    assert pieces == [10, 10]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"chunk": np.array([0, 1])}, "row 1: chunk is 1, expected 0 to 0"),
        ({"dst": np.array([1, 0])}, "row 1: its source and destination are both 0"),
        ({"release": np.array([0, -1])}, "row 1: release is -1"),
        ({"waits_for": np.array([0, 5])}, "row 1: waits_for is 5"),
        ({"reduce": np.zeros(3, np.bool_)}, "'reduce': 3 rows, expected 2"),
        ({"src": np.zeros(2)}, "'src': expected an array"),
    ],
)
def test_bad_columns_are_one_sentence(changes: dict[str, Any], says: str) -> None:
    good = Messages.from_steps(*build_steps([(0, 0, 0, 1), (0, 0, 0, 2)]))
    with pytest.raises(ParameterError, match=says):
        replace(good, **changes)


def test_unsupported_plan_gives_one_sentence() -> None:
    line = resolve_topology("line:3")
    one = Messages.from_steps(*build_steps([(0, 0, 0, 2)]))
    gate = np.zeros(1, np.int32)
    circle = replace(one, waits_for=gate, arrival_opens=gate, barriers=np.zeros(1, np.bool_))
    with pytest.raises(ParameterError, match="1 of 1 never arrive"):
        simulate(circle, line, clock_of(line))
    with pytest.raises(ParameterError, match="clock has 2 links"):
        simulate(one, line, clock_of(resolve_topology("line:2")))
    with pytest.raises(ParameterError, match="sizes of 2"):
        simulate(one, line, Clock.from_topology(line, (1, 2)))
    with pytest.raises(ParameterError, match="may take"):
        simulate(one.delayed(2**62 - 1), line, clock_of(line))
    with pytest.raises(ParameterError, match="node 2 does not exist"):
        simulate(one, resolve_topology("line:2"), clock_of(resolve_topology("line:2")))
    with pytest.raises(ParameterError, match="no collective"):
        concatenate([])
    with pytest.raises(ParameterError, match="expected at least 1"):
        simulate(one, line, clock_of(line)).utilization(0)
    with pytest.raises(ParameterError, match="row 0: step is -1"):
        Messages.from_steps(*build_steps([(-1, 0, 0, 1)]))
    away = Topology("away", 3, (Link(0, 1, 1, 0.7, 25.0),), 0.7, 25.0)
    with pytest.raises(UnreachableError, match="from node 0 to node 2"):
        simulate(one, away, clock_of(away))
    both = Budget("both", ((0, 3), (3, 1)), 1)
    hub = star(Switch("s"), both)
    with pytest.raises(TopologyError, match="into and out of a switch"):
        simulate(Messages.from_steps(*build_steps([(0, 0, 0, 1)])), hub, clock_of(hub))


def test_nothing_takes_no_time() -> None:
    line = resolve_topology("line:2")
    made = simulate(Messages.from_steps(*build_steps([])), line, clock_of(line))
    assert made.finish == 0
    assert made.critical_path() == ()
    assert made.utilization(3).tolist() == [0.0] * 3
