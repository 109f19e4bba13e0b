"""The judge by symmetry against the full execution, also for invalid algorithms."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.algorithm import make_send
from sccl.core.ids import Rank, Step
from sccl.core.symmetric import SymmetricAlgorithm, Symmetry
from sccl.core.topology import Budget, Topology
from sccl.errors import ParameterError
from sccl.judge import execution, steps, symmetric
from sccl.judge import violations as judged
from sccl.judge.plans import stream_violations
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.topo.symmetry.group_choice import candidate_groups
from tests.kit.cayley import cayley_machines
from tests.kit.nightly import times
from tests.kit.symmetric import symmetric as with_turns


def breadth_first(machine: Topology, collective: str, rng: random.Random) -> SymmetricAlgorithm:
    """Return sends of each of rank 0's chunks along random shortest ways, and rounds for them."""
    spec = named_spec(collective, machine.ranks)
    question = spec.at(spec.unit * rng.randint(1, 2))
    group = next(g for g in candidate_groups(machine, question, "auto") if g.name == "translations")
    into = machine.reversed().successors()
    far = [0] + [-1] * (machine.ranks - 1)
    order = [0]
    for rank in order:
        for near in machine.successors()[rank]:
            if far[near] < 0:
                far[near] = far[rank] + 1
                order.append(near)
    sends = []
    for chunk in range(0, question.num_chunks, machine.ranks):
        before = {r: rng.choice([u for u in into[r] if far[u] == far[r] - 1]) for r in order[1:]}
        wanted = question.destinations(chunk)
        way = {(before[r], r) for r in order[1:]}
        if collective == "alltoall":
            (here,) = wanted
            way = set()
            while here:
                way.add((before[here], here))
                here = Rank(before[here])
        sends += [make_send(chunk, u, v, far[u]) for u, v in way]
    rounds = tuple(rng.randint(1, 3 * question.chunks) for _ in range(max(far)))
    count = len(sends) * machine.ranks
    return SymmetricAlgorithm(machine, question, rounds, group.generators, tuple(sends), count)


def damaged(good: SymmetricAlgorithm, rng: random.Random) -> SymmetricAlgorithm:
    """Return an algorithm with up to two sends changed."""
    sends = list(good.sends)
    for _ in range(rng.randint(0, 2)):
        i, ranks = rng.randrange(len(sends)), good.topology.ranks
        match rng.choice(["drop", "step", "src", "dst"]):
            case "drop" if len(sends) > 1:
                del sends[i]
            case "step":
                sends[i] = replace(sends[i], step=Step(rng.randrange(good.steps)))
            case "src":
                sends[i] = replace(sends[i], src=Rank(rng.randrange(ranks)))
            case _:
                sends[i] = replace(sends[i], dst=Rank(rng.randrange(ranks)))
    return replace(good, sends=tuple(sends), num_sends=len(sends) * good.topology.ranks)


@settings(max_examples=times(1000, by_day=75), deadline=None)
@given(cayley_machines(budgets=True), st.sampled_from(["allgather", "alltoall"]), st.randoms())
def test_verdict_agrees_with_full_execution(
    machine: Topology, collective: str, rng: random.Random
) -> None:
    some = damaged(breadth_first(machine, collective, rng), rng)
    with pytest.MonkeyPatch.context() as patch:
        long = rng.choice([0, 2**60])  # by compiled loops, or without
        patch.setattr(execution, "LOADED_TRANSFERS", long)
        patch.setattr(execution, "COMPILED_TRANSFERS", long)
        found = symmetric.violations(some)
    assert found is not None
    every = steps.violations(expand_algorithm(some))
    streamed = stream_violations(some)
    assert bool(found) == bool(streamed) == bool(every)
    assert not streamed or streamed[0] in every
    assert not found or found[0] in every, (found, every)


@settings(max_examples=times(80, by_day=40), deadline=None)
@given(cayley_machines(), st.sampled_from(["allgather", "alltoall"]), st.randoms())
def test_representatives_may_start_on_any_rank(
    machine: Topology, collective: str, rng: random.Random
) -> None:
    some = damaged(breadth_first(machine, collective, rng), rng)
    by_chunk = {chunk: way for chunk, *way in _moved(some, rng)}
    sends = [make_send(c, u, v, s) for c, way in by_chunk.items() for s, u, v in way[0]]
    moved = replace(some, sends=tuple(sends))
    assert bool(symmetric.violations(moved)) == bool(symmetric.violations(some))
    assert set(expand_algorithm(moved).sends) == set(expand_algorithm(some).sends)


def _moved(
    some: SymmetricAlgorithm, rng: random.Random
) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """Return all sends of one chunk of each orbit, whichever of its images comes."""
    from sccl.topo.symmetry.chunk_orbits import expanded_sends

    images = [
        (chunk, list(zip(s.tolist(), u.tolist(), v.tolist(), strict=True)))
        for chunk, s, u, v in expanded_sends(some)
    ]
    each = some.topology.ranks  # images come orbit after orbit
    return [images[i + rng.randrange(each)] for i in range(0, len(images), each)]


