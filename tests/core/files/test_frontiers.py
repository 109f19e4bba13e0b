"""Frontiers as files: round trips, and files of earlier versions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.core.bound import AlgorithmBounds, CountProof, Cut, DistanceProof, PriceProof
from sccl.core.cost import Costs
from sccl.core.files.frontiers import frontier_to_plain, frontiers_from_plain
from sccl.core.frontier import (
    COMPOSED,
    TREES,
    ClassFrontier,
    Frontier,
    LimitPoint,
    OpenCandidate,
    Point,
    RefutedCandidate,
    SkippedClass,
    StepLimitFrontier,
    SweepFrontier,
)
from sccl.core.instance import Candidate, SweepRange
from sccl.core.step_limit import StepLimit
from sccl.core.stop import StopKind, StopReason
from sccl.errors import FormatError

COSTS = st.fractions(Fraction(1, 99), 99, max_denominator=99)
STEPS = st.integers(1, 20)
TEXTS = st.text(max_size=8)
SECONDS = st.integers(0, 10**6).map(lambda n: n / 1000)
DISTANCES = st.builds(
    DistanceProof,
    TEXTS,
    st.booleans(),
    st.integers(0, 9),
    st.tuples(st.integers(0, 9)),
    st.integers(0, 9),
    STEPS,
)
CUTS = st.builds(Cut, st.tuples(st.integers(0, 9)), COSTS, st.integers(0, 99))
PRICED = st.builds(
    PriceProof,
    TEXTS,
    st.booleans(),
    STEPS,
    COSTS,
    st.dictionaries(TEXTS, COSTS, max_size=3).map(lambda prices: tuple(prices.items())),
    st.lists(CUTS, max_size=2).map(tuple),
)
GROUPS = st.lists(st.tuples(st.integers(0, 9)), max_size=3).map(tuple)
COUNTED = st.builds(
    CountProof, TEXTS, STEPS, STEPS, st.tuples(st.integers(0, 9)), GROUPS, st.booleans()
)
REASONS = TEXTS.map(StopReason.parse)
BOUNDS = st.builds(AlgorithmBounds, STEPS, COSTS, TEXTS, DISTANCES, PRICED | COUNTED)
LIMITS = st.lists(st.builds(StepLimit, STEPS, COSTS, COSTS), max_size=3).map(tuple)
LEAST = st.fractions(Fraction(1, 999), Fraction(1, 99), max_denominator=999)
EVERY = st.lists(st.builds(StepLimit, STEPS, LEAST, st.none()), max_size=3).map(tuple)
CANDIDATES = st.tuples(st.integers(1, 99), STEPS, st.integers(1, 99)).map(
    lambda shape: Candidate(Fraction(shape[2], shape[0]), *shape)
)


@st.composite
def points(draw: st.DrawFn, covered: SweepRange | None) -> Point:
    """Draw a point of a sweep, or of limits if nothing is covered."""
    c = draw(CANDIDATES)
    said: dict[str, Any] = {
        "optimal": draw(st.sampled_from([(), ("latency",), ("latency", "bandwidth")])),
        "is_proved": draw(st.booleans()),
        "file": draw(st.sampled_from([None, Path("a.json")])),
        "seconds": draw(SECONDS),
    }
    has_algorithm = draw(st.booleans())
    if not has_algorithm:
        return LimitPoint(c.steps, c.cost, None, None, **said)
    if covered is not None:
        within = draw(st.sampled_from([None, covered])) if said["is_proved"] else covered
        kept = draw(st.booleans())
        each = (c.rounds,)
        return Point(
            c.steps, c.cost, c.chunks, c.rounds,
            within=within, rounds_per_step=each, from_store=kept, **said,
        )  # fmt: skip
    return LimitPoint(c.steps, c.cost, c.chunks, c.rounds, is_attained=True, **said)


@st.composite
def classes(draw: st.DrawFn, name: str, covered: SweepRange | None) -> ClassFrontier:
    return ClassFrontier(
        name,
        draw(TEXTS),
        draw(STEPS),
        draw(COSTS),
        tuple(draw(st.lists(points(covered), max_size=3))),
        draw(LIMITS),
        complete := draw(st.booleans()),
        draw(st.sampled_from([None, covered])) if complete else covered,
        draw(st.sampled_from(["", "allgather"])) if name else "",
        draw(SECONDS),
    )


@st.composite
def frontiers(draw: st.DrawFn, *, several: bool, limits: bool) -> Frontier:
    covered = None if limits else draw(st.sampled_from([SweepRange(0), SweepRange(5, 7, 24)]))
    make = StepLimitFrontier if covered is None else partial(SweepFrontier, covered=covered)
    bounds, seconds = draw(BOUNDS), draw(SECONDS)
    parts = [draw(classes(name, covered)) for name in ((COMPOSED, TREES) if several else ("",))]
    found: dict[str, Any] = {}
    if covered is not None:
        found["solver"] = draw(TEXTS)
        found["open"] = tuple(
            draw(st.lists(st.builds(OpenCandidate, CANDIDATES, REASONS), max_size=2))
        )
        refuted = st.builds(RefutedCandidate, CANDIDATES, TEXTS, SECONDS)
        found["refuted"] = tuple(draw(st.lists(refuted, max_size=2)))
    if several:
        found["skipped"] = tuple(
            draw(st.lists(st.builds(SkippedClass, TEXTS, REASONS), max_size=1))
        )
        found["any_class_limits"] = draw(EVERY)
    if several and covered is not None:
        halves = frontiers(several=False, limits=False)
        found["halves"] = tuple(draw(st.lists(halves, max_size=1)))
    return make(
        topology=draw(TEXTS),
        collective=draw(st.sampled_from(["allreduce", "broadcast"])),
        root=draw(st.sampled_from([None, 0, 3])),
        costs=Costs(0.7, 25.0, draw(st.booleans())),
        bounds=bounds,
        classes=tuple(
            part if several else ClassFrontier(
                "", part.scope, bounds.steps, bounds.bandwidth, part.points, part.limits,
                part.is_complete, part.within, "", seconds,
            )
            for part in parts
        ),
        stop_reason=draw(st.sampled_from(StopKind).map(StopReason)),
        seconds=seconds,
        **found,
    )  # fmt: skip


FRONTIERS = st.builds(dict, several=st.booleans(), limits=st.booleans()).flatmap(
    lambda kind: frontiers(**kind)
)


@settings(max_examples=40)
@given(FRONTIERS)
def test_written_frontier_reads_back(frontier: Frontier) -> None:
    plain = frontier_to_plain(frontier)
    (read,) = frontiers_from_plain(plain, "here")
    assert frontier_to_plain(read) == plain
    assert read == frontier


@settings(max_examples=40)
@given(FRONTIERS)
def test_stored_frontier_has_no_times_and_no_folders(frontier: Frontier) -> None:
    elsewhere = replace(
        frontier,
        classes=tuple(
            replace(
                part,
                points=tuple(
                    replace(p, file=p.file and Path("there") / p.file, seconds=3.0, from_store=True)
                    for p in part.points
                ),
                seconds=2.0,
            )
            for part in frontier.classes
        ),
        seconds=1.0,
    )
    assert frontier_to_plain(elsewhere.without_transient) == frontier_to_plain(
        frontier.without_transient
    )


def test_dominance_and_reach_of_refutations() -> None:
    def candidate(chunks: int, steps: int, rounds: int) -> Candidate:
        return Candidate(Fraction(rounds, chunks), chunks, steps, rounds)

    point = candidate(4, 3, 6)
    for other, dominates in (((2, 2, 3), True), ((2, 3, 3), False), ((5, 3, 7), True),
                             ((4, 2, 7), False), ((4, 4, 5), False)):  # fmt: skip
        assert candidate(*other).may_dominate(point) == dominates
    for other, follows in (((4, 3, 6), True), ((5, 3, 5), True), ((3, 3, 4), False),
                           ((4, 3, 7), False), ((4, 2, 6), False)):  # fmt: skip
        assert point.implies_unsat(candidate(*other)) == follows


OLDEST: dict[str, Any] = {
    "topology": "x",
    "collective": "broadcast",
    "bounds": {"steps": 2, "bandwidth": "1/2"},
    "points": [{"steps": 2, "proved": True, "bandwidth_cost": "1", "chunks": 2, "rounds": 2}],
}


def test_file_that_says_little_is_read() -> None:
    (read,) = frontiers_from_plain(OLDEST, "here")
    assert read.bounds == AlgorithmBounds(2, Fraction(1, 2))
    assert read.costs is None
    assert not read.is_complete
    assert [point.state_text for point in read.points] == ["proved for the k searched"]


@pytest.mark.parametrize(
    ("part", "value", "says"),
    [
        ("topology", 3, "Expected `str`"),
        ("bounds", {"steps": 0, "bandwidth": "1"}, "steps is 0"),
        ("bounds", {"steps": 2, "bandwidth": "1/0"}, "R/C is '1/0'"),
        ("bounds", {"steps": 2, "bandwidth": "9" * 5000}, "expected a fraction"),
        ("points", [{"steps": 10**7, "proved": True, "bandwidth_cost": "1"}], "expected 1 to"),
        ("points", [{"steps": 2, "proved": True}], "R/C is ''"),
        ("points", [3], "Expected `object`"),
        ("points", 3, "Expected `array`"),
        ("limits", [{"steps": 2, "lower": "0"}], "R/C is '0'"),
        ("k", -1, "k is -1"),
        ("classes", [{"class": "trees", "scope": "x"}], "missing required field"),
    ],
)
def test_invalid_frontier_file_gives_one_sentence(part: str, value: object, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        frontiers_from_plain(OLDEST | {part: value}, "here")
    assert "expected a frontier as 'sccl pareto --json' prints it" in str(caught.value)


def test_equal_points_keep_the_first_family() -> None:
    def of(name: str, *costs: tuple[int, int]) -> ClassFrontier:
        found = tuple(Point(s, Fraction(c), c, s, optimal=("limit",)) for s, c in costs)
        return ClassFrontier(name, name, 1, Fraction(1), found)

    both = (of(COMPOSED, (2, 3), (4, 1)), of(TREES, (2, 3), (3, 2), (5, 1)))
    found = Frontier("x", "allreduce", None, None, AlgorithmBounds(2, Fraction(1)), both)
    assert [(name, p.steps, p.optimal) for name, p in found.non_dominated] == [
        (COMPOSED, 2, ("latency",)), (TREES, 3, ()), (COMPOSED, 4, ("bandwidth",)),
    ]  # fmt: skip
