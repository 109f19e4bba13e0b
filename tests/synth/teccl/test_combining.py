"""Reductions, chunk by chunk or directly: valid, and never later than phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import dual_of, named_spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import ParameterError, TooLargeError
from sccl.judge import violations
from sccl.sim import replay
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.common.reduction import Phase, reduce_request
from sccl.synth.network.symmetries import free_symmetries
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem, build_problem
from sccl.synth.scheduling.serial import BusyIntervals, ResourceTimeline, serial_schedule
from sccl.synth.teccl import chains, combining, direct_demands, phase_search
from sccl.synth.teccl.chains import ChainModel, tighten_chain
from sccl.synth.teccl.combining import (
    CombinedSchedule,
    CombiningChoice,
    CombiningMethod,
    assemble_phases,
    improve_combining,
)
from sccl.synth.teccl.options import Options
from sccl.synth.teccl.phase_search import PhaseSearch, build_phase, to_columns
from sccl.synth.teccl.rerooting import reroot_chains
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.schedule_executor import executes_correctly
from tests.kit.strategies import topologies, unequal

TECCL = registry.load("teccl")

machines = (
    unequal()
    | topologies(max_ranks=5)
    | st.sampled_from(["rail:2x2", "switch2d:2x2"]).map(resolve_topology)
)
combines = st.sampled_from(["allreduce", "reducescatter", "reduce"])
methods = st.sampled_from(["auto", "reversal", "direct"])


def planned(
    topology: Topology, collective: str, size: int, units: float, **told: Any
) -> tuple[Solution, CombiningMethod]:
    """Return the plan and its method."""
    request = Request(topology, named_spec(collective, topology.ranks), size)
    events: list[Any] = []
    options = TECCL.Options(**told)
    outcome = registry.plan(TECCL, request, options, Effort(units=units), events.append)
    assert isinstance(outcome, Solution)
    (how,) = [event.by for event in events if isinstance(event, CombiningChoice)]
    return outcome, how


@settings(max_examples=times(40, by_day=20), deadline=None)
@given(st.data())
def test_reductions_are_valid_and_respect_the_bound(data: st.DataObject) -> None:
    topology, name, how = data.draw(machines), data.draw(combines), data.draw(methods)
    size, chunks = data.draw(st.sampled_from([1, 1000, 1 << 20])), data.draw(st.integers(1, 2))
    alpha = data.draw(st.sampled_from(["travels", "occupies"]))
    found, by = planned(topology, name, size, 0.3, combine=how, chunks=chunks, alpha=alpha)
    plan = found.plan
    assert isinstance(plan, Schedule)
    assert violations(plan) == []
    assert topology.switches or executes_correctly(plan)
    assert replay(plan).finish == plan.finish
    assert found.bound.value <= found.objective
    assert found.objective == pytest.approx(plan.finish * plan.tick_ps / 10**6)
    directly = {CombiningMethod.DIRECT, CombiningMethod.GATHERED}
    assert how == "auto" or (by in directly) == (how == "direct")


@st.composite
def one_by_one(
    draw: st.DrawFn, posed: SchedulingProblem, *, owned: bool = False
) -> list[ChunkSend]:
    """Return chains of random trees into random roots, and out of these, one send at a time.

    Args:
        owned: whether the root of each chunk is the rank of its number.
    """
    queues = []
    for chunk in range(posed.chunks):
        root = chunk if owned else draw(st.integers(0, posed.ranks - 1))
        tree = list[tuple[int, bool]]()
        for ways, ends in ((posed.routes_to, posed.src), (posed.routes_from, posed.dst)):
            reached, found = [root], list[tuple[int, bool]]()
            while len(reached) < posed.ranks:
                new = [w for r in reached for w in ways[r] if ends[w] not in reached]
                way = draw(st.sampled_from(new))
                reached.append(ends[way])
                found.append((way, ends is posed.src))
            tree += found[::-1] if ends is posed.src else found
        queues.append([(chunk, way, reduce) for way, reduce in tree])
    sends, at = [], 0
    while any(queues):
        chunk, way, reduce = draw(st.sampled_from([q for q in queues if q])).pop(0)
        sends.append(ChunkSend(at, chunk, way, reduce))
        at += posed.route_costs[way]
    return sends


@st.composite
def phased(draw: st.DrawFn, topology: Topology) -> tuple[CombinedSchedule, PhaseSearch]:
    """Return an allreduce of which the phases are one after the other, and the second of these."""
    spec, size = named_spec("allreduce", topology.ranks), draw(st.sampled_from([1000, 1 << 20]))
    request, collective = Request(topology, spec, size), spec.at(spec.unit)
    bytes_, found = -(-size // topology.ranks), []
    for machine, is_backwards in ((topology.reversed(), True), (topology, False)):
        told = Options(model="astar")  # begins without a schedule
        reduced = Phase(machine, dual_of(spec).spec, bytes_, is_backwards)
        phase = build_phase(reduced, told, Effort(units=0.1), lambda _: None)
        sends = [s for s in draw(one_by_one(phase.problem, owned=True)) if not s.reduce]
        found.append(
            replace(phase, sends=serial_schedule(phase.problem, sends, 0), options=Options())
        )
    return assemble_phases(reduce_request(request), Options(), collective, found), found[-1]


@settings(max_examples=times(15, by_day=4), deadline=None)
@given(st.data())
def test_no_way_is_taken_that_is_later_than_phase_by_phase(data: st.DataObject) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=5))
    strict, last = data.draw(phased(topology))
    finish = {"phases": strict.finish}
    for how in ("reversal", "auto"):
        last = replace(last, options=Options(combine=how))
        whole, _, ended = improve_combining(strict, last, EffortMeter(Effort(units=0.2)), 0.2)
        plan = whole.to_result().plan
        assert isinstance(plan, Schedule)
        assert (str(ended), violations(plan), plan.finish) == ("", [], whole.finish)
        finish[how] = whole.finish
    assert finish["auto"] <= finish["reversal"] <= finish["phases"]


@settings(max_examples=times(30, by_day=15), deadline=None)
@given(st.data())
def test_over_links_alone_chains_placed_again_are_never_later(data: st.DataObject) -> None:
    topology = replace(data.draw(unequal()), budgets=())
    clock = Clock.from_topology(topology, 1000, data.draw(st.sampled_from(AlphaModel)))
    posed = build_problem(topology, named_spec("allgather", topology.ranks).at(1), clock)
    sends = data.draw(one_by_one(posed))
    chain = tighten_chain(posed, sends)
    assert posed.finish(chain) <= posed.finish(sends)
    again = tighten_chain(posed, chain)
    assert posed.finish(again) <= posed.finish(chain)
    told = [sorted((s.chunk, s.route, s.reduce) for s in of) for of in (sends, again)]
    assert told[0] == told[1]
    turned = reroot_chains(posed, again, 1.0, lambda: False)
    assert posed.finish(turned) <= posed.finish(again)
    for one in (again, turned):
        check_chain(posed, one)


def check_chain(posed: SchedulingProblem, sends: Sequence[ChunkSend]) -> None:
    """Check that chains are an allreduce that finishes when they say."""
    topology, clock = posed.topology, posed.clock
    whole = CombinedSchedule(
        topology,
        named_spec("allreduce", topology.ranks).at(topology.ranks),
        clock,
        posed,
        posed.crossings,
        posed.size,
        posed.finish(sends) * posed.unit,
        to_columns(posed, sends),
        is_multicast=False,
        lower_bound=Fraction(0),
        scope="",
    )
    plan = whole.to_result().plan
    assert isinstance(plan, Schedule)
    assert (violations(plan), plan.finish) == ([], whole.finish)
    assert executes_correctly(plan)


@settings(max_examples=times(50))
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 5)), max_size=25))
def test_spans_are_free_where_what_is_kept_one_by_one_is(asked: list[tuple[int, int]]) -> None:
    spans, held = BusyIntervals(), ResourceTimeline(1)
    for start, busy in asked:
        at = spans.earliest_fit(start, busy, 1)
        assert at == held.earliest_fit(start, busy, 1)
        spans.reserve(at, busy, 1)
        held.reserve(at, busy, 1)


def soonest(posed: SchedulingProblem, chunks: int, limit: int) -> int:
    """Return the units of the best chains of some chunks, over all trees, roots and orders.

    Each send begins as soon as possible after its predecessors, so some order is optimal.

    Args:
        limit: Units above which the exact value does not matter.
    """
    best, everyone = limit, frozenset(range(posed.ranks))

    def on(state: tuple[Any, ...], ends: tuple[int, ...], latest: int, last: int) -> None:
        """Continue from the state of each rank and chunk: (contributions, since when), or None."""
        nonlocal best
        if latest >= best:
            return
        if all(of == everyone for row in state for of, _, _ in row):
            best = latest
            return
        for chunk, way in product(range(chunks), range(len(posed.src))):
            src, dst = posed.src[way], posed.dst[way]
            (of, since, sent), (its, till, gone) = state[chunk][src], state[chunk][dst]
            reduces = of != everyone
            if (sent or gone) if reduces else (its == everyone or not gone):
                continue
            start = max(since, ends[way])
            if start < last:  # the same sends in another order
                continue
            arrives = start + posed.route_costs[way]
            row = list(state[chunk])
            row[src] = (of, since, sent or reduces)
            row[dst] = (its | of, max(till, arrives) if reduces else arrives, gone)
            after = list(ends)
            after[way] = start + posed.route_uses[way][0].busy
            state_then = (*state[:chunk], tuple(row), *state[chunk + 1 :])
            on(state_then, tuple(after), max(latest, arrives), start)

    row = tuple((frozenset([rank]), 0, False) for rank in range(posed.ranks))
    on((row,) * chunks, (0,) * len(posed.src), 0, 0)
    return best


@settings(max_examples=times(15), deadline=None)
@given(st.data())
def test_model_of_chains_finds_the_best_of_all(data: st.DataObject) -> None:
    """Two chunks are free, with any ranks as roots, and the third is not examined."""
    topology = replace(data.draw(topologies(max_ranks=3)), budgets=())
    alpha, speed = st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from([10.0, 25.0])
    links = tuple(
        replace(k, alpha_us=data.draw(alpha), gb_per_s=data.draw(speed)) for k in topology.links
    )
    topology, count = replace(topology, links=links), min(2, topology.ranks)
    clock = Clock.from_topology(topology, 10_000, AlphaModel.TRAVELS)
    posed = build_problem(topology, named_spec("allgather", topology.ranks).at(1), clock)
    most = sum(posed.route_costs) * 4
    model = ChainModel(posed, SymmetryAction.identity(posed), most, (), range(count))
    model.minimize_finish(0)
    found = model.solve(Effort(units=20.0), phase_search.STRATEGY)
    assert found.sends is not None
    assert found.optimal
    finish = posed.finish(found.sends)
    assert finish == soonest(posed, count, finish + 1)


@pytest.mark.parametrize(
    ("machine", "size", "us", "how"),
    [
        ("dgx1", 1024, 1.47, CombiningMethod.GATHERED),  # by phases 2.82, at least 1.42
        ("torus:4x4", 1024, 2.86, CombiningMethod.GATHERED),  # 5.62, at least 2.81
        ("teccl-ndv2x2", 1 << 20, 95.9, CombiningMethod.OVERLAP),  # 97.2, at least 88.0
        ("dgx1", 1 << 20, 19.3, CombiningMethod.CHAINS),  # 19.9, at least 13.8
        ("torus:4x4", 1 << 16, 6.22, CombiningMethod.CHAINS),  # 6.91, at least 3.46
    ],
)
def test_allreduce_is_sooner_than_phase_by_phase(
    machine: str, size: int, us: float, how: CombiningMethod
) -> None:
    found, by = planned(resolve_topology(machine), "allreduce", size, 0.2)
    assert float(found.objective) <= us
    assert by is how


def test_symmetric_chains_are_images_of_one() -> None:
    posed = build_problem(
        resolve_topology("ring:4"),
        named_spec("allgather", 4).at(1),
        Clock.from_topology(resolve_topology("ring:4"), 1000),
    )
    group = next(free_symmetries(posed.topology, posed.collective))
    action = SymmetryAction.of(posed, group)
    model = ChainModel(posed, action, 10**9)
    model.minimize_finish(0)
    found = model.solve(Effort(units=2.0), phase_search.STRATEGY)
    assert found.sends is not None
    chain = action.images(found.sends)
    assert len(chain) == 4 * 2 * 3
    assert sum(s.reduce for s in chain) == 12


def test_epoch_models_send_no_direct_messages() -> None:
    ring = resolve_topology("ring:4")
    _, how = planned(ring, "allreduce", 1000, 1.0, model="astar")
    assert how in {CombiningMethod.REVERSAL, CombiningMethod.OVERLAP}
    _, how = planned(ring, "allreduce", 1000, 1.0, model="milp", buffers=1)
    assert how is CombiningMethod.REVERSAL


def test_invalid_arguments_give_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = resolve_topology("ring:4")
    with pytest.raises(ParameterError, match="combine is direct, and allgather has no reductions"):
        planned(ring, "allgather", 1000, 1.0, combine="direct")
    with pytest.raises(ParameterError, match="in model milp, expected continuous"):
        planned(ring, "allreduce", 1000, 1.0, combine="direct", model="milp")
    monkeypatch.setattr(direct_demands, "MAX_PLACED_SENDS", 3)
    with pytest.raises(TooLargeError, match="give fewer chunks, or combine by reversal"):
        planned(ring, "reducescatter", 1000, 1.0, combine="direct")


@pytest.mark.parametrize("at", ["direct", "chains"])
def test_interrupt_keeps_the_best_by_then(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    if at == "direct":
        monkeypatch.setattr(combining, "schedule_direct", interrupted)
    else:
        monkeypatch.setattr(chains.ChainSearch, "improve_before", interrupted)
    dgx1 = resolve_topology("dgx1")
    outcome = registry.plan(
        TECCL, Request(dgx1, named_spec("allreduce", 8), 10**6), None, Effort(units=0.1)
    )
    assert isinstance(outcome, Inconclusive)
    assert (str(outcome.reason), outcome.best is not None) == ("interrupted", True)
