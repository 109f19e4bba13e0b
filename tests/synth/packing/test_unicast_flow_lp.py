"""Uncopied data as flows: as good as columns of paths, and TE-CCL's linear program of it."""

from __future__ import annotations

import json
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import dual_of, named_spec
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Link, Topology
from sccl.errors import CollectiveError, ParameterError, TooLargeError, ToolError
from sccl.judge import violations
from sccl.sim import replay
from sccl.solvers import lp
from sccl.solvers.effort import Effort
from sccl.solvers.lp import SparseStatus
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.packing.column_generation import SlotColumnGeneration
from sccl.synth.packing.flow_lp import FlowProgram, is_unicast
from sccl.synth.packing.flow_problem import (
    FlowProblem,
    RouteImages,
    SlotTree,
    build_flow_problem,
)
from sccl.synth.packing.price_sets import NoTreeError
from sccl.synth.packing.price_trees import TreePricing
from sccl.synth.packing.slots import (
    TimeSlots,
    bordered_slots,
    uniform_slots,
    variable_slots,
)
from sccl.topo import resolve_topology
from tests.kit.commands import sccl
from tests.kit.nightly import times
from tests.kit.schedule_executor import executes_correctly
from tests.kit.strategies import specs, topologies, unequal

TECCL = registry.load("teccl")

MANY = 100.0


def planned(
    topology: Topology, collective: str, size: int, units: float = 1.0, **told: Any
) -> Solution:
    request = Request(topology, named_spec(collective, topology.ranks), size)
    options = TECCL.Options(model="lp", **told)
    outcome = registry.plan(TECCL, request, options, Effort(units=units))
    assert isinstance(outcome, Solution)
    return outcome


def gap_of(found: Solution) -> float:
    assert found.gap is not None
    return float(found.gap)


@st.composite
def slotted(draw: st.DrawFn) -> tuple[FlowProblem, TimeSlots]:
    """Return something that is not copied, and slots of any kind."""
    topology = draw(unequal() | topologies(max_ranks=5))
    spec = draw(specs(topology.ranks))
    assume(not spec.combining)
    try:
        posed = build_flow_problem(topology, dual_of(spec), draw(st.sampled_from([100, 60_000])))
    except CollectiveError:
        assume(False)
    assume(posed.commodities and is_unicast(posed))
    if draw(st.booleans()):
        unit = max(posed.alpha) or Fraction(1)
        return posed, variable_slots(posed, posed.potentials(), unit, draw(st.integers(1, 6)))
    alphas = sorted(set(posed.alpha))
    borders = frozenset(a * k for a in alphas for k in range(1, 4))
    time = Fraction(draw(st.integers(1, 40)), 2)
    return posed, bordered_slots(
        posed.alpha, borders, borders, time, draw(st.sampled_from(["above", "below"]))
    )


@settings(max_examples=times(60, by_day=30))
@given(slotted())
def test_flows_take_as_long_as_columns_of_paths(drawn: tuple[FlowProblem, TimeSlots]) -> None:
    posed, slots = drawn
    found, result = FlowProgram(posed).solve(slots, 10.0, MANY)
    assert result.status is not SparseStatus.UNKNOWN
    try:
        columns = SlotColumnGeneration(posed, slots, TreePricing(posed), 10.0).run()
    except NoTreeError:
        assert found is None
        return
    assert (found is not None) == columns.is_complete
    if found is not None:
        assert found.us == pytest.approx(columns.us, rel=2e-5)
        assert found.us * (1 - 2e-5) <= found.lower_bound_us <= found.us
        _is_packing(posed, slots, found.shares, found.lengths)


def _is_packing(posed: FlowProblem, slots: TimeSlots, shares: Any, lengths: Any) -> None:
    """Check that parts use arriving paths, sum up to all data, and respect capacities."""
    parts: dict[int, float] = defaultdict(float)
    loads: dict[tuple[frozenset[tuple[int, int]], int], float] = defaultdict(float)
    images = RouteImages(posed)
    for share in shares:
        commodity = posed.commodities[share.commodity]
        parts[share.commodity] += share.part
        (goal,) = commodity.wanted - commodity.holders
        assert goal in _arrives(posed, slots, commodity.holders, share.tree)
        for _, image in commodity.members:
            ways = images.images(image)
            for way, slot in share.tree:
                for link in posed.routes[ways[way]]:
                    for resource in posed.resources:
                        for thing in resource.orbit:
                            if posed.topology.links[link].edge in thing:
                                took = float(commodity.size / resource.rate) * share.part
                                loads[thing, int(slots.room[slot])] += took
    assert all(part == pytest.approx(1.0, abs=1e-4) for part in parts.values())
    assert len(parts) == len(posed.commodities)
    for (_, room), load in loads.items():
        assert load <= lengths[slots.room.tolist().index(room)] * (1 + 1e-5) + 1e-6


