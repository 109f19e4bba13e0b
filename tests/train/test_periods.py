"""Bounds of the period: below the proved least one, and no tick can be added to many."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.solvers.effort import Effort
from sccl.train import StepMotif, StepOp, StepOption, StepProblem
from sccl.train.cycles import Arc, slowest_circle
from sccl.train.cyclic import CyclicProblem, Lagged, wrong_in_cyclic
from sccl.train.exact_periods import exact_period
from sccl.train.periods import SpanProof, period_bounds, wrong_in_bound
from sccl.train.span_loads import SpanPrices, proved_by
from sccl.train.windows import repeated
from tests.kit.nightly import times

LINKS = 2
STREAM = LINKS
PARTS = (250, 500, 501, 1000)


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


@settings(max_examples=times(100))
@given(cyclic())
def test_no_bound_is_above_the_least_period(problem: CyclicProblem) -> None:
    least = least_of(problem)
    for bound in period_bounds(problem):
        assert wrong_in_bound(problem, bound) == ""
        assert bound.ticks <= least, bound


@settings(max_examples=times(100))
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
            count = len(program.ways())
            flows = data.draw(st.lists(numbers, min_size=count, max_size=count))
            least = least_of(problem) if least is None else least
            assert proved_by(program, SpanPrices(prices, flows)) <= least


@settings(max_examples=times(60))
@given(cyclic())
def test_the_least_period_is_that_of_its_plan(problem: CyclicProblem) -> None:
    found = exact_period(problem, Effort(units=20.0))
    assert found.proved
    plan = found.plan()
    if plan is not None and not wrong_in_cyclic(problem, plan):
        assert repeated(problem, plan).period <= found.most


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
