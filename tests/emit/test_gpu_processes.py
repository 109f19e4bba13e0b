"""CUDA projects on emulated GPUs, with a process for each rank: the library is that of GPUs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sccl.emit import EmitOptions, generate, write_project
from sccl.emit.shared import TRANSPORTS
from tests.emit.test_gpu import UNOPTIMISED
from tests.kit import once
from tests.kit.found import frontier
from tests.kit.paths import PROGRAMS
from tests.kit.projects import launch, make, mpich, tool

COLLECTIVES = ("allgather", "allreduce", "alltoall", "gather")


def emulated(transport: str = "kernel") -> Path:
    """Return the emulated library of a ring of four GPUs, its bench, and programs of users."""

    def fill(directory: Path) -> None:
        algorithms = [frontier("ring:4", name)[0] for name in COLLECTIVES]
        write_project(directory, generate(algorithms, "cuda", EmitOptions(transport=transport)))
        make(directory, "emulated", UNOPTIMISED)
        source = str(PROGRAMS / "on_emulated_gpus.cpp")
        flags = ["-O0", "-std=c++17", "-DSCCL_EMULATED", "-rdynamic", "-pthread"]
        into = str(directory / "emulated" / "user")
        command = [mpich().compiler, *flags, "-I", str(directory), source, "-o", into]
        subprocess.run(command, check=True)

    tool("make", "install it")
    return once.folder(f"emulated-{transport}", fill) / "emulated"


def user(name: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of a user on four ranks, with the library before MPI's."""
    settings = {"LD_PRELOAD": str(folder / "libsccl.so"), "SCCL_DEBUG": "1", **environment}
    return launch(mpich(), 4, [str(folder / "user"), name], **settings)


@pytest.mark.parametrize(
    "transport", [pytest.param(t, marks=[pytest.mark.nightly] * (t == "dma")) for t in TRANSPORTS]
)
def test_every_program_between_processes(transport: str) -> None:
    bench = str(emulated(transport) / "bench")
    done = launch(mpich(), 4, [bench, "--each", "--repeat", "0", "--counts", "17,70001"])
    assert done.returncode == 0, done.stderr
    assert "WRONG" not in done.stderr
    for name in COLLECTIVES:
        assert f"# sccl {name}, 4 ranks" in done.stdout


def test_what_is_preloaded_serves_memory_of_gpus() -> None:
    """Buffers are freed and allocated again, at addresses and under handles that were known."""
    for landing in "ed":
        select = ";".join(f"{name}:0=0{landing}" for name in COLLECTIVES)
        done = user("plain_mpi", emulated(), SCCL_SELECT=select)
        assert done.returncode == 0, done.stderr
        assert "plain_mpi is done" in done.stdout
        for name in ("allgather", "allreduce"):
            assert f"{name} of 4 bytes served by" in done.stderr
        assert ("direct" in done.stderr) == (landing == "d")


def test_ranks_that_disagree_about_a_call_get_no_data() -> None:
    """No deadline is set: what they say at its beginning is enough."""
    select = ";".join(f"{name}:0=0e" for name in COLLECTIVES)
    done = user("calls_differ", emulated(), SCCL_SELECT=select)
    assert done.returncode == 0, done.stderr
    assert "calls_differ is done" in done.stdout
    assert "ranks have to make the same calls" in done.stderr
