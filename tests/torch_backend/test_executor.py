"""Plans in real jobs: results equal gloo's in every case."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sccl.torch_backend.jobs import compile_plan as scripting
from sccl.torch_backend.jobs.compile_plan import compile_plan
from sccl.torch_backend.script import format_script
from sccl.training.types.training_plan import TrainingPlan
from tests.kit.planned_jobs import BLOCK, build_ops, build_plan
from tests.kit.torch_jobs import autoloading, finished, run_job

RANKS = 4


def ended(
    folder: Path, text: str, *words: str, release: str = "oldest", ranks: int = RANKS
) -> subprocess.CompletedProcess[str]:
    """Return how a job went."""
    file = folder / "script.json"
    file.write_text(text)
    env = {"PYTHONPATH": autoloading(folder), "SCCL_SCRIPT": str(file), "SCCL_DEBUG": "1"}
    return run_job(release, ranks, "torch_planned.py", *words, env=env)


def outcome(folder: Path, text: str, *words: str, release: str = "oldest") -> set[tuple[str, ...]]:
    """Return the final reports of ranks: cuts, whether planned, and calls."""
    lines = finished(ended(folder, text, *words, release=release))
    assert len(lines) == RANKS
    return {tuple(line.split()[1:]) for line in lines}


@pytest.mark.parametrize(
    ("release", "first", "piece"),
    [
        ("newest", 2, 2**15),
        pytest.param("oldest", 2, 4, marks=pytest.mark.nightly),
        pytest.param("oldest", 0, 2**15, marks=pytest.mark.nightly),
    ],
)
def test_every_collective_by_every_rule(
    release: str, first: int, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By carriers of motifs, by schedules of a synthesizer, and by gloo's own collectives.

    Data of an alltoall are in one piece, or in many.
    """
    monkeypatch.setattr(scripting, "_PIECE_BYTES", piece)
    ops = build_ops(RANKS)
    plan = build_plan(ops, RANKS, first=first)
    assert "tacos" in {motif.carrier for _, _, motif in plan.motifs()}
    script = compile_plan(plan)
    motifs = [motif for op in script.ops for motif in op.motifs]
    assert {motif.native for motif in motifs} == {True, False}
    most_steps = max(len({row[0] for row in motif.transfers}) for motif in motifs)
    assert (most_steps > 8) == (piece < BLOCK)
    found = outcome(tmp_path, format_script(script), "3", release=release)
    assert found == {("0", "True", str(3 * len(ops)))}


def test_unplanned_call_is_a_cut_on_all_ranks(tmp_path: Path) -> None:
    """Also an order that the host's waits don't allow: the second is to be called a step ahead.

    Steps 1 and 7 stand still where they wait, 3 and 5 call otherwise, and each next goes its own
    way.
    """
    ops = build_ops(RANKS)[3:8]
    text = format_script(compile_plan(build_plan(ops, RANKS, ahead={ops[1][0].id: 1})))
    found = outcome(tmp_path, text, "8", "3:more", "5:less")
    assert found == {("4", "False", str(8 * len(ops)))}


