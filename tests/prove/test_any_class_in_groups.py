"""Lower bounds for every allreduce in process groups, by sends between sets of ranks."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from sccl.collectives import Spec, embedded_broadcast, named_spec
from sccl.collectives import resolve_collective as collective
from sccl.core.bound import CountProof
from sccl.core.collective import Relation, RelationKind
from sccl.core.files.claims import AllreduceBoundWire, LimitPointWire
from sccl.core.topology import Topology, to_ranks
from sccl.errors import CollectiveError
from sccl.prove.bounds.any_class import any_class_bounds, exchange_demand
from sccl.prove.bounds.bandwidth_proof import max_carried
from sccl.prove.bounds.network_strength import merged_partition
from sccl.prove.check.allreduce import check_allreduce_bound
from sccl.prove.check.case import Case, read_case
from sccl.prove.check.certificate import check_case
from sccl.solvers.effort import Effort
from sccl.synth.allreduce.any_family_bound import any_family_proof
from sccl.synth.allreduce.certify import certify_limits
from sccl.synth.allreduce.limit_search import find_limits
from sccl.synth.common.problem import CollectiveProblem
from sccl.synth.common.settings import Settings
from sccl.topo import resolve_topology
from sccl.view.text.reasons import explain_bandwidth
from tests.kit.nightly import times
from tests.kit.partitions import build_machine, partitions
from tests.kit.strategies import topologies

CPSAT = Settings("cpsat", Effort())


def test_bound_of_groups_includes_the_weak_link() -> None:
    """Each of four pairs has a rank in either box, and so a chunk to send over and one back."""
    box = list(combinations(range(4), 2))
    lanes = {**dict.fromkeys(box, 3), **{(u + 4, v + 4): 3 for u, v in box}, (0, 4): 1}
    topology = build_machine(8, lanes)
    across, within = (collective(f"allreduce@{how}", 8) for how in ("4x2.strided", "2x4"))
    found = any_class_bounds(topology, across)
    assert found.bandwidth == 4
    assert isinstance(found.evidence, CountProof)
    assert (found.evidence.groups, found.evidence.sends) == (((0, 1, 2, 3), (4, 5, 6, 7)), 8)
    assert not found.evidence.is_asymptotic
    said = explain_bandwidth(found, across)
    assert said.startswith("between the 2 sets {0-3}, {4-7} a chunk of each group")
    assert any_class_bounds(topology, within).bandwidth == Fraction(
        12, 72
    )  # nothing has to go over it
    proof = any_family_proof(topology, across, found, found.steps)
    assert (proof.collective, proof.bound) == (across.name, Fraction(4))
    assert not proof.cuts


@settings(max_examples=times(40), deadline=None)
@given(topologies(max_ranks=6), st.data())
def test_one_group_of_all_ranks_is_bounded_as_all_are(
    topology: Topology, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(topology.ranks)))
    group = collective(f"allreduce@{','.join(map(str, order))}", topology.ranks)
    whole = named_spec("allreduce", topology.ranks)
    found, alike = any_class_bounds(topology, whole), any_class_bounds(topology, group)
    assert (found.steps, found.bandwidth) == (alike.steps, alike.bandwidth)


def fewest_between(group: tuple[int, ...], sets: list[list[int]]) -> int:
    """Return the fewest sends between sets after which a group of four ranks has its result.

    All orders of sends are enumerated, also over ranks outside the group.
    """
    of = {rank: i for i, some in enumerate(sets) for rank in some}
    goal = sum(1 << rank for rank in group)
    pairs = list(permutations(range(4), 2))
    states = {tuple(1 << rank & goal for rank in range(4))}
    sent = 0
    while True:
        new = states
        while new:
            near = {
                told(k, u, v) for k in new for u, v in permutations(range(4), 2) if of[u] == of[v]
            }
            new = near - states
            states |= new
        if any(all(k[rank] == goal for rank in group) for k in states):
            return sent
        states = {told(k, u, v) for k in states for u, v in pairs if of[u] != of[v]}
        sent += 1


def told(knows: tuple[int, ...], src: int, dst: int) -> tuple[int, ...]:
    return tuple(k | knows[src] if rank == dst else k for rank, k in enumerate(knows))


@pytest.mark.parametrize("text", ["0-1/2-3", "0,2,3", "0-3"])
def test_no_order_of_sends_takes_fewer_than_groups_are_reported(text: str) -> None:
    unit = collective(f"allreduce@{text}", 4)
    ranks = {tuple(sorted(map(int, group))) for group in unit.post.pattern} or {(0, 1, 2, 3)}
    for sets in partitions(list(range(4))):
        fewest = sum(fewest_between(group, sets) for group in ranks)
        assert exchange_demand(unit.at(unit.unit), [frozenset(some) for some in sets]) == fewest


@settings(max_examples=times(30), deadline=None)
@given(topologies(max_ranks=5), st.data())
def test_sets_that_are_merged_bound_as_partitions_do(
    topology: Topology, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(topology.ranks)))
    size = data.draw(st.integers(2, topology.ranks))
    groups = [order[:size]] + ([order[size:]] if topology.ranks - size > 1 else [])
    text = "allreduce@" + "/".join(",".join(map(str, sorted(group))) for group in groups)
    unit = collective(text, topology.ranks)
    reduced = unit.at(unit.unit)
    bounds = [
        exchange_demand(reduced, sets) / max_carried(topology, crossing)
        for some in partitions(list(range(topology.ranks)))
        if (sets := [frozenset(one) for one in some]) and (crossing := _between(topology, sets))
    ]
    found = merged_partition(topology, reduced)
    assert found is not None
    assert sorted(rank for some in found for rank in some) == list(range(topology.ranks))
    value = exchange_demand(reduced, found) / max_carried(topology, _between(topology, list(found)))
    alone = exchange_demand(reduced, [frozenset([r]) for r in range(topology.ranks)])
    assert alone / max_carried(topology, topology.edges) <= value <= max(bounds)


def _between(topology: Topology, sets: list[frozenset[int]]) -> set[tuple[int, int]]:
    """Return the links between sets."""
    of = {rank: i for i, some in enumerate(sets) for rank in some}
    return {(u, v) for u, v in topology.edges if of[u] != of[v]}


def claimed(machine_name: str, text: str, steps: int, folder: Path) -> Case:
    """Return the certificate of the limits of an allreduce in groups."""
    topology = resolve_topology(machine_name)
    subject = CollectiveProblem(topology, collective(text, topology.ranks), ())
    found = find_limits(subject.topology, subject.spec, steps, CPSAT)
    certify_limits(subject, found, steps, CPSAT, folder)
    return read_case(folder)


def test_claims_of_every_class_hold_of_groups_and_no_more_than_they_say(tmp_path: Path) -> None:
    case = claimed("dgx1", "allreduce@0-3/4-7", 3, tmp_path / "proofs")
    assert {verdict.state for verdict in check_case(case)} == {"ok"}
    found = [claim for claim in case.claims if isinstance(claim, AllreduceBoundWire)]
    assert {(c.steps, c.at_least) for c in found} >= {(None, "1/3"), (1, "1"), (2, "1/2")}
    best = [c for c in case.claims if isinstance(c, LimitPointWire) and c.every]
    assert [(c.chunks, c.steps, c.rounds) for c in best] == [(4, 2, 2), (44, 3, 16)]
    for claim in found:
        more = changed(claim, at_least=str(Fraction(claim.at_least) * Fraction(101, 100)))
        with pytest.raises(ValueError, match="proves only"):
            check_allreduce_bound(case, more, lambda _: None)


def test_cuts_of_fewer_steps_than_ranks_are_far_have_labels_that_are_times(tmp_path: Path) -> None:
    """Ranks that a group's chunks cannot reach in time are never inside."""
    case = claimed("torus:4x4", "allreduce@4x4", 4, tmp_path / "proofs")
    assert {verdict.state for verdict in check_case(case)} == {"ok"}
    cuts = [c for c in case.claims if isinstance(c, AllreduceBoundWire) and c.cuts]
    assert [(c.steps, c.at_least) for c in cuts] == [(2, "1")]


