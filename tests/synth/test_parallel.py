"""Several at a time: workers that die, a sweep that stays the same, a real Dask cluster."""

from __future__ import annotations

import errno
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.collectives import named
from sccl.core.answer import Sat
from sccl.core.candidate import Range
from sccl.core.instance import Instance
from sccl.errors import ParameterError, SolverError, ToolError
from sccl.solvers.interrupt import run_interruptible
from sccl.solvers.workers import Workers
from sccl.synth.ahead import Ahead
from sccl.synth.allreduce.plain import frontier_json
from sccl.synth.answering import How, answer_text, answering
from sccl.synth.ksync import backends, portfolio
from sccl.synth.ksync.child import Child
from sccl.synth.ksync.sweep import sweep
from sccl.topo import resolve
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S, Pipe, wait_for_end

HOW = How(backends.solve, "cpsat", "none", backends.Effort())


def sweep_with(jobs: int, collective: str = "allgather", machine: str = "dgx1") -> dict[str, Any]:
    topology = resolve(machine)
    with answering(HOW, jobs, None, None) as (solve, expect):
        found = sweep(
            topology,
            named(collective, topology.ranks),
            solve,
            solver="cpsat",
            covered=Range(k=3, max_steps=3),
            expect=expect,
        )
    result: dict[str, Any] = timeless(frontier_json(found))
    return result


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in {"seconds", "file"}}
    return [timeless(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("collective", ["allgather", "gather"])
def test_a_parallel_sweep_is_the_serial_one(collective: str) -> None:
    assert sweep_with(3, collective) == sweep_with(1, collective)


def test_the_command_gives_the_same(tmp_path: Path) -> None:
    def run(*more: str) -> tuple[Any, dict[str, bytes]]:
        folder = tmp_path / "-".join(more)
        arguments = ["pareto", "--collective", "allgather", "--topo", "dgx1", "--json", "--out"]
        result = CliRunner().invoke(app, [*arguments, str(folder), "--no-store", *more])
        assert result.exit_code == 0, result.output
        return timeless(json.loads(result.stdout)), {
            path.name: path.read_bytes() for path in folder.iterdir()
        }

    assert run("--jobs", "1") == run("--jobs", "2")


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
    with Workers(2) as workers:
        others = [workers.submit(os.getpid) for _ in range(4)]
        assert result_of(workers.submit(die_once, str(tmp_path / "x"))) == "survived"
        assert all(result_of(f) for f in others)
        with pytest.raises(SolverError, match="died 3 times"):
            result_of(workers.submit(die))
        with pytest.raises(SolverError, match="ValueError: no"):
            result_of(workers.submit(complain))


def test_what_runs_can_be_abandoned(tmp_path: Path) -> None:
    with Workers(1) as workers:
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
from sccl.solvers.workers import Workers
from tests.synth.test_parallel import hold
from sccl.cli import report, signals
@report.reported
def work():
    with Workers(2) as workers:
        workers.submit(hold, sys.argv[1])
        workers.submit(hold, sys.argv[1]).result()
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
signals.listen()
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


def instance(rounds: int) -> Instance:
    return Instance(resolve("ring:4"), named("allgather", 4).at(1), 2, rounds)


def test_only_what_is_expected_stays() -> None:
    started: list[str] = []
    given_up: list[Future[str]] = []

    class Slow(Workers):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            started.append(args[0])
            return super().submit(fn, *args, **kwargs)

        def abandon(self, future: Future[Any]) -> None:
            given_up.append(future)
            super().abandon(future)

    from functools import partial

    with Slow(2) as workers:
        ahead = Ahead(workers, partial(answer_text, HOW), 2)
        ahead.expect(instance(r) for r in (2, 3, 4))
        assert len(started) == 2
        first = ahead.solve(instance(2))
        assert isinstance(first, Sat)
        ahead.expect([instance(5)])
        assert len(started) == 3
        assert set(ahead.futures) == {started[2]}
        ahead.close()


def no_process(*_: object, **__: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_worker_that_cannot_start_is_told_to_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Workers.__module__], "start", no_process)
    with Workers(2) as workers:
        for future in [workers.submit(os.getpid) for _ in range(4)]:
            with pytest.raises(ToolError, match=r"cannot start a worker .*Too many open"):
                result_of(future)
    command = ["pareto", "--collective", "allgather", "--topo", "dgx1", "--no-store"]
    result = CliRunner().invoke(app, [*command, "--jobs", "4"])
    assert result.exit_code == 4
    assert result.stderr.splitlines()[-1].startswith("failed: cannot start a worker (Too many")


def test_threads_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(ToolError, match=r"cannot start a worker .*new thread"):
        Workers(2)
    with pytest.raises(ToolError, match="can't start new thread"):
        run_interruptible(int, lambda: None)
    with pytest.raises(ToolError, match="can't start new thread"):
        portfolio.answer(instance(2), backends.Effort())


def test_a_task_that_cannot_be_sent_is_told_to_who_waits() -> None:
    with Workers(1) as workers:
        with pytest.raises(SolverError, match="pickle"):
            result_of(workers.submit(os.kill, threading.Lock(), 0))  # type: ignore[arg-type]
        assert result_of(workers.submit(os.getpid))


def test_a_solver_whose_watcher_breaks_is_a_solver_that_broke(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Child, "answer", no_process)
    with pytest.raises(SolverError, match="Too many open files"):
        portfolio.answer(instance(2), backends.Effort())


def test_an_interrupt_before_the_solver_has_begun_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_: threading.Thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(int, lambda: None)


def test_numbers_of_jobs() -> None:
    for jobs in (0, -1, 10**6):
        with pytest.raises(ParameterError, match="jobs is"), answering(HOW, jobs, None, None):
            pass


# --- a cluster -----------------------------------------------------------------------------------


def dask(*arguments: str, **more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), **more},
    )


