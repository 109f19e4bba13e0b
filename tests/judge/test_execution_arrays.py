"""The rules of a collective in compiled loops agree with those of the judge of steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.collective import Collective, Relation, RelationKind, root_relation
from sccl.core.ids import Rank
from sccl.judge import execution_arrays, violations
from sccl.judge.steps_arrays import step_transfers
from sccl.topo import resolve_topology
from tests.kit.nightly import times
from tests.kit.strategies import specs

ENOUGH = 10**6  # rounds, because bandwidth does not matter here


def right(collective: Collective, sends: list[Send]) -> bool:
    """Return the verdict of the compiled judge, and check that the judge of steps agrees."""
    steps = 1 + max((s.step for s in sends), default=0)
    topology = resolve_topology(f"full:{collective.ranks}")
    slow = violations(Algorithm(topology, collective, (ENOUGH,) * steps, tuple(sends)))
    rows = np.array([(s.step, s.chunk, s.src, s.dst) for s in sends], np.int32).reshape(-1, 4)
    step, chunk, src, dst = rows.T
    reduce = np.array([s.reduce for s in sends], dtype=np.bool_)
    transfers = step_transfers(step, chunk, src, dst, reduce)
    fast = execution_arrays.is_satisfied(collective, transfers)
    assert fast == (slow == []), slow
    return fast


@given(st.data())
@settings(max_examples=times(1000, by_day=150), deadline=None)
def test_both_judges_agree_on_any_sends(data: st.DataObject) -> None:
    """Draw sends, some of them valid, because few chunks have few destinations."""
    ranks = data.draw(st.integers(2, 4))
    spec = data.draw(specs(ranks))
    collective = spec.at(spec.unit)
    ends = st.integers(0, ranks - 1)
    chunks = st.integers(0, collective.num_chunks - 1)
    rows = data.draw(
        st.lists(st.tuples(chunks, ends, ends, st.integers(0, 2), st.booleans()), max_size=12)
    )
    sends = {make_send(c, a, b, step, reduce=r) for c, a, b, step, r in rows if a != b}
    right(collective, sorted(sends))


def ring(ranks: int) -> list[Send]:
    """Return the allreduce of a ring."""
    return [
        make_send(
            (r - s - 1) % ranks if s < ranks - 1 else (r - s + ranks - 1) % ranks,
            r,
            (r + 1) % ranks,
            s,
            reduce=s < ranks - 1,
        )
        for s in range(2 * ranks - 2)
        for r in range(ranks)
    ]


@pytest.mark.parametrize("ranks", [2, 3, 8, pytest.param(64, marks=pytest.mark.nightly), 65])
def test_contributions_of_more_ranks_than_a_word_has_bits(ranks: int) -> None:
    collective = named_spec("allreduce", ranks).at(ranks)
    sends = ring(ranks)
    assert right(collective, sends)
    places = (0, len(sends) // 3, len(sends) // 2 + 1, len(sends) - 1)
    for number in places if ranks < 10 else places[:1]:
        dropped = sends[:number] + sends[number + 1 :]
        assert not right(collective, dropped)
        doubled = [*sends, replace(sends[number], step=sends[number].step)]
        assert right(collective, doubled) != sends[number].reduce


@pytest.mark.parametrize("words", [1, 10, 10**9])
def test_chunks_are_verified_in_groups_of_any_size(
    words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_arrays, "_GROUP_WORDS", words)
    collective = named_spec("allreduce", 5).at(5)
    sends = ring(5)
    assert right(collective, sends)
    for number in range(len(sends)):
        assert not right(collective, sends[:number] + sends[number + 1 :])


def test_nothing_sent() -> None:
    assert not right(named_spec("allgather", 2).at(1), [])


def summed(then: list[Send]) -> list[Send]:
    """Return sends of three chunks that sum each at rank 2, then some more, then hand it out."""
    up = [make_send(c, r, 2, 0, reduce=True) for c in range(3) for r in (0, 1)]
    return [*up, *then, *(make_send(c, 2, r, 2) for c in range(3) for r in (0, 1))]


@pytest.mark.parametrize(
    "then",
    [
        [make_send(0, 0, 1, 1), make_send(0, 2, 1, 1)],  # two values of one chunk
        [make_send(0, 0, 1, 1, reduce=True), make_send(0, 2, 1, 1)],  # one of them reduced
    ],
)
def test_order_dependence_is_wrong_even_if_repaired_later(then: list[Send]) -> None:
    collective = named_spec("allreduce", 3).at(3)
    assert right(collective, summed([]))
    assert not right(collective, summed(then))


def test_nothing_cannot_be_sent_even_if_mended() -> None:
    collective = named_spec("broadcast", 3, 0).at(1)
    sends = [make_send(0, 0, 1, 0), make_send(0, 0, 2, 1)]
    assert right(collective, sends)
    assert not right(collective, [make_send(0, 1, 2, 0), *sends])


def test_chunks_have_contributors_of_their_own() -> None:
    pre = (frozenset({Rank(0), Rank(1)}), frozenset({Rank(1), Rank(2)}))
    collective = Collective(
        name="mine",
        ranks=3,
        chunks=1,
        num_chunks=2,
        pre=Relation(RelationKind.PAIRS, pattern=pre),
        post=root_relation(0),
        combining=True,
    )
    sends = [
        make_send(0, 1, 0, 0, reduce=True),
        *(make_send(1, r, 0, 0, reduce=True) for r in (1, 2)),
    ]
    assert right(collective, sends)
    assert not right(collective, sends[:-1])