def test_broadcast_in_every_group_says_more_than_cuts_where_copies_are_no_flows() -> None:
    """On a 3-cube with S = 3 trees need 1, and cuts say 5/6."""
    topology = resolve_topology("hypercube:3")
    spec = collective("allreduce@0-7", 8)
    grouped = replace(spec, name="allreduce@0-7+", post=_listed(spec), pre=_listed(spec))
    bounds = any_class_bounds(topology, grouped)
    proof = any_family_proof(topology, grouped, bounds, 3)
    assert (proof.bound, len(proof.roots)) == (Fraction(1), 1)


def _listed(spec: Spec) -> Relation:
    return Relation(RelationKind.PAIRS, pattern=(to_ranks(range(spec.ranks)),) * spec.unit)


@pytest.mark.parametrize("roots", [(), (0,), (0, 3), (0, 4, 5), (4, 0)])
def test_broadcast_is_followed_from_a_rank_of_each_group(roots: tuple[int, ...]) -> None:
    spec = collective("allreduce@0-3/4-7", 8)
    with pytest.raises(CollectiveError, match="give a rank of each as root"):
        embedded_broadcast(spec, roots)
    found = embedded_broadcast(spec, (1, 7))
    assert found.name == "broadcast@0-3/4-7"
    assert {held for held, _ in found.at(found.unit).chunk_classes()} == {
        frozenset({1}),
        frozenset({7}),
    }
