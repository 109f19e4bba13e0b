"""Constructions without search on up to 40,000 ranks, compared with search under symmetry.

:data:`FULL` holds machines with translations, :data:`OTHERS` all other kinds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.process import measure


@dataclass(frozen=True, slots=True)
class ReachSpec:
    """Expected frontier, with one point that meets both lower bounds.

    Attributes:
        searched: Whether the search under symmetry also runs.
    """

    collective: str
    topology: str
    ranks: int
    chunks: int
    steps: int
    rounds: int
    searched: bool = False


FULL = (
    ReachSpec("alltoall", "torus:16x16", 256, 256, 16, 512, searched=True),
    ReachSpec("alltoall", "torus:8x8x8", 512, 512, 12, 512, searched=True),
    ReachSpec("alltoall", "torus:16x8", 128, 128, 12, 256, searched=True),
    ReachSpec("alltoall", "torus:12x4x2", 96, 96, 9, 144, searched=True),
    ReachSpec("alltoall", "hypercube:6", 64, 64, 6, 32, searched=True),
    ReachSpec("alltoall", "hypercube:8", 256, 256, 8, 128, searched=True),
    ReachSpec("alltoall", "hypercube:10", 1024, 1024, 10, 512),
    ReachSpec("alltoall", "torus:32x32", 1024, 1024, 32, 4096),
    ReachSpec("alltoall", "hypercube:12", 4096, 4096, 12, 2048),
    ReachSpec("alltoall", "torus:100x100", 10000, 10000, 100, 125000),
    ReachSpec("allgather", "torus:32x32", 1024, 4, 32, 1023, searched=True),
    ReachSpec("allgather", "torus:64x64", 4096, 4, 64, 4095, searched=True),
    ReachSpec("allgather", "torus:100x100", 10000, 4, 100, 9999),
    ReachSpec("allgather", "torus:200x200", 40000, 4, 200, 39999),
)
OTHERS = (
    ReachSpec("allgather", "slimfly:5", 50, 1, 2, 7, searched=True),
    ReachSpec("allgather", "debruijn:4x256", 256, 1, 4, 85),
    ReachSpec("allgather", "kautz:4x1024", 1024, 1, 5, 341),
    ReachSpec("allgather", "cayley:128x8^15:36.3,53.4,89.5,109.2", 1024, 4, 7, 1023, searched=True),
    ReachSpec("allgather", "mesh:8x8", 64, 2, 14, 63, searched=True),
    ReachSpec("allgather", "mesh:32x32", 1024, 2, 62, 1023),
    ReachSpec("allgather", "mesh:8x8x8", 512, 3, 21, 511),
    ReachSpec("alltoall", "dragonfly:4x5", 20, 20, 3, 16, searched=True),
    ReachSpec("alltoall", "slimfly:5", 50, 50, 2, 13, searched=True),
    ReachSpec("alltoall", "cayley:16x4^7:1.0,0.1", 64, 64, 9, 184, searched=True),
    ReachSpec("alltoall", "mesh:8x8", 64, 128, 14, 256, searched=True),
    ReachSpec("alltoall", "mesh:16x16", 256, 512, 30, 2048),
    ReachSpec("alltoall", "hyperx:8x8", 64, 64, 2, 8, searched=True),
)
SMOKE = (ReachSpec("alltoall", "torus:4x4", 16, 16, 4, 8, searched=True),)

_SEARCH = """\
import sys
from sccl.collectives import named_spec
from sccl.core.answer import Sat
from sccl.core.instance import Instance
from sccl.judge import require_valid
from sccl.solvers.effort import Effort
from sccl.synth.syncoll.symmetric_search import answer
from sccl.topo import resolve_topology
from sccl.topo.symmetry.group_choice import candidate_groups
collective, machine, *numbers, timeout = sys.argv[1:]
topology = resolve_topology(machine)
chunks, steps, rounds = map(int, numbers)
instance = Instance(topology, named_spec(collective, topology.ranks).at(chunks), steps, rounds)
groups = candidate_groups(topology, instance.collective, "auto")
result = answer(instance, groups, Effort(float(timeout)))
if isinstance(result, Sat):
    require_valid(result.algorithm, "symmetric synthesis")
print(result.seconds if isinstance(result, Sat) else -1.0)
"""


@dataclass(frozen=True, slots=True)
class ReachResult:
    """Measurement of ``sccl pareto`` on one machine.

    Attributes:
        seconds: Wall-clock time of the whole process, including bounds, algorithm and verification.
        user_seconds: Processor time. Other load on the machine changes it less than wall-clock
            time.
        memory_mb: Peak memory, in MB.
        alone: Time of the algorithm and its verification, in seconds.
        searched: Time of the search under symmetry, in seconds. -1: No result before the timeout.
            None: Not run.
    """

    spec: ReachSpec
    seconds: float
    user_seconds: float
    memory_mb: float
    alone: float
    is_met: bool
    searched: float | None


def run(specs: tuple[ReachSpec, ...], timeout_s: float) -> Iterator[ReachResult]:
    """Yield the results, one machine at a time."""
    for spec in specs:
        arguments = ("--collective", spec.collective, "--topo", spec.topology)
        process = measure("pareto", *arguments, "--no-store", "--json")
        points = json.loads(process.text)["points"]
        expected = (spec.chunks, spec.steps, spec.rounds, ["latency", "bandwidth"])
        actual = [(p["chunks"], p["steps"], p["rounds"], p["optimal"]) for p in points]
        yield ReachResult(
            spec,
            process.seconds,
            process.user_seconds,
            process.memory_mb,
            sum(p["seconds"] for p in points),
            actual == [expected],
            _run_symmetric_search(spec, timeout_s) if spec.searched else None,
        )


def _run_symmetric_search(spec: ReachSpec, timeout_s: float) -> float:
    """Return the seconds of the search under symmetry in a separate process, or -1 at a timeout."""
    numbers = (spec.collective, spec.topology, spec.chunks, spec.steps, spec.rounds, timeout_s)
    command = [sys.executable, "-c", _SEARCH, *(str(n) for n in numbers)]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=2 * timeout_s
        )
    except subprocess.TimeoutExpired:
        return -1.0
    return float(process.stdout)
