"""Alpha and beta from measurements: against the costs that these were made with."""

from __future__ import annotations

import math
import random
import re
import statistics
from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.core.topology import Budget, Link, Topology
from sccl.errors import ParameterError
from sccl.topo import resolve_topology
from sccl.topo.profiles.measured_machine import (
    CostInterval,
    LinkFit,
    build_measured_machine,
    fit_links,
    shared_costs,
)
from sccl.topo.profiles.measurements import LinkTiming, Measurements, Pacing, RepetitionStatistic
from tests.kit.nightly import seed, times
from tests.kit.profiles import measured

EDGE = (0, 1)
ROUNDED = 0.026
"""Costs are written in few digits, by which they move 2.5 % at most."""

ALPHAS, BETAS = st.floats(0.1, 100), st.floats(1, 1000)


def middle(measurements: Measurements) -> tuple[LinkFit, ...]:
    """Return fits to the median of repetitions, which suits noise to both sides."""
    return fit_links(measurements, take=RepetitionStatistic.MEDIAN)


def _inside(value: float, interval: CostInterval, slack: float = 1e-9) -> bool:
    return interval.low * (1 - slack) <= value <= interval.high * (1 + slack)


@given(ALPHAS, BETAS)
@settings(max_examples=times(25))
def test_without_noise_the_costs_come_back(alpha: float, beta: float) -> None:
    (fit,) = fit_links(measured({EDGE: (alpha, beta)}, 2, "exact"))
    assert math.isclose(fit.alpha_us.value, alpha, rel_tol=1e-6)
    assert math.isclose(fit.us_per_mb.value, beta, rel_tol=1e-6)
    assert fit.misfit < 1e-9
    assert math.isclose(fit.gb_per_s.value, 1e3 / beta, rel_tol=1e-6)


@given(ALPHAS, BETAS, st.integers(0, 999), st.sampled_from([0.0, 0.1]))
@settings(max_examples=times(25))
def test_every_time_is_near_that_of_the_true_costs(
    alpha: float, beta: float, number: int, outliers: float
) -> None:
    """With noise of 10 % and outliers, times are correct even if the costs are not.

    Within 2 % in the median of many draws, and within 32 % in the worst of 3,000.
    """
    true = measured({EDGE: (alpha, beta)}, 2, "exact")
    (fit,) = middle(measured({EDGE: (alpha, beta)}, 2, f"{number}", 0.1, outliers))
    for timing in true.timings:
        us = (
            timing.latency_count * fit.alpha_us.value
            + timing.size_bytes / 1e6 * fit.us_per_mb.value
        )
        assert math.isclose(us, timing.us[0], rel_tol=0.4)


def test_costs_lie_in_their_intervals_about_as_often_as_is_reported() -> None:
    rng = random.Random(seed("intervals"))  # noqa: S311 - the same every time
    inside, widths = 0, []
    for number in range(60):
        alpha, beta = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(0.5, 3)
        made = measured({EDGE: (alpha, beta)}, 2, f"{seed('rows')} {number}", 0.1, 0.05)
        (fit,) = middle(made)
        inside += _inside(alpha, fit.alpha_us) + _inside(beta, fit.us_per_mb)
        widths += [one.high / one.low for one in (fit.alpha_us, fit.us_per_mb)]
    assert inside >= 0.8 * 120  # 95 % of many draws, less for outliers, which are all to one side
    assert statistics.median(widths) < 1.2


def test_same_measurements_give_the_same_fit() -> None:
    made = measured({EDGE: (1.0, 50.0)}, 2, "same", 0.2, 0.1)
    assert fit_links(made) == fit_links(replace(made, timings=made.timings))


def test_outliers_hardly_move_a_fit() -> None:
    (plain,) = middle(measured({EDGE: (1.0, 50.0)}, 2, "one", 0.02))
    (moved,) = middle(measured({EDGE: (1.0, 50.0)}, 2, "one", 0.02, 0.15))
    assert math.isclose(plain.alpha_us.value, moved.alpha_us.value, rel_tol=0.1)
    assert math.isclose(plain.us_per_mb.value, moved.us_per_mb.value, rel_tol=0.1)


