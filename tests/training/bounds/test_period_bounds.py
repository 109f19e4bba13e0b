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
from sccl.training.bounds.cycle_bounds import (
    Arc,
    ComputeSpans,
    find_critical_cycle,
    list_compute_spans,
    ops_by_first_span,
    ops_inside,
)
from sccl.training.bounds.period_bounds import (
    PeriodBound,
    SpanProof,
    find_bound_fault,
    iterate_period_bounds,
    period_lower_bound,
    tighten_capacities,
)
from sccl.training.bounds.span_lp import (
    SpanPrices,
    SpanProgram,
    solve_span_bound,
    verify_span_bound,
)
from sccl.training.bounds.step_bounds import min_durations
from sccl.training.scheduling.cpsat_models import solve_period, solve_period_by_choice, solve_step
from sccl.training.scheduling.search_strategies import search_by_annealing
from sccl.training.scheduling.steady_state import find_steady_state
from sccl.training.scheduling.step_problem import (
    FULL_SHARE,
    CyclicProblem,
    LaggedWait,
    StepMotif,
    StepOp,
    StepOption,
    StepProblem,
    find_cyclic_plan_fault,
)
from tests.kit.layered import layered
from tests.kit.nightly import times

LINKS = 2
STREAM = LINKS
PARTS = (250, 500, 501, 700, 1000)
CALLS = {"attention": 100, "experts": 200, "gathered": 1500}
"""Number of layers, for which communication dominates."""


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
    some = st.builds(LaggedWait, place, place, st.integers(1, 2))
    lagged = set(draw(st.lists(some, max_size=3)))
    if computed and in_row:
        lagged.add(LaggedWait(computed[-1], computed[0], 1))
    return CyclicProblem(StepProblem(("one", "two", "stream"), tuple(ops)), tuple(sorted(lagged)))


def least_of(problem: CyclicProblem) -> int:
    """Return the proved least period."""
    found = solve_period(problem, Effort(units=20.0))
    assert found.proved
    return found.upper_bound


@settings(max_examples=times(100, by_day=60))
def limited(bound: PeriodBound, limit: int) -> PeriodBound:
    return replace(bound, proof=replace(bound.proof, limit=limit))


@given(cyclic())
def test_no_bound_is_above_the_least_period(problem: CyclicProblem) -> None:
    least = least_of(problem)
    for bound in (*iterate_period_bounds(tighten_capacities(problem)), period_lower_bound(problem)):
        assert find_bound_fault(problem, bound) == ""
        assert bound.value <= least, bound
        more = replace(bound, value=bound.value + 1)
        assert "and" in find_bound_fault(problem, more)


@settings(max_examples=times(100, by_day=50))
@given(cyclic(), st.data())
def test_any_prices_and_flows_over_spans_prove_a_bound(
    problem: CyclicProblem, data: st.DataObject
) -> None:
    least = None
    for bound in iterate_period_bounds(problem):
        if isinstance(bound.proof, SpanProof):
            program = bound.proof.program
            numbers = st.integers(0, 9)
            keys = st.tuples(
                st.sampled_from(program.contended_resources() or [STREAM]),
                st.integers(0, program.spans.count - 1),
            )
            prices = data.draw(st.dictionaries(keys, numbers))
            count = len(program.path_arcs()) + len(program.arcs)
            flows = data.draw(st.lists(numbers, min_size=count, max_size=count))
            least = least_of(problem) if least is None else least
            assert verify_span_bound(program, SpanPrices(prices, flows)) <= least


@settings(max_examples=times(60, by_day=30))
@given(cyclic())
def test_least_period_is_that_of_its_plan(problem: CyclicProblem) -> None:
    found = solve_period(problem, Effort(units=20.0))
    assert found.proved
    plan = found.to_cyclic_plan(problem)
    assert find_cyclic_plan_fault(problem, plan) == ""
    assert find_steady_state(problem, plan).period <= found.upper_bound
    known = solve_period(problem, Effort(units=20.0), 0, max(found.upper_bound, 1))
    assert (known.proved, known.options) == (True, ())
    if found.upper_bound:
        again = solve_period(problem, Effort(units=20.0), 0, found.upper_bound + 1)
        assert (again.proved, again.upper_bound) == (True, found.upper_bound)
        each = solve_period_by_choice(problem, Effort(units=20.0), 0, found.upper_bound + 1)
        assert each.upper_bound == found.upper_bound
        assert find_cyclic_plan_fault(problem, each.to_cyclic_plan(problem)) == ""
        assert find_steady_state(problem, each.to_cyclic_plan(problem)).period <= each.upper_bound


@settings(max_examples=times(100, by_day=50))
@given(cyclic(), st.data())
def test_shares_that_fit_fit_when_they_are_tightened(
    problem: CyclicProblem, data: st.DataObject
) -> None:
    tight = tighten_capacities(problem)
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
    if max(shares_of([motif for motif, _ in chosen]).values(), default=0) <= FULL_SHARE:
        assert max(shares_of([more for _, more in chosen]).values(), default=0) <= FULL_SHARE


