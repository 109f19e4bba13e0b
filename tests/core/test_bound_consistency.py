"""Results below proved lower bounds: the program stops, and names both values."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sccl as python
from sccl.core.bound import Bound, Measure, require_at_least_bound
from sccl.core.outcome import PlanBound, Solution
from sccl.core.schedule import Schedule
from sccl.core.step_limit import LimitProof, StepLimit, TimedCut
from sccl.errors import ContradictionError
from sccl.prove.bounds.time_cuts import CompletionTimeBound
from sccl.training.planner import check_bound_holds
from tests.kit.certificates import swept_frontier
from tests.kit.commands import sccl
from tests.kit.training_plans import prefetching_plan

FALSE = 1000
"""Times a lower bound on time, for a bound that is false of every plan."""

fractions = st.fractions(min_value=0, max_value=100)


@given(fractions, fractions)
def test_only_what_is_below_a_bound_is_a_defect(attained: Fraction, bound: Fraction) -> None:
    require_at_least_bound(attained, None, result="a", limit="b")
    if attained >= bound:
        require_at_least_bound(attained, bound, result="a", limit="b")
        return
    with pytest.raises(ContradictionError):
        require_at_least_bound(attained, bound, result="a", limit="b")


def solution(objective: Fraction, bound: PlanBound) -> Solution:
    plan = cast("Schedule", None)  # the check does not look at it
    return Solution(plan, objective, bound).require_consistent()


def test_both_values_are_named() -> None:
    with pytest.raises(ContradictionError) as found:
        solution(Fraction(10), Bound(Measure.TIME_US, Fraction(12), (), "any chunks"))
    said = str(found.value)
    assert "the completion time of a plan is 10 us" in said
    assert "the lower bound on the completion time (any chunks) is 12 us" in said
    assert "a defect of sccl" in said


def test_values_that_are_nearly_the_same_are_told_apart() -> None:
    """Numbers are compared exactly. Those that round to the same text are shown as fractions."""
    third, less = Fraction(1, 3), Fraction(1, 3) - Fraction(1, 10**20)
    solution(third, Bound(Measure.COST, third, ()))
    with pytest.raises(ContradictionError, match="and the lower bound on the R/C is 1/3: one"):
        solution(less, Bound(Measure.COST, third, ()))


def test_contradiction_passes_from_process_to_process() -> None:
    error = ContradictionError("a is 1, and b is 2")
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301 - it is our own
    assert (copied.conflict, str(copied)) == (error.conflict, str(error))


# --- times ---------------------------------------------------------------------------------------

ASKED = ("--collective", "allgather", "--topo", "ring:3")

TIMED: dict[str, tuple[str, ...]] = {
    "synth fastest": ("synth", "fastest", *ASKED, "--size", "3KB"),
    "teccl": ("synth", "teccl", *ASKED, "--size", "3KB", "--alpha", "travels", "--budget", "0.1"),
    "taccl": ("synth", "taccl", *ASKED, "--size", "3KB", "--budget", "0.1"),
    "baseline": ("synth", "ring", *ASKED, "--size", "3KB"),
    "compare": ("compare", *ASKED, "--size", "3KB", "--only", "ring"),
}


@pytest.fixture
def false_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make lower bounds on time say far too much."""
    honest: Callable[[CompletionTimeBound, int | Fraction], Fraction] = CompletionTimeBound.us
    monkeypatch.setattr(CompletionTimeBound, "us", lambda self, size: FALSE * honest(self, size))


@pytest.mark.usefixtures("false_bound")
@pytest.mark.parametrize("verb", TIMED)
def test_plan_below_a_bound_on_time_is_a_defect(verb: str) -> None:
    code, out, err = sccl(*TIMED[verb])
    said = " ".join(err.split())
    assert code == 4, (out, err)
    assert "completion time" in said
    assert "lower bound" in said
    assert "a defect of sccl" in said
    assert "%" not in out


def test_tacos_schedule_below_its_bound_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sccl.synth.tacos.matching_problem.lower_bound_ticks", lambda *_: 10**15)
    code, out, err = sccl("synth", "tacos", *ASKED, "--size", "3KB", "--restarts", "1")
    assert code == 4
    assert "a defect of sccl" in " ".join(err.split())
    assert "%" not in out


def test_simulation_below_its_bound_is_a_defect(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file = tmp_path / "ring.json"
    assert sccl("synth", "ring", *ASKED, "--size", "3KB", "-o", file)[0] == 0
    assert sccl("simulate", file)[0] == 0
    request.getfixturevalue("false_bound")
    code, out, err = sccl("simulate", file)
    assert code == 4
    assert "the simulated completion time of" in " ".join(err.split())
    assert "%" not in out


@pytest.mark.usefixtures("false_bound")
def test_objects_of_the_library_are_checked_as_well() -> None:
    with pytest.raises(ContradictionError):
        python.teccl("allgather", "ring:3", size="3KB", alpha="travels", budget=0.1, progress=False)
    with pytest.raises(ContradictionError):
        python.simulate(python.tacos("allgather", "ring:3", size="3KB", progress=False))


# --- steps, rounds, periods ----------------------------------------------------------------------


def test_point_below_a_proved_limit_is_a_defect() -> None:
    honest = swept_frontier("ring:3", "broadcast", k=1, max_steps=2)
    assert honest.require_consistent() is honest
    assert honest.bounds is not None
    point, (part,) = honest.points[0], honest.classes
    above = Fraction(point.cost) + 1
    for false in (
        replace(honest, bounds=replace(honest.bounds, steps=point.steps + 1)),
        replace(honest, bounds=replace(honest.bounds, bandwidth=above)),
        replace(honest, any_class_limits=(StepLimit(point.steps, above, None),)),
        replace(honest, classes=(replace(part, limits=(StepLimit(point.steps, above, None),)),)),
        replace(honest, classes=(replace(part, limits=(StepLimit(9, above, point.cost),)),)),
    ):
        with pytest.raises(ContradictionError, match="lower bound on"):
            false.require_consistent()


def test_false_bound_ends_a_sweep_as_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = swept_frontier("ring:3", "broadcast", k=1, max_steps=2)
    assert honest.bounds is not None
    false = replace(honest.bounds, bandwidth=Fraction(99))
    monkeypatch.setattr("sccl.synth.packing.by_steps.limit_sweep.lower_bounds", lambda *_: false)
    asked = ("--collective", "broadcast", "--topo", "ring:3", "--max-steps", "2")
    code, out, err = sccl("limits", *asked)
    assert code == 4, out
    assert "a defect of sccl" in " ".join(err.split())


def test_training_plan_below_its_bound_is_a_defect() -> None:
    plan = prefetching_plan()
    assert check_bound_holds(replace(plan, bound_ns=plan.period_ns)).gap == 0
    with pytest.raises(ContradictionError, match=r"is 14\.5 us, and .* is 14\.501 us"):
        check_bound_holds(replace(plan, bound_ns=plan.period_ns + 1))


def test_limit_names_the_method_of_its_proof() -> None:
    def limit(*proofs: LimitProof) -> StepLimit:
        return StepLimit(2, Fraction(1), Fraction(1), proofs)

    place = ("allgather", False, "ring:4", 2, Fraction(1))
    prices = (((0, 1), 0, Fraction(1)),)
    cut = TimedCut((0, 3), Fraction(1))
    assert limit(LimitProof(*place, prices)).method == "packing"
    assert limit(LimitProof(*place, (), (cut,))).method == "cut"
    assert limit(LimitProof(*place, prices, (cut,))).method == "cut"
    assert limit(LimitProof(*place, ())).method == "cut"
    assert limit().method == "bound"
