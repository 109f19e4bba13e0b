"""Pipelined broadcast along trees without common lanes, as many as in Edmonds' theorem."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.answer import Sat
from sccl.core.graphs import distances
from sccl.core.instance import Instance
from sccl.core.topology import Budget, Topology
from sccl.judge import steps, violations
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.constructions.pipelined_trees import answer, disjoint_trees, pipelined_broadcast
from sccl.synth.packing.by_steps.limits_by_steps import extra_broadcast_steps, step_limit
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import topologies


@settings(max_examples=times(80, by_day=40), deadline=None)
@given(topologies(max_ranks=7), st.data())
def test_they_span_all_ranks_and_share_no_lane(machine: Topology, data: st.DataObject) -> None:
    root = data.draw(st.integers(0, machine.ranks - 1))
    unit = named_spec("broadcast", machine.ranks, root).at(1)
    found = disjoint_trees(machine, unit)
    if machine.budgets:
        assert found is None
        return
    if -1 in distances(machine.successors(), [root]):
        assert found is None
        return
    assert found is not None
    used: Counter[tuple[int, int]] = Counter()
    for depth, into in zip(found.depth.tolist(), found.parent_rank.tolist(), strict=True):
        for rank in range(machine.ranks):
            assert (depth[rank] == 0) == (rank == root)
            if rank != root:
                assert depth[rank] == depth[into[rank]] + 1
                used[into[rank], rank] += 1
    lanes = machine.lanes()
    assert all(count <= lanes[edge] for edge, count in used.items())
    bandwidth = lower_bounds(machine, named_spec("broadcast", machine.ranks, root)).bandwidth
    assert Fraction(1, len(found.depth)) == bandwidth  # no more lanes lead out of some set
    lowest = int(found.depth.max(axis=1).min())
    for s in (lowest, lowest + 3):
        made = pipelined_broadcast(machine, unit, s)
        assert made is not None
        assert steps.violations(made) == []
        assert made.bandwidth_cost == found.cost(s) == Fraction(s, sum(found.chunks_per_tree(s)))
    assert pipelined_broadcast(machine, unit, lowest - 1) is None or lowest == 1


@pytest.mark.parametrize(
    ("text", "heights"),
    [("hypercube:4", [5, 5, 5, 5]), ("torus:4x4", [5, 5, 5, 5]), ("mesh:16x16", [30, 30])],
)
def test_some_are_as_low_as_can_be(text: str, heights: list[int]) -> None:
    machine = resolve_topology(text)
    found = disjoint_trees(machine, named_spec("broadcast", machine.ranks).at(1))
    assert found is not None
    assert found.depth.max(axis=1).tolist() == heights


def test_large_machines() -> None:
    """A thousand ranks, four trees: R/C comes to 1/4."""
    machine = resolve_topology("torus:32x32")
    found = disjoint_trees(machine, named_spec("broadcast", 1024).at(1))
    assert found is not None
    assert len(found.depth) == 4
    costs = [found.cost(s) for s in (96, 512, 10_000)]
    assert all(cost is not None for cost in costs)
    assert costs[0] < Fraction(3, 5)  # type: ignore[operator]
    assert costs[2] < Fraction(51, 200)  # type: ignore[operator]


def test_unsupported_machines_are_rejected() -> None:
    ring = resolve_topology("ring:8")
    assert disjoint_trees(ring, named_spec("allgather", 8).at(1)) is None
    bus = Budget("bus", tuple(sorted(ring.edges)), 3)

    assert disjoint_trees(replace(ring, budgets=(bus,)), named_spec("broadcast", 8).at(1)) is None


def test_questions_are_answered_by_them() -> None:
    machine = resolve_topology("mesh:8x8")
    question = named_spec("broadcast", 64).at(34)
    for rounds in (30, 31, 60):
        found = answer(Instance(machine, question, 30, rounds))
        assert isinstance(found, Sat)
        assert violations(found.algorithm) == []
        assert found.algorithm.rounds == rounds


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_limits_of_many_steps(collective: str) -> None:
    machine = resolve_topology("mesh:6x6")
    spec = named_spec(collective, machine.ranks)
    bounds = lower_bounds(machine, spec)
    assert extra_broadcast_steps(machine, spec, bounds.steps) == 20
    limit = step_limit(machine, spec, 40, bounds)
    assert limit.limit.upper is not None
    assert limit.limit.lower <= limit.limit.upper <= Fraction(13, 20)
    assert limit.direct is not None
    assert violations(limit.direct) == []
