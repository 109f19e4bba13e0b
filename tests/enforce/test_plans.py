"""Plans at work in real jobs: results are gloo's, whatever the job does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sccl.enforce.script import script_text
from sccl.tasks import scripting
from sccl.tasks.scripting import script_of
from tests.kit.enforced import BLOCK, ops_of, plan_of
from tests.kit.torch_jobs import autoloading, finished, run_job

RANKS = 4


def outcome(folder: Path, text: str, *words: str, release: str = "oldest") -> set[tuple[str, ...]]:
    """Return what ranks say at the end of a job: cuts, whether planned, and calls."""
    (folder / "script.json").write_text(text)
    env = {"PYTHONPATH": autoloading(folder), "SCCL_SCRIPT": str(folder / "script.json")}
    lines = finished(run_job(release, RANKS, "torch_planned.py", *words, env=env))
    assert len(lines) == RANKS
    return {tuple(line.split()[1:]) for line in lines}


@pytest.mark.parametrize(
    ("release", "first", "piece"),
    [
        ("newest", 2, 2**15),
        ("oldest", 2, 4),
        pytest.param("oldest", 0, 2**15, marks=pytest.mark.nightly),
    ],
)
def test_every_collective_by_every_rule(
    release: str, first: int, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By carriers of motifs, by schedules of a synthesiser, and by gloo's own collectives.

    What all send to all is in one piece, or in many.
    """
    monkeypatch.setattr(scripting, "_PIECE_BYTES", piece)
    ops = ops_of(RANKS)
    plan = plan_of(ops, RANKS, first=first)
    assert "tacos" in {motif.carrier for _, _, motif in plan.motifs()}
    script = script_of(plan)
    motifs = [motif for op in script.ops for motif in op.motifs]
    assert {motif.native for motif in motifs} == {True, False}
    most_steps = max(len({row[0] for row in motif.transfers}) for motif in motifs)
    assert (most_steps > 8) == (piece < BLOCK)
    found = outcome(tmp_path, script_text(script), "3", release=release)
    assert found == {("0", "True", str(3 * len(ops)))}


def test_what_is_not_planned_is_a_cut_on_all_ranks(tmp_path: Path) -> None:
    """Also an order that the host's waits don't allow: the second is to be called a step ahead.

    Steps 1 and 7 stand still where they wait, 3 and 5 call otherwise, and each next goes its own
    way.
    """
    ops = ops_of(RANKS)[3:8]
    text = script_text(script_of(plan_of(ops, RANKS, ahead={ops[1][0].id: 1})))
    found = outcome(tmp_path, text, "8", "3:more", "5:less")
    assert found == {("4", "False", str(8 * len(ops)))}


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (
            "dies",
            "CallError: allreduce-1: all_reduce of 24 float32 by ranks 0, 1 failed, rank 1 is gone",
        ),
        pytest.param(
            "stands",
            r"ToolError: allreduce-1 \(allreduce\) by ranks 0, 1 .* rank 1 has not come as far",
            marks=pytest.mark.nightly,
        ),
        (
            "unseen",
            r"RuntimeError: .* ToolError: allreduce-1 \(allreduce\) .* rank 1 has not come as far",
        ),
    ],
)
def test_a_rank_that_is_gone_is_told_and_not_waited_for(
    how: str, told: str, tmp_path: Path
) -> None:
    ops = [(replace(ops_of(2)[0][0], id=f"allreduce-{k}"), "whole") for k in range(2)]
    script = script_of(plan_of(ops, 2, ahead={"allreduce-0": 1}))
    (tmp_path / "script.json").write_text(script_text(script))
    env = {"PYTHONPATH": autoloading(tmp_path), "SCCL_SCRIPT": str(tmp_path / "script.json")}
    (line,) = finished(run_job("oldest", 2, "torch_failing.py", how, env=env))
    assert re.match(told, line), line
