"""Time bounds: no valid schedule of any chunks is faster, and some are as fast."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec, collective_names, named_spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.outcome import Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.errors import InputError, TooLargeError, UnreachableError
from sccl.judge import violations
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.prove.check.time_bounds import group_time_bound
from sccl.synth import baselines
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.topo import resolve_topology
from tests.kit import timed
from tests.kit.baselines import ALL, request
from tests.kit.nightly import times


def finish_us(schedule: Schedule) -> Fraction:
    return Fraction(schedule.finish * schedule.tick_ps, 10**6)


def smallest_buffer(schedule: Schedule) -> int:
    sizes = schedule.chunk_bytes
    return schedule.collective.chunks * (sizes if isinstance(sizes, int) else min(sizes))


@given(timed.right())
@settings(max_examples=times(200, by_day=100), deadline=None)
def test_no_schedule_that_is_right_is_faster(schedule: Schedule) -> None:
    """Over unequal links, buses and switches of every kind, of one transfer after the other."""
    c = schedule.collective
    spec = Spec(
        c.name, c.ranks, c.chunks, c.num_chunks, c.pre, c.post, combining=c.combining, root=c.root
    )
    least = completion_time_bound(schedule.topology, spec)
    assert finish_us(schedule) >= least.us(smallest_buffer(schedule))


@given(st.data())
@settings(max_examples=times(60, by_day=30), deadline=None)
def test_no_classical_algorithm_is_faster(data: st.DataObject) -> None:
    name, collective = data.draw(st.sampled_from(ALL))
    machine = data.draw(st.sampled_from(["dgx1", "torus:4x4", "mesh:3x3", "star:6", "line:8"]))
    size = data.draw(st.integers(1, 2**24))
    asked = request(collective, machine, size=size)
    try:
        pattern = baselines.make_pattern(name, asked, data.draw(st.sampled_from([1, 3])))
    except InputError:
        return
    chunk = -(-size // pattern.collective.chunks)
    clock = Clock.from_topology(asked.topology, chunk, data.draw(st.sampled_from(AlphaModel)))
    made = baselines.to_schedule(pattern, asked.topology, clock)
    assert violations(made) == []
    assert finish_us(made) >= completion_time_bound(asked.topology, asked.spec).us(size)


@pytest.mark.parametrize("collective", collective_names())
@pytest.mark.parametrize("machine", ["dgx1", "dragonfly:3x4"])
@pytest.mark.parametrize(
    "size", [1024, *(pytest.param(size, marks=pytest.mark.nightly) for size in (2**20, 2**30))]
)
def test_tacos_is_not_faster(machine: str, collective: str, size: int) -> None:
    """If latency dominates, one chunk comes closest to the bound, otherwise several do."""
    asked, chunks = request(collective, machine, size=size), 1 if size == 1024 else 4
    for alpha in AlphaModel:
        tacos = registry.load("tacos")
        found = registry.plan(tacos, asked, tacos.Options(chunks=chunks, alpha=alpha.value))
        assert isinstance(found, Solution)
        assert found.objective >= completion_time_bound(asked.topology, asked.spec).us(size)


@pytest.mark.parametrize(
    ("machine", "collective", "size", "us"),
    [
        ("full:4", "allgather", 25_000, "1.7"),  # each chunk over its own link: alpha and a us
        ("ring:4", "allgather", 100_000, "6.7"),  # 3 chunks of 4 us over 2 links, and an alpha
        ("ring:8", "broadcast", 50_000, "3.8"),  # 4 alphas to the farthest, half each way
        ("line:4", "broadcast", 25_000, "3.1"),  # 3 alphas, and all of it over each link
        ("line:4", "reduce", 25_000, "3.1"),
        ("line:4", "gather", 25_000, "3.7"),  # three chunks over the last link, and an alpha
        ("torus:4x4", "alltoall", 2_000_000, "40.7"),  # shortest paths fill all links: R/C = 1/2
        ("torus:4x4", "allreduce", 1_600_000, "30.7"),  # 30 sends of all bytes over 64 links
        # 8 times from one of 5 groups to another, over 20 links
        ("dragonfly:4x5@100,25GB+0.7us", "allreduce", 2_500_000, "40.7"),
        # 6 times from one node to another, over a port of each of 32 ranks, and two alphas
        ("switch2d:8x4@300,25GB+0.7us", "allreduce", 3_200_000, "25.4"),
    ],
)
def test_known_times(machine: str, collective: str, size: int, us: str) -> None:
    """All with alpha 0.7 us and 25,000 bytes a us."""
    asked = request(collective, machine)
    assert completion_time_bound(asked.topology, asked.spec).us(size) == Fraction(us)


@pytest.mark.parametrize(
    ("machine", "us"),
    [
        # 30 sends over links of 2,400,000 bytes a us in all, and an alpha
        ("torus:4x4@50,25GB", "13.2"),
        # 6 times from one of 4 chassis to another, at 12,500 bytes a us of ingress
        ("ndv2x4", "121.7"),
    ],
)
def test_allreduce_is_bounded_where_links_are_not_alike(machine: str, us: str) -> None:
    """Cuts of single ranks too, and nodes with one budget for ingress and one for egress."""
    asked = request("allreduce", machine)
    size, spec = 1_000_000, asked.spec
    bound = completion_time_bound(asked.topology, spec)
    assert bound.us(size) == Fraction(us)
    best = max(bound.cuts, key=lambda one: one.us(size))
    assert isinstance(best.cut, tuple)
    proved = group_time_bound(
        asked.topology, spec.at(spec.unit), Fraction(size), best.cut, lambda _: None
    )
    assert proved.us(size) == Fraction(us)


@given(
    st.sampled_from(["dgx1", "ndv2x2", "mesh:3x3"]), st.sampled_from(collective_names()), st.data()
)
@settings(max_examples=times(40, by_day=20), deadline=None)
def test_more_bytes_take_longer_and_half_of_them_more_than_half(
    machine: str, collective: str, data: st.DataObject
) -> None:
    asked = request(collective, machine)
    least = completion_time_bound(asked.topology, asked.spec)
    size = data.draw(st.integers(1, 2**30))
    assert least.us(size) < least.us(2 * size) <= 2 * least.us(size)


def test_budget_and_a_switch_count() -> None:
    links = tuple(
        Link(u, v, 1, 1.0, 1.0) for u, v in [(0, 3), (1, 3), (2, 3), (3, 0), (3, 1), (3, 2)]
    )
    machine = Topology("hub", 3, tuple(sorted(links, key=lambda k: k.edge)), 1.0, 1.0,
                       switches=(Switch("hub"),))  # fmt: skip
    spec = request("allgather", "full:3").spec
    assert completion_time_bound(machine, spec).us(1000) == 2 + 2  # two alphas, two chunks of a us
    bus = Budget("bus", ((0, 3), (1, 3), (2, 3)), 1, 0.5)
    assert (
        completion_time_bound(
            Topology("bus", 3, machine.links, 1.0, 1.0, budgets=(bus,), switches=machine.switches),
            spec,
        ).us(1000)
        == 2 + 4
    )  # two chunks of two us pass the bus on their way to any rank


def test_collective_without_time_bound_is_rejected() -> None:
    apart = Topology("apart", 3, (Link(0, 1, 1, 1.0, 1.0), Link(1, 0, 1, 1.0, 1.0)), 1.0, 1.0)
    with pytest.raises(UnreachableError, match="no path leads from rank 1 to rank 2"):
        completion_time_bound(apart, request("broadcast", "full:3", root=1).spec)
    large = resolve_topology("ring:1025")
    with pytest.raises(TooLargeError, match="has 1025 ranks"):
        completion_time_bound(large, Request(large, request("broadcast", "ring:1025").spec, 1).spec)


@pytest.mark.parametrize(
    ("collective", "size", "least"),
    # 256 parts of 1/32 of the size go over 8 links of 25 GB/s that leave the switches of a chassis
    [("alltoall", 10**6, Fraction("42.8")), ("alltoall", 32 * 10**6, Fraction("1282.8"))],
)
def test_cuts_take_switches_with_which_the_least_leaves_a_chassis(
    collective: str, size: int, least: Fraction
) -> None:
    machine = resolve_topology("teccl-amdx2")
    assert completion_time_bound(machine, named_spec(collective, 32)).us(size) == least


@pytest.mark.parametrize("name", ["allgather", "gather"])
def test_one_rank_bounds_what_leaves_a_chassis_by_its_narrowest_links(name: str) -> None:
    """Eight uplinks of 25 GB/s, each shared by two ranks, all but one not leading to rank 0."""
    machine = resolve_topology("teccl-amdx2")
    least = completion_time_bound(machine, named_spec(name, machine.ranks)).us(64_000)
    assert least == Fraction(897, 100)


def test_one_rank_and_the_farthest_bound_an_allreduce() -> None:
    """The data from rank 0 for rank 5 come by its leaf switch or, later, by neighbors'."""
    machine = resolve_topology("rail:4x4")
    both = [
        completion_time_bound(machine, named_spec(name, 16)).us(64_000)
        for name in ("allreduce", "broadcast")
    ]
    assert both == [Fraction(344, 100)] * 2


def test_cuts_are_the_same_both_ways() -> None:
    """Among cuts of equal capacity the ones near both ends are examined."""
    machine = resolve_topology("teccl-amdx2")
    into, out = (named_spec(name, machine.ranks) for name in ("gather", "scatter"))
    backwards = completion_time_bound(machine.reversed(), out).us(32 * 64_000)
    assert backwards == completion_time_bound(machine, into).us(64_000)
