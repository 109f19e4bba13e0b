"""Running jobs whose network is another than their plan was made for come to a better plan."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from benchmarks.lab import Limiter, choose_method, parse_channels
from benchmarks.lab.fabric import build_lab_fabric
from sccl.errors import ToolError
from sccl.torch_backend.jobs.compile_plan import compile_plan
from sccl.torch_backend.jobs.controller import decode_plan, encode_plan
from sccl.torch_backend.jobs.replan_worker import measured_fabric
from sccl.training.options.measured_costs import parse_cost_table
from sccl.training.plan_step import plan_training, write_training_plan
from sccl.training.planner import PlanSettings
from sccl.training.types.training_plan import TrainingPlan
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import CommOp, HostAction, HostEvent, HostProgram, Role
from tests.kit.paths import PROGRAMS
from tests.kit.processes import PATIENCE_S
from tests.kit.torch_jobs import environment, interpreter

RANKS, COUNT, RATES = 2, 24_576, "fast=40Mb,slow=10Mb"


@cache
def plan() -> TrainingPlan:
    """Return a plan of the calls of ``torch_replanned.py`` in a step, over both channels."""
    all_ranks = tuple(range(RANKS))
    ops = tuple(
        CommOp(id=name, collective="allreduce", group=all_ranks, count=count, dtype=dtype,
               root=None, reduce=reduce)
        for name, count, dtype, reduce in (
            ("flag", 1, "int64", "max"), ("a", COUNT, "float32", "sum"),
            ("b", COUNT, "float32", "sum"),
        )
    )  # fmt: skip
    submit, wait = HostAction.SUBMIT, HostAction.WAIT
    told = [(submit, "flag"), (wait, "flag"), *((how, k) for how in (submit, wait) for k in "ab")]
    program = HostProgram("all", tuple(HostEvent(action, name) for action, name in told))
    workload = Workload(
        name="two sums", ranks=RANKS, roles=(Role("all", all_ranks),), ops=ops, deps=(),
        submits=(program,),
    )  # fmt: skip
    fabric = build_lab_fabric(parse_channels(RATES), RANKS)
    return plan_training(workload, fabric, PlanSettings("sgs", 0.1, 0, 4)).plan


def measured(times: dict[str, float]) -> str:
    """Return a table of the measured motif times of the plan, scaled on one channel."""
    lines = {"collective,option,ranks,bytes,us"}
    options = dict(plan().options)
    for op in compile_plan(plan()).ops:
        for motif, own in zip(op.motifs, options[op.id].motifs, strict=True):
            assert motif.timed is not None
            us = own.ns / 1000 * times.get(own.channel, 1.0)
            lines.add(",".join(map(str, (*motif.timed, us))))
    return "\n".join(sorted(lines, reverse=True))


def rates(times: dict[str, float], given: TrainingPlan | None = None) -> dict[str, float]:
    table = parse_cost_table(measured(times), "measured")
    given = given or plan()
    fabric = measured_fabric(given, compile_plan(given), table)
    nominal = [channel.topology.gb_per_s for channel in given.fabric.channels]
    for channel in fabric.channels:
        assert {link.gb_per_s for link in channel.topology.links} == {channel.topology.gb_per_s}
    return {
        channel.name: channel.topology.gb_per_s / gb_per_s
        for channel, gb_per_s in zip(fabric.channels, nominal, strict=True)
    }


def test_rates_are_those_that_a_job_has_met() -> None:
    assert {motif.channel for _, _, motif in plan().motifs()} == {"fast", "slow"}
    assert rates({"fast": 10.0}) == {"fast": pytest.approx(0.1, rel=0.1), "slow": 1.0}
    assert rates({"fast": 0.5, "slow": 1.05}) == {"fast": pytest.approx(2, rel=0.1), "slow": 1.0}
    assert rates({}) == {"fast": 1.0, "slow": 1.0}
    of_a_table = replace(plan(), costs="sha256:" + 64 * "0")
    assert rates({"fast": 10.0}, of_a_table) == {"fast": 1.0, "slow": 1.0}


def test_replanned_messages_use_the_new_rates() -> None:
    table = parse_cost_table(measured({"fast": 10.0}), "measured")
    fabric = measured_fabric(plan(), compile_plan(plan()), table)
    anew = plan_training(plan().input_workload, fabric, PlanSettings("sgs", 0.1, 0, 4)).plan
    assert decode_plan(encode_plan(anew), "it").fabric == fabric
    assert "as a job met it: fast at 0.0984 of its rate" in fabric.source
    slow = plan().period_ns * 10
    assert anew.period_ns < slow / 2


@pytest.mark.nightly
def test_job_whose_network_changes_is_planned_again_and_taken_back(tmp_path: Path) -> None:
    """One channel slows down to a tenth, and under the new plan the other one, too."""
    try:
        choose_method(Limiter.NAMESPACES)
    except ToolError as error:
        pytest.skip(str(error))
    write_training_plan(tmp_path / "plan.json", plan())
    job = [str(interpreter("newest")), str(PROGRAMS / "torch_replanned.py"), str(COUNT)]
    lab = ["benchmarks.lab", "--quiet", "--channels", RATES, "--ranks", str(RANKS)]
    done = subprocess.run(
        [sys.executable, "-m", "sccl", "enforce", "--plan", str(tmp_path / "plan.json"), "--",
         sys.executable, "-m", *lab, "--", *job, "fast=4000000", "slow=1500000"],
        env=environment(), capture_output=True, text=True, check=False, timeout=4 * PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = done.stdout.splitlines()
    said = [
        re.sub(r"[\d.]+ (us|ms|s)\b", "? us", line) for line in told if not line.endswith(" ms")
    ]
    assert said[:5] == [
        "? us per iteration, ? us planned: planning again",
        "a plan with ? us per iteration is available, and is proposed as plan 1",
        "plan 1 is committed: ranks switch at their next agreement",
        "? us per iteration, ? us with the previous plan: plan 2 returns to the previous plan",
        "plan 2 is committed: ranks switch at their next agreement",
    ], told
    ms = dict(re.findall(r"(plan \d|with \S+): (\d+) ms", done.stdout))
    first, second = (int(ms[key]) for key in ("with fast=4000000", "plan 1"))
    assert second < first * 0.8
