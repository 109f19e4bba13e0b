"""Prices of orbits for an alltoall equal those of the whole program, with much less work."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings

from sccl.collectives import named_spec
from sccl.core.graphs import distances
from sccl.core.topology import Topology
from sccl.prove.bounds import flow_orbits as by_orbits
from sccl.prove.bounds.bandwidth_proof import check_proof
from sccl.prove.bounds.flow_lp import flow_proof
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import topologies


@settings(max_examples=times(40, by_day=20), deadline=None)
@given(topologies(max_ranks=6))
def test_they_prove_what_the_program_of_all_links_does(machine: Topology) -> None:
    if any(-1 in distances(machine.successors(), [rank]) for rank in range(machine.ranks)):
        return
    collective = named_spec("alltoall", machine.ranks).at(machine.ranks)
    whole = flow_proof(machine, collective)
    assert whole is not None
    exact = check_proof(machine, collective, whole)
    found = [
        check_proof(machine, collective, proof)
        for proof in by_orbits.orbit_flow_proofs(machine, collective)
    ]
    assert len(found) == 2
    assert abs(max(found) - exact) <= exact / 10_000


@pytest.mark.parametrize(
    ("text", "bandwidth"),
    [
        ("mesh:8x8", Fraction(2)),
        ("slimfly:5", Fraction(13, 50)),
        ("linegraph:circulant:16:3,4", Fraction(95, 128)),
        ("kautz:4x64", Fraction(691, 960)),
        ("cayley:64x4^15:1.0,0.1", Fraction(5)),
    ],
)
def test_machines_too_large_for_that(text: str, bandwidth: Fraction) -> None:
    machine = resolve_topology(text)
    spec = named_spec("alltoall", machine.ranks)
    assert flow_proof(machine, spec.at(spec.unit)) is None
    assert lower_bounds(machine, spec).bandwidth == bandwidth


def test_largest_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = resolve_topology("mesh:4x4")
    collective = named_spec("alltoall", 16).at(16)
    monkeypatch.setattr(by_orbits, "_MAX_PATH_WORK", 3 * 16 - 1)
    assert list(by_orbits.orbit_flow_proofs(machine, collective)) == []
    monkeypatch.setattr(by_orbits, "_MAX_PATH_WORK", 3 * 16)
    monkeypatch.setattr(by_orbits, "_MAX_TOTAL_WORK", 1)  # prices as they are at first
    values = [
        check_proof(machine, collective, p)
        for p in by_orbits.orbit_flow_proofs(machine, collective)
    ]
    assert max(values) < 16
