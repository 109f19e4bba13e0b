"""CUDA and HIP projects: compiled, and their kernels run on threads of the host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sccl.collectives import custom
from sccl.core.answer import Sat
from sccl.core.files.shapes import CustomCollectiveWire
from sccl.emit import Options, generate, write_project
from sccl.runtime import find_mpi
from sccl.synth.ask import ask
from sccl.synth.ksync import backends
from sccl.topo import resolve
from sccl.topo.symmetry.expand import expand
from sccl.transform import pose
from tests.kit.found import frontier
from tests.kit.matrix import EIGHT, FOUR, Hard, all_of
from tests.kit.projects import tool

SHORT = tuple(h for h in EIGHT if h.topology == "dgx1" and h.shape[0] < 48)
"""Those of DGX-1 but for the longest, which are compiled and run on the host only."""

COMPILED = tuple(h for h in SHORT if h.shape[0] in {2, 24})
"""What nvcc compiles in a minute: allgather, gather, alltoall and an allreduce by trees."""


def make(directory: Path, *words: str, **environment: str) -> str:
    """Run make in a project and return all it printed."""
    mpi = find_mpi(Path(sys.executable).parent)
    done = subprocess.run(
        [tool("make", "install it"), "-C", str(directory), f"MPICXX={mpi.compiler}", *words],
        env={**mpi.environment(), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def project(
    directory: Path,
    target: str,
    rows: Sequence[Hard] = COMPILED,
    options: Options | None = None,
) -> Path:
    write_project(directory, generate(all_of(rows), target, options))
    return directory


def test_nvcc_compiles_without_spills_and_16_bytes_wide(tmp_path: Path) -> None:
    nvcc = tool("nvcc", "install the CUDA toolkit")
    directory = project(tmp_path / "p", "cuda")
    report = make(directory, "ARCHS=80 90", "EXTRA=-Xptxas -v")
    assert "sm_80" in report
    assert "sm_90" in report
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert len(spills) > 50
    assert {n for pair in spills for n in pair} == {"0"}
    assert (directory / "libsccl.so").exists()
    assert (directory / "bench").exists()
    mpi = find_mpi(Path(sys.executable).parent)
    flags = ["-ccbin", mpi.compiler, "-std=c++17", "-arch=sm_90"]
    subprocess.run(
        [nvcc, *flags, "-ptx", "-x", "cu", "communicator.cpp", "-o", "communicator.ptx"],
        cwd=directory,
        env=mpi.environment(),
        check=True,
    )
    ptx = (directory / "communicator.ptx").read_text()
    send = ptx[ptx.index("Machine4send") :]
    assert re.search(r"ld\.v4\.\w32", send)
    assert re.search(r"st\.v4\.\w32", send)
    assert "membar.sys" in ptx or "fence.sc.sys" in ptx  # between data and flag


def test_a_v100_is_told_which_toolkit_it_needs(tmp_path: Path) -> None:
    nvcc = tool("nvcc", "install the CUDA toolkit")
    listed = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, check=True)
    shown = make(project(tmp_path / "p", "cuda"), "-n")
    assert ("sm_70" in listed.stdout) == ("sm_70," not in shown and "sm_70;" not in shown)
    if "sm_70" not in listed.stdout:
        assert "a V100 needs CUDA 12.9 or older" in shown


def test_hipcc_compiles_without_spills_and_16_bytes_wide(tmp_path: Path) -> None:
    hipcc = tool("hipcc", "apt-get install hipcc rocm-device-libs libamdhip64-dev")
    directory = project(tmp_path / "p", "hip")
    make(directory)
    assert (directory / "libsccl.so").exists()
    mpi = find_mpi(Path(sys.executable).parent)
    shown = subprocess.run(
        [mpi.compiler, "-show"], capture_output=True, text=True, check=True, env=mpi.environment()
    ).stdout
    includes = [word for word in shown.split() if word.startswith("-I")]
    flags = ["--hipcc-func-supp", "-O3", "-std=c++17", "--offload-arch=gfx906"]
    flags += ["--cuda-device-only"]
    subprocess.run(
        [hipcc, *flags, *includes, "-S", "-x", "hip", "communicator.cpp", "-o", "communicator.s"],
        cwd=directory,
        env={**os.environ, "HIP_PLATFORM": "amd"},
        check=True,
    )
    assembly = (directory / "communicator.s").read_text()
    spills = re.findall(r"[vs]gpr_spill_count: *(\d+)", assembly)
    assert spills
    assert set(spills) == {"0"}
    assert "flat_load_dwordx4" in assembly
    assert "flat_store_dwordx4" in assembly


@pytest.mark.parametrize(("target", "compiler"), [("cuda", "nvcc"), ("hip", "hipcc")])
def test_the_copy_engines_transport_compiles(tmp_path: Path, target: str, compiler: str) -> None:
    tool(compiler, "see the README")
    directory = project(tmp_path / "p", target, FOUR, Options(transport="dma"))
    make(directory, *(["ARCHS=90"] if target == "cuda" else []))
    assert (directory / "libsccl.so").exists()


WAYS = {
    "four ranks, one block": (FOUR, Options(1)),
    "four ranks, dma": (FOUR, Options(transport="dma")),
    "eight ranks, three blocks": (SHORT, Options(3)),
    "eight ranks, dma": (SHORT, Options(transport="dma")),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_kernels_on_threads(tmp_path: Path, way: str) -> None:
    """In loopback; HIP and CUDA are the same text here. Every algorithm runs, whatever its root."""
    directory = project(tmp_path / "p", "cuda", *WAYS[way])
    make(directory, "emulated")
    bench = [str(directory / "emulated" / "bench"), "--loopback", "--each"]
    for arguments in (
        ["--repeat", "3", "--counts", "1,100,1000,70001"],
        ["--repeat", "1", "--counts", "5,1000", "--type", "float16", "--op", "max"],
        ["--repeat", "1", "--counts", "5,1000", "--type", "bfloat16"],
        ["--repeat", "1", "--counts", "5,1000", "--type", "int8", "--op", "prod"],
    ):
        done = subprocess.run(
            [*bench, *arguments], capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr


def test_the_kernels_have_no_race(tmp_path: Path) -> None:
    """A slice must not touch another's part of a slot, even for chunks of unequal length."""
    directory = project(tmp_path / "p", "cuda", FOUR, Options(3))
    make(directory, "emulated", "EMULATION_FLAGS=-fsanitize=thread")
    bench = [str(directory / "emulated" / "bench"), "--loopback", "--each"]
    done = subprocess.run(
        [*bench, "--repeat", "1", "--counts", "100,1000,5001"],
        env={**os.environ, "UCX_MEM_EVENTS": "no"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "WARNING: ThreadSanitizer" not in done.stderr
    assert done.returncode == 0, done.stderr


def test_ranks_without_work_take_part(tmp_path: Path) -> None:
    """In a custom collective some ranks may neither send nor receive; their peers still look."""
    wire = CustomCollectiveWire(name="hop", ranks=4, pre=((0, 0),), post=((0, 1),))
    question = pose(resolve("ring:4"), custom(wire, "test"), 1, 1, 1)
    answer = ask(question, backends.solve)
    assert isinstance(answer, Sat)
    directory = tmp_path / "p"
    write_project(
        directory, generate([expand(answer.algorithm), *frontier("ring:4", "allgather")], "cuda")
    )
    make(directory, "emulated")
    done = subprocess.run(
        [str(directory / "emulated" / "bench"), "--loopback", "--counts", "1,500", "--repeat", "2"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "# sccl custom_hop, 4 ranks" in done.stdout
