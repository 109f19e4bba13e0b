"""Order of issues, by the sequence of calls alone."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sccl.torch_backend.calls.call_sequence import CallSequence, IssuedMotif


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[str], list[int], list[IssuedMotif]]:
    """Return a program, of which operation each call is, and an order of all motifs."""
    program = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
    told = [draw(st.integers(0, 3)) for _ in program]
    ops = [sorted(set(told)).index(one) for one in told]
    shifts = [draw(st.integers(0, 2)) for _ in program]
    every = [(k, m) for k in sorted(set(ops)) for m in range(draw(st.integers(1, 3)))]
    return program, ops, [(k, m, shifts[k]) for k, m in draw(st.permutations(every))]


@given(plans(), st.lists(st.sampled_from("....+-?"), max_size=12))
def test_all_that_is_planned_is_issued_once_and_in_order(
    plan: tuple[list[str], list[int], list[IssuedMotif]], changes: list[str]
) -> None:
    """Operations of several calls are complete together, and in a cut as many as there are."""
    program, ops, order = plan
    calls = []
    for change in changes:
        calls += {"+": [*program, "x"], "-": program[1:], "?": program[::-1]}.get(change, program)
    sequence = CallSequence(program, ops, order)
    runs: list[tuple[list[tuple[int, int]], list[IssuedMotif]]] = [([], [])]
    for call in calls:
        cuts = sequence.cuts
        own, issued = sequence.submit(call)
        runs[-1][1].extend(issued)
        if sequence.cuts > cuts:
            runs.append(([], []))
        if own is not None:
            assert program[own[1]] == call
            runs[-1][0].append(own)
        ready = sequence.ready()
        needed = {(i, place) for i, k, _ in ready for place, op in enumerate(ops) if op == k}
        assert needed <= set(runs[-1][0])  # nothing before all of it is called
        runs[-1][1].extend(ready)
    runs[-1][1].extend(sequence.cut())
    for taken, issued in runs:
        begun = {(i, ops[place]) for i, place in taken}
        wanted = Counter((i, k, m) for i, own in begun for k, m, _ in order if k == own)
        assert Counter(issued) == wanted
        place = {(k, m): (shift, at) for at, (k, m, shift) in enumerate(order)}
        keys = [(i - place[k, m][0], place[k, m][1]) for i, k, m in issued]
        assert keys == sorted(keys)


def test_iteration_as_planned_comes_before_planned_ones() -> None:
    sequence = CallSequence("ab", [0, 1], [(0, 0, 0), (1, 0, 0)])
    assert [sequence.submit(call)[0] for call in "xaabab"] == [*[None] * 4, (0, 0), (0, 1)]
    assert sequence.submit("b")[0] is None
    assert (sequence.cuts, sequence.planned) == (1, False)


def test_step_ahead_is_issued_before_what_is_called_before() -> None:
    """As a prefetch is, of which the first window has none to be issued."""
    sequence = CallSequence("ab", [0, 1], [(0, 0, 1), (1, 0, 0)])
    for call in "ab":
        sequence.submit(call)
    issued = []
    for call in "abab":
        sequence.submit(call)
        issued.append(sequence.ready())
    assert issued == [[(0, 0, 0)], [], [(1, 0, 0), (0, 1, 0)], []]
    assert sequence.cut() == [(1, 1, 0)]
