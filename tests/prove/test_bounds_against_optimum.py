"""No lower bound on time exceeds an independent optimum or the result of a search of orders."""

from __future__ import annotations

import random
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from sccl.collectives import Spec, custom_spec, named_spec
from sccl.collectives import resolve_collective as collective_of
from sccl.core.clock import AlphaModel, Clock
from sccl.core.files.claims import TimePricesWire
from sccl.core.files.shapes import CustomCollectiveWire
from sccl.core.outcome import Solution
from sccl.core.schedule import build_schedule
from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.judge import violations
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.prove.check.certificate import check_folder
from sccl.prove.check.time_bounds import group_time_bound
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.claims import write_claims
from sccl.synth.common.contract import Request
from sccl.topo import resolve_topology
from tests.kit import timed
from tests.kit.best_orders import best_schedule
from tests.kit.compared_bounds import certified, compare, cuts, false_bounds, of_chunks
from tests.kit.fluid_optimum import most_bytes
from tests.kit.nightly import is_night, seed, times
from tests.kit.optimum_cases import draw_machine, draw_time, fill

PARTS = 10
"""Parts of the random machines, so that several workers share them."""

BY_DAY, BY_NIGHT = 300, 20_000


@pytest.mark.parametrize("part", range(PARTS))
def test_no_bound_is_above_what_is_attained(part: int) -> None:
    """Over unequal links, budgets and switches of every kind, counts, and groups."""
    machines, search = (BY_NIGHT, 100) if is_night() else (BY_DAY, 30)
    counts, false = compare(machines // PARTS, seed(f"optimum {part}"), search)
    sys.stdout.write(f"{machines // PARTS} machines, {dict(sorted(counts.items()))}\n")
    assert false == []
    assert counts.total() > 3 * machines // PARTS


def _one_chunk(ranks: int, source: int, goal: int) -> Spec:
    """Return the collective of one chunk that one rank has and one wants."""
    wire = CustomCollectiveWire(name="one", ranks=ranks, pre=((0, source),), post=((0, goal),))
    return custom_spec(wire, "test")


def _star(switch: Switch) -> Topology:
    """Return three ranks around a switch: 1 us and 1 GB/s from each and to each."""
    edges = [edge for rank in range(3) for edge in ((rank, 3), (3, rank))]
    links = tuple(Link(u, v, 1, 1.0, 1.0) for u, v in edges)
    return Topology("star", 3, links, 1.0, 1.0, switches=(switch,))


def _assert_moves(machine: Topology, spec: Spec, us: str, expected: int) -> None:
    """Assert how many bytes of a rank's buffer can be moved in a time."""
    found = most_bytes(machine, spec.at(spec.unit), Fraction(us))
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("machine", "collective", "us", "expected"),
    [
        # alpha 0.7 us and 25,000 bytes a us
        ("full:4", "allgather", "1.7", 25_000),  # each over its own link, an alpha and a us
        ("ring:4", "allgather", "6.7", 100_000),  # 3 chunks of 4 us over 2 links, and an alpha
        ("line:4", "broadcast", "3.1", 25_000),  # 3 alphas and a us
        ("line:4", "reduce", "3.1", 25_000),
        ("full:4", "reducescatter", "1.7", 100_000),
        ("full:4", "alltoall", "1.7", 100_000),
        ("full:2", "allreduce", "2.4", 42_500),  # each link is of use for 1.7 us, up or down
    ],
)
def test_optimum_of_regular_machines(machine: str, collective: str, us: str, expected: int) -> None:
    topology = resolve_topology(machine)
    _assert_moves(topology, named_spec(collective, topology.ranks), us, expected)


