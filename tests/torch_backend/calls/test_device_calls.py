"""Tensors outside the CPU: a stand-in for NCCL shows its calls.

No GPU is needed, and none was ever used.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from sccl.torch_backend.jobs.compile_plan import compile_plan
from sccl.torch_backend.script import format_script
from tests.kit.planned_jobs import build_ops, build_plan
from tests.kit.torch_jobs import finished, run_job

RANKS = 2
SIZES = (24, 36, 48)


def refused(lacks: str) -> list[str]:
    """Return the error for tensors without a carrier, if torch lacks a backend."""
    return [
        "tensors on meta are not served: give them on cpu, cuda",
        f"NCCL carries calls with tensors on cuda, and this torch {lacks}: give tensors on the CPU",
    ]


def said(release: str, *words: str, env: dict[str, str]) -> list[str]:
    """Return the output of the ranks, with the last one also after the end of the stand-in."""
    env = {"SCCL_BUNDLES": "0", "CUDA_VISIBLE_DEVICES": "", **env}
    done = run_job(release, RANKS, "torch_on_devices.py", *words, env=env)
    finished(done)
    own = [[line[2:] for line in done.stdout.splitlines() if line.startswith(f"{rank} ")]
           for rank in range(RANKS)]  # fmt: skip
    assert own[0] == own[1]
    assert own[0][-1] == "shutdown"
    return own[0][:-1]


def calls(step: int, *places: int) -> list[str]:
    """Return calls of a step, each in the stream in which the job made it."""
    return [f"{SIZES[place]}@{step}.{place}" for place in places]


@pytest.mark.parametrize(
    ("rows", "places", "failed"),
    [
        ({}, (2, 1, 0), "allreduce-48"),
        ({("allreduce-24", "allreduce-48"): "merge"}, (0, 2, 1), "allreduce-24+allreduce-48"),
    ],
)
def test_calls_go_in_the_order_of_the_plan(
    rows: dict[tuple[str, ...], str], places: tuple[int, ...], failed: str, tmp_path: Path
) -> None:
    """Calls match the plan after one step, in the streams of the calls.

    Work after a call follows everything that the plan has before it, and waits for a failed call
    raise. Merged calls run one after the other.
    """
    (op, _), *_ = build_ops(RANKS)
    ops = [(replace(op, id=f"allreduce-{size}", count=size), "whole") for size in SIZES]
    script = compile_plan(build_plan(ops, RANKS, rows=rows))
    backwards = msgspec.structs.replace(script, order=tuple(reversed(script.order)))
    (tmp_path / "script.json").write_text(format_script(backwards))
    asked, *told = said("newest", env={"SCCL_SCRIPT": str(tmp_path / "script.json")})
    planned = [one for step in (1, 2) for one in calls(step, *places)]
    last = calls(3, *(place for place in places if place != 2))
    assert asked.split() == ["made", *calls(0, 0, 1, 2), *planned, "then", *last]
    assert told == [
        *refused("sees no GPU"),
        f"{failed} (allreduce) by ranks 0, 1 failed: no such memory",
    ]


def test_without_a_plan_they_go_as_they_are_made_and_are_recorded(tmp_path: Path) -> None:
    asked, *told = said("oldest", "leaves", env={"SCCL_RECORD": str(tmp_path)})
    every = [one for step in range(3) for one in calls(step, 0, 1, 2)]
    assert asked.split() == ["made", *every, *calls(3, 0, 1)]
    assert told == [*refused("has no NCCL"), "no such memory"]
    events = json.loads((tmp_path / "rank-1.json").read_text())["events"]
    recorded = [one["given"] for one in events if one.get("collective") == "allreduce"]
    assert recorded == [5, *SIZES, *SIZES, *SIZES, *SIZES[:2]]