class Dask:
    """A scheduler and workers of one thread, which say when a solver begins; see ``telling.py``."""

    def __init__(self, folder: Path, workers: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.pipe = Pipe(folder / "pipe")
        told = {"SCCL_TESTS_PIPE": str(self.pipe.path)}
        options = ["--no-dashboard"]
        self.scheduler = dask("scheduler", "--host", "127.0.0.1", "--port", str(port), *options)
        more = ["--nthreads", "1", "--no-nanny", "--local-directory", str(folder)]
        more += ["--preload", "tests.programs.telling", *options]
        self.workers = [dask("worker", self.address, *more, **told) for _ in range(workers)]

    def wait_for_query(self, query: str) -> int:
        """Wait until a solver begins with a query, and return the worker's process."""
        while not (line := self.pipe.line()).endswith(query):
            pass
        return int(line.split()[0])

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()  # a worker that is told to end may wait long for its scheduler
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    pytest.importorskip("distributed")
    found = Dask(tmp_path_factory.mktemp("dask"), 2)
    try:
        wait_for(found.address, 2)
        yield found
    finally:
        found.end()


def client_of(address: str) -> Any:
    dask: Any = importlib.import_module("distributed")
    return dask.Client(address, timeout="60s", set_as_default=False)


def wait_for(address: str, workers: int) -> None:
    with client_of(address) as client:
        client.wait_for_workers(workers, timeout=60)


def cluster_command(address: str, collective: str = "allgather") -> list[str]:
    return ["pareto", "--collective", collective, "--topo", "dgx1", "--json", "--no-store",
            "--max-steps", "3", "--cluster", address]  # fmt: skip


def test_a_cluster_gives_the_same(cluster: Dask) -> None:
    result = CliRunner().invoke(app, cluster_command(cluster.address, "gather"))
    assert result.exit_code == 0, result.output
    alone = CliRunner().invoke(app, cluster_command(cluster.address, "gather")[:-2])
    assert timeless(json.loads(result.stdout)) == timeless(json.loads(alone.stdout))


def test_a_worker_killed_while_its_solver_is_at_work_loses_nothing(cluster: Dask) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sccl", *cluster_command(cluster.address)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=ROOT,
    )  # fmt: skip
    os.kill(cluster.wait_for_query("allgather 3"), signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    alone = CliRunner().invoke(app, cluster_command(cluster.address)[:-2])
    assert timeless(json.loads(out)) == timeless(json.loads(alone.stdout))


def test_a_scheduler_that_is_killed_is_a_sentence_and_the_store_keeps_what_was_done(
    tmp_path: Path,
) -> None:
    pytest.importorskip("distributed")
    cluster = Dask(tmp_path, 1)
    says, hears, store = Pipe(tmp_path / "says"), Pipe(tmp_path / "hears"), tmp_path / "s.sqlite"
    command = [*cluster_command(cluster.address), "--store", str(store)]
    command.remove("--no-store")
    try:
        wait_for(cluster.address, 1)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.programs.step_by_step", says.path, hears.path, *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=ROOT,
        )  # fmt: skip
        assert says.line() == "kept"
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        hears.path.open("w").write("go on\n")
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        cluster.end()
    assert process.returncode == 4
    assert json.loads(out)["error"]["exit_code"] == 4
    assert err.startswith(f"failed: the Dask scheduler at {cluster.address} does not answer any")
    assert len(err.splitlines()) == 1
    arguments = [word for word in cluster_command("x")[:-2] if word != "--no-store"]
    again = CliRunner().invoke(app, [*arguments, "--store", str(store)])
    assert again.exit_code == 0
    assert [p["from_store"] for p in json.loads(again.stdout)["points"]] == [True, False]


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, cluster_command("tcp://127.0.0.1:1"))
    assert result.exit_code == 4
    assert "no Dask scheduler answers" in result.output
    result = CliRunner().invoke(app, cluster_command("nowhere://x"))
    assert result.exit_code == 2
    result = CliRunner().invoke(app, [*cluster_command("x")[:-2], "--tls-ca", str(tmp_path)])
    assert result.exit_code == 2
    assert "no --cluster" in result.output
