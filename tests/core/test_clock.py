"""Clocks: whole ticks, rounded up once, from the decimals that machines state."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.clock import MAX_CHUNK_BYTES, MAX_TICK_PS, AlphaModel, Clock
from sccl.core.topology import Budget, Link, Topology
from sccl.errors import ParameterError
from sccl.topo import resolve_topology
from tests.kit.strategies import topologies


def pair(lanes: int, alpha_us: float, gb_per_s: float, *budgets: Budget) -> Topology:
    links = (Link(0, 1, lanes, alpha_us, gb_per_s), Link(1, 0, 1, 0.0, 25.0))
    return Topology("pair", 2, links, alpha_us, gb_per_s, budgets)


def test_lane_of_dgx1_takes_40_ps_a_byte_and_two_lanes_half() -> None:
    dgx1 = resolve_topology("dgx1")
    clock = Clock.from_topology(dgx1, 25_000)
    lanes = dgx1.lanes()
    assert {clock.busy(i) * lanes[k.edge] for i, k in enumerate(dgx1.links)} == {1_000_000}
    assert {clock.lag(i) for i in range(len(dgx1.links))} == {700_000}
    assert clock.us(clock.lag(0)) == 0.7


def test_during_alpha_a_link_is_free_or_busy() -> None:
    machine = pair(1, 0.5, 100.0)
    travels, occupies = (Clock.from_topology(machine, 1000, model) for model in AlphaModel)
    assert (travels.busy(0), travels.lag(0)) == (10_000, 500_000)
    assert (occupies.busy(0), occupies.lag(0)) == (510_000, 0)
    assert (travels.busy_combined(0, (0, 0)), occupies.busy_combined(0, (0, 0))) == (
        20_000,
        520_000,
    )
    arrivals = {clock.busy(0) + clock.lag(0) for clock in (travels, occupies)}
    assert arrivals == {510_000}


def test_costs_are_the_decimals_that_are_written() -> None:
    assert Clock.from_topology(pair(1, 0.3, 12.1), 121).busy(0) == 10_000  # as doubles: a tick more
    assert Clock.from_topology(pair(3, 0.1 + 0.2, 0.1), 3).lag(0) == 300_001  # the repr of that sum


def test_chunks_may_have_sizes_of_their_own_and_budgets_are_pipes() -> None:
    bus = Budget("bus", ((0, 1), (1, 0)), 2)
    clock = Clock.from_topology(pair(1, 0.0, 50.0, bus), (100, 300, 100))
    assert clock.sizes == (100, 300)
    assert [clock.busy(0, chunk) for chunk in range(3)] == [2_000, 6_000, 2_000]
    assert clock.busy_combined(0, (0, 1, 2)) == 10_000
    assert (
        clock.budget_ticks(0, 1) == 3_000
    )  # links of 50 and 25 GB/s: it counts the machine's lanes
    stated = replace(bus, gb_per_s=12.5)
    assert Clock.from_topology(pair(1, 0.0, 50.0, stated), 100).budget_ticks(0) == 4_000


@given(topologies(), st.integers(1, 10**9), st.integers(1, 10**6), st.sampled_from(AlphaModel))
def test_ticks_are_the_least_that_are_enough(
    machine: Topology, size: int, tick_ps: int, model: AlphaModel
) -> None:
    clock = Clock.from_topology(machine, size, model, tick_ps)
    for i, link in enumerate(machine.links):
        passing = Fraction(size * 1000) / (link.lanes * Fraction(str(link.gb_per_s)))
        alpha = Fraction(str(link.alpha_us)) * 10**6
        for ticks, exact in ((clock.beta[0][i], passing), (clock.alpha[i], alpha)):
            assert (ticks - 1) * tick_ps < exact <= ticks * tick_ps
        assert clock.busy(i) + clock.lag(i) == clock.alpha[i] + clock.beta[0][i]
        assert clock.busy(i) >= 1


@pytest.mark.parametrize(
    ("size", "tick_ps", "says"),
    [
        (0, 1, "a chunk has 0 bytes"),
        ((), 1, "no chunk has a size"),
        ((1, -3), 1, "a chunk has -3 bytes"),
        (MAX_CHUNK_BYTES + 1, 1, "expected 1 to"),
        (1, 0, "tick is 0 ps"),
        (1, MAX_TICK_PS + 1, "expected 1 to"),
        (MAX_CHUNK_BYTES, 1, "give smaller chunks or a longer tick"),
    ],
)
def test_sizes_and_ticks_out_of_range(size: int | tuple[int, ...], tick_ps: int, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        Clock.from_topology(resolve_topology("ring:3"), size, AlphaModel.TRAVELS, tick_ps)
