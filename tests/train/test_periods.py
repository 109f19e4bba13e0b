"""Bounds of the period: below the proved least one, and no tick can be added to many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.solvers.effort import Effort
from sccl.train import (
    StepMotif,
    StepOp,
    StepOption,
    StepProblem,
    exact,
    least_period,
    serial,
)
from sccl.train.bounds import lengths_of
from sccl.train.cycles import Arc, slowest_circle
from sccl.train.cyclic import CyclicProblem, Lagged, wrong_in_cyclic
from sccl.train.exact_periods import exact_by_choice, exact_period
from sccl.train.periods import SpanProof, period_bounds, wrong_in_bound
from sccl.train.problem import WHOLE
from sccl.train.span_loads import SpanPrices, SpanProgram, proved_by, span_bound
from sccl.train.spans import ComputeSpans, spans_of
from sccl.train.stretches import by_first_span, inside_of
from sccl.train.tightened import tightened
from sccl.train.windows import repeated
from tests.kit.layered import layered
from tests.kit.nightly import times

LINKS = 2
STREAM = LINKS
PARTS = (250, 500, 501, 700, 1000)
CALLS = {"attention": 100, "experts": 200, "gathered": 1500}
"""Of layers, with which communication takes most."""


@st.composite
def options(draw: st.DrawFn) -> StepOption:
    """Return one or two motifs on links, or on shares of them."""
    motifs = []
    for k in range(draw(st.integers(1, 2))):
        uses = tuple(sorted(draw(st.sets(st.integers(0, LINKS - 1), min_size=1))))
        shares = draw(st.one_of(st.just(()), st.tuples(*(st.sampled_from(PARTS) for _ in uses))))
        after = (0,) if k and draw(st.booleans()) else ()
        motifs.append(StepMotif(draw(st.integers(0, 6)), uses, after, shares))
    return StepOption("some", tuple(motifs))


@st.composite
def cyclic(draw: st.DrawFn) -> CyclicProblem:
    """Return a small step: computations, in a row or not, and collectives around them."""
    ops: list[StepOp] = []
    computed: list[int] = []
    in_row = draw(st.integers(0, 3)) > 0
    for k in range(draw(st.integers(2, 5))):
        after = set(draw(st.sets(st.integers(0, k - 1), max_size=2))) if k else set()
        if draw(st.booleans()):
            after |= set(computed[-1:]) if in_row else set()
            computed.append(k)
            own = [StepOption("", (StepMotif(draw(st.integers(0, 6)), (STREAM,)),))]
        else:
            own = draw(st.lists(options(), min_size=1, max_size=2))
        ops.append(
            StepOp(f"op {k}", tuple(own), tuple(sorted(after)), communicates=k not in computed)
        )
    count = len(ops)
    place = st.integers(0, count - 1)
    some = st.builds(Lagged, place, place, st.integers(1, 2))
    lagged = set(draw(st.lists(some, max_size=3)))
    if computed and in_row:
        lagged.add(Lagged(computed[-1], computed[0], 1))
    return CyclicProblem(StepProblem(("one", "two", "stream"), tuple(ops)), tuple(sorted(lagged)))


def least_of(problem: CyclicProblem) -> int:
    """Return the proved least period."""
    found = exact_period(problem, Effort(units=20.0))
    assert found.proved
    return found.most


@settings(max_examples=times(100, by_day=60))
@given(cyclic())
def test_no_bound_is_above_the_least_period(problem: CyclicProblem) -> None:
    least = least_of(problem)
    for bound in (*period_bounds(tightened(problem)), least_period(problem)):
        assert wrong_in_bound(problem, bound) == ""
        assert bound.ticks <= least, bound
        more = replace(bound, ticks=bound.ticks + 1)
        assert "and" in wrong_in_bound(problem, more)


@settings(max_examples=times(100, by_day=50))
@given(cyclic(), st.data())
def test_any_prices_and_flows_over_spans_prove_a_bound(
    problem: CyclicProblem, data: st.DataObject
) -> None:
    least = None
    for bound in period_bounds(problem):
        if isinstance(bound.proof, SpanProof):
            program = bound.proof.program
            numbers = st.integers(0, 9)
            keys = st.tuples(
                st.sampled_from(program.loaded() or [STREAM]),
                st.integers(0, program.spans.count - 1),
            )
            prices = data.draw(st.dictionaries(keys, numbers))
            count = len(program.ways()) + len(program.arcs)
            flows = data.draw(st.lists(numbers, min_size=count, max_size=count))
            least = least_of(problem) if least is None else least
            assert proved_by(program, SpanPrices(prices, flows)) <= least


@settings(max_examples=times(60, by_day=30))
@given(cyclic())
def test_the_least_period_is_that_of_its_plan(problem: CyclicProblem) -> None:
    found = exact_period(problem, Effort(units=20.0))
    assert found.proved
    plan = found.plan(problem)
    assert wrong_in_cyclic(problem, plan) == ""
    assert repeated(problem, plan).period <= found.most
    known = exact_period(problem, Effort(units=20.0), 0, max(found.most, 1))
    assert (known.proved, known.options) == (True, ())
    if found.most:
        again = exact_period(problem, Effort(units=20.0), 0, found.most + 1)
        assert (again.proved, again.most) == (True, found.most)
        each = exact_by_choice(problem, Effort(units=20.0), 0, found.most + 1)
        assert each.most == found.most
        assert wrong_in_cyclic(problem, each.plan(problem)) == ""
        assert repeated(problem, each.plan(problem)).period <= each.most


@settings(max_examples=times(100, by_day=50))
@given(cyclic(), st.data())
def test_shares_that_fit_fit_when_they_are_tightened(
    problem: CyclicProblem, data: st.DataObject
) -> None:
    tight = tightened(problem)
    pairs = [
        (motif, more)
        for op, other in zip(problem.step.ops, tight.step.ops, strict=True)
        for option, lifted in zip(op.options, other.options, strict=True)
        for motif, more in zip(option.motifs, lifted.motifs, strict=True)
    ]
    for motif, more in pairs:
        assert (motif.ticks, motif.after) == (more.ticks, more.after)
        assert more.uses[: len(motif.uses)] == motif.uses
        before = zip(motif.parts, more.parts, strict=False)
        assert all(part <= then for part, then in before)
    chosen = data.draw(st.lists(st.sampled_from(pairs), max_size=4))
    if max(shares_of([motif for motif, _ in chosen]).values(), default=0) <= WHOLE:
        assert max(shares_of([more for _, more in chosen]).values(), default=0) <= WHOLE


def shares_of(motifs: list[StepMotif]) -> Counter[int]:
    """Return what motifs have of each resource together."""
    found = Counter[int]()
    for motif in motifs:
        found.update(dict(zip(motif.uses, motif.parts, strict=True)))
    return found


def test_what_takes_too_long_alone_proves_no_bound_of_the_others() -> None:
    """Mixed, options take 90 ticks beside 20 of another; a plan takes one: 120 or 150."""
    other = StepOption("other", (StepMotif(50, (0,)), StepMotif(150, (1,))))
    ops = (StepOp("one", (StepOption("whole", (StepMotif(100, (0,)),)), other)),)
    alone = CyclicProblem(StepProblem(("one", "two", "stream"), ops))
    assert least_period(alone).ticks == 100 == least_of(alone)
    more = replace(ops[0], name="more", options=(StepOption("", (StepMotif(20, (0,)),)),))
    both = CyclicProblem(StepProblem(("one", "two", "stream"), (*ops, more)))
    bound = least_period(both)
    assert (bound.ticks, bound.limit) == (120, 150)
    assert max(b.ticks for b in period_bounds(tightened(both))) < 120 == least_of(both)
    assert wrong_in_bound(both, bound) == ""
    assert "70 are proved" in wrong_in_bound(both, replace(bound, limit=200))
    assert "70 are proved" in wrong_in_bound(both, replace(bound, limit=0))
    assert "110 are proved" in wrong_in_bound(both, replace(bound, limit=110))


@pytest.mark.parametrize(
    ("layers", "sizes", "known"),
    [
        (
            1,
            {},
            {"computation": 4880, "load": 4880, "circle": 8124, "stretches": 8124, "spans": 8124},
        ),
        (
            2,
            {},
            {
                "computation": 9460,
                "load": 9460,
                "circle": 14300,
                "stretches": 14300,
                "spans": 14300,
            },
        ),
        (
            1,
            CALLS,
            {"computation": 1280, "load": 3306, "circle": 4924, "stretches": 5009, "spans": 5009},
        ),
        pytest.param(
            2,
            CALLS,
            {"computation": 2260, "load": 6612, "circle": 7500, "stretches": 7872, "spans": 7872},
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_bounds_of_layers(layers: int, sizes: dict[str, int], known: dict[str, int]) -> None:
    """All of an iteration waits for the last update, so its least finish is the period."""
    problem = layered(layers, **sizes)
    bounds = list(period_bounds(problem))
    assert {bound.binds: bound.ticks for bound in bounds} == known
    if layers == 1:
        assert least_period(problem).ticks == max(known.values())
        assert not any(wrong_in_bound(problem, bound) for bound in bounds)
    if layers == 1 or not sizes:
        best = exact(problem.step, Effort(units=20.0), serial(problem.step, 200))
        assert best.proved
        assert best.bound == known["spans"]


def test_wider_spans_prove_less_and_narrower_ones_too_much() -> None:
    """What a wrong rule of windows would claim is above the best plan, so tests would see it."""
    problem = layered(2, **CALLS)
    (spans,) = spans_of(problem)
    lengths = lengths_of(problem.step)
    right, _ = span_bound(SpanProgram(problem, spans, lengths))
    anywhere = replace(spans, windows=(None,) * len(spans.windows))
    assert span_bound(SpanProgram(problem, anywhere, lengths))[0] <= right
    narrow = replace(spans, windows=tuple(w and (w[1], w[1]) for w in spans.windows))
    wrong, _ = span_bound(SpanProgram(problem, narrow, lengths))
    assert wrong > serial(problem.step, 2000).finish(problem.step) >= right


def test_spans_of_a_row_over_iterations() -> None:
    def computes(*after: int) -> StepOp:
        option = StepOption("", (StepMotif(5, (STREAM,)),))
        return StepOp("computes", (option,), after, communicates=False)

    one = StepOption("one", (StepMotif(4, (0,)),))
    ops = (StepOp("early", (one,)), computes(0), computes(1), StepOp("late", (one,), (2,)))
    step = StepProblem(("one", "two", "stream"), ops)
    waits = (Lagged(2, 1, 1), Lagged(1, 0, 1), Lagged(3, 1, 2))
    (spans,) = spans_of(CyclicProblem(step, waits))
    assert spans.row == (1, 2)
    # "early" is after the first computation one iteration before, and "late" before that of two
    # iterations later.
    assert spans.windows == ((-2, 0), (1, 1), (3, 3), (4, 8))
    assert list(spans.of(0)) == [-2, -1, 0]
    assert list(spans.of(3)) == [0, 1, 2, 3]  # in any
    assert spans_of(CyclicProblem(step, ())) == []


def test_a_step_without_time_repeats_at_once() -> None:
    step = StepProblem(("one",), (StepOp("a", (StepOption("", (StepMotif(0, (0,)),)),)),))
    problem = CyclicProblem(step, (Lagged(0, 0, 1),))
    assert least_period(problem).ticks == 0 == exact_period(problem, Effort(units=1.0)).most


@settings(max_examples=times(60))
@given(
    st.lists(
        st.builds(Arc, st.integers(0, 3), st.integers(0, 3), st.integers(0, 9), st.integers(1, 3)),
        max_size=7,
    )
)
def test_no_circle_is_slower_than_the_slowest(arcs: list[Arc]) -> None:
    found = slowest_circle(4, arcs)
    best = max((c for k in range(4) for c in _circles(arcs, k, k, ())), default=None)
    assert found.ratio == (best or 0)


def _circles(arcs: list[Arc], begun: int, at: int, gone: tuple[Arc, ...]) -> Iterator[Fraction]:
    """Yield the ratios of all circles that go on so."""
    for arc in arcs:
        if arc.before == at and arc.after not in {a.after for a in gone}:
            way = (*gone, arc)
            if arc.after == begun:
                yield Fraction(sum(a.ticks for a in way), sum(a.lag for a in way))
            else:
                yield from _circles(arcs, begun, arc.after, way)


@settings(max_examples=times(200))
@given(st.data())
def test_stretches_have_all_that_lies_within(data: st.DataObject) -> None:
    window = st.tuples(st.integers(-12, 12), st.integers(0, 8)).map(lambda w: (w[0], w[0] + w[1]))
    windows = data.draw(st.lists(st.one_of(st.none(), window), min_size=1, max_size=6))
    spans = ComputeSpans(tuple(range(data.draw(st.integers(1, 5)))), tuple(windows))
    first = data.draw(st.integers(0, len(spans.row) - 1))
    last = first + data.draw(st.integers(0, len(spans.row) - 1))
    within = [
        (iteration, op)
        for iteration in range(-50, 51)
        for op, own in enumerate(windows)
        if own is not None
        and 2 * first <= own[0] + iteration * spans.count
        and own[1] + iteration * spans.count <= 2 * last
    ]
    assert inside_of(spans, by_first_span(spans), first, last) == within
