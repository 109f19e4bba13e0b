"""Allreduces in process groups: valid plans, and bounds that hold for every method."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec, dual_of, named_spec, recover_spec, resolve_collective
from sccl.core.algorithm import Algorithm
from sccl.core.clock import AlphaModel, Clock
from sccl.core.collective import Relation, RelationKind
from sccl.core.ids import Rank
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Link, Topology, to_ranks
from sccl.errors import InputError
from sccl.judge import violations
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.sim import replay
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.network.arrays import build_arrays
from sccl.synth.network.routes import build_routes
from sccl.synth.network.tick_bounds import allreduce_bound_ticks
from sccl.synth.packing.by_time.time_bound import compute_time_bound
from sccl.topo import resolve_topology as machine
from tests.kit.nightly import times
from tests.kit.schedule_executor import executes_correctly
from tests.kit.small_budgets import small_tacos_budget
from tests.kit.strategies import topologies, unequal
from tests.kit.timed import machines as switched
from tests.kit.timed import right

SIZES = st.sampled_from([1, 1000, 1 << 20])


@st.composite
def in_groups(draw: st.DrawFn, ranks: int, *, counted: bool = False) -> str:
    """Return an allreduce in groups, some ranks perhaps in none, or several such together."""
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        order = draw(st.permutations(range(ranks)))
        groups: list[str] = []
        while len(order) > 1 and (not groups or draw(st.booleans())):
            cut = draw(st.integers(2, len(order)))
            groups.append(",".join(map(str, order[:cut])))
            order = order[cut:]
        times_as_large = draw(st.sampled_from(["", "3*"])) if counted else ""
        parts.append(f"{times_as_large}allreduce@{'/'.join(groups)}")
    return "+".join(parts)


@small_tacos_budget()
def planned(synthesiser: str, request: Request, **told: Any) -> Solution:
    """Return a plan of little effort, and check that it is valid and respects its bound."""
    load = registry.load(synthesiser)
    found = registry.plan(load, request, load.Options(**told), Effort(units=0.05))
    assert isinstance(found, Solution)
    plan, least = found.plan, found.bound.value
    assert isinstance(plan, Schedule)
    assert violations(plan) == []
    assert request.topology.switches or executes_correctly(plan)
    assert replay(plan).finish == plan.finish
    assert found.objective == Fraction(plan.finish * plan.tick_ps, 10**6)
    assert least is not None
    assert least <= found.objective
    return found


def gathering(spec: Spec) -> Spec:
    """Return the collective that brings all contributions to all ranks that demand their sum."""
    collective = spec.at(spec.unit)
    sums = map(collective.holders, range(spec.pattern_chunks))
    pairs = [(group, rank) for group in sums for rank in sorted(group)]
    return Spec(
        "gathering",
        spec.ranks,
        unit=1,
        pattern_chunks=len(pairs),
        pre=Relation(RelationKind.PAIRS, pattern=tuple(to_ranks([rank]) for _, rank in pairs)),
        post=Relation(RelationKind.PAIRS, pattern=tuple(group for group, _ in pairs)),
    )


@settings(max_examples=times(25, by_day=5), deadline=None)
@given(st.data())
def test_no_plan_of_any_method_beats_the_bound_of_another(data: st.DataObject) -> None:
    """Phases, overlapping trees, direct demands, and all contributions gathered on all ranks."""
    topology = data.draw(unequal() | topologies(max_ranks=5))
    spec = resolve_collective(data.draw(in_groups(topology.ranks)), topology.ranks)
    alpha, chunks = (
        data.draw(st.sampled_from(["travels", "occupies"])),
        data.draw(st.integers(1, 2)),
    )
    each = data.draw(SIZES) * chunks  # whole bytes per chunk: otherwise methods serve unequal sizes
    size = each * spec.unit
    request = Request(topology, spec, size)
    told: dict[str, Any] = {"chunks": chunks, "alpha": alpha}
    listed = planned("tacos", request, **told)
    found = [listed, planned("teccl", request, **told)]
    if alpha == "travels":  # otherwise chunks may be sent together
        found.append(planned("taccl", request, **told))
        found.append(planned("limits-time", request))
    gathered = planned("tacos", Request(topology, gathering(spec), each), **told)
    attained = [one.objective for one in (*found, gathered)]
    assert max(one.bound.value for one in found) <= min(attained)
    plan = listed.plan
    assert isinstance(plan, Schedule)
    for together in (False, True):
        ticks = compute_time_bound(
            topology, spec, plan.collective, plan.clock, together=together
        ).value
        assert ticks <= min(attained) * 10**6 / plan.tick_ps
    assert completion_time_bound(topology, spec).us(size) <= min(attained)


@settings(max_examples=times(100, by_day=50), deadline=None)
@given(right(lambda ranks: in_groups(ranks).map(lambda text: resolve_collective(text, ranks))))
def test_no_schedule_that_is_right_is_faster(schedule: Schedule) -> None:
    """Into one rank of each group and out again, through others, switches and buses."""
    assert violations(schedule) == []
    collective = schedule.collective
    asked = schedule.topology, recover_spec(collective), collective, schedule.clock
    assert (
        compute_time_bound(*asked, together=schedule.has_combined_transfers).value
        <= schedule.finish
    )


@settings(max_examples=times(15, by_day=3), deadline=None)
@given(st.data())
def test_switches_pass_on_what_groups_reduce(data: st.DataObject) -> None:
    topology = data.draw(switched())
    spec = resolve_collective(data.draw(in_groups(topology.ranks)), topology.ranks)
    size = data.draw(st.sampled_from([1, 1000])) * spec.unit
    found = [planned(of, Request(topology, spec, size), alpha="travels") for of in PLANNERS]
    attained = [one.objective for one in found]
    assert max(one.bound.value for one in found) <= min(attained)


PLANNERS = ("tacos", "teccl", "taccl")


@settings(max_examples=times(15, by_day=3), deadline=None)
@given(st.data())
def test_groups_have_chunks_of_sizes_of_their_own(data: st.DataObject) -> None:
    topology = data.draw(unequal())
    spec = resolve_collective(data.draw(in_groups(topology.ranks, counted=True)), topology.ranks)
    combine = data.draw(st.sampled_from(["auto", "reversal"]))
    found = planned("teccl", Request(topology, spec, data.draw(SIZES)), combine=combine)
    assert found.plan.collective == spec.at(spec.unit)


@settings(max_examples=times(40, by_day=20), deadline=None)
@given(st.data())
def test_one_group_of_all_ranks_is_bounded_as_allreduce_is(data: st.DataObject) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=5))
    ranks, size = topology.ranks, data.draw(SIZES)
    order = ",".join(map(str, reversed(range(ranks))))
    whole, group = named_spec("allreduce", ranks), resolve_collective(f"allreduce@{order}", ranks)
    least = [completion_time_bound(topology, one) for one in (whole, group)]
    assert least[0] == least[1]
    clock = Clock.from_topology(topology, size, AlphaModel.TRAVELS)
    net = build_arrays(topology, clock, build_routes(topology, clock))
    ticks = [
        allreduce_bound_ticks(topology, clock, net, one)
        for one in (whole.at(ranks), group.at(ranks))
    ]
    assert ticks[0] == ticks[1]


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("synthesiser", PLANNERS)
def test_pairs_are_reduced_over_ranks_between(synthesiser: str, size: int) -> None:
    ring = machine("ring:6")
    spec = resolve_collective("allreduce@0,3/1,4/2,5", 6)
    planned(synthesiser, Request(ring, spec, size))


def test_groups_may_be_all_that_links_join() -> None:
    links = [(0, 1), (1, 0), (2, 3), (3, 2)]
    apart = Topology("apart", 4, tuple(Link(u, v, 1, 1.0, 10.0) for u, v in links), 1.0, 10.0)
    for synthesiser in PLANNERS:
        found = planned(synthesiser, Request(apart, resolve_collective("allreduce@2x2", 4), 1000))
        assert found.bound.value
        with pytest.raises(InputError, match="no path leads"):
            planned(synthesiser, Request(apart, resolve_collective("allreduce@0,2/1,3", 4), 1000))


@given(st.data())
def test_dual_gathers_in_the_same_groups(data: st.DataObject) -> None:
    ranks = data.draw(st.integers(2, 9))
    text = data.draw(in_groups(ranks, counted=True))
    spec = resolve_collective(text, ranks)
    if not spec.post.pattern:
        return  # of all ranks in order: allreduce itself
    dual = dual_of(spec)
    assert (dual.phases, dual.chunk_factor) == (2, spec.unit)
    assert not dual.spec.combining
    assert (dual.spec.post, dual.spec.counts) == (spec.post, spec.counts)
    scattered, renamed = dual.first_phase, spec.name.replace("allreduce", "reducescatter")
    assert (scattered.pre, scattered.post) == (spec.pre, dual.spec.pre)
    assert (scattered.unit, scattered.name) == (spec.unit, renamed)
    held: dict[frozenset[Rank], list[int]] = {}
    for chunk, group in enumerate(spec.post.pattern):
        (owner,) = dual.spec.at(1).holders(chunk)
        held.setdefault(group, []).append(owner)
    for group, owners in held.items():
        assert owners == sorted(group) * (len(owners) // len(group))


def test_dual_is_what_its_name_says() -> None:
    for text in ("@2x4", "@2x4.strided", "@0,7/5,2+2*allreduce@4x2.strided", "@0-7"):
        dual = dual_of(resolve_collective(f"allreduce{text}", 8)).spec
        named_so = resolve_collective(dual.name, 8)
        assert dual.at(1).chunk_classes().keys() == named_so.at(1).chunk_classes().keys()
        assert replace(dual, pre=named_so.pre) == named_so
    assert dual_of(resolve_collective("allreduce@0-2/5,7", 8)).spec.name == "allreduce@0-2/5,7-dual"


def test_trees_are_nearer_the_least_time_in_groups_than_phases_are() -> None:
    """Two phases of a DGX-1 in two groups of four take 16.8 us, and nothing less than 14.4."""
    topology, spec = machine("dgx1"), resolve_collective("allreduce@2x4", 8)
    found = planned("limits-time", Request(topology, spec, 1_024_000), gap=0.05)
    assert found.bound.value == Fraction(43, 3) + Fraction(2, 100)
    assert found.objective < Fraction(1540, 100)  # 15.36 us: links keep the order of steps


def test_trees_are_of_allreduces_alone() -> None:
    limit = registry.load("limits")
    for name, text in (("ring:4", "allgather"), ("ring:65", "allreduce")):
        topology = machine(name)
        request = Request(topology, resolve_collective(text, topology.ranks), 1000)
        with pytest.raises(InputError, match="is no allreduce on up to 64"):
            registry.plan(limit, request, limit.Options(trees=True))
    request = Request(machine("dgx1"), resolve_collective("allreduce@2x4", 8), 1000)
    found = registry.plan(limit, request, limit.Options(trees=True, steps=3))
    assert isinstance(found, Solution)
    assert isinstance(found.plan, Algorithm)
    assert found.plan.steps == 3
    assert found.objective == found.bound.value == Fraction(4, 11)
    short = registry.plan(limit, request, limit.Options(trees=True, steps=1))
    assert isinstance(short, Inconclusive)
    assert str(short.reason) == "trees up and down take 2 steps"
