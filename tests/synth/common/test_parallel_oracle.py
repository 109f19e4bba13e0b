"""Several at a time: workers that die, a sweep that stays the same, a real Dask cluster."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.collectives import named_spec
from sccl.core.answer import Answer, Origin, Sat, Unsat
from sccl.core.files.algorithms import answer_to_wire
from sccl.core.files.frontiers import frontier_to_plain
from sccl.core.instance import Instance, SweepRange
from sccl.errors import ParameterError, ScclWarning, SolverError, ToolError
from sccl.solvers.effort import run_interruptible
from sccl.solvers.workers import WorkerPool
from sccl.synth.common.cluster import Cluster, open_connection
from sccl.synth.common.prefetch import Prefetcher
from sccl.synth.syncoll import solve as syncoll_solve
from sccl.synth.syncoll.oracle import QueryConfig, answer_json, open_oracle
from sccl.synth.syncoll.sweep import sweep
from sccl.topo import resolve_topology
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S, Pipe

HOW = QueryConfig("cpsat", "none", syncoll_solve.Effort())


def sweep_with(jobs: int, collective: str) -> dict[str, Any]:
    topology = resolve_topology("dgx1")
    with open_oracle(HOW, jobs) as oracle:
        found = sweep(
            topology,
            named_spec(collective, topology.ranks),
            oracle.answer,
            solver="cpsat",
            covered=SweepRange(k=3, max_steps=3),
            prefetch=oracle.prefetch,
        )
    result: dict[str, Any] = timeless(frontier_to_plain(found))
    return result


def timeless(value: Any) -> Any:
    """Return JSON without times, and without where answers came from."""
    if isinstance(value, dict):
        left_out = {"seconds", "file", "origin", "rests_on"}
        return {k: timeless(v) for k, v in value.items() if k not in left_out}
    return [timeless(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("collective", ["allgather", "gather"])
def test_parallel_sweep_is_the_serial_one(collective: str) -> None:
    assert sweep_with(3, collective) == sweep_with(1, collective)


def test_command_gives_the_same(tmp_path: Path) -> None:
    def run(*more: str) -> tuple[Any, dict[str, bytes]]:
        folder = tmp_path / "-".join(more)
        arguments = ["pareto", "--collective", "allgather", "--topo", "dgx1", "--json", "--output"]
        result = CliRunner().invoke(app, [*arguments, str(folder), "--no-store", *more])
        assert result.exit_code == 0, result.output
        return timeless(json.loads(result.stdout)), {
            path.name: path.read_bytes() for path in folder.iterdir()
        }

    assert run("--jobs", "1") == run("--jobs", "2")


def instance(rounds: int) -> Instance:
    return Instance(resolve_topology("ring:4"), named_spec("allgather", 4).at(1), 2, rounds)


def answered_or_held(pipe: str, text: str) -> str:
    if json.loads(text)["rounds"] == 3:
        with Path(pipe).open("w") as file:
            file.write("held\n")
        signal.pause()
    return answer_json(HOW, text)


def test_only_what_is_expected_stays(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path / "pipe")
    started: list[str] = []
    given_up: list[Future[str]] = []

    class Slow(WorkerPool):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            started.append(args[0])
            return super().submit(fn, *args, **kwargs)

        def abandon(self, future: Future[Any]) -> None:
            given_up.append(future)
            super().abandon(future)

    with Slow(2) as workers:
        ahead = Prefetcher(workers, partial(answered_or_held, str(pipe.path)), 2)
        ahead.prefetch(instance(r) for r in (2, 3, 4))
        assert len(started) == 2
        first = ahead.solve(instance(2))
        assert isinstance(first, Sat)
        assert pipe.line() == "held"
        ahead.prefetch([instance(5)])
        assert len(started) == 3
        assert set(ahead.futures) == {started[2]}
        assert len(given_up) == 1  # the held query
        ahead.close()


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_threads_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(ToolError, match=r"cannot start a worker .*new thread"):
        WorkerPool(2)
    with pytest.raises(ToolError, match="can't start new thread"):
        run_interruptible(int, lambda: None)


def test_numbers_of_jobs() -> None:
    for jobs in (0, -1, 10**6):
        with pytest.raises(ParameterError, match="jobs is"), open_oracle(HOW, jobs):
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
    """A scheduler and single-threaded workers that report solver starts (``telling.py``)."""

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
            process.kill()  # a worker that should end may wait long for its scheduler
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
            "--max-steps", "3", "--trust-cluster", "--cluster", address]  # fmt: skip


def test_cluster_gives_the_same(cluster: Dask) -> None:
    result = CliRunner().invoke(app, cluster_command(cluster.address, "gather"))
    assert result.exit_code == 0, result.output
    alone = CliRunner().invoke(app, cluster_command(cluster.address, "gather")[:-2])
    assert timeless(json.loads(result.stdout)) == timeless(json.loads(alone.stdout))


def test_worker_killed_while_its_solver_is_at_work_loses_nothing(cluster: Dask) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sccl", *cluster_command(cluster.address, "broadcast")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=ROOT,
    )  # fmt: skip
    os.kill(cluster.wait_for_query("broadcast 3"), signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    alone = CliRunner().invoke(app, cluster_command(cluster.address, "broadcast")[:-2])
    assert timeless(json.loads(out)) == timeless(json.loads(alone.stdout))


def test_scheduler_that_is_killed_is_a_sentence_and_the_store_keeps_what_was_done(
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
    warning, failure = err.splitlines()
    assert warning.startswith(f"warning: the cluster at {cluster.address} is used without TLS: ")
    assert failure.startswith(f"failed: the Dask scheduler at {cluster.address} no longer answers")
    arguments = [word for word in cluster_command("x")[:-2] if word != "--no-store"]
    again = CliRunner().invoke(app, [*arguments, "--store", str(store)])
    assert again.exit_code == 0
    assert [p["from_store"] for p in json.loads(again.stdout)["points"]] == [True, False]


class LyingExecutor(Executor):
    """Answers every instance of a lying worker at once."""

    def __init__(self, reply: str) -> None:
        self.reply = reply

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        future: Future[str] = Future()
        future.set_result(self.reply)
        return future


def answer_of_a_lying_cluster(
    monkeypatch: pytest.MonkeyPatch, reply: Answer, asked: Instance, *trusted: Origin
) -> Answer:
    @contextmanager
    def connected(_: Cluster) -> Iterator[Any]:
        text = msgspec.json.encode(answer_to_wire(reply)).decode()
        yield SimpleNamespace(
            executor=LyingExecutor(text),
            cores=1,
            check_alive=lambda: None,
            failure_error=lambda error: error,
            address="tcp://nowhere:1",
        )

    monkeypatch.setattr("sccl.synth.common.cluster.open_connection", connected)
    there = Cluster("tcp://nowhere:1")
    with open_oracle(HOW, 1, there, None, frozenset(trusted)) as oracle:
        return oracle.answer(asked)


def test_unsat_of_a_cluster_is_marked_unless_bounds_verify_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lie = Unsat("believe me", "cpsat", 0.1)
    too_many = Instance(resolve_topology("ring:4"), named_spec("allgather", 4).at(5), 2, 2)
    found = answer_of_a_lying_cluster(monkeypatch, lie, instance(2))
    assert isinstance(found, Unsat)
    assert (found.origin, found.is_accepted) == (Origin.CLUSTER, False)
    found = answer_of_a_lying_cluster(monkeypatch, lie, instance(2), Origin.CLUSTER)
    assert isinstance(found, Unsat)
    assert (found.origin, found.is_accepted) == (Origin.CLUSTER, True)
    found = answer_of_a_lying_cluster(monkeypatch, lie, too_many)
    assert isinstance(found, Unsat)
    assert (found.origin, found.solver) == (Origin.THIS_PROCESS, "cut")


def test_algorithm_of_a_cluster_for_another_instance_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = syncoll_solve.solve(instance(3))
    assert isinstance(other, Sat)
    with pytest.raises(SolverError, match="not valid for the instance"):
        answer_of_a_lying_cluster(monkeypatch, other, instance(2))


def test_cluster_without_tls_costs_a_warning(
    cluster: Dask,
) -> None:
    says = "without TLS: anyone who reaches its scheduler can run code"
    with pytest.warns(ScclWarning, match=says), open_connection(Cluster(cluster.address)):
        pass
    assert Cluster("tcp://a:1", ca_file=Path("ca.pem")).is_encrypted


def test_cluster_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sccl.synth.common.cluster._CONNECT_TIMEOUT", "1s")
    result = CliRunner().invoke(app, cluster_command("tcp://127.0.0.1:1"))
    assert result.exit_code == 4
    assert "no Dask scheduler answers" in result.output
    result = CliRunner().invoke(app, cluster_command("nowhere://x"))
    assert result.exit_code == 2
    result = CliRunner().invoke(app, [*cluster_command("x")[:-2], "--tls-ca", str(tmp_path)])
    assert result.exit_code == 2
    assert "without --cluster" in result.output