def test_least_repetition_sees_through_what_else_a_machine_does() -> None:
    """Six of ten repetitions take up to twenty times as long: most medians are of no use."""
    rng = random.Random(seed("busy"))  # noqa: S311 - the same every time
    still = measured({EDGE: (1.0, 50.0)}, 2, "still")
    busy = tuple(
        replace(t, us=tuple(t.us[0] * (rng.uniform(1, 20) if rng.random() < 0.6 else 1)
                            for _ in range(9)))
        for t in still.timings
    )  # fmt: skip
    shown = replace(still, timings=busy)
    (least,), (median,) = fit_links(shown), fit_links(shown, 10.0, RepetitionStatistic.MEDIAN)
    assert math.isclose(least.alpha_us.value, 1.0, rel_tol=0.02)
    assert math.isclose(least.us_per_mb.value, 50.0, rel_tol=0.02)
    assert median.us_per_mb.value > 100


def test_link_without_latency_has_none() -> None:
    (fit,) = fit_links(measured({EDGE: (0.0, 50.0)}, 2, "none", 0.05))
    assert 0 <= fit.alpha_us.low <= fit.alpha_us.value < 0.05
    assert math.isclose(fit.us_per_mb.value, 50, rel_tol=0.05)


def _rows(us: dict[int, float]) -> Measurements:
    timings = tuple(LinkTiming(0, 1, Pacing.IN_TURN, 1, size, (t,)) for size, t in us.items())
    return Measurements("odd", 2, timings)


@pytest.mark.parametrize(
    ("us", "says"),
    [
        ({1 << n: 1000 / n for n in range(10, 20)}, "link 0->1 takes no longer for more bytes"),
        ({1 << n: 5.0 for n in range(10, 20)}, "link 0->1 takes no longer for more bytes"),
        ({1 << n: (n % 2) * 1e4 + n for n in range(10, 20)}, r"missed by \d+% in the median"),
        (
            {n << 38: 1e-6 * n for n in range(1, 4)},
            r"link 0->1: the bandwidth is 2748779069\d*\.\d, expected a .* from 1e-12 to 1e\+12",
        ),
        ({1024: 1.0, 2048: 2.0}, "has 2 timings of 2 sizes, expected at least 3"),
    ],
)
def test_unfittable_measurements_are_rejected(us: dict[int, float], says: str) -> None:
    with pytest.raises(ParameterError, match=says) as told:
        fit_links(_rows(us))
    assert re.search("measurements 'odd' fit no alpha and beta: .*; measure again", str(told.value))


def test_times_that_depend_on_no_bytes_at_all_are_rejected() -> None:
    usual = measured({EDGE: (1.0, 50.0)}, 2, "usual")
    constant = tuple(replace(timing, us=(5.0,)) for timing in usual.timings)
    with pytest.raises(
        ParameterError,
        match="GB/s, an interval that its times do not narrow: measure larger chunks",
    ):
        fit_links(replace(usual, timings=constant))


def test_all_links_that_do_not_fit_are_named() -> None:
    good = measured({(1, 0): (1.0, 50.0)}, 3, "good")
    bad = [
        LinkTiming(*edge, Pacing.IN_TURN, 1, size, (1e6 / size,))
        for edge in ((0, 1), (2, 1))
        for size in (1024, 2048, 4096)
    ]
    with pytest.raises(ParameterError, match=r"link 0->1 takes .*; link 2->1 takes") as told:
        fit_links(replace(good, timings=(*good.timings, *bad)))
    assert "1->0" not in str(told.value)


def _two_kinds(ranks: int, noise: float, name: str) -> Measurements:
    """Return measurements of a machine of pairs that are joined twice as well as all else."""
    costs = {
        (u, v): (0.7, 46.0) if u // 2 == v // 2 else (1.7, 106.0)
        for u, v in permutations(range(ranks), 2)
    }
    return measured(costs, ranks, name, noise)


