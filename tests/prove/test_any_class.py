"""Lower bounds for all allreduce families, against all partitions, all trees and all executions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from sccl.collectives import Spec, dual_of, named_spec
from sccl.core.bound import AlgorithmBounds
from sccl.core.files.claims import AllreduceBoundWire, LimitPointWire
from sccl.core.step_limit import StepLimit
from sccl.core.topology import Budget, Topology
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.bounds.network_strength import strength_partition
from sccl.prove.check.allreduce import allreduce_lower_bound, check_allreduce_bound
from sccl.prove.check.case import Case, read_case
from sccl.prove.check.certificate import check_case
from sccl.solvers import lp
from sccl.solvers.effort import Effort
from sccl.synth.allreduce.any_family_bound import any_family_bounds, any_family_proof
from sccl.synth.allreduce.certify import certify_limits
from sccl.synth.allreduce.limit_search import find_limits
from sccl.synth.common.claims import any_family_bound_claims
from sccl.synth.common.problem import CollectiveProblem
from sccl.synth.common.settings import Settings
from sccl.synth.packing.by_steps.allreduce_trees import tree_frontier
from sccl.topo import resolve_topology
from tests.kit.certificates import free
from tests.kit.nightly import times
from tests.kit.partitions import build_machine, partitions
from tests.kit.strategies import topologies

CPSAT = Settings("cpsat", Effort())


def whole(topology: Topology) -> Spec:
    """Return the allreduce of all ranks."""
    return named_spec("allreduce", topology.ranks)


def bounded(topology: Topology) -> AlgorithmBounds:
    """Return the lower bound for every allreduce over all ranks."""
    return any_class_bounds(topology, whole(topology))


@st.composite
def both_ways(draw: st.DrawFn, max_ranks: int = 5) -> Topology:
    """Return a machine whose links are as wide both ways."""
    ranks = draw(st.integers(2, max_ranks))
    pairs = list(combinations(range(ranks), 2))
    lanes = {(draw(st.integers(0, v - 1)), v): draw(st.integers(1, 4)) for v in range(1, ranks)}
    lanes |= draw(st.dictionaries(st.sampled_from(pairs), st.integers(1, 4)))
    return build_machine(ranks, lanes)


def between(topology: Topology, groups: list[list[int]]) -> int:
    of = {rank: i for i, group in enumerate(groups) for rank in group}
    return sum(link.lanes for link in topology.links if of[link.src] != of[link.dst])


def least_mixture(columns: list[dict[int, dict[object, int]]], room: dict[object, int]) -> float:
    """Return the least sum of rounds over some stages in which a mixture of columns fits.

    Args:
        columns: Loads of each column in each stage.
        room: Capacity of each constraint in a round.
    """
    model = lp.Model()
    stages = {stage for column in columns for stage in column}
    rounds = {stage: model.add_variable(lb=0.0) for stage in stages}
    shares = [model.add_variable(lb=0.0) for _ in columns]
    model.add_linear_constraint(lp.fast_sum(shares) == 1.0)
    for stage in stages:
        for what, width in room.items():
            loads = [
                share * float(n)
                for share, column in zip(shares, columns, strict=True)
                if (n := column.get(stage, {}).get(what, 0))
            ]
            model.add_linear_constraint(lp.fast_sum(loads) <= float(width) * rounds[stage])
    model.minimize(lp.fast_sum(list(rounds.values())))
    result = lp.solve(model)
    assert result is not None
    return float(result.objective_value())


# --- sends between groups ------------------------------------------------------------------------


@settings(max_examples=times(100), deadline=None)
@given(both_ways(6) | topologies(max_ranks=6))
def test_no_partition_is_weaker(topology: Topology) -> None:
    found = strength_partition(topology)
    assert found is not None
    assert sorted(rank for group in found for rank in group) == list(range(topology.ranks))
    ratios = [
        Fraction(between(topology, groups), len(groups) - 1)
        for groups in partitions(list(range(topology.ranks)))
        if len(groups) > 1
    ]
    assert Fraction(between(topology, [list(g) for g in found]), len(found) - 1) == min(ratios)


@settings(max_examples=times(60), deadline=None)
@given(both_ways())
def test_mixtures_of_spanning_trees_come_as_near_as_it_is_reported(topology: Topology) -> None:
    """Each tree uses each of its links once up and once down, and all trees are enumerated."""
    bounds = bounded(topology)
    evidence = bounds.evidence
    assert evidence is not None
    lanes: dict[object, int] = {e: n for e, n in topology.lanes().items() if e[0] < e[1]}
    columns: list[dict[int, dict[object, int]]] = []
    for tree in combinations(
        sorted(e for e in topology.lanes() if e[0] < e[1]), topology.ranks - 1
    ):
        group = list(range(topology.ranks))
        for u, v in tree:
            group = [group[u] if each == group[v] else each for each in group]
        if len(set(group)) == 1:
            columns.append({0: dict.fromkeys(tree, 1)})
    assert least_mixture(columns, lanes) == pytest.approx(float(bounds.bandwidth), abs=1e-6)
    assert getattr(evidence, "is_asymptotic", False) is True


def test_shared_budgets_and_one_way_links_give_no_infimum_claim() -> None:
    ring = build_machine(3, {(0, 1): 1, (1, 2): 1, (0, 2): 1})
    shared = replace(ring, budgets=(Budget("bus", ((0, 1), (1, 0)), 1),))
    one_way = replace(ring, links=tuple(k for k in ring.links if k.edge != (0, 1)))
    said = [bounded(t).evidence for t in (ring, shared, one_way)]
    assert [getattr(each, "is_asymptotic", None) for each in said] == [True, False, False]


def test_weak_link_between_two_boxes_is_found_without_being_told_of() -> None:
    """As many sends go between boxes as ranks would have to send: the boxes say most."""
    box = list(combinations(range(4), 2))
    lanes = {**dict.fromkeys(box, 3), **{(u + 4, v + 4): 3 for u, v in box}, (0, 4): 1}
    found = bounded(build_machine(8, lanes))
    evidence = found.evidence
    assert found.bandwidth == 1
    assert getattr(evidence, "groups", ()) == ((0, 1, 2, 3), (4, 5, 6, 7))


# --- by steps ------------------------------------------------------------------------------------


def ways_to_know(topology: Topology, steps: int) -> list[frozenset[tuple[tuple[int, int], int]]]:
    """Return all smallest sets of sends by which every rank knows every contribution in the end."""
    sends = [(edge, s) for s in range(steps) for edge in sorted(topology.lanes())]
    whole = (1 << topology.ranks) - 1
    found: list[frozenset[tuple[tuple[int, int], int]]] = []
    for size in range(len(sends) + 1):
        for chosen in combinations(sends, size):
            some = frozenset(chosen)
            if any(less <= some for less in found):
                continue
            knows = [1 << rank for rank in range(topology.ranks)]
            for s in range(steps):
                before = list(knows)
                for (u, v), at in chosen:
                    if at == s:
                        knows[v] |= before[u]
            if all(known == whole for known in knows):
                found.append(some)
    return found


@settings(max_examples=times(15), deadline=None)
@given(topologies(max_ranks=3), st.integers(0, 1))
def test_no_mixture_of_all_ways_to_know_is_below(topology: Topology, more: int) -> None:
    """It may add overlapping contributions, which no algorithm can, yet respects the bound."""
    bounds = bounded(topology)
    steps = bounds.steps + more
    assume(steps * len(topology.links) <= 12)
    columns = []
    room: dict[object, int] = {c.key: c.chunks_per_round for c in topology.constraints()}
    for way in ways_to_know(topology, steps):
        column: dict[int, dict[object, int]] = {}
        for edge, s in way:
            for c in topology.constraints():
                if edge in c.edges:
                    load = column.setdefault(s, {})
                    load[c.key] = load.get(c.key, 0) + 1
        columns.append(column)
    least = least_mixture(columns, room)
    assert float(any_family_proof(topology, whole(topology), bounds, steps).bound) <= least + 1e-6


@settings(max_examples=times(20, by_day=2), deadline=None)
@given(topologies(max_ranks=4))
def test_no_trees_are_below(topology: Topology) -> None:
    bounds = bounded(topology)
    (trees,) = tree_frontier(
        topology, named_spec("allreduce", topology.ranks), 2 * topology.ranks
    ).classes
    for limit in trees.limits:
        assert any_family_proof(topology, whole(topology), bounds, limit.steps).bound <= limit.lower
        assert limit.upper is not None


@pytest.mark.parametrize(
    ("name", "steps", "least"),
    [
        ("dgx1", 3, "1/2"),
        ("dgx1", 4, "1/3"),  # trees attain it, so it is settled for all algorithms
        ("dgx1", 5, "7/24"),  # likewise
        ("hypercube:3", 3, "1"),  # trees of a broadcast: cuts say 5/6
        ("hypercube:3", 4, "2/3"),
        ("hypercube:6", 10, "1/3"),
        ("ndv2x2", 5, "2"),
    ],
)
def test_bounds_of_known_machines(name: str, steps: int, least: str) -> None:
    topology = resolve_topology(name)
    assert any_family_proof(topology, whole(topology), bounded(topology), steps).bound == Fraction(
        least
    )


def test_more_steps_are_never_worse() -> None:
    topology = resolve_topology("hypercube:3")
    points = [(s, Fraction(100)) for s in range(4, 9)]
    found = any_family_bounds(topology, whole(topology), bounded(topology), points)
    assert [limit.steps for limit in found] == list(range(3, 9))
    lower = [limit.lower for limit in found]
    assert lower == sorted(lower, reverse=True)
    assert all(limit.proofs[0].bound == limit.lower for limit in found)


# --- certificates --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full_4(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return the certificate of the limits of an allreduce, as it is read again."""
    folder = tmp_path_factory.mktemp("proofs") / "full"
    subject = CollectiveProblem(resolve_topology("full:4"), named_spec("allreduce", 4), ())
    found = find_limits(subject.topology, subject.spec, None, CPSAT)
    certify_limits(subject, found, None, CPSAT, folder)
    return read_case(folder)


