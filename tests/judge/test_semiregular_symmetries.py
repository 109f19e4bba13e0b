"""The judge of symmetries against full execution, for groups of which only 1 keeps a rank."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.algorithm import make_send
from sccl.core.graphs import distances
from sccl.core.ids import Rank, Step
from sccl.core.symmetric import SymmetricAlgorithm, Symmetry
from sccl.core.topology import Budget, Topology, per_rank_budgets
from sccl.errors import ParameterError
from sccl.judge import execution, steps, symmetric
from sccl.judge import violations as judged
from sccl.judge.plans import stream_violations
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.topo.symmetry.group_choice import candidate_groups
from sccl.topo.symmetry.regular_groups import find_semiregular_group
from tests.kit.nightly import times

MACHINES = (
    "cayley:3x2^2:1.0,0.1",
    "cayley:7x3^2:1.0,0.1",
    "cayley:4x2^3:1.0,0.1",
    "mesh:2x4",
    "mesh:4x4",
    "kautz:2x12",
    "linegraph:ring:4",
    "dragonfly:3x2",
    "dgx1",
)


def breadth_first(machine: Topology, collective: str, rng: random.Random) -> SymmetricAlgorithm:
    """Return an algorithm with random breadth-first trees or routes, and their rounds.

    One random chunk of each orbit is given.
    """
    ranks, pieces = machine.ranks, rng.randint(1, 2)
    chunks = pieces * (ranks if collective == "alltoall" else 1)
    demand = named_spec(collective, ranks).at(chunks)
    kept = candidate_groups(machine, demand, "auto")[0].generators
    group = find_semiregular_group([one.ranks for one in kept], ranks)
    assert group is not None
    sends = []
    for first in group.representatives:
        holder = rng.choice(members_of(group.representative.tolist(), first))
        far = distances(machine.successors(), [holder])
        for index in range(chunks):
            into = {
                v: rng.choice([u for u, w in sorted(machine.edges) if w == v and far[u] < far[v]])
                for v in range(ranks)
                if v != holder
            }
            wanted = range(ranks) if collective == "allgather" else [index % ranks]
            ways = set()
            for v in wanted:
                while v != holder:
                    ways.add((into[v], v))
                    v = into[v]  # noqa: PLW2901 - walks back
            sends += [make_send(index * ranks + holder, u, v, far[u]) for u, v in sorted(ways)]
    algorithm = SymmetricAlgorithm(
        machine, demand, (99,) * max(1 + s.step for s in sends), kept, tuple(sends), 0
    )
    whole = expand_algorithm(algorithm)
    rounds = tuple(
        max(needed(whole.topology, [s.edge for s in whole.sends if s.step == step]), 1)
        for step in range(whole.steps)
    )
    return replace(algorithm, rounds_per_step=rounds, num_sends=len(whole.sends))


def members_of(first: list[int], of: int) -> list[int]:
    """Return the ranks of an orbit."""
    return [rank for rank, one in enumerate(first) if one == of]


def needed(machine: Topology, edges: list[tuple[int, int]]) -> int:
    """Return the rounds in which so many sends pass."""
    return max(
        -(-sum(edges.count(e) for e in c.edges) // c.chunks_per_round)
        for c in machine.constraints()
    )


def damaged(good: SymmetricAlgorithm, rng: random.Random) -> SymmetricAlgorithm:
    """Return an algorithm with up to two things changed."""
    sends, rounds = list(good.sends), list(good.rounds_per_step)
    for _ in range(rng.randint(0, 2)):
        i, ranks = rng.randrange(len(sends)), good.topology.ranks
        match rng.choice(["drop", "step", "src", "dst", "rounds"]):
            case "drop" if len(sends) > 1:
                del sends[i]
            case "step":
                sends[i] = replace(sends[i], step=Step(rng.randrange(good.steps)))
            case "src":
                sends[i] = replace(sends[i], src=Rank(rng.randrange(ranks)))
            case "rounds":
                rounds[rng.randrange(len(rounds))] -= 1
            case _:
                sends[i] = replace(sends[i], dst=Rank(rng.randrange(ranks)))
    each = good.num_sends // len(good.sends)
    return replace(
        good, rounds_per_step=tuple(rounds), sends=tuple(sends), num_sends=len(sends) * each
    )


@settings(max_examples=times(1000, by_day=50), deadline=None)
@given(
    st.sampled_from(MACHINES),
    st.booleans(),
    st.sampled_from(["allgather", "alltoall"]),
    st.randoms(),
)
def test_verdict_agrees_with_full_execution(
    name: str, budgets: bool, collective: str, rng: random.Random
) -> None:
    machine = resolve_topology(name)
    if budgets:
        machine = replace(machine, budgets=tuple(per_rank_budgets(machine.edges, 2, 1)))
    some = damaged(breadth_first(machine, collective, rng), rng)
    with pytest.MonkeyPatch.context() as patch:
        long = rng.choice([0, 2**60])  # by compiled loops, or without
        patch.setattr(execution, "LOADED_TRANSFERS", long)
        patch.setattr(execution, "COMPILED_TRANSFERS", long)
        found = symmetric.violations(some)
    assert found is not None
    every = steps.violations(expand_algorithm(some))
    streamed = stream_violations(some)
    assert bool(found) == bool(streamed) == bool(every) == bool(judged(some))
    assert not streamed or streamed[0] in every
    assert not found or found[0] in every, (found, every)


@settings(max_examples=times(100, by_day=50), deadline=None)
@given(
    st.sampled_from(MACHINES), st.sampled_from(["allgather", "alltoall"]), st.randoms(), st.data()
)
def test_forged_groups_gain_nothing(
    name: str, collective: str, rng: random.Random, data: st.DataObject
) -> None:
    """Any permutation, in place of symmetries or beside them."""
    good = breadth_first(resolve_topology(name), collective, rng)
    forged = Symmetry(tuple(data.draw(st.permutations(range(good.topology.ranks)))))
    kept = data.draw(st.booleans())
    some = replace(good, symmetries=(*good.symmetries, forged) if kept else (forged,))
    try:
        every = stream_violations(some)
    except ParameterError:
        with pytest.raises(ParameterError):
            judged(some)
        return
    found = symmetric.violations(some)
    assert found is None or bool(found) == bool(every)


def test_symmetry_that_fixes_a_rank_is_not_supported() -> None:
    mesh = resolve_topology("mesh:2x2")
    sends = tuple(make_send(0, u, v, s) for s, u, v in ((0, 0, 1), (0, 0, 2), (1, 1, 3)))
    allgather = named_spec("allgather", 4).at(1)
    turned, kept = Symmetry((3, 2, 1, 0)), Symmetry((0, 2, 1, 3))
    some = SymmetricAlgorithm(mesh, allgather, (1, 2), (turned,), sends, 6)
    assert [v.kind for v in symmetric.violations(some) or ()] == ["postcondition"]
    assert symmetric.violations(replace(some, symmetries=(kept,))) is None
    assert symmetric.violations(replace(some, symmetries=())) is None
    bus = Budget("bus", ((0, 1),), 1)
    unequal = replace(mesh, budgets=(bus,))
    assert symmetric.violations(replace(some, topology=unequal)) is None


def test_number_of_sends_is_counted() -> None:
    good = breadth_first(resolve_topology("mesh:4x4"), "allgather", random.Random(0))  # noqa: S311
    assert symmetric.violations(good) == []
    wrong = symmetric.violations(replace(good, num_sends=good.num_sends + 1))
    assert [v.kind for v in wrong or ()] == ["range"]
    twice = replace(good, symmetries=())
    assert symmetric.violations(twice) is None
    other = expand_algorithm(good).sends
    with pytest.raises(ParameterError, match="two chunks of one orbit"):
        symmetric.violations(replace(good, sends=other))
