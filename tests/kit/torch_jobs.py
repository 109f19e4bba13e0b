"""Jobs of PyTorch under the oldest and the newest torch: some are started as users start them."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit.paths import PROGRAMS, ROOT
from tests.kit.processes import PATIENCE_S


def interpreter(release: str) -> Path:
    """Return the Python that has the oldest or newest torch; where there is none, skip the test.

    `make test` makes an environment for each.
    """
    found = ROOT / ".venv" / f"torch-{release}" / "bin" / "python"
    if not any(found.parent.parent.glob("lib/python*/site-packages/torch")):
        pytest.skip(f"torch is not in .venv/torch-{release}: run make test")
    return found


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return that of a job: this checkout, and what it is built upon, beside the job's torch."""
    paths = [str(ROOT), sysconfig.get_path("purelib")]
    own = {name: value for name, value in os.environ.items() if not name.startswith("SCCL_")}
    own |= {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    return {**own, "PYTHONWARNINGS": "ignore", **(extra or {})}


def torchrun(release: str, ranks: int) -> list[str]:
    """Return the words that start a job on this machine."""
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return [str(interpreter(release)), *words]


def run_job(
    release: str,
    ranks: int,
    program: str,
    *words: str,
    env: Mapping[str, str] | None = None,
    patience_s: float = PATIENCE_S,
    as_users_do: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a job of :mod:`tests.programs`, and return what it did.

    Args:
        as_users_do: by torchrun. Otherwise ranks are forked, so that torch is loaded once for all,
            which is most of what a short job takes.
    """
    forked = [str(interpreter(release)), str(PROGRAMS / "forked.py"), str(ranks)]
    return subprocess.run(
        [*(torchrun(release, ranks) if as_users_do else forked), str(PROGRAMS / program), *words],
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
