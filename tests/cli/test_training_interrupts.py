"""Ctrl-C during the planning of a training step: the best plan so far is verified and written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.syndicate import figure6
from sccl.core.bound import Bound, Measure
from sccl.core.files.json_text import to_text
from sccl.synth.tacos import restarts
from sccl.training import planner, timeline
from sccl.training.bounds.period_bounds import PeriodProof, period_lower_bound
from sccl.training.files.workloads import workload_to_wire
from sccl.training.scheduling import policies, search_strategies
from sccl.training.scheduling.search_strategies import (
    build_fifo_plan,
    run_markov_chain,
    search_by_markov_chain,
)
from sccl.training.scheduling.step_problem import StepPlan
from sccl.training.timeline import simulate_timeline
from sccl.training.types.training_plan import StepTimeline, TrainingPlan
from sccl.training.validate import plan_costs, plan_faults
from tests.kit.commands import sccl
from tests.kit.workloads import calling, comm, prefetching

MB = 2**18


def interrupted_at(count: int, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does its work, and is interrupted when called for so many times."""
    left = count

    def run(*given: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return work(*given, **named)

    return run


@pytest.fixture
def step(tmp_path: Path) -> Path:
    file = tmp_path / "w.json"
    file.write_text(to_text(workload_to_wire(prefetching())))
    return file


def planned(step: Path, search: str) -> tuple[int, dict[str, Any], Path]:
    """Return the output of planning, and its file."""
    plan = step.with_name("plan.json")
    words = ("train", "plan", step, "--fabric", "hgx2", "--budget", "0.01", "--search", search)
    code, out, _ = sccl(*words, "-o", plan, "--json")
    return code, json.loads(out), plan


@pytest.mark.parametrize("count", [1, 2, 3])
def test_while_motifs_are_planned_nothing_is_written(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The synthesizer has a partial result by then, which depends on the time of the interrupt."""
    file, plan = tmp_path / "w.json", tmp_path / "plan.json"
    exchange = comm("tokens", "alltoall", range(8), 16 * MB)
    file.write_text(to_text(workload_to_wire(calling(8, exchange))))
    monkeypatch.setattr(
        restarts.AttemptMeter, "check", interrupted_at(count, restarts.AttemptMeter.check)
    )
    code, _, err = sccl("train", "plan", file, "--fabric", "dgx1-pcie", "--budget", "0", "-o", plan)
    assert (code, err) == (130, "interrupted\n")
    assert not plan.exists()


@pytest.mark.parametrize("search", ["sgs", "exact", "mcmc", "fifo"])
def test_while_bounds_are_sought_there_is_what_is_submitted(
    search: str, step: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "period_lower_bound", interrupted_at(1, period_lower_bound))
    code, told, plan = planned(step, search)
    assert (code, told["ended"], told["bound_us"]) == (130, "interrupted", 0)
    assert told["gap"] is None
    assert told["period_us"] == told["baseline_us"] > 0
    assert sccl("check", plan)[0] == 0


def test_while_the_plan_is_verified_it_is_kept(step: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = planned(step, "sgs")[2].read_text()
    with monkeypatch.context() as patch:
        patch.setattr(plan_faults, "recompute_costs", interrupted_at(1, plan_costs.recompute_costs))
        code, told, plan = planned(step, "sgs")
    assert (code, told["ended"], plan.read_text()) == (130, "interrupted", whole)
    assert sccl("check", plan)[0] == 0


def test_interrupted_verification_keeps_the_comparison(
    step: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        plan_faults, "recompute_costs", interrupted_at(1, plan_costs.recompute_costs)
    )
    words = ("train", "compare", step, "--fabric", "hgx2", "--budget", "0.01", "--json")
    code, out, _ = sccl(*words)
    told = json.loads(out)
    assert (code, told["ended"]) == (130, "interrupted")
    assert [one["search"] for one in told["searches"]] == ["sgs"]
    assert told["searches"][0]["period_us"] >= told["bound_us"] > 0


def test_plan_is_run_once_to_be_judged(step: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = list[TrainingPlan]()

    def counted(plan: TrainingPlan) -> StepTimeline:
        runs.append(plan)
        return simulate_timeline(plan)

    monkeypatch.setattr(plan_faults, "simulate_timeline", counted)
    monkeypatch.setattr(timeline, "simulate_timeline", counted)
    assert planned(step, "fifo")[0] == 0
    assert len(runs) == 1


def test_while_the_published_search_goes_on_its_best_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, kept = figure6(), list[StepPlan]()

    def keep(plan: StepPlan) -> bool:
        kept.append(plan)
        return False

    monkeypatch.setattr(search_strategies, "_proposals_per_slice", lambda *_: 4)
    by_then = search_by_markov_chain(problem, 8)
    monkeypatch.setattr(search_strategies, "run_markov_chain", interrupted_at(3, run_markov_chain))
    with pytest.raises(KeyboardInterrupt):
        search_by_markov_chain(problem, 200, kept=keep)
    assert kept[-1] == by_then
    assert by_then.finish(problem) < build_fifo_plan(problem).finish(problem)


@pytest.mark.parametrize(("search", "loop"), [("mcmc", "run_markov_chain"), ("s-sched", "anneal")])
def test_while_policies_search_there_is_a_plan(
    search: str, loop: str, step: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[StepPlan]()
    low = Bound(Measure.TICKS, 1, PeriodProof("computation", 0))  # with which no search has enough
    monkeypatch.setattr(planner, "period_lower_bound", lambda *_: low)
    monkeypatch.setattr(
        search_strategies, loop, interrupted_at(1, getattr(search_strategies, loop))
    )
    for name in ("search_by_markov_chain", "search_by_annealing"):
        monkeypatch.setattr(policies, name, told_to(found, getattr(search_strategies, name)))
    code, told, plan = planned(step, search)
    assert (code, told["ended"]) == (130, "interrupted")
    assert found
    assert sccl("check", plan)[0] == 0


def told_to(found: list[StepPlan], search: Callable[..., Any]) -> Callable[..., Any]:
    """Return a search that records its best plans."""

    def run(*given: Any, kept: Callable[[StepPlan], bool] = lambda _: False, **named: Any) -> Any:
        def both(plan: StepPlan) -> bool:
            found.append(plan)
            return kept(plan)

        return search(*given, **named, kept=both)

    return run
