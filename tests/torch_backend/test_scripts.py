"""Scripts of plans for `sccl train run`, and errors for invalid ones."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.errors import FormatError, ParameterError
from sccl.torch_backend.jobs.compile_plan import compile_plan
from sccl.torch_backend.script import PlanScript, find_script_fault, format_script, read_script
from sccl.training.types.training_plan import OptionMotif, TrainingPlan
from sccl.training.types.workload_ops import HostProgram, Role
from tests.kit.commands import sccl
from tests.kit.planned_jobs import build_ops, build_plan
from tests.kit.torch_jobs import autoloading, finished, run_job
from tests.kit.training_plans import plan_file, prefetching_plan

RANKS = 4


def made() -> PlanScript:
    return compile_plan(build_plan(build_ops(RANKS)[:4], RANKS))


def test_script_is_read_as_it_was_written(tmp_path: Path) -> None:
    script, path = made(), tmp_path / "script.json"
    path.write_text(format_script(script))
    assert read_script(path) == script
    assert script == made()
    for text in (
        "",
        "{}",
        format_script(script)[:-20],
        format_script(script).replace("false", "0"),
    ):
        path.write_text(text)
        with pytest.raises(FormatError, match=r"script\.json: no script of a plan"):
            read_script(path)


def test_scripts_that_contradict_themselves() -> None:
    script = made()
    alter = msgspec.structs.replace
    first = script.ops[0]

    def with_first(**changes: object) -> PlanScript:
        return alter(script, ops=(alter(first, **changes), *script.ops[1:]))

    def with_motif(**changes: object) -> PlanScript:
        return with_first(motifs=(alter(first.motifs[0], **changes), *first.motifs[1:]))

    assert find_script_fault(script) == ""
    assert "every motif once" in find_script_fault(alter(script, order=script.order[1:]))
    assert "every motif once" in find_script_fault(
        alter(script, order=(*script.order, script.order[0]))
    )
    assert "every call once" in find_script_fault(alter(script, submits=script.submits[1:]))
    assert "every call once" in find_script_fault(with_first(merged=(4, first.count - 4)))
    assert "not all of it" in find_script_fault(
        with_first(count=first.count + 1, merged=(first.count,))
    )
    assert "whole blocks" in find_script_fault(
        with_first(collective="alltoall", count=first.count + 1)
    )
    assert "is none" in find_script_fault(with_first(collective="shuffle"))
    assert "different ranks" in find_script_fault(with_first(groups=((0, 1, 1),)))
    assert "different ranks" in find_script_fault(alter(script, ranks=2))
    assert "in no group" in find_script_fault(with_first(roots=(RANKS,)))
    for odd in ({"channel": 2}, {"stream": 2}, {"after": (0,)}, {"part": (2, 1)}):
        assert "contradicts itself" in find_script_fault(with_motif(**odd))
    for row in ((0, 3, 3, 0, 1, False), (0, 0, 3, 0, RANKS, False)):
        assert "contradicts itself" in find_script_fault(with_motif(transfers=(row,)))
    backwards = tuple(reversed(script.order))
    assert "are ordered before their dependencies" in find_script_fault(
        alter(script, order=backwards)
    )


def unknown_carrier(plan: TrainingPlan) -> TrainingPlan:
    (name, option), *others = plan.options
    motifs = (OptionMotif("a", "pigeon", 1, ()),)
    return replace(plan, options=((name, replace(option, motifs=motifs)), *others))


def two_roles(plan: TrainingPlan) -> TrainingPlan:
    """Return a plan of which the last rank is by itself, as a stage of a pipeline is."""
    own = plan.workload
    last, (program,) = (RANKS - 1,), own.submits
    roles = (Role("all", tuple(range(RANKS - 1))), Role("last", last))
    submits = (program, HostProgram("last", program.events))
    return replace(plan, workload=replace(own, roles=roles, submits=submits))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (unknown_carrier, "'pigeon', which is not known"),
        (two_roles, "its workload has 2 roles: expected one of all ranks"),
    ],
)
def test_plans_that_jobs_cannot_keep_to(change: object, told: str) -> None:
    plan = build_plan(build_ops(RANKS)[:1], RANKS)
    assert callable(change)
    with pytest.raises(ParameterError, match=told):
        compile_plan(change(plan))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--", "true"], "give --record FILE, or --plan FILE"),
        (["--plan", "nowhere.json", "--", "true"], "cannot read nowhere.json"),
        (["--plan", "w.json", "--", "true"], "no training plan"),
        (["--record", "no/such/folder/w.json", "--", "true"], "no/such/folder"),
    ],
)
def test_impossible_script_is_reported(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.json").write_text('{"schema": 1}')
    done = CliRunner().invoke(app, ["train", "run", *words])
    assert done.exit_code == 2
    assert told in " ".join(done.output.split())


def test_command_that_asks_for_no_plan_is_told_of(tmp_path: Path) -> None:
    plan = plan_file(prefetching_plan(), tmp_path / "plan.json")
    code, _, err = sccl("train", "run", "--plan", plan, "--", "true")
    assert code == 0
    why = "the job has not asked for the plan, and ran without it: call init_process_group"
    assert why in " ".join(err.split())


def kept_to(script: PlanScript, folder: Path, torch: str, ranks: int, calls: str) -> str:
    """Run a job with these calls under a plan's script, and return its complaint."""
    file = folder / "script.json"
    file.write_text(format_script(script))
    env = {"PYTHONPATH": autoloading(folder), "SCCL_SCRIPT": str(file)}
    job = "import torch, torch.distributed as d; d.init_process_group('sccl'); "
    done = run_job(torch, ranks, "run_code.py", f"{job}{calls}; d.destroy_process_group()", env=env)
    finished(done)
    return done.stderr


