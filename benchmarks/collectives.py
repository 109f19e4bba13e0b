"""Compare generated host code with the MPI library's collectives, in one interleaved run."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sccl.codegen.project_writer import generate, targets, write_project
from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm
from sccl.core.instance import SweepRange
from sccl.runtime.measure import TimingTrial, geometric_speedup, group_by_collective, time_projects
from sccl.runtime.mpi import Mpi
from sccl.runtime.project import build_project, load_project
from sccl.synth.packing.by_steps.limits_by_steps import PackingLimits
from sccl.synth.syncoll import solve as syncoll_solve
from sccl.synth.syncoll.sweep import sweep
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm

NAMES = ("allgather", "allreduce", "alltoall")
FULL_SIZES = (1, 4 << 20)
SMOKE_SIZES = (64, 128)
FULL_RANKS = (4, 8)
SMOKE_RANKS = (2,)


@dataclass(frozen=True, slots=True)
class SizeResult:
    """Times of a call for one size, in microseconds: the medians, and all repetitions."""

    size_bytes: int
    sccl_us: float
    mpi_us: float
    sccl_runs: tuple[float, ...]
    mpi_runs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """One collective on some ranks.

    Attributes:
        speedup: Geometric mean over sizes of the ratio of MPI's time to sccl's time.
        slowest: Smallest of these ratios.
    """

    mpi: str
    ranks: int
    collective: str
    speedup: float
    slowest: float
    sizes: tuple[SizeResult, ...]


def algorithms(topology: str, collective: str, k: int = 1) -> list[Algorithm]:
    """Return the frontier of a collective, by default for a small k."""
    machine = resolve_topology(topology)
    solve = partial(
        syncoll_solve.solve,
        solver=syncoll_solve.DEFAULT_SOLVER,
        effort=syncoll_solve.Effort(60.0, 0),
    )
    spec = named_spec(collective, machine.ranks)
    frontier = sweep(
        machine,
        spec,
        solve,
        solver=syncoll_solve.DEFAULT_SOLVER,
        covered=SweepRange(k=k),
        limits=PackingLimits,
    )
    return [expand_algorithm(point.algorithm) for point in frontier.points if point.algorithm]


def measure(mpi: Mpi, ranks: int, sizes: tuple[int, int], repeat: int) -> list[CollectiveResult]:
    """Return the times on the fully connected machine, because any two processes share memory.

    The generator sets the switch points. Nothing is tuned to this run.
    """
    bundle = [a for name in NAMES for a in algorithms(f"full:{ranks}", name)]
    with tempfile.TemporaryDirectory(prefix="sccl-bench-") as folder:
        directory = Path(folder) / "project"
        write_project(directory, generate(bundle, "host"))
        project = load_project(directory)
        build_project(project, mpi)
        timings = list(time_projects([project], mpi, TimingTrial(sizes, repeat, against_mpi=True)))
    ours = str(directory)
    results = []
    for name, rows in group_by_collective(timings).items():
        per_size = tuple(
            SizeResult(size, row[ours].median_us, row["mpi"].median_us, row[ours].us, row["mpi"].us)
            for size, row in sorted(rows.items())
        )
        results.append(
            CollectiveResult(
                mpi="Open MPI" if mpi.open_mpi else "MPICH",
                ranks=ranks,
                collective=name,
                speedup=geometric_speedup(rows, ours, "mpi"),
                slowest=min(s.mpi_us / s.sccl_us for s in per_size),
                sizes=per_size,
            )
        )
    return results


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """Time to generate a bundle: lowering, all passes, and rendering, without writing.

    Attributes:
        sends: Number of sends of all algorithms together.
        kilobytes: Size of the generated text.
    """

    bundle: str
    target: str
    sends: int
    kilobytes: int
    seconds: float


def generation(bundle: str, members: list[Algorithm], repeat: int) -> list[GenerationResult]:
    """Return the median time of each target for some algorithms."""
    results = []
    for target in targets():
        seconds = []
        for _ in range(repeat):
            begin = time.perf_counter()
            files = generate(members, target)
            seconds.append(time.perf_counter() - begin)
        size = sum(len(text) for text in files.values()) // 1000
        sends = sum(len(a.sends) for a in members)
        results.append(GenerationResult(bundle, target, sends, size, statistics.median(seconds)))
    return results
