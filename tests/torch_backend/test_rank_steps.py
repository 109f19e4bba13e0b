"""Transfers in pieces and in turns, and their dependencies on a rank."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from sccl.torch_backend.jobs.compile_plan import split_in_turns
from sccl.torch_backend.script import Transfer, build_rank_steps

RANKS, ELEMENTS = 5, 12
KIB = 1024


@st.composite
def transfers(draw: st.DrawFn, *, most_steps: int) -> list[Transfer]:
    """Return transfers between different ranks, ascending by step."""
    found: list[Transfer] = []
    for _ in range(draw(st.integers(1, 12))):
        start = draw(st.integers(0, ELEMENTS - 1))
        source, way = draw(st.integers(0, RANKS - 1)), draw(st.integers(1, RANKS - 1))
        found.append(
            (
                draw(st.integers(0, most_steps - 1)),
                start,
                draw(st.integers(start + 1, ELEMENTS)),
                source,
                (source + way) % RANKS,
                draw(st.booleans()),
            )
        )
    return sorted(found)


def meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


@given(transfers(most_steps=4), st.integers(0, RANKS - 1))
def test_dependencies_match_the_rows(rows: list[Transfer], rank: int) -> None:
    own = [row for row in rows if rank in row[3:5]]
    numbers = {step: k for k, step in enumerate(sorted({row[0] for row in own}))}
    sent = [(numbers[s], (a, b)) for s, a, b, source, _, _ in own if source == rank]
    got = [(numbers[s], (a, b)) for s, a, b, _, target, _ in own if target == rank]
    steps = build_rank_steps(own, rank)
    assert len(steps) == len(numbers)
    for k, step in enumerate(steps):
        told = sorted((k, span) for one in step.sent for span in one.spans)
        assert told == sorted(row for row in sent if row[0] == k)
        for message in step.sent:
            comes = [j for j, b in got if j < k and any(meet(a, b) for a in message.spans)]
            assert message.needs == max(comes, default=-1)
        for other in step.got:
            read = any(j <= k and any(meet(a, b) for a in other.spans) for j, b in sent)
            assert other.after_sent == read
            comes = [j for j, b in got if any(meet(a, b) for a in other.spans)]
            alone = len(comes) == len(other.spans) == 1 and not any(other.adds)
            assert other.straight == (alone and not read)


@given(
    st.dictionaries(
        st.tuples(st.integers(0, RANKS - 1), st.integers(0, RANKS - 1)).filter(
            lambda pair: pair[0] != pair[1]
        ),
        st.integers(1, 200 * KIB),
        min_size=1,
    ),
    st.integers(1, 2),
)
def test_in_turns_each_gets_from_one_at_a_time(
    sizes: dict[tuple[int, int], int], steps: int
) -> None:
    """And every element goes where it went, in the step in which it did, or in part of that."""
    rows: list[Transfer] = []
    for step in range(steps):
        at = 0
        for (source, target), size in sorted(sizes.items()):
            rows.append((step, at, at + size, source, target, not step))
            at += size
    found = split_in_turns(rows, RANKS, 1)
    assert [row[0] for row in found] == sorted(row[0] for row in found)
    for _, own in groupby(found, key=lambda row: row[0]):
        step_rows = list(own)
        for place in (3, 4):
            assert len({row[place] for row in step_rows}) == len({row[3:5] for row in step_rows})
    joined: dict[tuple[int, int, bool], list[tuple[int, int]]] = defaultdict(list)
    for _, start, stop, source, target, adds in found:
        joined[source, target, adds].append((start, stop))
    for _, start, stop, source, target, adds in rows:
        spans = sorted(joined[source, target, adds])
        assert (spans[0][0], spans[-1][1]) == (start, stop)
        assert all(a[1] == b[0] for a, b in pairwise(spans))
    reducing = [row[0] for row in found if row[5]]
    assert not [row for row in found if not row[5] and row[0] <= max(reducing)] or steps == 1
