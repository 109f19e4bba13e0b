"""Cuts through time: their R/C bounds by number of steps, and rejection of forged ones."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from math import comb
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec, dual_of, named_spec
from sccl.core.collective import Collective
from sccl.core.files.claims import CLAIMS
from sccl.core.step_limit import StepLimit
from sccl.core.topology import Budget, Topology
from sccl.prove.bounds import timed_cuts, timed_flow
from sccl.prove.bounds.lower_bounds import farthest_pair, lower_bounds
from sccl.prove.bounds.timed_cuts import TimedRelaxation, allreduce_bound, timed_bound
from sccl.prove.check.certificate import check_folder
from sccl.prove.check.timed_cut_bounds import timed_cut_bound
from sccl.synth.common.claims import limit_claims, write_claims
from sccl.synth.packing.by_steps.limits_by_steps import step_bound, step_limit
from sccl.synth.packing.by_steps.solve import Packing, solve_packing
from sccl.synth.packing.problem import build_packing_problem
from sccl.topo.catalogue import resolve_topology
from tests.kit.certificates import free
from tests.kit.nightly import times
from tests.kit.strategies import specs, topologies


def bound_of(machine: Topology, collective: Collective, steps: int) -> TimedRelaxation:
    """Return the bound by cuts, which the checker finds again."""
    found = timed_bound(machine, collective, steps)
    assert found is not None
    cuts = [(cut.labels, cut.weight) for cut in found.bound.proof.cuts]
    assert (
        timed_cut_bound(machine, collective, steps, cuts, found.bound.proof.prices, free)
        == found.bound.value
    )
    return found


def unit_of(spec: Spec) -> Collective:
    dual = dual_of(spec).spec
    return dual.at(dual.unit)


def packed(machine: Topology, collective: Collective, steps: int) -> Packing:
    """Return the limit by packing timed trees alone."""
    return solve_packing(build_packing_problem(machine, collective, steps))


KNOWN = {
    ("dgx1", "broadcast", 2): "1 9/22 4/13 5/19 6/25 7/31 8/37",
    ("z52", "broadcast", 4): "2 5/4 1 7/8 4/5",
    ("dgx1", "allgather", 2): "3/2 7/6",
    ("ndv2x2", "allgather", 5): "19/2 167/20 163/20 2543/316",
    ("dragonfly:4x5", "broadcast", 3): "3 1 5/8 1/2 7/16 2/5",
    ("torus:8x8", "broadcast", 8): "11/12 41/64",
    ("dragonfly:4x5", "scatter", 3): "29/100 1/4 19/80",
    ("dgx1", "gather", 2): "7/6",
}
"""Limits that packings have proved, by the first S. On the last four machines F alone."""


@pytest.mark.parametrize(("of", "values"), KNOWN.items())
def test_known_limits_are_found_without_a_tree(of: tuple[str, str, int], values: str) -> None:
    machine, name, first = of
    topology = resolve_topology(machine)
    collective = unit_of(named_spec(name, topology.ranks))
    for steps, value in enumerate(values.split(), first):
        found = bound_of(topology, collective, steps)
        assert found.bound.value == Fraction(value)
        assert found.is_tight
        assert sum(found.rho) == found.bound.value


@pytest.mark.parametrize("dimension", [2, 3, 4, 5, 6])
def test_hypercubes_in_fewest_steps_have_a_closed_form(dimension: int) -> None:
    topology = resolve_topology(f"hypercube:{dimension}")
    found = bound_of(topology, unit_of(named_spec("broadcast", topology.ranks)), dimension)
    each = (Fraction(1, comb(dimension - 1, s)) for s in range(dimension))
    assert found.bound.value == sum(each) / dimension


@pytest.mark.parametrize(
    ("machine", "steps", "value"),
    [
        ("torus:4x4", 4, Fraction(2, 3)),
        ("torus:8x8", 8, Fraction(11, 12)),
        ("torus:16x16", 16, Fraction(7, 6)),
        # A quarter more with each doubling.
        pytest.param("torus:32x32", 32, Fraction(17, 12), marks=pytest.mark.nightly),
        ("mesh:16x16", 30, Fraction(4)),
        ("mesh:16x16", 31, Fraction(23, 10)),
    ],
)
def test_no_cut_is_left_on_large_machines(machine: str, steps: int, value: Fraction) -> None:
    """Within the default effort."""
    topology = resolve_topology(machine)
    found = bound_of(topology, unit_of(named_spec("broadcast", topology.ranks)), steps)
    assert found.bound.value == value
    assert found.is_tight


def test_bound_is_not_a_limit() -> None:
    """Copies are no flows: on a 3-cube all flows exist at 5/6, and no trees do below 1."""
    topology = resolve_topology("hypercube:3")
    spec = named_spec("broadcast", topology.ranks)
    bounds = lower_bounds(topology, spec)
    below = step_bound(topology, spec, 3, bounds)
    assert below is not None
    assert below.lower == Fraction(5, 6)
    assert not below.is_exact
    limit = step_limit(topology, spec, 3, bounds).limit
    assert limit.lower == limit.upper == 1
    assert limit.proofs[0].prices
    assert not limit.proofs[0].cuts


@settings(max_examples=times(80, by_day=40), deadline=None)
@given(topologies(max_ranks=5), st.data())
def test_no_packing_beats_the_bound(machine: Topology, data: st.DataObject) -> None:
    """Budgets shared by links are included, and single flows attain the bound."""
    collective = unit_of(data.draw(specs(machine.ranks)))
    far = farthest_pair(machine, collective).steps
    assume(far)
    steps = far + data.draw(st.integers(0, 2))
    found = timed_bound(machine, collective, steps)
    assume(found is not None)
    assert found is not None
    bound_of(machine, collective, steps)
    limit = packed(machine, collective, steps)
    assert found.bound.value <= limit.upper
    if collective.name in {"scatter", "gather"}:
        assert found.bound.value == limit.lower == limit.upper


@settings(max_examples=times(150, by_day=75), deadline=None)
@given(topologies(max_ranks=4), st.data())
def test_no_labels_weights_or_prices_prove_what_is_false(
    machine: Topology, data: st.DataObject
) -> None:
    collective = unit_of(data.draw(specs(machine.ranks)))
    steps = farthest_pair(machine, collective).steps + data.draw(st.integers(0, 1))
    assume(steps)
    label = st.integers(0, steps + 1)
    share = st.fractions(0, Fraction(1, 2), max_denominator=12)
    labels = st.lists(label, min_size=machine.ranks, max_size=machine.ranks)
    cuts = data.draw(st.lists(st.tuples(labels, share), min_size=1, max_size=4))
    keys = [budget.name for budget in machine.budgets] or ["bus"]
    price = st.tuples(st.sampled_from(keys), st.integers(0, steps - 1), share)
    prices = data.draw(st.lists(price, max_size=3))
    try:
        claimed = timed_cut_bound(machine, collective, steps, cuts, prices, free)
    except ValueError:
        return
    assert claimed <= packed(machine, collective, steps).upper


def test_forged_labels_weights_and_prices_are_rejected() -> None:
    topology = resolve_topology("dgx1")
    collective = unit_of(named_spec("broadcast", topology.ranks))
    found = bound_of(topology, collective, 3)
    cuts = [(cut.labels, cut.weight) for cut in found.bound.proof.cuts]
    (labels, weight), *rest = cuts
    heavier = [(labels, weight * Fraction(11, 10)), *rest]
    with pytest.raises(ValueError, match="a round of step"):
        timed_cut_bound(topology, collective, 3, heavier, (), free)
    for wrong in ((*labels[:-1], 5), (*labels[:-1], -1), labels[:-1]):
        with pytest.raises(ValueError, match="labels that are not one of 0 to 4"):
            timed_cut_bound(topology, collective, 3, [(wrong, weight), *rest], (), free)
    with pytest.raises(ValueError, match="negative"):
        timed_cut_bound(topology, collective, 3, [(labels, -weight), *rest], (), free)
    root_outside = [((1, *labels[1:]), weight), *rest]
    assert timed_cut_bound(topology, collective, 3, root_outside, (), free) < found.bound.value
    for price in (("link 0->1", 0, Fraction(1)), ("none", 0, Fraction(1))):
        with pytest.raises(ValueError, match="of a budget and a step that exist"):
            timed_cut_bound(topology, collective, 3, cuts, (price,), free)


def test_budgets_that_links_share_count_once() -> None:
    """A ring of 4 whose links from the root share a lane, where cheaper links reduce the bound."""
    ring = resolve_topology("ring:4")
    tight = replace(ring, budgets=(Budget("nic", ((0, 1), (0, 3)), 1),))
    collective = unit_of(named_spec("broadcast", ring.ranks))
    for machine in (ring, tight):
        found = bound_of(machine, collective, 3)
        assert found.bound.value == packed(machine, collective, 3).upper
    assert bound_of(ring, collective, 3).bound.value < bound_of(tight, collective, 3).bound.value
    found = bound_of(tight, collective, 3)
    cuts = [(cut.labels, cut.weight) for cut in found.bound.proof.cuts]
    assert found.bound.proof.prices
    with pytest.raises(ValueError, match="buys"):
        timed_cut_bound(tight, collective, 3, cuts, (), free)
    dearer = [(key, step, 2 * price) for key, step, price in found.bound.proof.prices]
    with pytest.raises(ValueError, match="buys"):
        timed_cut_bound(tight, collective, 3, cuts, dearer, free)


@pytest.mark.parametrize(
    ("machine", "steps", "value"),
    [
        ("ring:9", 2, Fraction(6)),
        ("ring:8", 3, Fraction(4)),
        ("torus:3x3", 2, Fraction(2)),
        ("torus:4x4", 3, Fraction(31, 8)),
        ("hypercube:4", 3, Fraction(31, 8)),
    ],
)
def test_messages_that_pass_several_links(machine: str, steps: int, value: Fraction) -> None:
    topology = resolve_topology(f"routed:{machine}")
    assert (
        bound_of(topology, unit_of(named_spec("allgather", topology.ranks)), steps).bound.value
        == value
    )


@pytest.mark.parametrize("name", ["allgather", "allreduce", "broadcast"])
@pytest.mark.parametrize("machine", ["ring:5", "ring:6", "mesh:3x2", "torus:3x2"])
def test_images_of_links_and_cuts_lose_nothing(
    machine: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = resolve_topology(f"routed:{machine}")

    def found(effort: float) -> Fraction:
        if name == "allreduce":
            of_all = allreduce_bound(topology, named_spec(name, topology.ranks), 2, effort)
            assert of_all is not None
            return of_all.bound.value
        unit = unit_of(named_spec(name, topology.ranks))
        relaxation = timed_bound(topology, unit, 2, effort)
        assert relaxation is not None
        return relaxation.bound.value

    by_images = found(5.0)
    monkeypatch.setattr(timed_cuts, "_MAX_GROUP_FACTOR", 0)
    assert found(6.0) == by_images


@settings(max_examples=times(40), deadline=None)
@given(topologies(max_ranks=5), st.integers(0, 2), st.data())
def test_reduction_bound_mirrors_the_broadcast_bound(
    machine: Topology, more: int, data: st.DataObject
) -> None:
    root = data.draw(st.integers(0, machine.ranks - 1))

    def of(name: str, on: Topology) -> StepLimit:
        spec = named_spec(name, on.ranks, root)
        bounds = lower_bounds(on, spec)
        found = step_bound(on, spec, bounds.steps + more, bounds)
        assert found is not None
        return found

    reduced, spread = of("reduce", machine), of("broadcast", machine.reversed())
    assert reduced.lower == spread.lower
    assert reduced.proofs[0].cuts == spread.proofs[0].cuts
    assert (reduced.proofs[0].on_reversed, spread.proofs[0].on_reversed) == (True, False)


def test_cuts_say_nothing_where_every_chunk_has_ends_of_its_own() -> None:
    topology = resolve_topology("dgx1")
    spec = named_spec("alltoall", topology.ranks)
    assert timed_bound(topology, spec.at(spec.unit), 2) is None
    assert step_bound(topology, spec, 2, lower_bounds(topology, spec)) is None


@pytest.mark.parametrize("name", ["broadcast", "reduce", "reducescatter"])
def test_certificates_take_cuts_and_refuse_others(name: str, tmp_path: Path) -> None:
    topology = resolve_topology("dgx1")
    spec = named_spec(name, topology.ranks)
    bounds = lower_bounds(topology, spec)
    limits = [step_bound(topology, spec, steps, bounds) for steps in (2, 3)]
    claims = [claim for limit in limits if limit for claim in limit_claims(limit, spec)]
    write_claims(tmp_path, topology, spec, lambda _: claims)
    assert claims
    assert all(claim.cuts for claim in claims)
    verdicts = list(check_folder(tmp_path))
    assert {(v.state, v.detail.partition(" ")[2]) for v in verdicts} <= {
        ("ok", "cut through time"),
        ("ok", "cuts through time"),
    }
    content = json.loads((tmp_path / CLAIMS).read_text())

    def failing(**more: object) -> str:
        """Return why the first claim fails if it is changed."""
        first = content["claims"][0]
        changed = content | {"claims": [first | more]}
        (tmp_path / CLAIMS).write_text(json.dumps(changed))
        (verdict,) = check_folder(tmp_path)
        assert verdict.state == "failed"
        return verdict.detail

    assert "the cuts prove only" in failing(at_least="100")
    assert "applies to allreduce only" in failing(trees=True)
    first = content["claims"][0]["cuts"][0]
    assert "buys" in failing(cuts=[[first[0], "7"]])
    assert "labels" in failing(cuts=[[first[0][1:], "1"]])


def test_flows_of_all_ranks_share_what_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The farthest flows of each rank stay, in the same order."""
    line = resolve_topology("line:6")
    each = [named_spec("broadcast", 6, root).at(1) for root in range(3)]
    whole = timed_flow.flows_of_collectives(line, each, 6, ())
    assert len(whole) == 15
    monkeypatch.setattr(timed_flow, "_MAX_ARCS", sum(flow.work for flow in whole) // 3)
    some = timed_flow.flows_of_collectives(line, each, 6, ())
    kept = [(flow.ends.sources, flow.ends.sinks) for flow in some]
    assert kept == [x for x in ((f.ends.sources, f.ends.sinks) for f in whole) if x in kept]
    assert 3 <= len(some) < 10
    assert {min(ranks) for ((ranks, _),), _ in kept} == {0, 1, 2}
