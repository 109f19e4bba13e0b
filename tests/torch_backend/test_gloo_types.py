"""Calls that gloo rejects or computes wrongly: every mode serves them or reports it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sccl.torch_backend.jobs.compile_plan import compile_plan
from sccl.torch_backend.script import format_script
from sccl.training.types.training_plan import TrainingPlan
from tests.kit.planned_jobs import BLOCK, build_plan
from tests.kit.torch_jobs import finished, run_job
from tests.kit.typed_calls import REFUSED, SERVED

RANKS, STEPS = 2, 2

PLANS = ("plan", "plan in parts", "plan of another job")
BY_DAY = [
    ("newest", "bundles"),
    ("oldest", "gloo"),
    ("newest", "plan"),
    ("oldest", "plan in parts"),
    ("newest", "plan of another job"),
    ("oldest", "recording over gloo"),
]
BY_NIGHT = [
    (release, mode)
    for release in ("oldest", "newest")
    for mode in ("bundles", "gloo", "recording", "recording over gloo", *PLANS, "plan over gloo")
    if (release, mode) not in BY_DAY
]


def planned(plan: str) -> TrainingPlan:
    """Return a plan that covers all calls, or only some of another order."""
    ops = [call.op(RANKS) for call in (*SERVED, *REFUSED)]
    if plan == "plan of another job":
        return build_plan([(op, "whole") for op in ops[1:3]], RANKS)
    if plan == "plan":
        return build_plan([(op, "whole") for op in ops], RANKS)
    rows: dict[tuple[str, ...], str] = {
        ("all_gather int16 flat", "all_gather_into_tensor int16 flat"): "merge",
        ("reduce_scatter uint64 max flat", "reduce_scatter_tensor uint64 max flat"): "merge.seg(2)",
    }
    parts = [(op, "seg(2)" if op.count == BLOCK * RANKS else "whole") for op in ops]
    return build_plan(parts, RANKS, first=1, rows=rows)


@pytest.mark.parametrize(
    ("release", "mode"),
    [*BY_DAY, *(pytest.param(*one, marks=pytest.mark.nightly) for one in BY_NIGHT)],
)
def test_every_mode_serves_tensors_that_gloo_refuses(
    release: str, mode: str, tmp_path: Path
) -> None:
    """A type that nothing reduces is refused in one sentence, in every mode."""
    env = {"SCCL_DEBUG": "1"}
    if mode.endswith("gloo"):
        env["SCCL_BUNDLES"] = "0"
    if mode.startswith("recording"):
        env["SCCL_RECORD"] = str(tmp_path)
    plan = mode.removesuffix(" over gloo")
    if plan in PLANS:
        env["SCCL_SCRIPT"] = str(tmp_path / "script.json")
        Path(env["SCCL_SCRIPT"]).write_text(format_script(compile_plan(planned(plan))))
    done = run_job(release, RANKS, "torch_typed.py", str(STEPS), env=env)
    lines = [line for line in finished(done) if not line.startswith("planned: ")]
    refusal = "gloo, bundles and plans reduce no float8-e.m.: convert it before the call"
    assert len(lines) == RANKS * STEPS * len(REFUSED)
    assert [line for line in lines if not re.search(refusal, line)] == []
    if plan in PLANS:
        is_covered = plan != "plan of another job"
        assert done.stdout.count(f"planned: {is_covered}") == RANKS
        assert ("all_reduce: gloo, as planned" in done.stderr) == is_covered
