"""Worker processes that die, are given up, cannot start, or lose their parent."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.errors import SolverError, ToolError
from sccl.solvers.workers import WorkerPool
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S, Pipe, wait_for_end


def die_once(path: str) -> str:
    if not Path(path).exists():
        Path(path).write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def complain() -> None:
    raise ValueError("no")


def result_of(future: Future[Any]) -> Any:
    return future.result(timeout=60)


def test_workers_that_die_are_replaced(tmp_path: Path) -> None:
    with WorkerPool(2) as workers:
        others = [workers.submit(os.getpid) for _ in range(4)]
        assert result_of(workers.submit(die_once, str(tmp_path / "x"))) == "survived"
        assert all(result_of(f) for f in others)
        with pytest.raises(SolverError, match="died 3 times"):
            result_of(workers.submit(die))
        with pytest.raises(SolverError, match="ValueError: no"):
            result_of(workers.submit(complain))


def test_running_task_can_be_abandoned(tmp_path: Path) -> None:
    with WorkerPool(1) as workers:
        process = result_of(workers.submit(os.getpid))
        pipe = Pipe(tmp_path / "pipe")
        long = workers.submit(hold, str(pipe.path))
        assert int(pipe.line()) == process
        workers.abandon(long)
        with pytest.raises(SolverError, match="given up"):
            result_of(long)
        assert result_of(workers.submit(os.getpid)) != process
        never = workers.submit(signal.pause)
    assert never.done()


def hold(pipe: str) -> None:
    with Path(pipe).open("w") as file:
        file.write(f"{os.getpid()}\n")
    signal.pause()


HOLDER = """
import signal, sys
import typer
from sccl.solvers.workers import WorkerPool
from tests.solvers.test_workers import hold
from sccl.cli import report, signals
@report.report_errors
def work():
    with WorkerPool(2) as workers:
        workers.submit(hold, sys.argv[1])
        workers.submit(hold, sys.argv[1]).result()
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
signals.install_handlers()
app = typer.Typer()
app.command()(work)
app(sys.argv[2:])
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_workers_end_with_whoever_is_killed(number: int, code: int, tmp_path: Path) -> None:
    pipe = Pipe(tmp_path / "pipe")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(pipe.path)], cwd=ROOT)
    workers = [int(pipe.line()) for _ in range(2)]
    holder.send_signal(number)
    assert holder.wait(PATIENCE_S) == code
    for worker in workers:
        wait_for_end(worker)


def no_process(*_: object, **__: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def test_worker_that_cannot_start_is_told_to_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[WorkerPool.__module__], "start_process", no_process)
    with WorkerPool(2) as workers:
        for future in [workers.submit(os.getpid) for _ in range(4)]:
            with pytest.raises(ToolError, match=r"cannot start a worker .*Too many open"):
                result_of(future)
    command = ["pareto", "--collective", "allgather", "--topo", "dgx1", "--no-store"]
    result = CliRunner().invoke(app, [*command, "--jobs", "4"])
    assert result.exit_code == 4
    assert result.stderr.splitlines()[-1].startswith("failed: cannot start a worker (Too many")


def test_task_that_cannot_be_sent_is_told_to_who_waits() -> None:
    with WorkerPool(1) as workers:
        with pytest.raises(SolverError, match="pickle"):
            result_of(workers.submit(os.kill, threading.Lock(), 0))  # type: ignore[arg-type]
        assert result_of(workers.submit(os.getpid))