def test_optimum_uses_a_budget_during_the_union_of_windows() -> None:
    """A link of alpha 0 is of use at the end, one of alpha 2 at the beginning."""
    links = (Link(0, 1, 1, 2.0, 10.0), Link(0, 2, 1, 2.0, 10.0), Link(2, 1, 1, 0.0, 10.0))
    budget = Budget("ingress of rank 1", ((0, 1), (2, 1)), 1)
    machine = Topology("in", 3, links, 1.0, 10.0, budgets=(budget,))
    spec = _one_chunk(3, 0, 1)
    _assert_moves(machine, spec, "12", 120_000)
    assert completion_time_bound(machine, spec).us(120_000) == 12
    apart = Topology("in", 3, links, 1.0, 10.0)
    _assert_moves(apart, _one_chunk(3, 0, 1), "12", 200_000)


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        (Switch("hub"), 1000),  # each port passes two copies, one after the other
        (Switch("hub", copies=True, buffer_chunks=None), 2000),
    ],
)
def test_optimum_of_a_star(switch: Switch, expected: int) -> None:
    _assert_moves(_star(switch), named_spec("broadcast", 3), "4", expected)


def test_optimum_meets_the_bound_of_a_ring() -> None:
    machine = resolve_topology("ring:4")
    spec = named_spec("allgather", 4)
    size = int(most_bytes(machine, spec.at(1), Fraction("6.7")))
    assert completion_time_bound(machine, spec).us(size) == pytest.approx(6.7, rel=1e-4)


@pytest.mark.parametrize("model", AlphaModel)
@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_random_orders_attain_the_best_of_a_line(collective: str, model: AlphaModel) -> None:
    """Two chunks of a us each over three links: 4 us, and the alphas on the way."""
    machine = resolve_topology("line:4@25GB+0.7us")
    spec = named_spec(collective, 4)
    found = best_schedule(machine, spec.at(2), [25_000] * 2, model, random.Random(1))  # noqa: S311
    assert found is not None
    assert violations(found) == []
    alphas = 4 if model is AlphaModel.OCCUPIES else 3
    assert found.clock.us(found.finish) == pytest.approx(4 + 0.7 * alphas)


def test_groups_between_which_nothing_is_sent_prove_nothing() -> None:
    """Ranks 0 and 2 reduce together, so rank 1 by itself needs nothing, however far it is."""
    machine = resolve_topology("full:3")
    reduced = collective_of("allreduce@0,2", 3)
    with pytest.raises(ValueError, match="in one of these groups"):
        group_time_bound(machine, reduced.at(2), Fraction(1), [[0, 2], [1]], lambda _: None)


@pytest.mark.parametrize("model", AlphaModel)
def test_budget_of_both_links_of_a_storing_switch_is_used_by_one_at_a_time(
    model: AlphaModel,
) -> None:
    """A chunk is whole at the switch before it goes on, so each link has all of the budget."""
    links = (Link(0, 2, 1, 1.0, 10.0), Link(2, 1, 1, 1.0, 10.0), Link(1, 0, 1, 1.0, 10.0))
    bus = Budget("bus", ((0, 2), (2, 1)), 1)
    hub = Switch("hub", copies=True, buffer_chunks=None, cut_through=False)
    machine = Topology("hub", 2, links, 1.0, 10.0, budgets=(bus,), switches=(hub,))
    spec = _one_chunk(2, 0, 1)
    found = best_schedule(machine, spec.at(1), [30_000], model, random.Random(1))  # noqa: S311
    assert found is not None
    assert violations(found) == []
    assert found.clock.us(found.finish) == 8
    assert dict(of_chunks(found, spec))[f"time_bound {model}"] <= 8
    synthesizer = registry.load("tacos")
    for chunks in (1, 3):
        plan = registry.plan(
            synthesizer, Request(machine, spec, 30_000), synthesizer.Options(chunks=chunks)
        )
        assert isinstance(plan, Solution)
        assert plan.objective >= plan.bound.value


def _shared(links: tuple[tuple[int, int, int, float, float], ...], *buses: Budget) -> Topology:
    """Return three ranks joined by links of (source, destination, lanes, alpha, speed)."""
    return Topology("shared", 3, tuple(Link(*link) for link in links), 1.0, 1.0, budgets=buses)