@pytest.mark.parametrize("piece", [2**15, 4])
def test_blocks_of_any_size_go_in_the_parts_that_are_planned(
    piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether counts were even in planning or are now, but not for routes over other ranks."""
    monkeypatch.setattr(scripting, "_PIECE_BYTES", piece)
    even = [one for one in build_ops(RANKS) if one[0].collective == "alltoall"]
    (op, _), ways = even[0], ("seg(3)", "spline(2)", "levels(2)")
    splits = tuple(tuple((k + 2 * j) % 5 for j in range(RANKS)) for k in range(RANKS))
    most = max(map(sum, splits))
    uneven = [(replace(op, id=f"uneven-{k}", count=most, splits=splits), ways[k]) for k in range(3)]
    script = compile_plan(build_plan([*even, *uneven], RANKS))
    whole = {op.id for op in script.ops if op.as_made or op.keeps_blocks}
    assert whole == {"alltoall-3", "uneven-2", *([] if piece == 4 else ["alltoall-0"])}
    found = outcome(tmp_path, format_script(script), "4", "1:uneven", "2:mixed", "3:uneven")
    assert found == {("0", "True", str(4 * len(script.ops)))}


MERGED = {
    "allreduce": ("merge", "merge.seg(2)", "merge.ring"),
    "allgather": ("merge", "merge.levels(2)"),
    "alltoall": ("merge", "merge.seg(2)"),
    "broadcast": ("merge.seg(2)",),
    "gather": ("merge",),
    "reduce": ("merge",),
    "reducescatter": ("merge.seg(2)",),
    "scatter": ("merge",),
}


def merging(ranks: int, collectives: Sequence[str] = tuple(MERGED)) -> TrainingPlan:
    """Return a plan of which pairs of calls are one, of different counts, by every rule.

    The first of all pairs are called before the second of them, and one pair averages.
    """
    kinds = {op.collective: op for op, _ in build_ops(ranks)}
    rows: dict[tuple[str, ...], str]
    rows = {(f"{name}-{k}-a", f"{name}-{k}-b"): recipe
            for name in collectives for k, recipe in enumerate(MERGED[name])}  # fmt: skip
    ops = []
    for half in (0, 1):
        for row in rows:
            own = replace(kinds[row[0].partition("-")[0]], id=row[half], dtype="float32")
            reduce = "avg" if row[0] == "allreduce-1-a" else own.reduce
            ops.append((replace(own, count=BLOCK * ranks * (1 + half), reduce=reduce), "whole"))
    return build_plan(ops, ranks, rows=rows)


def test_calls_that_are_merged_are_carried_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data of an alltoall, in many pieces."""
    monkeypatch.setattr(scripting, "_PIECE_BYTES", 4)
    script = compile_plan(merging(RANKS))
    assert {motif.native for op in script.ops for motif in op.motifs} == {True, False}
    assert len(script.submits) == 2 * len(script.ops)
    assert not any(op.as_made for op in script.ops)
    found = outcome(tmp_path, format_script(script), "3", "2:uneven", release="newest")
    assert found == {("0", "True", str(3 * len(script.submits)))}


def test_missing_merged_call_is_a_cut_on_all_ranks(tmp_path: Path) -> None:
    """Some ranks lack a call in steps 1 and 3. In step 5 one waits for a half."""
    script = compile_plan(merging(2, ("allreduce", "alltoall")))
    words = ("8", "1:less", "3:more", "5:early")
    done = ended(tmp_path, format_script(script), *words, ranks=2)
    assert finished(done) == [f"{rank} 3 True {8 * len(script.submits)}" for rank in range(2)]


def test_executor_reports_its_carriers(tmp_path: Path) -> None:
    given = [one for one in build_ops(2) if one[0].id in ("alltoall-0", "alltoall-1", "reduce-0")]
    sums = [replace(build_ops(2)[0][0], id=name) for name in "ab"]
    plan = build_plan([*given, *((op, "whole") for op in sums)], 2, rows={("a", "b"): "merge"})
    done = ended(tmp_path, format_script(compile_plan(plan)), "2", "1:uneven", ranks=2)
    finished(done)
    told = {line for line in done.stderr.splitlines() if line.startswith("sccl: rank 1: all_")}
    assert done.stderr.count("sccl: calls that the plan covers go over gloo, and without") == 1
    assert told == {
        *(f"sccl: rank 1: {name}: bundle" for name in ("all_reduce", "all_to_all_single")),
        "sccl: rank 1: all_to_all_single: gloo, as planned, whole",
        "sccl: rank 1: all_to_all_single: gloo, as planned, each block in parts",
        "sccl: rank 1: all_reduce: gloo, as planned, 2 calls as one",
    }


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (
            "dies",
            "CallError: allreduce-1: all_reduce of 24 float32 by ranks 0, 1 failed, rank 1 is gone",
        ),
        pytest.param(
            "stands",
            r"ToolError: allreduce-1 \(allreduce\) by ranks 0, 1 .* rank 1 has not reached",
            marks=pytest.mark.nightly,
        ),
        (
            "unseen",
            r"RuntimeError: .* ToolError: allreduce-1 \(allreduce\) .* rank 1 has not reached",
        ),
    ],
)
def test_rank_that_is_gone_is_told_and_not_waited_for(how: str, told: str, tmp_path: Path) -> None:
    ops = [(replace(build_ops(2)[0][0], id=f"allreduce-{k}"), "whole") for k in range(2)]
    script = compile_plan(build_plan(ops, 2, ahead={"allreduce-0": 1}))
    (tmp_path / "script.json").write_text(format_script(script))
    env = {"PYTHONPATH": autoloading(tmp_path), "SCCL_SCRIPT": str(tmp_path / "script.json")}
    (line,) = finished(run_job("oldest", 2, "torch_failing.py", how, env=env))
    assert re.match(told, line), line