@settings(max_examples=times(100, by_day=50), deadline=None)
@given(cayley_machines(), st.sampled_from(["allgather", "alltoall"]), st.randoms(), st.data())
def test_forged_groups_gain_nothing(
    machine: Topology, collective: str, rng: random.Random, data: st.DataObject
) -> None:
    """Any permutations with any turns, in place of symmetries or beside them."""
    good = breadth_first(machine, collective, rng)
    image = tuple(data.draw(st.permutations(range(machine.ranks))))
    period = data.draw(st.sampled_from([1, good.collective.class_size_divisor]))
    forged = Symmetry(image, data.draw(st.integers(0, period - 1)), period)
    kept = data.draw(st.booleans())
    some = replace(good, symmetries=(*good.symmetries, forged) if kept else (forged,))
    try:
        every = stream_violations(some)
    except ParameterError:
        with pytest.raises(ParameterError):
            judged(some)
        return
    found = symmetric.violations(some)
    assert bool(judged(some)) == bool(every)
    assert found is None or bool(found) == bool(every)


@settings(max_examples=times(60), deadline=None)
@given(st.randoms())
def test_turns_are_checked_by_what_keeps_a_chunk(rng: random.Random) -> None:
    """A turn of another order keeps chunks, and then has to keep their sends."""
    good = with_turns()
    turn = good.symmetries[-1]
    assert (turn.chunk_shift, turn.period) == (1, 4)
    other = replace(turn, chunk_shift=rng.randrange(4))
    some = replace(good, symmetries=(*good.symmetries[:-1], other))
    try:
        every = stream_violations(some)
    except ParameterError:
        with pytest.raises(ParameterError):
            symmetric.violations(some)
        return
    found = symmetric.violations(some)
    assert found is None or bool(found) == bool(every)
    if other.chunk_shift == 0:  # it keeps every chunk of its centre, whose tree it does not keep
        assert found is None


def test_chunk_fixed_by_a_rotation_is_accepted() -> None:
    """A ring and its reflection, which keeps the chunk, and here its sends."""
    ring = resolve_topology("ring:3")
    sends = tuple(make_send(0, 0, v, 0) for v in (1, 2))
    group = (Symmetry((1, 2, 0)), Symmetry((0, 2, 1)))
    algorithm = SymmetricAlgorithm(ring, named_spec("allgather", 3).at(1), (1,), group, sends, 6)
    assert symmetric.violations(algorithm) == stream_violations(algorithm) == []
    alone = replace(
        algorithm, sends=(make_send(0, 0, 1, 0), make_send(0, 1, 2, 1)), rounds_per_step=(1, 1)
    )
    assert symmetric.violations(alone) is None


@pytest.mark.parametrize("most", [1, 2])
def test_budgets_are_verified_by_their_orbits(most: int) -> None:
    """On a ring of four that may send to both sides at once, or not."""
    ring = resolve_topology("ring:4")
    edges = [tuple((r, (r + d) % 4) for d in (1, 3)) for r in range(4)]
    budgets = tuple(Budget(f"egress {r}", edges[r], most) for r in range(4))
    sends = (make_send(0, 0, 1, 0), make_send(0, 0, 3, 0), make_send(0, 1, 2, 1))
    algorithm = SymmetricAlgorithm(
        replace(ring, budgets=budgets),
        named_spec("allgather", 4).at(1),
        (1, 1),
        (Symmetry((1, 2, 3, 0)),),
        sends,
        12,
    )
    found = symmetric.violations(algorithm)
    assert found is not None
    assert [v.kind for v in found] == ([] if most == 2 else ["bandwidth"])
    assert bool(found) == bool(stream_violations(algorithm))
    unequal = replace(algorithm.topology, budgets=budgets[:3])
    assert symmetric.violations(replace(algorithm, topology=unequal)) is None


def test_unsupported_algorithm_is_executed_as_a_stream() -> None:
    """No translations at all, and a symmetry that keeps some ranks and not others."""
    mesh = resolve_topology("mesh:2x2")
    sends = tuple(make_send(0, u, v, s) for s, u, v in ((0, 0, 1), (0, 0, 2), (1, 1, 3)))
    allgather = named_spec("allgather", 4).at(1)
    image = (0, 2, 1, 3)
    only_one = SymmetricAlgorithm(mesh, allgather, (1, 2), (Symmetry(image),), sends, 6)
    assert symmetric.violations(only_one) is None
    assert [v.kind for v in judged(only_one)] == ["postcondition"]


def test_send_that_reduces_is_rejected_where_nothing_is_reduced() -> None:
    ring = resolve_topology("ring:3")
    sends = tuple(make_send(0, 0, v, 0, reduce=v == 1) for v in (1, 2))
    collective = named_spec("allgather", 3).at(1)
    algorithm = SymmetricAlgorithm(ring, collective, (1,), (Symmetry((1, 2, 0)),), sends, 6)
    assert [v.kind for v in judged(algorithm)] == ["conflict"]
