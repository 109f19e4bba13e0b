"""Plans of training steps: searches beside proved optima, bounds, and the judge."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.syndicate import figure6, options_alone, order_alone
from sccl.errors import ParameterError
from sccl.solvers.effort import Effort
from sccl.training.bounds.step_bounds import (
    finish_lower_bound,
    idle_ticks,
    load_bound,
    min_duration,
)
from sccl.training.scheduling.cpsat_models import solve_step
from sccl.training.scheduling.list_scheduling import list_schedule_by_urgency
from sccl.training.scheduling.plan_search import search_step_plan
from sccl.training.scheduling.search_strategies import (
    build_fifo_plan,
    fastest_options,
    search_by_annealing,
    search_by_markov_chain,
)
from sccl.training.scheduling.serial_generation import NEVER
from sccl.training.scheduling.step_problem import (
    StepMotif,
    StepOp,
    StepOption,
    StepPlan,
    StepProblem,
)
from sccl.training.validate.plan_faults import find_step_plan_fault
from tests.kit.nightly import times

RESOURCES = 3
PARTS = (1, 250, 333, 500, 501, 1000)


@st.composite
def options(draw: st.DrawFn) -> StepOption:
    """Return one to three motifs on any resources, or on shares of them, or on none."""
    motifs = []
    for k in range(draw(st.integers(1, 3))):
        uses = tuple(sorted(draw(st.sets(st.integers(0, RESOURCES - 1), max_size=2))))
        after = tuple(sorted(draw(st.sets(st.integers(0, k - 1))))) if k else ()
        parts = st.tuples(*(st.sampled_from(PARTS) for _ in uses))
        shares = draw(st.one_of(st.just(()), parts))
        motifs.append(StepMotif(draw(st.integers(0, 9)), uses, after, shares))
    return StepOption("some", tuple(motifs))


@st.composite
def steps(draw: st.DrawFn) -> StepProblem:
    """Return a step of a few ops."""
    ops = []
    for k in range(draw(st.integers(1, 6))):
        after = draw(st.sets(st.integers(0, k - 1), max_size=2)) if k else set()
        calls = draw(st.booleans())
        own = draw(st.lists(options(), min_size=1, max_size=3 if calls else 1))
        ops.append(StepOp(f"op {k}", tuple(own), tuple(sorted(after)), communicates=calls))
    return StepProblem(("one", "two", "three"), tuple(ops))


def best_of(problem: StepProblem) -> int:
    """Return the proved optimum."""
    found = solve_step(problem, Effort(units=20.0))
    assert found.proved
    assert found.plan is not None
    assert find_step_plan_fault(problem, found.plan) == ""
    return found.plan.finish(problem)


@settings(max_examples=times(60, by_day=30))
@given(steps(), st.integers(0, 99))
def test_searches_make_plans_between_the_bound_and_one_after_the_other(
    problem: StepProblem, seed: int
) -> None:
    bound, best = finish_lower_bound(problem), best_of(problem)
    assert bound.value <= best
    for plan in (
        build_fifo_plan(problem),
        search_by_markov_chain(problem, 200, seed),
        search_by_annealing(problem, 200, seed, bound.value),
    ):
        assert find_step_plan_fault(problem, plan) == ""
        assert best <= plan.finish(problem)


@settings(max_examples=times(60, by_day=30))
@given(steps(), st.lists(st.fractions(0, 1), min_size=RESOURCES, max_size=RESOURCES))
def test_any_prices_prove_a_bound(problem: StepProblem, prices: list[Fraction]) -> None:
    assert load_bound(problem, dict(enumerate(prices)), idle_ticks(problem)) <= best_of(problem)


@settings(max_examples=times(60))
@given(options())
def test_isolated_option_times_bound_the_step(option: StepOption) -> None:
    problem = StepProblem(("one", "two", "three"), (StepOp("only", (option,)),))
    assert option.critical_path_ticks <= min_duration(option) <= best_of(problem)


@given(options())
def test_alone_an_option_is_issued_as_an_option_does_alone(option: StepOption) -> None:
    """Compiled lists of motifs, and the rules in plain Python."""
    problem = StepProblem(("one", "two", "three"), (StepOp("only", (option,)),))
    assert build_fifo_plan(problem).finish(problem) == option.isolated_duration
    assert problem.isolated_durations == ((option.isolated_duration,),)
    assert min_duration(option) <= option.isolated_duration


def test_motifs_of_an_option_share_its_resources() -> None:
    pieces = [StepMotif(10, (k % 2,), (k - 1,) if k % 2 else ()) for k in range(6)]
    assert min_duration(StepOption("two phases, three pieces", tuple(pieces))) == 40
    halves = [StepMotif(10, (0,), (), (500,)) for _ in range(5)]
    assert min_duration(StepOption("two at a time", tuple(halves))) == 25


@settings(max_examples=times(60))
@given(steps(), st.data())
def test_judge_finds_what_starts_too_early(problem: StepProblem, data: st.DataObject) -> None:
    plan = search_by_annealing(problem, 0)
    moved = list(map(list, plan.starts))
    op = data.draw(st.integers(0, len(moved) - 1))
    motif = data.draw(st.integers(0, len(moved[op]) - 1))
    moved[op][motif] -= data.draw(st.integers(1, 5))
    changed = replace(plan, starts=tuple(map(tuple, moved)))
    if (
        find_step_plan_fault(problem, changed) == ""
    ):  # there was a gap, as of motifs that take no time
        assert moved[op][motif] >= 0
        assert changed.finish(problem) >= finish_lower_bound(problem).value


def test_joint_search_of_the_papers_example_is_better_than_order_and_options_alone() -> None:
    problem = figure6()
    assert best_of(problem) == 95
    assert (order_alone(problem), options_alone(problem)) == (100, 105)
    assert build_fifo_plan(problem).finish(problem) == 110
    for seed in range(times(20)):
        assert search_by_markov_chain(problem, 1000, seed).finish(problem) == 95
        assert search_by_annealing(problem, 1000, seed).finish(problem) == 95


@settings(max_examples=times(30))
@given(steps(), st.integers(0, 99))
def test_small_steps_are_planned_to_the_proved_best(problem: StepProblem, seed: int) -> None:
    plan = search_step_plan(problem, 50, seed)
    assert find_step_plan_fault(problem, plan) == ""
    assert plan.finish(problem) == best_of(problem)


def test_same_seed_gives_the_same_plan() -> None:
    problem = figure6()
    assert search_by_annealing(problem, 300, 7) == search_by_annealing(problem, 300, 7)
    assert search_by_markov_chain(problem, 300, 7) == search_by_markov_chain(problem, 300, 7)


def test_improvements_are_reported_at_once() -> None:
    told: list[int] = []
    plan = search_by_annealing(figure6(), 2000, on_progress=told.append)
    assert told == sorted(told, reverse=True)
    assert told[-1] == plan.finish(figure6())


def test_resource_may_stand_still_for_what_is_urgent() -> None:
    """A list starts long work at once, and urgent work comes too late."""
    link = (0,)
    long, urgent = StepMotif(10, link), StepMotif(2, link)
    ops = (
        StepOp("soon", (StepOption("", (StepMotif(1, ()),)),), communicates=False),
        StepOp("long", (StepOption("", (long,)),)),
        StepOp("urgent", (StepOption("", (urgent,)),), (0,)),
        StepOp("then", (StepOption("", (StepMotif(9, ()),)),), (2,), communicates=False),
    )
    problem = StepProblem(("link",), ops)
    starts = np.zeros(4, dtype=np.int64)
    assert list_schedule_by_urgency(problem.arrays, fastest_options(problem), starts, NEVER) == 21
    assert search_by_annealing(problem, 0).finish(problem) == 13 == best_of(problem)


ONE = StepOption("one", (StepMotif(1, (0,)),))


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ([], "a step has no ops"),
        ([StepOp("a", ())], "op 'a' has 0 options, expected one or more"),
        ([StepOp("a", (ONE, ONE), communicates=False)], "2 options, expected one, as it computes"),
        ([StepOp("a", (ONE,), (0,))], "op 'a' waits for op 0, which is not before"),
        ([StepOp("a", (StepOption("o", ()),))], "has no motifs"),
        ([StepOp("a", (StepOption("o", (StepMotif(-1, ()),)),))], "takes -1 ticks, expected 0"),
        (
            [StepOp(name, (StepOption("o", (StepMotif(2**50, ()),)),)) for name in "ab"],
            "take 2.25e\\+15 ticks one after the other, expected 1.13e\\+15",
        ),
        ([StepOp("a", (StepOption("o", (StepMotif(1, (), (0,)),)),))], "waits for one that is not"),
        ([StepOp("a", (StepOption("o", (StepMotif(1, (1,)),)),))], "uses resources \\[1\\]"),
        ([StepOp("a", (StepOption("o", (StepMotif(1, (0, 0)),)),))], "uses resources \\[0, 0\\]"),
    ],
)
def test_invalid_steps_are_rejected(ops: list[StepOp], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        StepProblem(("only",), tuple(ops))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (StepPlan((0,), ((0,),)), "it has 1 operations, and the step has 2"),
        (StepPlan((1, 0), ((0,), (1,))), "takes option 1, and has 1"),
        (StepPlan((0, 0), ((0, 1), (1,))), "starts 2 motifs, and its option has 1"),
        (StepPlan((0, 0), ((0,), (0,))), "op 'b': motif 0 starts at 0, and waits until 1"),
    ],
)
def test_invalid_plans_are_rejected(plan: StepPlan, message: str) -> None:
    problem = StepProblem(("only",), (StepOp("a", (ONE,)), StepOp("b", (ONE,), (0,))))
    assert message in find_step_plan_fault(problem, plan)


def test_shares_of_a_resource_come_to_the_whole_at_the_most() -> None:
    def half(name: str, part: int) -> StepOp:
        return StepOp(name, (StepOption("", (StepMotif(10, (0,), (), (part,)),)),))

    problem = StepProblem(("only",), (half("a", 500), half("b", 400), half("c", 101)))
    plan = StepPlan((0, 0, 0), ((0,), (4,), (9,)))
    assert "op 'c', motif 0 and op 'b', motif 0 and op 'a', motif 0 have 1001 of 1000" in (
        find_step_plan_fault(problem, plan)
    )
    assert find_step_plan_fault(problem, replace(plan, starts=((0,), (4,), (10,)))) == ""
    assert search_by_annealing(problem, 0).finish(problem) == 20 == best_of(problem)
    assert finish_lower_bound(problem).value == 11  # 10.01 ticks of it are in use


@settings(max_examples=times(60, by_day=30))
@given(steps(), st.integers(0, 99))
def test_motif_starts_when_its_resources_are_free(problem: StepProblem, seed: int) -> None:
    """Starting a motif a tick sooner would use another's share or precede a predecessor's end."""
    plan = search_by_annealing(problem, 50, seed)
    last = max(
        ((start, op, k) for op, own in enumerate(plan.starts) for k, start in enumerate(own)),
    )
    start, op, k = last
    moved = list(map(list, plan.starts))
    moved[op][k] -= 1
    changed = replace(plan, starts=tuple(map(tuple, moved)))
    assert start == 0 or find_step_plan_fault(problem, changed)


def test_two_motifs_have_no_resource_together() -> None:
    problem = StepProblem(("only",), (StepOp("a", (ONE,)), StepOp("b", (ONE,))))
    plan = StepPlan((0, 0), ((0,), (0,)))
    assert "op 'b', motif 0 and op 'a', motif 0 both have 'only' at tick 0" in (
        find_step_plan_fault(problem, plan)
    )