def _arrives(
    posed: FlowProblem, slots: TimeSlots, holders: frozenset[int], tree: SlotTree
) -> set[int]:
    """Return who has a byte in the end, by executing (link, slot)s in any order that works."""
    since = dict.fromkeys(holders, 0)
    for _ in tree:
        for link, slot in tree:
            u, v = posed.edges[link]
            there = int(slots.arrive[link, slot])
            if there >= 0 and since.get(u, slots.count + 1) <= slot:
                since[v] = min(since.get(v, slots.count + 1), there)
    return set(since)


@settings(max_examples=times(25, by_day=12))
@given(st.data())
def test_schedules_of_flows_are_right_and_no_faster_than_the_bound(data: st.DataObject) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=5))
    collective = data.draw(st.sampled_from(["alltoall", "scatter", "gather"]))
    epoch = data.draw(st.sampled_from(["auto", "fastest", "slowest", "0.3"]))
    size = data.draw(st.sampled_from([60, 1000, 1 << 20]))
    try:
        found = planned(topology, collective, size, 0.1, epoch=epoch)
    except (ParameterError, TooLargeError) as error:
        assert "the most that are modelled" in str(error) or "larger multiplier" in str(error)  # noqa: PT017
        return
    assert isinstance(found.plan, Schedule)
    assert violations(found.plan) == []
    assert executes_correctly(found.plan)
    assert found.bound.value <= found.objective
    assert replay(found.plan).finish == found.plan.finish


@pytest.mark.parametrize(
    ("machine", "size"),
    [
        ("teccl-ndv2x2", 10**9),
        ("teccl-ndv2x2", 10**6),
        ("teccl-ndv2x2", 64_000),
        ("teccl-dgx2x2", 10**9),
        ("ndv2:4", 10**9),
    ],
)
def test_alltoall_is_as_fast_as_the_links_between_chassis(machine: str, size: int) -> None:
    """Published: 320,235.8, 325.3, 23.3 and 80,500 us (TE-CCL, Table 8 and its outputs)."""
    found = planned(resolve_topology(machine), "alltoall", size, gap=1e-6)
    assert gap_of(found) <= 1e-6
    assert isinstance(found.plan, Schedule)
    assert violations(found.plan) == []


@pytest.mark.parametrize("machine", ["torus:4x4", "rail:4x4", "dgx1", "teccl-ndv2x4"])
@pytest.mark.parametrize("size", [64_000, 10**8])
def test_least_time_of_alltoall_is_met(machine: str, size: int) -> None:
    topology, fluid = resolve_topology(machine), registry.load("limits-time")
    request = Request(topology, named_spec("alltoall", topology.ranks), size)
    outcome = registry.plan(fluid, request, fluid.Options(gap=0.01))
    assert isinstance(outcome, Solution)
    assert gap_of(outcome) <= 0.012
    assert isinstance(outcome.plan, Schedule)
    assert violations(outcome.plan) == []


def test_fewest_epochs_are_proved() -> None:
    """Published: 65 epochs, of which the links between the chassis need 64."""
    machine = resolve_topology("teccl-ndv2x2")
    events: list[Any] = []
    request = Request(machine, named_spec("alltoall", 16), 10**9)
    options = TECCL.Options(model="lp", epoch="slowest")
    registry.plan(TECCL, request, options, Effort(units=1e-9), events.append)
    assert [(e.epoch_us, e.epochs) for e in events if hasattr(e, "epochs")] == [(5000.0, 64)]
    with pytest.raises(ParameterError, match="63 epochs of 5000 us are too few: 64 will do"):
        planned(machine, "alltoall", 10**9, epoch="slowest", epochs=63)
    assert gap_of(planned(machine, "alltoall", 10**9, 1e-9, epoch="slowest", epochs=66)) < 0.1


@pytest.mark.nightly
def test_ever_shorter_epochs_come_near() -> None:
    torus = resolve_topology("torus:4x4")
    coarse = planned(torus, "alltoall", 64_000, 1e-9)
    fine = planned(torus, "alltoall", 64_000, 10.0, gap=0.01)
    assert gap_of(fine) <= 0.01 < gap_of(coarse)


