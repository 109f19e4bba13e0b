"""Transfers that share bandwidth: closed forms, fairness, and equality without sharing."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.errors import ParameterError
from sccl.sim import FluidTask, fair_speeds, run_fair_sharing
from tests.kit.nightly import times

LINK, OTHER = 0, 1


def task(ticks: int, loads: dict[int, Fraction], *after: int, **told: object) -> FluidTask:
    """Return a task."""
    return FluidTask(Fraction(ticks), loads, after, **told)  # type: ignore[arg-type]


ALL = {LINK: Fraction(1)}


def ends(*tasks: FluidTask) -> list[Fraction]:
    """Return when each ends."""
    return [span.end for span in run_fair_sharing(tasks)]


def test_two_that_are_alike_take_twice_as_long() -> None:
    assert ends(task(5, ALL), task(5, ALL)) == [10, 10]


def test_shorter_of_two_ends_first_and_the_other_goes_on_alone() -> None:
    assert ends(task(4, ALL), task(2, ALL)) == [6, 4]


def test_loads_that_fit_together_do_not_slow_one_another() -> None:
    third, most = {LINK: Fraction(1, 3)}, {LINK: Fraction(2, 3)}
    assert ends(task(5, third), task(7, most)) == [5, 7]


def test_bottleneck_elsewhere_leaves_bandwidth() -> None:
    """Two share one link. The third gets the rest that the first, which is limited, leaves."""
    loads = [ALL | {OTHER: Fraction(1)}, ALL, {OTHER: Fraction(1)}]
    assert fair_speeds(loads) == [Fraction(1, 2)] * 3
    loads = [{LINK: Fraction(1), OTHER: Fraction(1)}, ALL, ALL, {OTHER: Fraction(1)}]
    assert fair_speeds(loads) == [*[Fraction(1, 3)] * 3, Fraction(2, 3)]


def test_concurrent_flow_slows_down() -> None:
    """Half as long again next to the first, as long again next to the second, both next to both.

    In 4 ticks next to both it advances by 1.6, in 2 next to the second by 1. The rest goes alone.
    """
    parts = {0: Fraction(1, 2), 1: Fraction(1)}
    spans = run_fair_sharing(
        [
            task(4, {}, marks=(0,)),
            task(6, {}, marks=(1,)),
            task(5, {}, issued=False, slowed=parts),
            task(3, {}, issued=False),
        ]
    )
    assert [span.end for span in spans] == [4, 6, 6 + 5 - Fraction(8, 5) - 1, 3]


def test_ordered_calls_wait_and_computations_do_not() -> None:
    free: dict[int, Fraction] = {}
    spans = run_fair_sharing(
        [task(3, free, issued=False), task(2, free, 0), task(1, free), task(1, free, issued=False)]
    )
    assert [span.start for span in spans] == [0, 3, 3, 0]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([task(1, {}, 0)], "task 0 never starts"),
        ([task(1, {}, 1), task(1, {})], "task 0 never starts"),
        ([task(-1, {})], "takes -1 ticks"),
        ([task(1, {LINK: Fraction(2)})], "loads above 0 and up to 1"),
    ],
)
def test_stalled_flows_are_rejected(tasks: list[FluidTask], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        run_fair_sharing(tasks)


LOADS = st.dictionaries(
    st.integers(0, 2), st.fractions(Fraction(1, 8), 1, max_denominator=8), max_size=3
)


@settings(max_examples=times(100, by_day=50))
@given(st.lists(LOADS, max_size=6))
def test_speeds_are_max_min_fair(loads: list[dict[int, Fraction]]) -> None:
    """A slowed flow has a saturated resource, on which no flow is faster."""
    speeds = fair_speeds(loads)
    pairs = list(zip(loads, speeds, strict=True))
    full = set()
    for resource in range(3):
        used = sum(own.get(resource, Fraction(0)) * speed for own, speed in pairs)
        assert used <= 1
        if used == 1:
            full.add(resource)
    for own, speed in pairs:
        assert 0 < speed <= 1
        holding = [
            resource
            for resource in full & own.keys()
            if all(other <= speed for its, other in pairs if resource in its)
        ]
        assert speed == 1 or holding


@settings(max_examples=times(60, by_day=30))
@given(st.lists(st.tuples(st.integers(0, 9), LOADS), min_size=1, max_size=6))
def test_work_is_kept_and_nothing_is_faster_than_alone(
    rows: list[tuple[int, dict[int, Fraction]]],
) -> None:
    tasks = [task(ticks, loads) for ticks, loads in rows]
    spans = run_fair_sharing(tasks)
    for span, (ticks, _) in zip(spans, rows, strict=True):
        assert span.end - span.start >= ticks
    for resource in range(3):  # no more passes it than it carries by then
        work = sum(ticks * loads.get(resource, Fraction(0)) for ticks, loads in rows)
        assert max(span.end for span in spans) >= work
