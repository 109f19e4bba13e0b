"""Duals: existing ones, unsupported ones, and correctness by brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec, collective_names, dual_of, named_spec
from sccl.core.answer import Sat
from sccl.core.collective import ALL, SCATTERED, Relation, RelationKind, root_relation
from sccl.core.topology import Topology, to_ranks
from sccl.errors import CollectiveError
from sccl.prove.check.coverage import enumerate_round_vectors
from sccl.synth.syncoll import solve
from sccl.transform import build_question
from tests.kit.nightly import times
from tests.kit.strategies import topologies

State = tuple[int, ...]
"""Contributions of the partial result on each rank, as bits, or 0 without a result."""


def pairs(*groups: set[int]) -> Relation:
    return Relation(RelationKind.PAIRS, pattern=tuple(to_ranks(g) for g in groups))


def combining(pre: Relation, post: Relation, chunks: int, **more: Any) -> Spec:
    return Spec("mine", 4, 1, chunks, pre, post, combining=True, **more)


@pytest.mark.parametrize(
    "spec",
    [
        combining(pairs({0, 1}), ALL, 1),  # contributions of some, wanted by all
        combining(pairs({0, 1}), pairs({0, 2}), 1),  # others contribute than those that want it
        combining(pairs({0, 1}, {2}), pairs({0, 1}, {2}), 2),  # an allreduce beside nothing
        combining(ALL, pairs({0}, {1, 2}), 2),
        combining(ALL, pairs({0}, set()), 2),
        combining(root_relation(0), ALL, 1),
        combining(SCATTERED, ALL, 4),
        combining(ALL, ALL, 4),  # an allreduce whose C counts otherwise
        Spec("allreduce", 4, 1, 1, ALL, ALL, combining=True),
    ],
)
def test_collective_without_dual_is_rejected(spec: Spec) -> None:
    with pytest.raises(CollectiveError, match="exist for one rank per chunk and for allreduce"):
        dual_of(spec)


@pytest.mark.parametrize("name", collective_names())
def test_named_collectives_have_one(name: str) -> None:
    found = dual_of(named_spec(name, 4))
    assert not found.spec.combining
    assert found.phases == (2 if name == "allreduce" else 1)


def led_to(machine: Topology, state: State, rounds: int) -> Iterator[State]:
    """Yield the successors of a state in a step: every link is idle, copies, or reduces."""
    edges = sorted(machine.edges)
    for uses in product(("", "copy", "reduce"), repeat=len(edges)):
        sends = [(u, v, how) for (u, v), how in zip(edges, uses, strict=True) if how]
        used = {(u, v) for u, v, _ in sends}
        room = all(
            sum(edge in used for edge in c.edges) <= c.chunks_per_round * rounds
            for c in machine.constraints()
        )
        if room and all(state[u] for u, _, _ in sends):
            after = arrived(state, sends)
            if after is not None:
                yield after


def arrived(state: State, sends: list[tuple[int, int, str]]) -> State | None:
    """Return the state after sends, or None if one double-counts or two conflict."""
    then = list(state)
    copies = Counter(v for _, v, how in sends if how == "copy")
    arrivals = Counter(v for _, v, _ in sends)
    if any(arrivals[v] > 1 for v in copies):  # two equal ones are no use
        return None
    for u, v, how in sends:
        if how == "copy":
            then[v] = state[u]
        elif then[v] & state[u]:
            return None
        else:
            then[v] |= state[u]
    return tuple(then)


def can_reduce(machine: Topology, givers: set[int], target: int, rounds: tuple[int, ...]) -> bool:
    """Return whether one chunk can be reduced from some ranks into one, by all that can be done."""
    states = {tuple(1 << r if r in givers else 0 for r in range(machine.ranks))}
    for number in rounds:
        states = {after for state in states for after in led_to(machine, state, number)}
    return any(state[target] == sum(1 << r for r in givers) for state in states)


@settings(max_examples=times(25, by_day=13), deadline=None)
@given(topologies(max_ranks=3), st.data())
def test_reductions_exist_where_their_duals_do(machine: Topology, data: st.DataObject) -> None:
    ranks = st.integers(0, machine.ranks - 1)
    givers, target = data.draw(st.sets(ranks, min_size=1)), data.draw(ranks)
    if givers == {target}:
        return
    spec = Spec("mine", machine.ranks, 1, 1, pairs(givers), pairs({target}), combining=True)
    steps = data.draw(st.integers(1, 3))
    rounds = steps + data.draw(st.integers(0, 1))
    (instance,) = build_question(machine, spec, 1, steps, rounds).instances
    by_hand = any(
        can_reduce(machine, givers, target, v) for v in enumerate_round_vectors(rounds, steps, 100)
    )
    assert isinstance(solve.solve(instance, "z3"), Sat) == by_hand