def shares_of(motifs: list[StepMotif]) -> Counter[int]:
    """Return the total load of each resource by motifs."""
    found = Counter[int]()
    for motif in motifs:
        found.update(dict(zip(motif.uses, motif.parts, strict=True)))
    return found


def test_slow_collective_gives_no_bound_of_others() -> None:
    """Mixed options take 90 ticks next to 20 of another. A plan takes one option: 120 or 150."""
    other = StepOption("other", (StepMotif(50, (0,)), StepMotif(150, (1,))))
    ops = (StepOp("one", (StepOption("whole", (StepMotif(100, (0,)),)), other)),)
    alone = CyclicProblem(StepProblem(("one", "two", "stream"), ops))
    assert period_lower_bound(alone).value == 100 == least_of(alone)
    more = replace(ops[0], name="more", options=(StepOption("", (StepMotif(20, (0,)),)),))
    both = CyclicProblem(StepProblem(("one", "two", "stream"), (*ops, more)))
    bound = period_lower_bound(both)
    assert (bound.value, bound.proof.limit) == (120, 150)
    assert (
        max(b.value for b in iterate_period_bounds(tighten_capacities(both)))
        < 120
        == least_of(both)
    )
    assert find_bound_fault(both, bound) == ""
    assert "70 are proved" in find_bound_fault(both, limited(bound, 200))
    assert "70 are proved" in find_bound_fault(both, limited(bound, 0))
    assert "110 are proved" in find_bound_fault(both, limited(bound, 110))


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
    bounds = list(iterate_period_bounds(problem))
    assert {bound.proof.kind: bound.value for bound in bounds} == known
    if layers == 1:
        assert period_lower_bound(problem).value == max(known.values())
        assert not any(find_bound_fault(problem, bound) for bound in bounds)
    if layers == 1 or not sizes:
        best = solve_step(problem.step, Effort(units=20.0), search_by_annealing(problem.step, 200))
        assert best.proved
        assert best.bound == known["spans"]


def test_wider_spans_prove_less_and_narrower_ones_too_much() -> None:
    """A wrong rule of windows would claim more than the best plan, so tests would detect it."""
    problem = layered(2, **CALLS)
    (spans,) = list_compute_spans(problem)
    lengths = min_durations(problem.step)
    right, _ = solve_span_bound(SpanProgram(problem, spans, lengths))
    anywhere = replace(spans, windows=(None,) * len(spans.windows))
    assert solve_span_bound(SpanProgram(problem, anywhere, lengths))[0] <= right
    narrow = replace(spans, windows=tuple(w and (w[1], w[1]) for w in spans.windows))
    wrong, _ = solve_span_bound(SpanProgram(problem, narrow, lengths))
    assert wrong > search_by_annealing(problem.step, 2000).finish(problem.step) >= right


def test_spans_of_a_row_over_iterations() -> None:
    def computes(*after: int) -> StepOp:
        option = StepOption("", (StepMotif(5, (STREAM,)),))
        return StepOp("computes", (option,), after, communicates=False)

    one = StepOption("one", (StepMotif(4, (0,)),))
    ops = (StepOp("early", (one,)), computes(0), computes(1), StepOp("late", (one,), (2,)))
    step = StepProblem(("one", "two", "stream"), ops)
    waits = (LaggedWait(2, 1, 1), LaggedWait(1, 0, 1), LaggedWait(3, 1, 2))
    (spans,) = list_compute_spans(CyclicProblem(step, waits))
    assert spans.row == (1, 2)
    # "early" is after the first computation one iteration before, and "late" before that of two
    # iterations later.
    assert spans.windows == ((-2, 0), (1, 1), (3, 3), (4, 8))
    assert list(spans.spans_of_op(0)) == [-2, -1, 0]
    assert list(spans.spans_of_op(3)) == [0, 1, 2, 3]  # in any
    assert list_compute_spans(CyclicProblem(step, ())) == []


def test_step_without_time_repeats_at_once() -> None:
    step = StepProblem(("one",), (StepOp("a", (StepOption("", (StepMotif(0, (0,)),)),)),))
    problem = CyclicProblem(step, (LaggedWait(0, 0, 1),))
    assert (
        period_lower_bound(problem).value
        == 0
        == solve_period(problem, Effort(units=1.0)).upper_bound
    )


@settings(max_examples=times(60))
@given(
    st.lists(
        st.builds(Arc, st.integers(0, 3), st.integers(0, 3), st.integers(0, 9), st.integers(1, 3)),
        max_size=7,
    )
)
def test_no_circle_is_slower_than_the_slowest(arcs: list[Arc]) -> None:
    found = find_critical_cycle(4, arcs)
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
    assert ops_inside(spans, ops_by_first_span(spans), first, last) == within