def test_job_of_other_ranks_goes_on_without_the_plan(tmp_path: Path) -> None:
    told = kept_to(made(), tmp_path, "oldest", 1, "d.all_reduce(torch.ones(2))")
    why = "sccl: the plan is for 4 ranks, and the job has 1: the job continues without a plan"
    assert why in told


def test_job_that_calls_something_else_is_told_so_and_goes_on(tmp_path: Path) -> None:
    """Reported once and by one rank, after a few calls, because the first ones may be no step."""
    of_another = compile_plan(build_plan(build_ops(2)[:1], 2))
    calls = "[d.all_reduce(torch.ones(5)) for _ in range(50)]"
    told = kept_to(of_another, tmp_path, "newest", 2, calls)
    why = (
        "sccl: the plan belongs to another job: it expects allreduce of 24 float32 of 2 ranks, "
        "which is none of the last 36 calls: calls go as they are made until a step is as planned"
    )
    assert told.count(why) == 1


MISTOLD = """
import sys, torch, torch.distributed as d
d.init_process_group("sccl")
given, got = torch.ones(48), torch.empty(48)
d.all_to_all_single(got, given)
for told in (([24, 23], [24, 24]), ([24, 24], [48])):
    try:
        d.all_to_all_single(got, given, *told)
    except RuntimeError as error:
        sys.stdout.write(f"{error}\\n")
sys.stdout.flush()
d.destroy_process_group()
"""


def test_blocks_that_are_not_of_their_tensor_are_reported(tmp_path: Path) -> None:
    (op, _), *_ = (one for one in build_ops(2) if one[0].collective == "alltoall")
    file = tmp_path / "script.json"
    file.write_text(format_script(compile_plan(build_plan([(op, "seg(2)")], 2))))
    env = {"PYTHONPATH": autoloading(tmp_path), "SCCL_SCRIPT": str(file)}
    told = finished(run_job("newest", 2, "run_code.py", MISTOLD, env=env))
    few, one = "2 ranks have 47 elements", "1 ranks have 48 elements"
    assert told == [
        f"alltoall-0: blocks for {what}, expected 48 for 2 ranks" for what in (one, one, few, few)
    ]


MISNAMED = """
import os, sys
import torch.distributed as dist

for number, (name, value) in enumerate((
    ("GLOO_SOCKET_IFNAME", "none-such"),
    ("SCCL_CHANNELS", "a=none-such"),
    ("SCCL_CHANNELS", "fast=lo"),
)):
    if os.fork():  # each anew, and torch loaded once
        os.wait()
        continue
    os.environ[name] = value
    store, rank, ranks = next(dist.rendezvous("env://"))
    own = dist.PrefixStore(str(number), store)
    try:
        dist.init_process_group("sccl", store=own, rank=rank, world_size=ranks)
    except Exception as error:
        sys.stdout.write(f"{number} {' '.join(str(error).split())}\\n")
        sys.stdout.flush()
    os._exit(0)
"""


def test_interfaces_are_those_that_are_named(tmp_path: Path) -> None:
    """That of torch's own variable, which gloo takes by itself, and those of a plan's channels."""
    script = tmp_path / "script.json"
    script.write_text(format_script(compile_plan(build_plan(build_ops(2)[:1], 2))))
    env = {"PYTHONPATH": autoloading(tmp_path), "SCCL_SCRIPT": str(script)}
    told = finished(run_job("oldest", 2, "run_code.py", MISNAMED, env=env))
    assert len(told) == 3 * 2
    for lines, why in zip(
        (told[:2], told[2:4], told[4:]),
        (
            "0 .*none-such",
            "1 .*SCCL_CHANNELS names interface 'none-such'",
            "2 .*SCCL_CHANNELS names channel 'fast', and the plan has a, b",
        ),
        strict=True,
    ):  # of two ranks the first to say so may be gone before the other has looked
        assert any(re.match(why, line) for line in lines), lines
