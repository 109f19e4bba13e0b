"""The fullest cut by flows, against the LP of cuts and closed forms."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.graphs import distances
from sccl.core.topology import Link, Topology
from sccl.prove.bounds.bandwidth_proof import check_proof, simple_proofs
from sccl.prove.bounds.cut_lp import cut_proof
from sccl.prove.bounds.lower_bounds import bandwidth_bound
from sccl.prove.bounds.sink_cuts import fullest_cut
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import topologies


def boxes(inner: str, count: int) -> Topology:
    """Return copies of a machine in a ring of one lane between their first ranks."""
    one = resolve_topology(inner)
    size = one.ranks
    links = [
        replace(k, src=k.src + size * b, dst=k.dst + size * b)
        for b in range(count)
        for k in one.links
    ]
    for b in range(count):
        a, c = b * size, (b + 1) % count * size
        links += [Link(a, c, 1, 1.0, 1.0), Link(c, a, 1, 1.0, 1.0)]
    unique = {k.edge: k for k in links}
    return Topology("boxes", size * count, tuple(unique.values()), 1.0, 1.0)


@settings(max_examples=times(80), deadline=None)
@given(topologies(max_ranks=6), st.integers(1, 2))
def test_sink_cut_bound_equals_the_cut_lp(machine: Topology, chunks: int) -> None:
    machine = replace(machine, budgets=())
    if any(-1 in distances(machine.successors(), [r]) for r in range(machine.ranks)):
        return
    question = named_spec("allgather", machine.ranks).at(chunks)
    start = next(iter(simple_proofs(machine, question)))
    start = replace(start, value=check_proof(machine, question, start))
    by_lp = cut_proof(machine, question, start)
    assert by_lp is not None
    best = max(start.value, check_proof(machine, question, by_lp))
    found, inside = fullest_cut(machine, range(machine.ranks), start.value / chunks)
    assert found * chunks == best
    assert bool(inside) == (best > start.value)
    assert bandwidth_bound(machine, question).value == best


@pytest.mark.parametrize(
    ("machine", "ratio", "outside"),
    [
        (resolve_topology("dgx1"), "7/6", 0),
        (resolve_topology("dragonfly:4x5"), "19/4", 0),
        (resolve_topology("mesh:16x16"), "255/2", 0),
        (boxes("dgx1", 4), "12", 8),
        (boxes("dgx1", 16), "60", 8),
    ],
    ids=lambda given: given.name if isinstance(given, Topology) else str(given),
)
def test_closed_forms(machine: Topology, ratio: str, outside: int) -> None:
    least = min(sum(k.lanes for k in machine.links if k.dst == r) for r in range(machine.ranks))
    guess = Fraction(machine.ranks - 1, least)
    found, inside = fullest_cut(machine, range(machine.ranks), guess)
    assert found == Fraction(ratio)
    assert len(inside) == outside
    assert bandwidth_bound(machine, named_spec("allgather", machine.ranks).at(1)).value == found
