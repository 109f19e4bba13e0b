"""The time bound by size: it holds between the evaluated sizes, and its text is correct."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec, named_spec
from sccl.comparison.contenders import ClassicalContender, ComparisonProblem
from sccl.core.clock import AlphaModel
from sccl.core.outcome import best_plan
from sccl.core.topology import Topology
from sccl.errors import CollectiveError, InputError, TopologyError
from sccl.prove.bounds.time_cuts import CompletionTimeBound, PriceLine, completion_time_bound
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.packing.by_time.lower_bounds import LowerBoundSearch
from sccl.synth.packing.by_time.time_bound_curve import compute_bound_curve
from sccl.topo import resolve_topology
from tests.kit import once
from tests.kit.nightly import times
from tests.kit.strategies import topologies, unequal

SIZES = (60, 6_000, 600_000, 60_000_000)
BETWEEN = (1, 600, 60_000, 6_000_000, 10**10)
COLLECTIVES = ("allgather", "alltoall", "broadcast", "scatter", "reducescatter", "gather")


def curve_of(
    machine: str | Topology, name: str, sizes: tuple[int, ...] = SIZES
) -> CompletionTimeBound:
    topology = resolve_topology(machine) if isinstance(machine, str) else machine
    spec = named_spec(name, topology.ranks)
    return compute_bound_curve(topology, spec, completion_time_bound(topology, spec), sizes)


def plans(topology: Topology, spec: Spec, size: int, model: str) -> list[Fraction]:
    """Return the times of several systems' schedules, microseconds."""
    request, took = Request(topology, spec, size), []
    for name, more in (("tacos", {"chunks": 2}), ("teccl", {"chunks": 1}), ("limits-time", {})):
        one = registry.load(name)
        if name == "limits-time" and model != "travels":
            continue
        told = one.Options(alpha=model, **more)
        found, _ = best_plan(registry.plan(one, request, told, Effort(units=0.2)))
        took += [found.objective] if found else []
    classical = "direct" if spec.name == "alltoall" else "ring"
    if model == "travels" and spec.name in {"alltoall", "allgather", "reducescatter"}:
        contest = ComparisonProblem(topology, spec, AlphaModel.TRAVELS)
        with suppress(InputError):  # where ranks are not joined both ways
            best = ClassicalContender(contest, classical, "baseline", "").fastest(size)
            took += [best.us] if best else []
    return took


@settings(max_examples=times(15, by_day=4))
@given(st.data())
def test_no_schedule_is_below_the_curve_at_any_size(data: st.DataObject) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=4))
    spec = named_spec(data.draw(st.sampled_from(COLLECTIVES)), topology.ranks)
    found = compute_bound_curve(topology, spec, completion_time_bound(topology, spec), SIZES)
    size = data.draw(st.sampled_from([*SIZES, *BETWEEN[:-1]]))
    model = data.draw(st.sampled_from(["travels", "occupies"]))
    try:
        took = plans(topology, spec, size, model)
    except (CollectiveError, TopologyError) as error:
        assume("reduces and ends with" not in str(error))
        raise
    assert all(found.us(size) <= us for us in took)


@settings(max_examples=times(15))
@given(st.data())
def test_more_bytes_take_no_less_and_a_byte_of_more_no_more(data: st.DataObject) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=5))
    found = curve_of(topology, data.draw(st.sampled_from(COLLECTIVES)))
    sizes = sorted(data.draw(st.lists(st.integers(1, 10**9), min_size=2, max_size=6)))
    us = [found.us(size) for size in sizes]
    assert us == sorted(us)
    each = [one / size for one, size in zip(us, sizes, strict=True)]
    assert each == sorted(each, reverse=True)


ALPHA, LANE = Fraction(7, 10), 25_000  # of a DGX-1: us, and bytes a us


@pytest.mark.parametrize(
    ("alphas", "lanes"),
    [
        (Fraction(9, 4), Fraction(3, 8)),
        (Fraction(5, 2), Fraction(3, 4)),
        (Fraction(11, 4), Fraction(13, 12)),
        (Fraction(3), Fraction(4, 3)),
        (Fraction(13, 4), Fraction(11, 6)),
        (Fraction(7, 2), Fraction(15, 7)),
        (Fraction(10), Fraction(54, 7)),
    ],
)
def test_between_sizes_it_is_no_more_than_what_is_known_exactly(
    alphas: Fraction, lanes: Fraction
) -> None:
    """The least time of allgather on a DGX-1 is neither convex nor concave in the bytes."""
    sizes = tuple(4**n for n in range(5, 16))
    name = "the least time of allgather on dgx1 by size"
    found = once.value(name, lambda: curve_of("dgx1", "allgather", sizes))
    assert found.us(lanes * ALPHA * LANE) <= alphas * ALPHA * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize(
    ("machine", "name"),
    [("dgx1", "scatter"), ("dgx1", "alltoall"), ("torus:4x4@50,25GB", "alltoall")],
)
def test_few_programs_say_what_one_for_each_size_does(machine: str, name: str) -> None:
    sizes = tuple(4**n for n in range(5, 16))
    whole = curve_of(machine, name, sizes)
    alone = [curve_of(machine, name, (size,)).us(size) for size in sizes]
    assert any(
        us > whole.us_by_cuts(size) * Fraction(101, 100)
        for size, us in zip(sizes, alone, strict=True)
        for size, us in zip(sizes, alone, strict=True)
    )
    for size, us in zip(sizes, alone, strict=True):
        assert whole.us(size) >= us * Fraction(999, 1000)
    assert 0 < len(whole.prices) < len(sizes) / 2


def test_floor_is_a_part_below_its_line_and_no_more_above() -> None:
    floor = PriceLine(Fraction(2), Fraction(5), Fraction(1, 10), Fraction(1))  # size / 10 - 1
    assert [floor.us(size) for size in (15, 30, 40, 60, 70)] == [1, 2, 3, 5, 5]


def test_size_that_is_known_otherwise_counts_for_others() -> None:
    topology = resolve_topology("ring:4")
    spec = named_spec("allreduce", 4)
    cuts = completion_time_bound(topology, spec)
    found = compute_bound_curve(topology, spec, cuts, (1000,))
    assert (found.prices, found.source(1000)) == (
        (),
        "cuts",
    )  # of two phases no price is known
    more = found.raise_at(1000, 2 * cuts.us(1000))
    assert (more.us(1000), more.source(1000)) == (2 * cuts.us(1000), "prices")
    assert more.us(900) == max(cuts.us(900), cuts.us(1000) * 9 / 5)
    assert more.us(1001) == max(cuts.us(1001), 2 * cuts.us(1000))
    assert more.raise_at(1000, cuts.us(1000)) is more


def test_effort_ends_it_and_the_same_comes_twice() -> None:
    topology, sizes = resolve_topology("dgx1"), (16_000, 1_000_000)
    spec = named_spec("broadcast", 8)
    cuts = completion_time_bound(topology, spec)
    assert compute_bound_curve(topology, spec, cuts, sizes, effort=0.0).prices == ()
    twice = [compute_bound_curve(topology, spec, cuts, (64_000,)) for _ in range(2)]
    assert twice[0] == twice[1]
    assert twice[0].source(64_000) == "prices"


def test_interrupt_ends_the_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LowerBoundSearch, "raise_bound", interrupt)
    with pytest.raises(KeyboardInterrupt):
        curve_of("ring:4", "alltoall")
