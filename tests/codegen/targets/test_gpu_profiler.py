"""The program that times GPUs: compiled for them, and run on GPUs that the host emulates."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sccl.codegen.project_writer import generate
from sccl.core.topology import BusIds
from sccl.errors import ToolError
from sccl.runtime.link_profile import GpuProfiler, LinkTrial, profiler_files
from sccl.topo.profiles.measurements import Pacing
from tests.kit import once
from tests.kit.easy_algorithms import frontier
from tests.kit.projects import make, tool

TRIAL = LinkTrial(2, ((0, 1), (1, 0)), (1024, 4096), (1, 3), 2)
EVERY = ((1, Pacing.IN_TURN), (3, Pacing.IN_TURN), (3, Pacing.AT_ONCE))


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("target", "compiler", "strict"),
    [
        ("cuda", "nvcc", "-Werror all-warnings -Xcompiler -Werror"),
        pytest.param("hip", "hipcc", "-Werror", marks=pytest.mark.nightly),
    ],
)
def test_gpu_profiler_compiles_without_warnings_and_counts_gpus(
    target: str, compiler: str, strict: str, tmp_path: Path
) -> None:
    tool(compiler, "see the README")
    make(written(tmp_path, profiler_files(target)), f"EXTRA={strict}", "gpus")
    hidden = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}
    said = subprocess.run(
        [tmp_path / "gpus"], env=os.environ | hidden, capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith('{"gpus": 0, "why": "')


def emulated() -> GpuProfiler:
    """Return the program for two emulated GPUs, built by the first caller."""

    def fill(folder: Path) -> None:
        project = generate(frontier("full:2", "allgather")[:1], "cuda")
        written(folder, profiler_files("cuda") | project)
        words = "-std=c++17 -O0 -Wall -Wextra -Werror -DSCCL_EMULATED -pthread gpus.cpp -o gpus"
        subprocess.run([tool("c++", "install g++"), *words.split()], cwd=folder, check=True)

    return GpuProfiler(once.folder("gpu-profiler", fill), 2)


@pytest.mark.parametrize("links", ["0-1", ""])
@pytest.mark.parametrize("bus_ids", [(), "ascending", ("0000:02:00.0", "0000:01:00.0")])
def test_every_row_of_every_link_is_timed(
    links: str, bus_ids: BusIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether GPUs reach one another or not."""
    monkeypatch.setenv("SCCL_EMULATED_LINKS", links)
    told: list[str] = []
    found = emulated().measure(TRIAL, bus_ids, told.append)
    assert [(t.edge, t.chunk_bytes, t.chunks, t.pacing) for t in found] == [
        (edge, size, chunks, pacing)
        for edge in TRIAL.edges
        for size in TRIAL.sizes
        for chunks, pacing in EVERY
    ]
    assert all(len(t.us) == 2 for t in found)
    assert told[-1] == "measuring: 4 of 4"


def test_gpu_that_is_not_there_is_reported() -> None:
    with pytest.raises(ToolError, match=r"code 2:\ngpus: no GPU has the bus id 0000:0f:00\.0"):
        emulated().measure(TRIAL, ("0000:01:00.0", "0000:0f:00.0"), lambda _: None)