def test_equal_seeds_give_equal_flows() -> None:
    plans = [planned(resolve_topology("z52"), "alltoall", 10**5, 0.1).plan for _ in range(2)]
    assert plans[0] == plans[1]


def test_unserved_flow_demand_gives_one_sentence() -> None:
    ring = resolve_topology("ring:4")
    for collective in ("allreduce", "reducescatter", "reduce"):
        says = f"has no reductions on a path, and {collective} reduces: use milp"
        with pytest.raises(ParameterError, match=says) as refused:
            planned(ring, collective, 1000)
        assert ("run lp on alltoall" in str(refused.value)) == (collective == "reducescatter")
    for collective in ("allgather", "broadcast"):
        with pytest.raises(ParameterError, match=f"in {collective} several ranks need the same"):
            planned(ring, collective, 1000)
    with pytest.raises(ParameterError, match="alpha is occupies in model lp"):
        planned(ring, "alltoall", 1000, alpha="occupies")
    with pytest.raises(ParameterError, match="switch is hyperedge in model lp"):
        planned(ring, "alltoall", 1000, switch="hyperedge")
    with pytest.raises(ParameterError, match="in model lp, expected milp"):
        planned(ring, "alltoall", 1000, buffers=1)
    with pytest.raises(TooLargeError, match="302 ranks, at most"):
        planned(resolve_topology("ring:302"), "alltoall", 1000)
    with pytest.raises(TooLargeError, match="give a larger multiplier"):
        planned(resolve_topology("torus:4x4"), "alltoall", 10**6, epoch="0.001")


def test_interrupt_keeps_the_best_flows_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = lp.solve_sparse
    calls: list[int] = []

    def interrupted(*told: Any) -> Any:
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return solve(*told)

    monkeypatch.setattr("sccl.synth.packing.flow_lp.solve_sparse", interrupted)
    request = Request(resolve_topology("dgx1"), named_spec("alltoall", 8), 10**6)
    outcome = registry.plan(TECCL, request, TECCL.Options(model="lp"), Effort(units=5))
    assert isinstance(outcome, Inconclusive)
    assert (str(outcome.reason), outcome.best is not None) == ("interrupted", True)
    calls[:] = [1] * 5
    with pytest.raises(KeyboardInterrupt):
        registry.plan(TECCL, request, TECCL.Options(model="lp"), Effort(units=5))


def test_one_rank_sends_nothing_to_itself() -> None:
    lone = Topology("pair", 2, (Link(0, 1, 1, 0.0, 25.0), Link(1, 0, 1, 0.0, 25.0)), 0.0, 25.0)
    assert gap_of(planned(lone, "alltoall", 1000)) == 0


def test_flows_from_the_command_line(tmp_path: Path) -> None:
    words = ("--collective", "alltoall", "--topo", "teccl-ndv2x2", "--size", "1KB")
    file = tmp_path / "s.json"
    code, out, _ = sccl(
        "synth", "teccl", *words, "--model", "lp", "--gap", "0.01", "--json", "-o", file
    )
    shown = json.loads(out)
    assert (code, shown["model"], shown["bound_of"]) == (0, "lp", "any chunks")
    assert shown["epochs"] * shown["epoch_us"] > 0
    checked = json.loads(sccl("check", file, "--json")[1])["files"][0]
    assert (checked["valid"], checked["finish_us"]) == (True, pytest.approx(shown["finish_us"]))
    uneven = uniform_slots((Fraction(0), Fraction(7, 10)), Fraction(1), 3)
    assert uneven.arrive.tolist() == [[1, 2, 3], [2, 3, -1]]


@pytest.mark.parametrize("solver", ["glop", "highs", "pdlp"])
def test_other_solvers_find_flows_too(solver: str) -> None:
    found = planned(resolve_topology("dgx1"), "alltoall", 10**6, solver=solver, gap=0.1)
    assert gap_of(found) <= 0.1
    assert isinstance(found.plan, Schedule)
    assert executes_correctly(found.plan)


def test_unsolvable_flow_program_is_rejected() -> None:
    with pytest.raises(ParameterError, match="solver is scip in model lp, expected auto, glop"):
        planned(resolve_topology("ring:4"), "alltoall", 1000, solver="scip")
    with pytest.raises(
        ToolError, match="the solver gurobi cannot be used: its library is missing; give"
    ):
        planned(resolve_topology("ring:4"), "alltoall", 1000, solver="gurobi")
