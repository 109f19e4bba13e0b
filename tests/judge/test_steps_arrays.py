"""The compiled judge of long algorithms agrees with the judge of steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.core.algorithm import Algorithm, make_send
from sccl.core.ids import ChunkId, Rank
from sccl.judge import execution, steps, steps_arrays, violations
from sccl.synth import baselines
from sccl.synth.baselines import to_algorithm
from sccl.topo import resolve_topology
from tests.kit.baselines import request
from tests.kit.nightly import times
from tests.kit.strategies import specs, topologies


@given(st.data())
@settings(max_examples=times(1000, by_day=150), deadline=None)
def test_both_judges_agree(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_ranks=4))
    spec = data.draw(specs(topology.ranks))
    collective = spec.at(spec.unit)
    ends = st.integers(0, topology.ranks - 1)
    chunks = st.integers(0, collective.num_chunks)
    row = st.tuples(chunks, ends, ends, st.integers(0, 2), st.booleans())
    sends = [
        make_send(c, a, b, s, reduce=r and collective.combining)
        for c, a, b, s, r in data.draw(st.lists(row, max_size=8))
        if a != b
    ]
    rounds = tuple(data.draw(st.lists(st.integers(0, 3), min_size=2, max_size=3)))
    algorithm = Algorithm(topology, collective, rounds, tuple(sends))
    assert steps_arrays.is_valid(algorithm) == (steps.violations(algorithm) == [])


MADE = [
    ("ring", "allreduce", "ring:5"),
    ("multitree", "allgather", "torus:3x3"),
    ("direct", "alltoall", "switch:4x2"),
    ("halving-doubling", "allreduce", "full:8"),
]


@pytest.mark.parametrize(("name", "collective", "machine"), MADE)
def test_one_thing_wrong_is_seen_by_both(name: str, collective: str, machine: str) -> None:
    right = to_algorithm(
        baselines.make_pattern(name, request(collective, machine)), resolve_topology(machine)
    )
    assert steps_arrays.is_valid(right)
    first, *others = right.sends
    damaged = [
        replace(right, sends=tuple(others)),
        replace(right, sends=(*others, replace(first, src=first.dst, dst=first.src))),
        replace(right, rounds_per_step=(*right.rounds_per_step[:-1], 0)),
        replace(right, rounds_per_step=right.rounds_per_step[:-1]),
        replace(right, sends=(*right.sends, replace(first, chunk=ChunkId(10**6)))),
        replace(right, topology=resolve_topology("line:9")),
        replace(right, sends=(*others, replace(first, src=Rank(2**63)))),
        replace(right, rounds_per_step=(*right.rounds_per_step[:-1], 2**63)),
    ]
    for wrong in damaged:
        assert steps_arrays.is_valid(wrong) == (steps.violations(wrong) == [])
    assert not any(map(steps_arrays.is_valid, (damaged[0], damaged[3], damaged[4], damaged[5])))
    squeezed = replace(right, rounds_per_step=tuple(r - 1 for r in right.rounds_per_step))
    assert not steps_arrays.is_valid(squeezed)


def test_long_ones_are_verified_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "LOADED_TRANSFERS", 1)
    right = to_algorithm(
        baselines.make_pattern("ring", request("allreduce", "ring:4")), resolve_topology("ring:4")
    )
    wrong = replace(right, sends=right.sends[:-1])
    assert violations(wrong) == steps.violations(wrong) != []
    looked_at: list[object] = []
    monkeypatch.setattr(steps, "violations", looked_at.append)
    assert violations(right) == []
    assert looked_at == []


def test_many_short_ones_are_verified_so_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    right = to_algorithm(
        baselines.make_pattern("ring", request("allreduce", "ring:4")), resolve_topology("ring:4")
    )
    monkeypatch.setattr(execution, "LOADED_TRANSFERS", 3 * len(right.sends))
    monkeypatch.setattr(execution, "_uncompiled_transfers", Counter())
    looked_at: list[object] = []

    def look(algorithm: object) -> list[object]:
        looked_at.append(algorithm)
        return []

    monkeypatch.setattr(steps, "violations", look)
    for _ in range(5):
        assert violations(right) == []
    assert len(looked_at) == 2