def test_reduction_uses_a_budget_of_unequal_alphas_in_its_own_time() -> None:
    """Backwards in time bytes pass a budget alpha after they leave, so prices prove less.

    Rank 0 sends 3,750 bytes by way of rank 1 until 0.75 us, and rank 1 sends 6,250 by way of
    rank 0. Rank 0 sends on from 1.25 to 2.5 us, and rank 1 then until 3.25 us.
    """
    out = ((0, 1, 1, 2.5, 5.0), (0, 2, 1, 0.5, 12.5), (1, 0, 1, 0.5, 40.0), (1, 2, 2, 0.5, 5.0))
    machine = _shared(
        (*out, (2, 0, 2, 2.5, 40.0)),
        Budget("bus 0", ((0, 1), (0, 2), (1, 2)), 1, 5.0),
        Budget("bus 1", ((0, 2), (1, 0), (1, 2)), 1, 5.0),
    )
    spec = named_spec("reduce", 3, 2)
    _assert_moves(machine, spec, "3.75", 10_000)
    fluid = registry.load("limits-time")
    outcome = registry.plan(fluid, Request(machine, spec, 10_000), None, Effort(units=0.5))
    assert isinstance(outcome, Solution)
    assert 2.5 <= float(outcome.bound.value) <= 3.75


def test_reduction_spends_an_alpha_before_its_bytes_pass_a_budget() -> None:
    """Rank 0 sends 30 us over each of two links of a bus, after alphas of 2 and 5 us."""
    machine = _shared(
        ((0, 1, 1, 5.0, 2.0), (0, 2, 1, 2.0, 100.0), (1, 0, 3, 2.0, 2.0), (2, 1, 1, 0.1, 2.0)),
        Budget("bus", ((0, 1), (0, 2), (1, 0)), 1, 1.0),
    )
    spec = named_spec("reduce", 3, 1)
    rng = random.Random(1)  # noqa: S311 - the same every time
    found = best_schedule(machine, spec.at(2), [30_000] * 2, AlphaModel.OCCUPIES, rng)
    assert found is not None
    assert violations(found) == []
    assert found.clock.us(found.finish) == 62
    assert dict(of_chunks(found, spec))["time_bound occupies"] == 62
    for name in ("tacos", "teccl", "taccl"):
        synthesizer = registry.load(name)
        options = synthesizer.Options(chunks=2, alpha="occupies")
        outcome = registry.plan(synthesizer, Request(machine, spec, 60_000), options)
        assert isinstance(outcome, Solution)
        assert outcome.bound.value <= 62


@pytest.mark.parametrize("collective", ["reduce", "broadcast"])
def test_switch_spends_an_alpha_while_a_slow_link_brings_bytes(collective: str) -> None:
    """20 us to the switch, and from it 0.2 us after an alpha of 5 us that is over by then."""
    edges = [(0, 2, 0.0, 1.0), (1, 2, 0.0, 1.0), (2, 0, 5.0, 100.0), (2, 1, 5.0, 100.0)]
    links = tuple(Link(u, v, 1, alpha, gb_per_s) for u, v, alpha, gb_per_s in edges)
    hub = Switch("hub", buffer_chunks=None)
    machine = Topology("star", 2, links, 1.0, 1.0, switches=(hub,))
    spec = named_spec(collective, 2, 0 if collective == "reduce" else 1)
    clock = Clock.from_topology(machine, 20_000, AlphaModel.OCCUPIES, 1000)
    rows = [(0, 20_000, 0, 1, False), (14_800, 20_000, 0, 2, collective == "reduce")]
    plan = build_schedule(machine, spec.at(1), rows, clock, [0, 0])
    assert violations(plan) == []
    assert dict(of_chunks(plan, spec))["time_bound occupies"] == 20
    for name in ("tacos", "teccl", "taccl"):
        synthesizer = registry.load(name)
        options = synthesizer.Options(chunks=1, alpha="occupies")
        outcome = registry.plan(synthesizer, Request(machine, spec, 20_000), options)
        assert isinstance(outcome, Solution)
        assert outcome.bound.value <= 20


