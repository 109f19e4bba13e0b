"""Lower bounds: known values, re-checked proofs, and invalid proofs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.bound import Cut
from sccl.core.collective import Collective
from sccl.core.topology import Link, Topology
from sccl.errors import UnreachableError
from sccl.prove.bounds.bandwidth_proof import BandwidthProof, check_proof
from sccl.prove.bounds.lower_bounds import bandwidth_bound, lower_bounds
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import topologies


def bounds_of(topology: str, collective: str) -> tuple[int, str]:
    machine = resolve_topology(topology)
    found = lower_bounds(machine, named_spec(collective, machine.ranks))
    return found.steps, str(found.bandwidth)


@pytest.mark.parametrize(
    ("topology", "collective", "steps", "bandwidth"),
    [
        ("dgx1", "allgather", 2, "7/6"),  # SCCL section 2.4
        ("dgx1", "allreduce", 4, "7/24"),
        ("dgx1", "reducescatter", 2, "7/48"),
        ("dgx1", "broadcast", 2, "1/6"),
        ("dgx1", "alltoall", 2, "1/3"),  # SCCL Table 4: (24, 2, 8) is optimal in both
        ("z52", "allgather", 4, "7/2"),
        ("z52", "alltoall", 4, "1"),
        ("z52-pcie", "allgather", 3, "4"),  # both ways over the same two buses
        ("torus:4x4", "allgather", 4, "15/4"),
        ("torus:4x4x4", "alltoall", 6, "1/2"),
        ("circulant:8:1,3", "alltoall", 2, "5/16"),
        ("star:5", "gather", 1, "1"),
        ("line:4", "gather", 3, "3"),
    ],
)
def test_known_bounds(topology: str, collective: str, steps: int, bandwidth: str) -> None:
    assert bounds_of(topology, collective) == (steps, bandwidth)


def best_cut(topology: Topology, collective: Collective) -> Fraction:
    """Return the worst ratio over every set of ranks, by enumeration."""
    best = Fraction(0)
    lanes = topology.lanes()
    for size in range(1, topology.ranks):
        for ranks in combinations(range(topology.ranks), size):
            inside = set(ranks)
            width = sum(n for (u, v), n in lanes.items() if v in inside and u not in inside)
            demand = collective.amount_entering(inside)
            if demand:
                best = max(best, Fraction(demand, width))
    return best


@settings(max_examples=times(60))
@given(topologies(max_ranks=5), st.sampled_from(["allgather", "broadcast", "gather", "scatter"]))
def test_without_shared_budgets_the_bound_is_the_worst_cut(topology: Topology, name: str) -> None:
    plain = replace(topology, budgets=())
    spec = named_spec(name, plain.ranks)
    collective = spec.at(spec.unit)
    proof = bandwidth_bound(plain, collective)
    assert proof.value == best_cut(plain, collective)
    assert proof.kind == "cut" or name in {"gather", "scatter"}


@settings(max_examples=times(60))
@given(topologies(), st.sampled_from(["allgather", "broadcast", "gather", "scatter", "alltoall"]))
def test_proofs_prove_what_they_claim(topology: Topology, name: str) -> None:
    spec = named_spec(name, topology.ranks)
    collective = spec.at(spec.unit)
    proof = bandwidth_bound(topology, collective)
    assert proof.value > 0
    assert check_proof(topology, collective, proof) == proof.value


def test_false_proofs_are_rejected() -> None:
    machine = resolve_topology("ring:4")
    collective = named_spec("allgather", 4).at(1)
    cut = Cut((0,), Fraction(1), 3)
    half = BandwidthProof(Fraction(3), (((1, 0), Fraction(1)),), (cut,))
    with pytest.raises(ValueError, match="cuts weigh"):
        check_proof(machine, collective, half)  # leaves the link 3->0 unpaid
    with pytest.raises(ValueError, match="no such constraint"):
        check_proof(machine, collective, replace(half, prices=(("x", Fraction(1)),)))
    with pytest.raises(ValueError, match="negative"):
        check_proof(machine, collective, replace(half, prices=(((1, 0), Fraction(-1)),)))
    with pytest.raises(ValueError, match="nothing has a price"):
        check_proof(machine, collective, replace(half, prices=()))


def test_unreachable_demand_names_the_pair() -> None:
    one_way = Topology("half", 3, (Link(0, 1, 1, 1.0, 1.0), Link(1, 2, 1, 1.0, 1.0)), 1.0, 1.0)
    with pytest.raises(UnreachableError, match=r"starts on rank 1 and must reach rank 0"):
        lower_bounds(one_way, named_spec("allgather", 3))


@pytest.mark.parametrize(
    ("machine", "cost"),
    [
        pytest.param("torus:16x8", "2", marks=pytest.mark.nightly),
        ("torus:12x4x2", "3/2"),
        ("torus:16x16", "2"),
        ("hypercube:7", "1/2"),
    ],
)
def test_alltoall_is_bounded_by_the_longest_side(machine: str, cost: str) -> None:
    """Machines with too many flows for a linear program."""
    topology = resolve_topology(machine)
    spec = named_spec("alltoall", topology.ranks)
    assert lower_bounds(topology, spec).bandwidth == Fraction(cost)
    if topology.ranks <= 128:  # one link less: no translations, and no less is bounded
        less = replace(topology, links=topology.links[:-1])
        assert lower_bounds(less, spec).bandwidth > 0
