"""Every synthesizer against the contract, and errors of the registry."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm
from sccl.core.bound import Bound, Measure
from sccl.core.outcome import (
    DistanceRefutation,
    Inconclusive,
    Infeasible,
    Solution,
    SolverRefutation,
)
from sccl.errors import CollectiveError, InputError, JudgeError, ParameterError, UnknownNameError
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request, Synthesizer
from sccl.synth.packing.by_steps import options as by_steps
from sccl.synth.syncoll import options as syncoll
from sccl.topo import resolve_topology
from tests.kit.small_budgets import small_limit_budget
from tests.kit.synthesizers import CASES, ENOUGH, check_synthesizer

KSYNC, LIMIT = registry.load("pareto"), registry.load("limits")
DGX1 = CASES[0].request


@pytest.mark.parametrize("name", registry.names())
def test_every_synthesiser_keeps_to_the_contract(name: str) -> None:
    check_synthesizer(registry.load(name))


def test_members_are_found_by_their_folders_and_loaded_without_solvers() -> None:
    assert registry.names() == ("limits-time", "pareto", "limits", "taccl", "tacos", "teccl")
    code = (
        "import sys; from sccl.synth.common import registry;"
        "[registry.load(name) for name in registry.names()];"
        "assert not {'ortools', 'z3', 'pysat', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with pytest.raises(UnknownNameError, match="did you mean 'pareto'"):
        registry.load("paretto")


@pytest.mark.parametrize(("size", "csr"), [(1, (2, 2, 3)), (1 << 20, (6, 3, 7))])
def test_fastest_of_dgx1_is_proved_at_every_size(size: int, csr: tuple[int, ...]) -> None:
    found = registry.plan(KSYNC, replace(DGX1, size_bytes=size), effort=ENOUGH)
    assert isinstance(found, Solution)
    plan = found.plan
    assert isinstance(plan, Algorithm)
    assert (plan.collective.chunks, plan.steps, plan.rounds) == csr
    time = csr[1] * Fraction("0.7") + Fraction(csr[2], csr[0]) * size / 25_000
    assert (found.objective, found.bound.value, found.is_optimal) == (time, time, True)
    assert found.gap == 0


@pytest.mark.parametrize(
    ("numbers", "kind"), [((2, 2, 3), Solution), ((3, 2, 4), Infeasible), ((1, 1, 1), Infeasible)]
)
def test_ksync_finds_or_refutes_given_numbers(numbers: tuple[int, int, int], kind: type) -> None:
    chunks, steps, rounds = numbers
    options = syncoll.Options(chunks=chunks, steps=steps, rounds=rounds)
    outcome = registry.plan(KSYNC, DGX1, options, ENOUGH)
    assert isinstance(outcome, kind)
    if isinstance(outcome, Infeasible):
        assert isinstance(outcome.evidence, SolverRefutation)
        assert outcome.evidence.candidate.chunks == chunks
        assert outcome.evidence.reason


def test_ksync_wants_all_three_numbers_or_none() -> None:
    with pytest.raises(ParameterError, match="give all three"):
        registry.plan(KSYNC, DGX1, syncoll.Options(chunks=2))


def test_slower_point_has_its_gap() -> None:
    options = syncoll.Options(chunks=1, steps=2, rounds=2)
    found = registry.plan(KSYNC, DGX1, options, ENOUGH)
    assert isinstance(found, Solution)
    assert not found.is_optimal
    assert found.gap is not None
    assert found.gap > 0


@small_limit_budget()
def test_limit_of_a_number_of_steps_is_attained_or_near() -> None:
    broadcast = replace(DGX1, spec=named_spec("broadcast", 8))
    found = registry.plan(LIMIT, broadcast, by_steps.Options(steps=3), ENOUGH)
    assert isinstance(found, Solution)
    assert (found.bound.measure, found.objective) == (Measure.COST, Fraction(9, 22))
    assert found.is_optimal
    assert found.bound.proof
    near = registry.plan(LIMIT, DGX1, by_steps.Options(steps=3), ENOUGH)
    assert isinstance(near, Solution)
    assert near.bound.value == Fraction(7, 6)
    assert near.gap is not None
    assert 0 < near.gap < Fraction(1, 50)
    none = registry.plan(LIMIT, DGX1, by_steps.Options(steps=1), ENOUGH)
    assert isinstance(none, Infeasible)
    assert isinstance(none.evidence, DistanceRefutation)
    assert (none.evidence.steps, none.evidence.distance.steps) == (1, 2)


def test_requests_check_themselves() -> None:
    with pytest.raises(ParameterError, match="size is 0 bytes"):
        replace(DGX1, size_bytes=0)
    with pytest.raises(CollectiveError, match="is for 4 ranks"):
        Request(resolve_topology("ring:3"), named_spec("allgather", 4), 1)


def _liar(plan: Any) -> Synthesizer:
    fields = {"NAME": "liar", "FEATURES": syncoll.FEATURES, "Options": syncoll.Options}
    found = Solution(plan, Fraction(1), Bound(Measure.COST, Fraction(0), ()))
    return cast("Synthesizer", SimpleNamespace(**fields, plan=lambda *_: found))


def test_nothing_leaves_the_door_unjudged() -> None:
    found = registry.plan(KSYNC, DGX1, effort=ENOUGH)
    assert isinstance(found, Solution)
    plan = found.plan
    assert isinstance(plan, Algorithm)
    outcome = registry.plan(_liar(plan), DGX1)
    assert isinstance(outcome, Solution)
    assert outcome.plan == plan
    with pytest.raises(JudgeError, match="liar"):
        registry.plan(_liar(replace(plan, sends=plan.sends[1:])), DGX1)
    with pytest.raises(JudgeError, match="of another topology or collective"):
        registry.plan(_liar(plan), replace(DGX1, topology=replace(DGX1.topology, name="other")))


def test_seconds_that_end_prove_nothing() -> None:
    outcome = registry.plan(LIMIT, DGX1, effort=Effort(timeout_s=1e-6))
    assert isinstance(outcome, Inconclusive)
    assert outcome.best is None
    assert outcome.gap is None
    numbers = syncoll.Options(chunks=2, steps=2, rounds=3)
    assert isinstance(registry.plan(KSYNC, DGX1, numbers, Effort(timeout_s=1e-9)), Inconclusive)


def test_options_out_of_range_are_rejected() -> None:
    with pytest.raises(InputError):
        registry.plan(
            LIMIT, replace(DGX1, spec=named_spec("allreduce", 8)), by_steps.Options(steps=5)
        )


def test_effort_that_is_no_number_is_rejected() -> None:
    with pytest.raises(ParameterError, match="effort is nan, expected a number of 0 or more"):
        Effort(units=float("nan"))
