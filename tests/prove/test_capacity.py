"""Capacity over time: the windows of links that share a budget, and bounds made of them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.capacity import LinkWindow, capacity_changes, completion_time
from sccl.core.clock import AlphaModel
from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.prove.check.time_bounds import is_valid_for_both_alphas
from tests.kit.commands import sccl

if TYPE_CHECKING:
    from sccl.core.ids import Edge

WHOLE = st.integers(0, 6).map(Fraction)
WINDOWS = st.lists(st.tuples(WHOLE, WHOLE, st.integers(1, 4).map(Fraction)), min_size=1, max_size=4)


def _capacity_by_ticks(
    links: list[tuple[Fraction, Fraction, Fraction]], rate: Fraction, time: int
) -> Fraction:
    """Return C(T) for whole T by adding up unit intervals: windows change at whole times only."""
    carried = Fraction(0)
    for tick in range(time):
        in_use = sum(own for begin, lost, own in links if begin <= tick and tick + 1 <= time - lost)
        carried += min(rate, Fraction(in_use))
    return carried


@given(WINDOWS, st.integers(1, 8).map(Fraction), st.integers(1, 40).map(Fraction))
def test_completion_is_first_time_at_which_capacity_suffices(
    links: list[tuple[Fraction, Fraction, Fraction]], rate: Fraction, amount: Fraction
) -> None:
    edges: list[Edge] = [(0, i + 1) for i in range(len(links))]
    windows = {e: LinkWindow(begin, lost) for e, (begin, lost, _) in zip(edges, links, strict=True)}
    rates = {e: own for e, (_, _, own) in zip(edges, links, strict=True)}
    changes = capacity_changes(windows, rates, [(edges, rate)])
    at, slope = completion_time(changes, amount)
    time = int(at)
    here, there = (_capacity_by_ticks(links, rate, t) for t in (time, time + 1))
    assert here + (there - here) * (at - time) == amount  # C is linear between whole times
    for more in range(1, 30):
        assert _capacity_by_ticks(links, rate, time + 1 + more) <= there + slope * more


def _shared_ingress() -> Topology:
    links = (Link(0, 1, 1, 2.0, 10.0), Link(0, 2, 1, 2.0, 10.0), Link(2, 1, 1, 0.0, 10.0))
    budget = Budget("ingress of rank 1", ((0, 1), (2, 1)), 1)
    return Topology("in3", 3, links, 2.0, 10.0, budgets=(budget,))


def test_budget_is_usable_during_union_of_windows() -> None:
    """Bytes pass (0, 1) up to T - 2 and (2, 1) from 2 on: the budget is in use all the time."""
    collective = named_spec("broadcast", 3, 0)
    bound = completion_time_bound(_shared_ingress(), collective).us(100_000)
    assert bound == 12  # (0, 2) has to bring rank 2 everything
    scatter = named_spec("scatter", 3, 0)
    assert completion_time_bound(_shared_ingress(), scatter).us(200_000) <= 22


def test_occupying_alpha_of_cut_through_switch_overlaps_with_bytes() -> None:
    """The last byte leaves the switch as it comes, so 10 us of bytes take 11 us and not 16."""
    up, down = (Link(0, 2, 1, 1.0, 1.0), Link(1, 2, 1, 1.0, 1.0)), Link(2, 1, 1, 5.0, 100.0)
    links = (*up, down, Link(2, 0, 1, 5.0, 100.0))
    machine = Topology("star", 2, links, 1.0, 1.0, switches=(Switch("s"),))
    spec = named_spec("broadcast", 2, 0)
    assert completion_time_bound(machine, spec).us(10_000) == 16
    assert completion_time_bound(machine, spec, AlphaModel.OCCUPIES).us(10_000) == 11
    assert not is_valid_for_both_alphas(machine)


@pytest.mark.parametrize(("alpha", "both"), [(2.0, True), (1.0, False)])
def test_bound_holds_for_both_models_if_alphas_of_budget_agree(alpha: float, *, both: bool) -> None:
    links = (Link(0, 1, 1, 2.0, 10.0), Link(2, 1, 1, alpha, 10.0))
    budget = Budget("ingress", ((0, 1), (2, 1)), 1)
    assert is_valid_for_both_alphas(Topology("m", 3, links, 2.0, 10.0, budgets=(budget,))) is both


def test_certificate_behind_cut_through_switch_is_about_travelling_alphas(tmp_path: Path) -> None:
    links = [{"src": 0, "dst": 2}, {"src": 2, "dst": 1, "alpha_us": 5, "gb_per_s": 100}]
    links += [{"src": 1, "dst": 2}, {"src": 2, "dst": 0, "alpha_us": 5, "gb_per_s": 100}]
    machine = {"name": "star", "ranks": 2, "alpha_us": 1, "gb_per_s": 1, "switches": ["s"]}
    (tmp_path / "m.json").write_text(json.dumps({**machine, "links": links}))
    asked = ["synth", "fastest", "--collective", "broadcast", "--topo", str(tmp_path / "m.json")]
    folder = tmp_path / "c"
    sccl(*asked, "--size", "10KB", "-o", tmp_path / "n.json", "--certify", folder)
    code, shown, _ = sccl("certificate", "verify", folder)
    assert code == 0
    assert "lower bound for plans in which alphas travel: 16 us" in shown
    assert "whether alphas travel or occupy" not in shown