@given(st.integers(0, 999))
@settings(max_examples=times(4), deadline=None)
def test_alike_links_share_one_cost_and_others_do_not(number: int) -> None:
    made = _two_kinds(4, 0.05, f"{number}")
    fast, slow = shared_costs(fit_links(made))
    assert set(fast.edges) == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert len(slow.edges) == 8
    machine = build_measured_machine(made, (fast, slow))
    for cost, alpha, rate in ((fast, 0.7, 1e3 / 46), (slow, 1.7, 1e3 / 106)):
        assert math.isclose(cost.alpha_us, alpha, rel_tol=0.1)
        assert math.isclose(cost.gb_per_s, rate, rel_tol=0.1)
        assert len(f"{cost.gb_per_s:g}".replace(".", "")) <= 2  # few digits: few lanes
    assert machine.edges == set(permutations(range(4), 2))
    assert (machine.alpha_us, machine.gb_per_s) == (slow.alpha_us, slow.gb_per_s)


@st.composite
def _fits(draw: st.DrawFn) -> list[LinkFit]:
    fits = []
    for rank in range(draw(st.integers(1, 8))):
        ends = [sorted(draw(st.lists(st.floats(0.5, 50), min_size=3, max_size=3))) for _ in "ab"]
        alpha, beta = (CostInterval(middle, low, high) for low, middle, high in ends)
        fits.append(LinkFit(rank, rank + 1, alpha, beta, 0.1))
    return fits


@given(_fits(), st.sampled_from([0.0, 0.1]))
@settings(max_examples=times(100))
def test_shared_cost_lies_in_all_intervals_of_its_links_but_for_rounding(
    fits: list[LinkFit], alike: float
) -> None:
    costs = shared_costs(fits, alike)
    assert sorted(edge for cost in costs for edge in cost.edges) == [fit.edge for fit in fits]
    for cost in costs:
        for fit in (one for one in fits if one.edge in cost.edges):
            assert _inside(cost.alpha_us, fit.alpha_us.widen(alike), ROUNDED)
            assert _inside(cost.gb_per_s, fit.gb_per_s.widen(alike), ROUNDED)


@given(_fits())
@settings(max_examples=times(100))
def test_most_links_that_can_share_a_rate_do(fits: list[LinkFit]) -> None:
    """Intervals of every subset are looked at: which have a point in common, and how many are."""
    own = [fit.gb_per_s for fit in fits]
    most = max(
        len(some)
        for n in range(1, len(own) + 1)
        for some in combinations(own, n)
        if max(i.low for i in some) <= min(i.high for i in some)
    )
    shared = Counter[float]()
    for cost in shared_costs(fits, 0.0):
        shared[cost.gb_per_s] += len(cost.edges)
    assert max(shared.values()) >= most


def test_known_machine_keeps_what_was_not_measured() -> None:
    known = resolve_topology("dgx1")
    machine = replace(known, budgets=(Budget("bus", ((0, 1), (1, 0)), 1),))
    made = measured({k.edge: (0.5, 40.0 / k.lanes) for k in machine.links}, 8, "dgx1")
    found = build_measured_machine(made, shared_costs(fit_links(made)), machine)
    assert found.lanes() == machine.lanes()
    assert (found.budgets, found.chassis, found.labels) == (
        machine.budgets, machine.chassis, machine.labels,
    )  # fmt: skip
    assert {link.gb_per_s for link in found.links} == {25.0}
    assert {link.alpha_us for link in found.links} == {0.5}
    assert found.source.endswith(known.source)


def test_machine_that_was_not_measured_is_rejected() -> None:
    made = measured({(0, 1): (1.0, 50.0), (1, 0): (1.0, 50.0)}, 2, "two")
    costs = shared_costs(fit_links(made))
    with pytest.raises(ParameterError, match="'ring:4' has 4 ranks, measurements 'known' have 2"):
        build_measured_machine(made, costs, resolve_topology("ring:4"))
    one_way = replace(made, timings=tuple(t for t in made.timings if t.src == 0))
    two = Topology("two", 2, (Link(0, 1, 1, 1.0, 1.0), Link(1, 0, 1, 1.0, 1.0)), 1.0, 1.0)
    with pytest.raises(ParameterError, match="no timing of link 1->0 of topology 'two'"):
        build_measured_machine(one_way, shared_costs(fit_links(one_way)), two)
    with pytest.raises(ParameterError, match="has switches as nodes"):
        build_measured_machine(made, costs, resolve_topology("rail:2x2"))
    fast = replace(two, budgets=(Budget("bus", ((0, 1),), 1, 5.0),))
    with pytest.raises(ParameterError, match="budget 'bus' has gb_per_s"):
        build_measured_machine(made, costs, fast)
