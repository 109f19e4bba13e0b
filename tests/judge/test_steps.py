"""The judge against an independent executor, on valid algorithms and all their mutations."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.core.algorithm import Algorithm, make_send
from sccl.core.collective import ALL, Collective
from sccl.core.ids import ChunkId, Rank, Step
from sccl.errors import JudgeError
from sccl.judge import require_valid, violations
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.solver_cases import Case, solved

CASES = (
    Case("ring:4", "allgather", 2, 2, 3, True, ""),
    Case("ring:4", "broadcast", 2, 3, 3, True, ""),
    Case("star:4", "gather", 1, 1, 1, True, ""),
    Case("full:4", "alltoall", 4, 2, 2, True, ""),
    Case("line:3", "reduce", 2, 2, 4, True, ""),
    Case("ring:4", "reducescatter", 8, 2, 3, True, ""),
    Case("full:3", "allreduce", 3, 2, 2, True, ""),
    Case("ring:4", "allreduce", 4, 4, 4, True, ""),
    Case("z52-pcie", "broadcast", 1, 3, 3, True, ""),
)


def executes(algorithm: Algorithm) -> bool:  # noqa: PLR0911, PLR0912 - one plain run
    """Return whether an algorithm is right, by running it on sums that tell contributions apart.

    Rank r contributes 10^r to a combining chunk, so a partial result shows in its decimal digits
    who is in it how often. Written without reference to the judge.
    """
    c, t = algorithm.collective, algorithm.topology
    if any(r < 1 for r in algorithm.rounds_per_step):
        return False
    value: dict[tuple[int, int], int] = {}
    for chunk in range(c.num_chunks):
        for r in c.holders(chunk):
            value[chunk, r] = 10**r if c.combining else 1
    for step, rounds in enumerate(algorithm.rounds_per_step):
        now = [s for s in algorithm.sends if s.step == step]
        before = dict(value)
        use: Counter[tuple[int, int]] = Counter((s.src, s.dst) for s in now)
        if any(edge not in t.edges for edge in use):
            return False
        for constraint in t.constraints():
            if sum(use[e] for e in constraint.edges) > constraint.chunks_per_round * rounds:
                return False
        copied: dict[tuple[int, int], set[int]] = {}
        place: tuple[int, int]
        for s in now:
            if (s.chunk, s.src) not in before:
                return False
            place, sent = (s.chunk, s.dst), before[s.chunk, s.src]
            if s.reduce:
                if not c.combining:
                    return False
                value[place] = value.get(place, 0) + sent
            else:
                value[place] = sent
                copied.setdefault(place, set()).add(sent)
        for place, sent_values in copied.items():  # an overwrite that depends on order is wrong
            reduces = any(s.reduce and (s.chunk, s.dst) == place for s in now)
            if len(sent_values) > 1 or reduces:
                return False
        if any("2" in str(v) or max(map(int, str(v))) > 1 for v in value.values()):
            return False
    for chunk in range(c.num_chunks):
        total = sum(10**r for r in c.holders(chunk)) if c.combining else 1
        if any(value.get((chunk, r)) != total for r in c.destinations(chunk)):
            return False
    return all(0 <= s.step < algorithm.steps for s in algorithm.sends)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_valid_algorithms_pass_both(case: Case) -> None:
    assert violations(solved(case)) == []
    assert executes(solved(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_single_mutation_is_verified_rightly(case: Case) -> None:
    good = solved(case)
    rejected = 0
    for mutant in mutations(good):
        assert (violations(mutant) == []) == executes(mutant), mutant.sends
        rejected += not executes(mutant)
    assert rejected > len(good.sends)  # dropping a send of these algorithms always breaks them


def mutations(good: Algorithm) -> list[Algorithm]:
    """Return every dropped, duplicated, moved, redirected and re-chunked send, one at a time."""
    found = []
    for i, s in enumerate(good.sends):
        rest = good.sends[:i] + good.sends[i + 1 :]
        found.append(rest)
        found.append((*good.sends, s))
        found += [(*rest, replace(s, step=Step(t))) for t in range(good.steps) if t != s.step]
        for rank in range(good.topology.ranks):
            found.append((*rest, replace(s, dst=Rank(rank))))
            found.append((*rest, replace(s, src=Rank(rank))))
        found += [
            (*rest, replace(s, chunk=ChunkId(c)))
            for c in range(good.collective.num_chunks)
            if c != s.chunk
        ]
        if good.collective.combining:
            found.append((*rest, replace(s, reduce=not s.reduce)))
    mutants = [replace(good, sends=sends) for sends in found]
    for i, rounds in enumerate(good.rounds_per_step):
        fewer = (*good.rounds_per_step[:i], rounds - 1, *good.rounds_per_step[i + 1 :])
        mutants.append(replace(good, rounds_per_step=fewer))
    return mutants


@settings(max_examples=times(200, by_day=100))
@given(st.sampled_from(CASES), st.data())
def test_several_mutations_at_once(case: Case, data: st.DataObject) -> None:
    mutant = solved(case)
    for _ in range(data.draw(st.integers(1, 3))):
        options = mutations(mutant) if mutant.sends else []
        if options:
            mutant = data.draw(st.sampled_from(options))
    assert (violations(mutant) == []) == executes(mutant)


def test_violations_name_rank_chunk_and_step() -> None:
    good = solved(Case("ring:4", "allgather", 2, 2, 3, True, ""))
    early = replace(good, sends=(*good.sends, make_send(2, 0, 1, 0)))
    kinds = {v.kind: v for v in violations(early)}
    assert (kinds["availability"].step, kinds["availability"].chunk) == (0, 2)
    assert kinds["availability"].rank == 0
    assert "send 2 from 0 to 1 at step 0" in kinds["availability"].message
    assert "link 0->1" in kinds["bandwidth"].message
    off = replace(good, sends=(*good.sends, make_send(0, 0, 2, 1)))
    assert any(v.kind == "link" for v in violations(off))
    for beyond in (
        make_send(99, 0, 1, 1),
        make_send(0, 0, 4, 1),
        make_send(0, 4, 0, 1),
        make_send(0, 0, 1, 2),
    ):
        outside = replace(good, sends=(*good.sends, beyond))
        assert any(v.kind == "range" for v in violations(outside)), beyond
    idle = replace(good, rounds_per_step=(*good.rounds_per_step, 0))  # no send needs the step
    assert [(v.kind, v.step) for v in violations(idle)] == [("rounds", 2)]
    elsewhere = replace(good, topology=resolve_topology("full:5"))  # which has all its links
    assert [v.kind for v in violations(elsewhere)] == ["collective"]
    nothing = replace(good, sends=())
    assert len([v for v in violations(nothing) if v.kind == "postcondition"]) == 8 * 3


def test_double_counts_and_lost_contributions_are_named() -> None:
    good = solved(Case("line:3", "reduce", 2, 2, 4, True, ""))
    twice = replace(good, sends=(*good.sends, replace(good.sends[-1], step=good.sends[-1].step)))
    assert any(v.kind == "double-count" for v in violations(twice))
    lost = replace(good, sends=good.sends[1:])
    assert any(v.kind == "incomplete" and "lacks" in v.message for v in violations(lost))


def test_order_dependence_and_stray_reductions_are_conflicts() -> None:
    """The last one of two different copies may be the right one by chance."""
    up = (make_send(0, 0, 2, 0, reduce=True), make_send(0, 1, 2, 0, reduce=True))
    down = (make_send(0, 2, 0, 1), make_send(0, 2, 1, 1))
    everywhere = Collective("sum", 3, 1, 1, ALL, ALL, combining=True)
    reduced = Algorithm(resolve_topology("full:3"), everywhere, (1, 1), (*up, *down))
    assert violations(reduced) == []
    late = replace(reduced, sends=(*reduced.sends, make_send(0, 0, 1, 1)))
    assert [(v.kind, v.step, v.rank) for v in violations(late)] == [("conflict", 1, 1)]
    good = solved(CASES[0])
    adds = replace(good.sends[0], reduce=True)
    assert [v.kind for v in violations(replace(good, sends=(adds, *good.sends[1:])))] == [
        "conflict"
    ]


def test_require_valid_raises_what_was_made_by_whom() -> None:
    good = solved(CASES[0])
    assert require_valid(good, "nobody") is good
    with pytest.raises(JudgeError, match="a broken solver"):
        require_valid(replace(good, sends=()), "a broken solver")