def test_prices_of_budgets_with_unequal_alphas_prove_nothing_of_reductions(tmp_path: Path) -> None:
    bus = Budget("bus", ((0, 1), (0, 2)), 1, 1.0)
    links = ((0, 1, 1, 1.0, 1.0), (0, 2, 1, 2.0, 1.0), (1, 2, 1, 1.0, 1.0), (2, 1, 1, 1.0, 1.0))
    machine = _shared((*links, (2, 0, 1, 1.0, 1.0)), bus)
    claim = TimePricesWire(
        from_bytes="1",
        at_least_us="1/1000",
        us_per_byte="0",
        machine=0,
        borders=("0", "5"),
        middle=None,
        prices=(("bus", 0, "1"),),
    )
    details = []
    for name in ("reduce", "scatter"):
        write_claims(tmp_path / name, machine, named_spec(name, 3, 1), lambda _: [claim])
        (verdict,) = check_folder(tmp_path / name)
        details.append(verdict.detail)
    assert "links with different alphas" in details[0]
    assert "links with different alphas" not in details[1]


def test_no_bound_on_a_reduction_over_budgets_is_above_a_schedule() -> None:
    for number in range(times(120)):
        rng = random.Random(seed(f"reduction {number}"))  # noqa: S311 - the same every time
        drawn = None
        while drawn is None:
            machine, root = draw_machine(rng, 3), rng.randrange(3)
            alphas = {link.alpha_us for link in machine.links}
            if not machine.budgets or machine.switches or len(alphas) == 1:
                continue
            spec, sizes = named_spec("reduce", 3, root), [3000 * rng.choice((1, 10))] * 2
            drawn = best_schedule(machine, spec.at(2), sizes, AlphaModel.OCCUPIES, rng)
        us = Fraction(drawn.finish * drawn.tick_ps, 10**6)
        assert false_bounds(us, of_chunks(drawn, spec)) == []


@pytest.mark.parametrize("part", range(4))
def test_no_bound_on_an_allreduce_is_above_the_optimum(part: int) -> None:
    """On small machines, where the optimum is known for many steps of alpha."""
    for number in range(times(15)):
        rng = random.Random(seed(f"allreduce {part} {number}"))  # noqa: S311 - the same every time
        machine = draw_machine(rng, rng.choice((2, 2, 3)))
        case = fill(machine, named_spec("allreduce", machine.ranks), draw_time(rng, machine))
        if case is not None:
            for bounds in (cuts, certified):
                assert false_bounds(case.us, bounds(case, rng)) == []


@pytest.mark.parametrize("number", range(20))
def test_random_orders_are_right(number: int) -> None:
    """By a slow judge that shares nothing with the program's."""
    rng = random.Random(seed(f"orders {number}"))  # noqa: S311 - the same every time
    links = tuple(
        Link(u, v, 1, rng.choice((0.0, 0.001, 0.003)), rng.choice((0.5, 1.0)))
        for u in range(3)
        for v in range(3)
        if u != v
    )
    bus = Budget("bus", tuple(k.edge for k in links if rng.random() < 0.6) or ((0, 1),), 1, 1.0)
    machine = Topology("random", 3, links, 0.0, 1.0, budgets=(bus,))
    spec = named_spec(rng.choice(("allgather", "reducescatter", "broadcast", "alltoall")), 3)
    collective = spec.at(spec.unit)
    sizes = [rng.choice((1, 2)) for _ in range(collective.num_chunks)]
    model = rng.choice(list(AlphaModel))
    found = best_schedule(machine, collective, sizes, model, rng, tries=5, tick_ps=timed.TICK_PS)
    assert found is not None
    assert timed.is_right(found)
    assert violations(found) == []
