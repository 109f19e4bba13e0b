"""Running jobs switch plans: in one iteration on all ranks, even if processes stop or die."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sccl.torch_backend.jobs.compile_plan import compile_plan
from sccl.torch_backend.script import PlanScript, ScriptMotif, format_script
from tests.kit.nightly import is_night, times
from tests.kit.paths import PROGRAMS
from tests.kit.planned_jobs import build_ops, build_plan
from tests.kit.processes import PATIENCE_S, Pipe
from tests.kit.torch_jobs import autoloading, environment, finished, interpreter, run_job

RANKS = 2


def after_one_alone(script: PlanScript) -> PlanScript:
    """Return a script of which an iteration begins with a sum that each rank makes for itself."""
    groups = tuple((rank,) for rank in range(RANKS))
    native = ScriptMotif(channel=0, stream=0, native=True)
    changes = {"id": "alone", "groups": groups, "motifs": (native,), "as_made": True}
    alone = msgspec.structs.replace(script.ops[0], **changes)
    order = ((0, 0, 0), *((op + 1, motif, shift) for op, motif, shift in script.order))
    submits = ((0, 0), *((op + 1, call) for op, call in script.submits))
    ops = (alone, *script.ops)
    return msgspec.structs.replace(script, ops=ops, submits=submits, order=order)


@dataclass
class Run:
    """A job and the committers of its plans: two for its calls, and others that do not fit.

    Attributes:
        said: Reported decisions by committer.
    """

    folder: Path
    release: str = "oldest"
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        ops = build_ops(RANKS)
        own, other = [ops[0], ops[6]], [(replace(ops[0][0], count=50), "whole"), ops[6]]
        self.write("a", after_one_alone(compile_plan(build_plan(own, RANKS))))
        self.write("b", after_one_alone(compile_plan(build_plan(own, RANKS, first=2))))
        self.write("other", compile_plan(build_plan(other, RANKS)))
        self.write("four", compile_plan(build_plan(build_ops(4)[:1], 4)))
        self.write("none", PlanScript(ranks=RANKS))
        (self.folder / "damaged").write_text("{}")

    def write(self, name: str, script: PlanScript) -> None:
        (self.folder / name).write_text(format_script(script))

    def done(self, *words: str, lives: tuple[str, ...] = (), **more: str) -> list[str]:
        """Run a job with control commands, and return the output of its ranks at the end."""
        pipe = Pipe(self.folder / "pipe")
        env = {"PYTHONPATH": autoloading(self.folder)} | more
        program = ["torch_switching.py", str(self.folder / "a"), str(pipe.path), *lives]
        begun: dict[str, Any] = {"env": env, "as_users_do": bool(lives), "restarts": len(lives)}
        job = partial(run_job, self.release, RANKS, *program, **begun)
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(job)
            self.commit(pipe.line(), words, environment(env))
        return finished(ended.result())

    def commit(self, address: str, words: tuple[str, ...], env: dict[str, str]) -> None:
        """Say words to a job."""
        program = [str(interpreter(self.release)), str(PROGRAMS / "torch_committing.py"), address]
        said = subprocess.run(
            [*program, *words],
            check=False, env=env, cwd=self.folder,
            capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert said.returncode == 0, said.stderr[-4000:]
        self.said += said.stdout.splitlines()


def switches(lines: list[str]) -> tuple[list[int], str]:
    """Return to which versions all ranks switched, at the same calls, and if they keep to one."""
    ranks, planned, *switched = zip(*(line.split() for line in lines), strict=True)
    assert ranks == tuple(map(str, range(RANKS)))
    assert all(len(set(at)) == 1 for at in (planned, *switched)), lines
    return [int(at[0].partition(":")[2]) for at in switched], planned[0]


def test_job_switches_between_plans_without_a_stop(tmp_path: Path) -> None:
    """It begins without a plan, rejects unfit ones, and ends without one."""
    run = Run(tmp_path)
    lines = run.done(
        "commit:a",
        "seen:1",
        "propose:other",
        "propose:four",
        "propose:damaged",
        "commit:" + ",".join(["b", "a"] * times(8, by_day=3)),
        "commit:none",
        "end",
    )
    committed = [1, *range(5, 6 + 2 * times(8, by_day=3))]
    assert switches(lines) == (committed, "False")
    assert [line for line in run.said if "committed" in line] == [
        f"{k} committed" for k in committed
    ]
    rest = [line for line in run.said if "committed" not in line]
    assert rest[0] == "seen under 1"
    for line, why in zip(
        rest[1:],
        (
            "2 aborted: .*: the plan belongs to another job: it expects allreduce of 50 float32",
            "3 aborted: .*: the plan is for 4 ranks, and the job has 2",
            "4 aborted: .*: plan 4: no script of a plan",
        ),
        strict=True,
    ):
        assert re.match(why, line), line


@pytest.mark.parametrize("release", ["newest"])
def test_coordinator_may_die_at_any_moment(release: str, tmp_path: Path) -> None:
    """A later coordinator completes the decision, and the job continues meanwhile."""
    run = Run(tmp_path, release)
    moments = MOMENTS if is_night() else MOMENTS[1:3]
    lines = run.done(
        "dies:before-plan:b",
        "brief-settle",
        *(word for at in moments for word in (f"dies:{at}:b", "finish")),
        "end",
        SCCL_SCRIPT=str(tmp_path / "a"),
    )
    assert switches(lines) == ([*range(2, 2 + len(moments))], "True")
    assert run.said[0] == "1 aborted: no vote within 0.5 s of rank 0, 1"


MOMENTS = ("after-plan", "before-log", "after-log", "before-tell", "after-tell")
"""Each is a case of test_control.py, too, without processes: by day two are enough of these."""


@pytest.mark.nightly  # by day test_control.py and test_switch.py, without processes
def test_ranks_may_stop_or_die_at_any_moment(tmp_path: Path) -> None:
    """A restarted job ignores its former generations.

    Only the other ranks wait for a stopped rank, as always.
    """
    run = Run(tmp_path)
    lines = run.done(
        "brief-propose:b", "resume:1/unvoted", "resume:1/voted",
        *("propose:a", "resume:1/voted", "resume:1/committed", "finish"),
        *("ask:b", "anew:2", "ask:a", "anew:3", "ask:a", "settle", "anew:4"),
        *("commit:b", "end"),
        lives=(
            "1:stops-unvoted,stops-voted,stops-voted,stops-committed,dies-unvoted",
            "2:dies-voted",
            "3:dies-committed",
        ),
    )  # fmt: skip
    assert switches(lines) == ([1], "True")
    assert run.said[0] == "1 aborted: no vote within 0.5 s of rank 1"


def test_job_goes_on_without_its_store(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(interpreter("newest")), str(PROGRAMS / "torch_store_lost.py")],
        env=environment({"PYTHONPATH": autoloading(tmp_path)}),
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "['begun', 'begun'] 1 True [0, 0]\n"
    for rank in range(RANKS):
        said = re.findall(f"sccl: rank {rank}: .*: the job continues under its plan", done.stderr)
        assert len(said) == 1, done.stderr[-4000:]
