"""Jobs that make it hard: torch's services, random calls of uneven ranks, ranks that are struck."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sccl.torch_backend.jobs.compile_plan import compile_plan
from sccl.torch_backend.script import format_script
from sccl.training.types.workload_ops import CommOp
from tests.kit.planned_jobs import build_ops, build_plan
from tests.kit.processes import PATIENCE_S
from tests.kit.torch_jobs import autoloading, finished, run_job

RANKS = 4


@pytest.mark.parametrize(
    ("release", "ranks"), [("oldest", 2), pytest.param("newest", 4, marks=pytest.mark.nightly)]
)
def test_torch_wrappers_equal_gloo(release: str, ranks: int, tmp_path: Path) -> None:
    # Bundles add up in another order than gloo, which two ranks' sums don't show.
    bundles = "" if ranks == 2 else "0"
    env = {"PYTHONPATH": autoloading(tmp_path), "TMPDIR": str(tmp_path), "SCCL_BUNDLES": bundles}
    lines = [
        line.split() for line in finished(run_job(release, ranks, "torch_services.py", env=env))
    ]
    assert len(lines) == 18 * ranks
    assert [line for line in lines if line[2] != line[3]] == []


@pytest.mark.parametrize(
    ("release", "ranks", "steps"),
    [("newest", 3, 400), pytest.param("oldest", 4, 10_000, marks=pytest.mark.nightly)],
)
def test_random_calls_of_uneven_ranks(release: str, ranks: int, steps: int, tmp_path: Path) -> None:
    env = {"PYTHONPATH": autoloading(tmp_path)}
    words = (str(steps), "a seed")
    done = run_job(release, ranks, "torch_random.py", *words, env=env, patience_s=10 * PATIENCE_S)
    right = [tuple(map(int, line.split())) for line in finished(done)]
    assert len(right) == ranks
    assert min(main for main, _ in right) > steps // 2
    assert min(aside for _, aside in right) > steps // 10


WHERES = {
    "call": "all_reduce of 2000000 float32",
    "several": "all_reduce of 500000 float32",
    "exchange": r"all_to_all of \d+ float32",
    "between_two": "(recv|send) of 2000000 float32",
    "planned": r"allreduce-\d( \(allreduce\)|: all_reduce of \d+ \w+)",
}
BY_DAY = [("call", "stopped", 0), ("planned", "killed", 2)]
BY_NIGHT = [case for case in itertools.product(WHERES, ("killed", "stopped"), (0, 2))
            if case not in BY_DAY]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "how", "victim"),
    [*BY_DAY, *(pytest.param(*case, marks=pytest.mark.nightly) for case in BY_NIGHT)],
)
def test_ranks_that_are_struck_are_named_by_all_others(
    where: str, how: str, victim: int, tmp_path: Path
) -> None:
    """Also rank 0, which holds the job's store then."""
    script = compile_plan(build_plan(build_ops(RANKS)[:3], RANKS))
    (tmp_path / "script.json").write_text(format_script(script))
    env = {"SCCL_BUNDLES": "0"}
    if where == "planned":
        env["SCCL_SCRIPT"] = str(tmp_path / "script.json")
    state = {"killed": "gone", "stopped": "stopped"}[how]
    told = finished(run_job("newest", 1, "torch_struck.py", where, how, str(victim), env=env))
    assert [int(line.split()[0]) for line in told] == [k for k in range(RANKS) if k != victim]
    for line in told:
        assert re.search(rf"Error: .*{WHERES[where]}.* by ranks 0, 1, 2, 3", line), line
        gone = re.search(rf"ranks? ([\d, ]*) (?:is|are) {state}", line)
        assert gone, line
        assert str(victim) in gone[1].split(", "), line


SHAPES: Mapping[str, Sequence[tuple[str, str | None]]] = {
    "data_parallel": [("allreduce", "sum")],
    "fully_sharded": [("allgather", None), ("reducescatter", "avg")],
}
"""Collectives of a step of training, with their reductions."""

MODES = ("bundles", "recording", "plan")
TRAINED = [
    ("data_parallel", "killed", "bundles", 3),
    ("data_parallel", "late", "bundles", 3),
    ("data_parallel", "stopped", "recording", 0),
    ("fully_sharded", "late", "plan", 3),
]
TRAINED_BY_NIGHT = [
    case
    for case in itertools.product(SHAPES, ("killed", "late", "stopped"), MODES, (0, 3))
    if case not in TRAINED
]


def mode_of(mode: str, model: str, folder: Path) -> dict[str, str]:
    """Return the environment in which a model is trained under bundles, a recording, or a plan."""
    if mode == "bundles":
        return {}
    if mode == "recording":
        return {"SCCL_RECORD": str(folder)}
    ranks = tuple(range(RANKS))
    ops = [
        CommOp(collective, collective, ranks, 4160, "float32", reduce=reduce)
        for collective, reduce in SHAPES[model]
    ]
    script = compile_plan(build_plan([(op, "whole") for op in ops], RANKS))
    (folder / "script.json").write_text(format_script(script))
    return {"SCCL_SCRIPT": str(folder / "script.json")}


@pytest.mark.parametrize(
    ("model", "how", "mode", "victim"),
    [*TRAINED, *(pytest.param(*case, marks=pytest.mark.nightly) for case in TRAINED_BY_NIGHT)],
)
def test_training_ends_in_a_sentence_that_names_the_rank_that_is_struck(
    model: str, how: str, mode: str, victim: int, tmp_path: Path
) -> None:
    """The reducer of DistributedDataParallel reads futures in C++, and FSDP2 waits in Python."""
    release = "newest" if victim else "oldest"
    env = {"SCCL_DEBUG": "1", **mode_of(mode, model, tmp_path)}
    done = run_job(release, 1, "torch_struck.py", model, how, str(victim), env=env)
    failures = {int(line.split()[0]): line for line in finished(done)}
    others = [rank for rank in range(RANKS) if rank != victim]
    assert sorted(failures) == (sorted([*others, victim]) if how == "late" else others)
    for line in failures.values():
        assert re.search(r"Error: .* by ranks 0, 1, 2, 3", line), line
    state = {"killed": "gone", "stopped": "stopped", "late": "late"}[how]
    for rank in others:
        named = re.search(rf"ranks? ([\d, ]*) (?:is|are) {state}", failures[rank])
        assert named, failures[rank]
        assert str(victim) in named[1].split(", "), failures[rank]
    if mode == "plan":
        assert "as planned" in done.stderr


BADLY = """
import sys
from datetime import timedelta
import torch.distributed as dist

def begin(**how):
    try:
        dist.init_process_group("sccl", **how)
    except Exception as error:
        sys.stdout.write(f"{type(error).__name__}: {str(error).splitlines()[0]}\\n")

soon = {"world_size": 2, "timeout": timedelta(seconds=1)}
begin(init_method="tcp://127.0.0.1:1", rank=1, **soon)
begin(init_method="tcp://127.0.0.1:0", rank=0, **soon)
begin()
begin()
"""


def test_groups_that_cannot_be_made_are_told_in_a_sentence(tmp_path: Path) -> None:
    """A store that is not there, ranks that don't come, and a second group of all ranks."""
    env = {"PYTHONPATH": autoloading(tmp_path)}
    told = sorted(finished(run_job("newest", 1, "run_code.py", BADLY, env=env)))
    assert len(told) == 3
    for line, start in zip(told, ("DistNetworkError: The client", "DistStoreError: Timed out",
                                  "ValueError: trying to initialize"), strict=True):  # fmt: skip
        assert line.startswith(start)
