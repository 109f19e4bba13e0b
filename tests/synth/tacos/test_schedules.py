"""TACOS: valid by an independent executor, and close to the lower bound."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import collective_names, custom_spec, named_spec
from sccl.core.clock import AlphaModel
from sccl.core.files.shapes import CustomCollectiveWire
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.stop import StopReason
from sccl.core.topology import Budget, Link, Topology
from sccl.errors import CollectiveError, InputError, UnreachableError
from sccl.judge import violations
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.tacos import planner, restarts
from sccl.synth.tacos.options import Options
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.schedule_executor import executes_correctly
from tests.kit.strategies import reductions, specs, topologies, unequal
from tests.kit.tacos import found, schedule

TACOS = registry.load("tacos")


@settings(max_examples=times(60, by_day=30))
@given(st.data())
def test_schedules_are_right_and_no_faster_than_the_bound(data: st.DataObject) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=5))
    spec = data.draw(specs(topology.ranks))
    told: dict[str, object] = {"alpha": data.draw(st.sampled_from(AlphaModel)).value}
    told["improve"] = data.draw(st.sampled_from([0.0, 0.01]))
    chunks, size = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 1000, 1 << 20]))
    try:
        best = found(topology, spec, size, chunks=chunks, seed=data.draw(st.integers(0, 9)), **told)
    except CollectiveError as error:  # of a combining one of the user's own
        assume("reduces and ends with" not in str(error))
        raise
    plan = schedule(best)
    assert violations(plan) == []
    assert executes_correctly(plan)
    assert best.objective == Fraction(plan.finish * plan.tick_ps, 10**6)
    assert best.bound.value <= best.objective


@settings(max_examples=times(40, by_day=20))
@given(st.data())
def test_sums_of_some_ranks_pass_only_who_has_something_to_add_or_pass_on(
    data: st.DataObject,
) -> None:
    machine = data.draw(unequal() | topologies(max_ranks=6))
    spec, chunks = data.draw(reductions(machine.ranks)), data.draw(st.integers(1, 3))
    improve = data.draw(st.sampled_from([0.0, 0.01]))
    assert executes_correctly(schedule(found(machine, spec, 1000, chunks=chunks, improve=improve)))


def test_useless_transfers_are_removed() -> None:
    pre = ((0, 2), (1, 1))
    post = (*((0, rank) for rank in range(4)), (1, 0), (1, 3))
    spec = custom_spec(CustomCollectiveWire(name="some", ranks=4, pre=pre, post=post), "here")
    machine = resolve_topology("ring:4")
    plan = schedule(found(machine, spec, 60_000, chunks=2))
    assert executes_correctly(plan)
    ends = [machine.links[link].edge for link in plan.link.tolist()]
    rows = list(zip(plan.chunk.tolist(), ends, strict=True))
    passed_on = {(chunk, src) for chunk, (src, _) in rows}
    asked = plan.collective.post
    assert all(dst in asked.ranks_of(c, 4) or (c, dst) in passed_on for c, (_, dst) in rows)


def torus(sides: tuple[int, ...], gb_per_s: tuple[float, ...]) -> Topology:
    """Return a torus of which each dimension has a speed of its own."""
    place = {at: i for i, at in enumerate(product(*map(range, sides)))}
    links = {
        Link(rank, place[(*at[:d], (at[d] + step) % side, *at[d + 1 :])], 1, 0.5, gb_per_s[d])
        for at, rank in place.items()
        for d, side in enumerate(sides)
        for step in (1, -1)
    }
    return Topology("torus", len(place), tuple(links), 0.5, gb_per_s[0])


def dragonfly(ranks: int, groups: int, gb_per_s: tuple[float, float]) -> Topology:
    plain = resolve_topology(f"dragonfly:{ranks}x{groups}")
    speeds = [gb_per_s[k.src // ranks != k.dst // ranks] for k in plain.links]
    links = [replace(k, gb_per_s=v) for k, v in zip(plain.links, speeds, strict=True)]
    return replace(plain, links=tuple(links))


@pytest.mark.parametrize("name", ["torus:8x8x8", "torus:23x23", "mesh:16x16", "mesh:5x7"])
def test_links_that_cost_alike_come_within_a_hundredth_of_the_bound(name: str) -> None:
    machine = resolve_topology(name)
    for collective in ("allgather", "reducescatter"):
        best = found(machine, named_spec(collective, machine.ranks))
        assert best.gap is not None
        assert best.gap <= 0.01
        assert best.is_optimal == (best.gap == 0)


@pytest.mark.parametrize(
    ("machine", "most"),
    [
        pytest.param(torus((4, 4, 4), (50, 25, 12.5)), 0.05, marks=pytest.mark.nightly),
        (torus((4, 4, 4), (300, 25, 100)), 0.07),
        (torus((8, 8), (50, 12.5)), 0.03),
        (dragonfly(4, 5, (400, 200)), 0.05),
    ],
    ids=["halves", "mixed", "quarter", "dragonfly"],
)
@pytest.mark.parametrize("alpha", ["occupies", "travels"])
def test_links_that_cost_unlike_come_near_the_bound(
    machine: Topology, most: float, alpha: str
) -> None:
    spec = named_spec("allgather", machine.ranks)
    bests = [found(machine, spec, 1 << 22, chunks=4, seed=s, alpha=alpha) for s in range(3)]
    assert sum(best.gap or 0 for best in bests) / 3 <= most


@pytest.mark.parametrize(("name", "most"), [("ring:8", 0.0), ("torus:4x4", 0.0), ("mesh:5x5", 0.1)])
def test_rooted_collectives_come_close_to_the_bound(name: str, most: float) -> None:
    machine = resolve_topology(name)
    for collective in ("gather", "scatter"):
        best = found(machine, named_spec(collective, machine.ranks), restarts=4)
        assert best.gap is not None
        assert best.gap <= most


@pytest.mark.parametrize(("name", "most"), [("ring:8", 0.0), ("torus:8x8", 0.1), ("full:5", 0.0)])
def test_alltoall_comes_near_the_work_of_all_links(name: str, most: float) -> None:
    machine = resolve_topology(name)
    best = found(machine, named_spec("alltoall", machine.ranks), chunks=2)
    assert executes_correctly(schedule(best))
    assert best.gap is not None
    assert best.gap <= most


@pytest.mark.parametrize("alpha", ["occupies", "travels"])
def test_bounds_count_that_chunks_spread_within_groups(alpha: str) -> None:
    """The last data that enter a group of a dragonfly still have to be forwarded there."""
    machine = dragonfly(4, 5, (400, 200))
    for chunks in (1, 4):
        assert found(
            machine, named_spec("allgather", 20), chunks << 20, chunks=chunks, alpha=alpha
        ).is_optimal
    pod = resolve_topology("switch2d:4x2@300,25GB+0.5us")
    best = found(pod, named_spec("allgather", 8), 1 << 20, alpha=alpha)
    assert best.gap is not None
    assert best.gap <= 0.001


def test_bounds_look_at_groups_of_machines_whose_links_cost_alike() -> None:
    assert found(resolve_topology("dragonfly:4x5"), named_spec("alltoall", 20), 20 << 20).is_optimal
    best = found(resolve_topology("dgx1"), named_spec("alltoall", 8), 8 << 20)
    assert best.gap is not None
    assert best.gap <= 0.02


def test_chunks_take_detours_where_shortest_ways_are_full() -> None:
    direct = Link(0, 1, 1, 0.0, 8.0)
    around = (Link(0, 2, 1, 0.0, 8.0), Link(2, 1, 1, 0.0, 8.0), Link(1, 0, 1, 0.0, 8.0))
    slow = Link(0, 3, 1, 0.0, 1.0), Link(3, 1, 1, 0.0, 8.0), Link(2, 3, 1, 0.0, 8.0)
    machine = Topology("detour", 4, (direct, *around, *slow), 0.0, 8.0)
    spec = custom_spec(
        CustomCollectiveWire(name="move", ranks=4, pre=((0, 0),), post=((0, 3),)), "here"
    )
    plan = schedule(found(machine, spec, 1 << 20, chunks=32))
    used = {machine.links[link].edge for link in plan.link.tolist()}
    assert {(0, 3), (2, 3)} <= used


def test_chunk_comes_over_a_dear_link_where_those_between_have_no_use_for_it() -> None:
    cheap = [(1, 3), (3, 4), (4, 2)]
    links = [Link(*edge, 1, 4.0, 1e6) for u, v in cheap for edge in ((u, v), (v, u))]
    links += [Link(0, 1, 1, 1.0, 1e6), Link(0, 2, 1, 10.0, 1e6)]
    machine = Topology("by-pass", 5, tuple(links), 1.0, 1e6)
    wire = CustomCollectiveWire(name="two", ranks=5, pre=((0, 0),), post=((0, 1), (0, 2)))
    plan = schedule(found(machine, custom_spec(wire, "here"), 1))
    assert executes_correctly(plan)
    assert plan.num_sends == 2


def test_bus_of_links_with_other_lags_bears_the_way_back_too() -> None:
    links = (Link(1, 0, 1, 0.0, 131.072), Link(2, 0, 1, 3.0, 262.144))
    back = (Link(0, 1, 1, 0.0, 1.0), Link(0, 2, 1, 0.0, 1.0))
    bus = Budget("bus", ((1, 0), (2, 0)), 1, 262.144)
    machine = Topology("lags", 3, (*links, *back), 0.0, 1.0, budgets=(bus,))
    plan = schedule(found(machine, named_spec("reduce", 3), 1 << 20, alpha="travels"))
    assert executes_correctly(plan)


def test_allreduce_is_a_reducescatter_and_then_an_allgather() -> None:
    mesh = resolve_topology("mesh:4x4")
    half = found(mesh, named_spec("reducescatter", 16)).objective
    whole = found(mesh, named_spec("allreduce", 16))
    assert whole.objective == 2 * half
    assert sum(schedule(whole).reduce) == 15 * 16


def test_seed_gives_the_same_bytes_and_another_other_ones() -> None:
    spec = named_spec("allgather", 16)
    for machine in (resolve_topology("torus:4x4"), torus((4, 4), (50, 25))):
        first, again, other = (found(machine, spec, seed=s).plan for s in (1, 1, 2))
        assert first == again
        assert first != other


def test_restarts_keep_the_best_and_end_where_it_is_proved() -> None:
    machine = torus((6, 4), (50, 20))
    spec = named_spec("allgather", 24)
    bests = [found(machine, spec, seed=7, restarts=n, improve=0) for n in range(1, 9)]
    each = [best.objective for best in bests]
    assert each == sorted(each, reverse=True)
    assert each[-1] < each[0]
    told: list[object] = []
    request = Request(resolve_topology("ring:4"), named_spec("allgather", 4), 1 << 20)
    assert planner.plan(request, Options(restarts=50), Effort(), told.append).is_optimal  # type: ignore[union-attr]
    assert len(told) == 1


UNEQUAL = torus((4, 4), (50, 25))
ASKED = [
    (UNEQUAL, "allgather"),
    (UNEQUAL, "allreduce"),
    (resolve_topology("torus:4x4"), "reducescatter"),
    (resolve_topology("dgx1"), "alltoall"),
]


@pytest.mark.parametrize(("machine", "collective"), ASKED, ids=["", "halves", "alike", "routed"])
def test_rematching_never_increases_the_time(machine: Topology, collective: str) -> None:
    spec = named_spec(collective, machine.ranks)
    for seed in range(3):
        each = [
            found(machine, spec, seed=seed, improve=units, alpha="travels")
            for units in (0, 0.01, 0.03)
        ]
        finish = [best.objective for best in each]
        assert finish == sorted(finish, reverse=True)
        assert all(executes_correctly(schedule(best)) for best in each)
        assert len({best.bound.value for best in each}) == 1


def test_local_improvement_shortens_the_schedule() -> None:
    spec = named_spec("allgather", 16)
    plain, better = (found(UNEQUAL, spec, improve=u, alpha="travels") for u in (0, 0.05))
    assert better.objective < plain.objective


@pytest.mark.parametrize("jobs", [2, 3])
def test_jobs_change_no_byte(jobs: int) -> None:
    spec = named_spec("allgather", 16)
    told = {"restarts": 5, "improve": 0.002}
    for effort in (Effort(seed=3), Effort(seed=3, units=0.01)):
        request = Request(UNEQUAL, spec, 1 << 20)
        one, many = (
            planner.plan(request, Options(**told, jobs=n), effort, lambda _: None)  # type: ignore[arg-type]
            for n in (1, jobs)
        )
        assert type(one) is type(many)
        best, other = (
            each.best if isinstance(each, Inconclusive) else each for each in (one, many)
        )
        assert isinstance(best, Solution)
        assert isinstance(other, Solution)
        assert best.plan == other.plan


@pytest.mark.parametrize(
    "raised", [restarts.AttemptStopped(StopReason.parse("timeout after 1 s")), KeyboardInterrupt()]
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted_search_returns_the_best_so_far(
    raised: BaseException, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request(torus((5, 5), (50, 12.5)), named_spec("allgather", 25), 1 << 20)
    calls = []

    def check(_: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise raised

    monkeypatch.setattr(restarts.AttemptMeter, "check", check)
    outcome = planner.plan(request, Options(restarts=9, jobs=jobs), Effort(), lambda _: None)
    assert isinstance(outcome, Inconclusive)
    assert outcome.best is not None
    assert executes_correctly(schedule(outcome.best))


def test_interrupt_before_anything_is_found_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(restarts.AttemptMeter, "check", check)
    with pytest.raises(KeyboardInterrupt):
        found(resolve_topology("ring:4"), named_spec("allgather", 4))


def test_effort_ends_restarts_and_large_matchings_alike() -> None:
    request = Request(torus((5, 5), (50, 12.5)), named_spec("allgather", 25), 1 << 20)
    outcome = planner.plan(request, Options(restarts=9), Effort(units=1e-9), lambda _: None)
    assert isinstance(outcome, Inconclusive)
    assert outcome.best is not None
    large = Request(torus((8, 8, 8), (50, 25, 25)), named_spec("allgather", 512), 1 << 20)
    assert planner.plan(large, Options(), Effort(units=1e-9), lambda _: None) == Inconclusive(
        StopReason.parse("no schedule within a budget of 1e-09")
    )


@pytest.mark.parametrize("name", collective_names())
def test_unreachable_rank_is_reported(name: str) -> None:
    both_ways = (Link(0, 1, 1, 1.0, 1.0), Link(1, 0, 1, 1.0, 1.0))
    apart = Topology("apart", 3, both_ways, 1.0, 1.0)
    uneven = replace(apart, links=(*both_ways, Link(0, 2, 1, 1.0, 2.0)))
    for machine in (apart, uneven):
        if machine is uneven and name in {"broadcast", "scatter"}:
            assert executes_correctly(schedule(found(machine, named_spec(name, 3))))
        else:
            with pytest.raises(UnreachableError, match="no path"):
                found(machine, named_spec(name, 3))


def test_times_far_beyond_microseconds_take_longer_ticks() -> None:
    slow = replace(resolve_topology("ring:4"), alpha_us=1e6)
    slow = replace(slow, links=tuple(replace(k, gb_per_s=1e-6) for k in slow.links))
    plan = schedule(found(slow, named_spec("allgather", 4), 1 << 40, chunks=1024))
    assert plan.tick_ps > 1
    assert violations(plan) == []


def test_more_than_memory_holds_is_rejected() -> None:
    big = resolve_topology("mesh:256x256")
    with pytest.raises(InputError, match="transfers; this version keeps up to"):
        found(big, named_spec("allgather", big.ranks))


def test_costs_beyond_any_tick_are_rejected() -> None:
    ring = resolve_topology("ring:4")
    slow = replace(ring, links=tuple(replace(k, gb_per_s=1e-12) for k in ring.links))
    with pytest.raises(InputError, match="more than can be counted: give smaller costs or sizes"):
        found(slow, named_spec("allgather", 4), 1 << 44)