def test_optimality_among_all_families_is_certified(full_4: Case) -> None:
    best = [c for c in full_4.claims if isinstance(c, LimitPointWire) and c.every]
    costs = [(c.steps, Fraction(c.rounds, c.chunks)) for c in best]
    assert costs == [(1, Fraction(1)), (2, Fraction(1, 2))]
    assert [verdict.state for verdict in check_case(full_4)] == ["ok"] * len(full_4.claims)


@pytest.mark.parametrize("name", ["full:4", "ring:4", "hypercube:3", "dgx1", "ndv2x2"])
def test_claims_of_all_kinds_are_proved_and_no_more_than_that(name: str, full_4: Case) -> None:
    topology = resolve_topology(name)
    bounds = bounded(topology)
    steps = (bounds.steps, bounds.steps + 1)
    proofs = [any_family_proof(topology, whole(topology), bounds, s) for s in steps]
    limits = tuple(StepLimit(s, p.bound, None, (p,)) for s, p in zip(steps, proofs, strict=True))
    spec = named_spec("allreduce", topology.ranks)
    over = find_limits(resolve_topology("full:2"), named_spec("allreduce", 2), 1, CPSAT)
    over = replace(over, bounds=bounds, any_class_limits=limits, classes=())
    case = replace(full_4, topology=topology, spec=spec, dual=dual_of(spec))
    claims = list(any_family_bound_claims(topology, over))
    assert claims
    for claim in claims:
        assert isinstance(claim, AllreduceBoundWire)
        assert check_allreduce_bound(case, claim, free)
        more = str(Fraction(claim.at_least) * Fraction(1001, 1000))
        with pytest.raises(ValueError, match="that proves only"):
            check_allreduce_bound(case, changed(claim, at_least=more), free)
    known = allreduce_lower_bound(case, claims, bounds.steps, free)
    assert known == max(proof.bound for proof in proofs)
    assert allreduce_lower_bound(case, claims, bounds.steps - 1, free) is None


