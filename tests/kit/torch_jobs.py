"""Jobs of PyTorch under the oldest and the newest torch: some are started as users start them."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sysconfig
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit.paths import PROGRAMS, ROOT
from tests.kit.processes import PATIENCE_S


def interpreter(release: str) -> Path:
    """Return the Python with the oldest or newest torch, and skip the test without it.

    `make test-rest` makes an environment for each.
    """
    found = ROOT / ".venv" / f"torch-{release}" / "bin" / "python"
    if not any(found.parent.parent.glob("lib/python*/site-packages/torch")):
        pytest.skip(f"torch is not in .venv/torch-{release}: run make test-rest")
    return found


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a job: this checkout, its dependencies, and the job's torch."""
    paths = [str(ROOT), sysconfig.get_path("purelib")]
    own = {name: value for name, value in os.environ.items() if not name.startswith("SCCL_")}
    own |= {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    return {**own, "PYTHONWARNINGS": "ignore", **(extra or {})}


def torchrun(release: str, ranks: int) -> list[str]:
    """Return the words that start a job on this machine."""
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return [str(interpreter(release)), *words]


class _Forking:
    """A process that has loaded a release of torch, and forks the ranks of one job at a time."""

    def __init__(self, release: str) -> None:
        self._process = subprocess.Popen(
            [str(interpreter(release)), str(PROGRAMS / "forked.py")],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # unbuffered, so that a wait sees every answer
            start_new_session=True,  # Ctrl-C is ours, and ends its job as below
        )
        atexit.register(self.end)

    def run(
        self, ranks: int, words: list[str], env: dict[str, str], patience_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a job and return its result.

        Raises:
            subprocess.TimeoutExpired: It took longer, and was killed.
        """
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            out.touch()
            err.touch()
            job = {"ranks": ranks, "words": words, "env": env, "folder": str(Path.cwd())}
            job |= {"out": str(out), "err": str(err)}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            group = self._answer(patience_s)
            try:
                code = self._answer(patience_s)
            except BaseException:  # Ctrl-C, too
                os.killpg(group, signal.SIGKILL)
                self._answer(patience_s)
                raise
            return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())

    def _answer(self, patience_s: float) -> int:
        answers = self._process.stdout
        assert answers is not None
        if not select.select([answers], [], [], patience_s)[0]:
            raise subprocess.TimeoutExpired("a job of torch", patience_s)
        return int(answers.readline())

    def end(self) -> None:
        """Let it end, as there are no more jobs."""
        self._process.communicate()


_forking = functools.cache(_Forking)


def run_job(
    release: str,
    ranks: int,
    program: str,
    *words: str,
    env: Mapping[str, str] | None = None,
    patience_s: float = PATIENCE_S,
    as_users_do: bool = False,
    restarts: int = 0,
) -> subprocess.CompletedProcess[str]:
    """Run a job of :mod:`tests.programs` and return its result.

    Args:
        as_users_do: Whether to use torchrun. Otherwise ranks are forked from a process that has
            loaded torch and sccl, as installed, because loading is most of the time of a short job.
        restarts: Number of restarts by torchrun after a failure.
    """
    told = [str(PROGRAMS / program), *words]
    if not as_users_do:
        return _forking(release).run(ranks, told, environment(env), patience_s)
    return subprocess.run(
        [*torchrun(release, ranks), f"--max-restarts={restarts}", *told],
        env=environment(env),
        capture_output=True,
        text=True,
        check=False,
        timeout=patience_s,
    )


def finished(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines of a job that went well, in an order of their own."""
    assert done.returncode == 0, done.stderr[:6000]
    return sorted(done.stdout.splitlines())


def autoloading(folder: Path) -> str:
    """Return a PYTHONPATH with which torch finds sccl by itself, as where it is installed."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = told["entry-points"]["torch.backends"]
    about = folder / "sccl-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sccl\nVersion: 0\n")
    lines = [f"{name} = {where}" for name, where in points.items()]
    (about / "entry_points.txt").write_text("\n".join(["[torch.backends]", *lines]) + "\n")
    return os.pathsep.join([str(folder), environment()["PYTHONPATH"]])
