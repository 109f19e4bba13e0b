"""Run the OSU micro-benchmarks with and without generated host code."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from benchmarks.collectives import CollectiveResult, SizeResult, algorithms
from sccl.codegen.project_writer import generate, write_project
from sccl.collectives import collective_names
from sccl.errors import InputError, ToolError
from sccl.runtime.mpi import Mpi
from sccl.runtime.project import build_project, load_project

NAMES = (
    "allgather",
    "allgatherv",
    "allreduce",
    "alltoall",
    "alltoallv",
    "barrier",
    "bcast",
    "gather",
    "gatherv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "scatterv",
)
SMOKE_NAMES = ("barrier", "bcast")

_ROW = re.compile(r"^\s*(?:(\d+)\s+)?(\d+\.\d+)\s*$", re.MULTILINE)
"""Bytes (the barrier has none) and microseconds, as OSU prints them without its option -f."""

_DEFINED = ('-DPACKAGE_VERSION="5"', "-DFIELD_WIDTH=18", "-DFLOAT_PRECISION=2")
"""Definitions that OSU's configure makes."""

_RUN_S = 1.5
_SPANS = ("1:8192", "16384:1048576")
"""Ranges of bytes. OSU makes equally many calls at each size of a run, so sizes are split."""


def build_osu(sources: Path, names_: Sequence[str], mpi: Mpi, into: Path) -> None:
    """Compile benchmarks of a folder of OSU's sources without changes.

    Raises:
        InputError: The folder does not hold OSU's sources.
        ToolError: The compiler refuses the sources.
    """
    place = sources / "mpi" / "collective"
    for name in names_:
        if not (place / f"osu_{name}.c").is_file() or not (place / "osu_coll.c").is_file():
            raise InputError(
                f"{sources} does not hold the OSU micro-benchmarks 5.3: mpi/collective/osu_coll.c "
                f"and osu_{name}.c are expected there; unpack their sources and name that folder"
            )
        files = [str(place / f"osu_{name}.c"), str(place / "osu_coll.c")]
        command = [str(mpi.folder / "mpicc"), "-O2", "-w", *_DEFINED, *files, "-lm", "-o"]
        done = subprocess.run(
            [*command, str(into / f"osu_{name}")],
            capture_output=True, text=True, check=False, env=mpi.environment(),
        )  # fmt: skip
        if done.returncode:
            raise ToolError(f"{command[0]} does not compile osu_{name}.c: {done.stderr[-500:]}")


def measure(
    sources: Path, mpi: Mpi, ranks: int, names: Sequence[str], repeat: int
) -> Iterator[CollectiveResult]:
    """Yield the times of each benchmark, plain and preloaded in turns.

    The algorithms are the frontier of the fully connected machine, because any two processes share
    memory. Nothing is tuned to this run. A first plain run sets the number of calls, so that they
    fill a second and a half together with the barrier that OSU puts behind each call.
    """
    with tempfile.TemporaryDirectory(prefix="sccl-osu-") as folder:
        programs, directory = Path(folder), Path(folder) / "project"
        build_osu(sources, sorted({*names, "barrier"}), mpi, programs)
        bundle = [a for name in collective_names() for a in algorithms(f"full:{ranks}", name)]
        write_project(directory, generate(bundle, "host"))
        build_project(load_project(directory), mpi)
        library = str(directory / "libsccl.so")
        command = [*mpi.launcher(ranks), "env"]
        (barrier_us,) = _run(mpi, command, [str(programs / "osu_barrier")], 10).values()
        for name in names:
            runs: dict[bool, list[dict[int, float]]] = {True: [], False: []}
            for span in _SPANS if name != "barrier" else (None,):
                program = [str(programs / f"osu_{name}"), *(("-m", span) if span else ())]
                look = _run(mpi, command, program, 2).values()
                us = sum(look) + len(look) * barrier_us
                calls = min(1000, max(3, int(_RUN_S * 1e6 / us)))
                for turn in range(repeat):
                    for ours in (False, True):
                        env = [*command, f"LD_PRELOAD={library}"] if ours else command
                        rows = _run(mpi, env, program, calls)
                        if turn == len(runs[ours]):
                            runs[ours].append({})
                        runs[ours][turn] |= rows
            yield _result(mpi, ranks, name, runs[True], runs[False])


def _run(mpi: Mpi, command: list[str], program: list[str], calls: int) -> dict[int, float]:
    words = [*command, *program, "-i", str(calls), "-x", str(max(2, calls // 5))]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env=mpi.environment(), timeout=1800
    )
    rows = {int(size or 0): float(us) for size, us in _ROW.findall(done.stdout)}
    if done.returncode or not rows:
        raise ToolError(f"{Path(program[0]).name} failed: {(done.stderr or done.stdout)[-500:]}")
    return rows


def _result(
    mpi: Mpi,
    ranks: int,
    name: str,
    ours: list[dict[int, float]],
    plain: list[dict[int, float]],
) -> CollectiveResult:
    sizes = []
    for size in sorted(plain[0]):
        pair = [tuple(max(run[size], 0.01) for run in runs) for runs in (ours, plain)]
        sizes.append(SizeResult(size, median(pair[0]), median(pair[1]), *pair))
    ratios = [s.mpi_us / s.sccl_us for s in sizes]
    label = "Open MPI" if mpi.open_mpi else "MPICH"
    return CollectiveResult(label, ranks, name, geometric_mean(ratios), min(ratios), tuple(sizes))


def kept(path: Path | None, settings: dict[str, Any]) -> list[CollectiveResult]:
    """Return the results in the file of an earlier run with these settings."""
    if path is None or not path.is_file():
        return []
    document = json.loads(path.read_text(encoding="utf-8"))
    if document.get("benchmark") != "osu" or document.get("settings") != settings:
        return []
    return [
        CollectiveResult(**row | {"sizes": tuple(SizeResult(**size) for size in row["sizes"])})
        for row in document["results"]
    ]