FORGED: list[tuple[dict[str, object], str]] = [
    ({"groups": ((0,), (1,), (2,))}, "take in every rank once"),
    ({"groups": ((0, 1, 2, 3), (3,))}, "take in every rank once"),
    ({"groups": ((0, 1, 2, 3),)}, "take in every rank once"),
    ({"groups": ((0,), (1,), (2,), (4,))}, "take in every rank once"),
    ({"prices": ()}, "costs less than 1"),
    ({"prices": (("link 0->1", 0, "1"),)}, "costs less than 1"),
    ({"prices": (("link 0->9", 0, "1"),)}, "no such constraint"),
    ({"groups": ()}, "by groups only"),
    ({"groups": (), "steps": 2}, "no ranks as roots"),
    ({"groups": (), "steps": 2, "root": 4}, "no ranks as roots"),
    ({"groups": (), "steps": 2, "root": 0, "prices": ()}, "proves only"),
    ({"groups": (), "steps": 1, "cuts": (((0, 0, 0, 2), "2"),), "prices": ()}, "buys 6"),
    ({"groups": (), "steps": 1, "cuts": (((0, 0, 0, 0), "1"),), "prices": ()}, "proves only"),
]


@pytest.mark.parametrize(("changes", "why"), FORGED)
def test_forged_claims_are_not_believed(changes: dict[str, object], why: str, full_4: Case) -> None:
    claim = next(c for c in full_4.claims if isinstance(c, AllreduceBoundWire))
    with pytest.raises(ValueError, match=why):
        check_allreduce_bound(full_4, changed(claim, **changes), free)


def test_claim_is_of_allreduce_alone(full_4: Case) -> None:
    claim = next(c for c in full_4.claims if isinstance(c, AllreduceBoundWire))
    other = replace(full_4, spec=named_spec("reduce", 4))
    with pytest.raises(ValueError, match="is another"):
        check_allreduce_bound(other, claim, free)


def test_point_is_optimal_among_all_only_with_claims_that_say_so(full_4: Case) -> None:
    kept = tuple(c for c in full_4.claims if not isinstance(c, AllreduceBoundWire))
    verdicts = list(check_case(replace(full_4, claims=kept)))
    failed = [v for v in verdicts if v.state == "failed"]
    assert ["all allreduces" in v.claim for v in failed] == [True, True]
