"""Least times over all chunkings beside what TE-CCL published for the same machines and sizes.

Published: TE-CCL (SIGCOMM 2024), Table 8, and the outputs of its public code. A size is that of a
rank's output buffer, as there. Its allgather rows for two chassis may be for 15 GPUs: the public
code takes one for a switch. They are compared all the same: less is to be done there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from sccl.collectives import named
from sccl.core.outcome import Found, GaveUp
from sccl.solvers.effort import Effort
from sccl.synth import registry
from sccl.synth.contract import Request
from sccl.topo import resolve

GAP = 0.002
"""Near enough: some of what is published is a few thousandths above the bound."""

UNITS = 12.0
SMOKE_UNITS = 0.5


@dataclass(frozen=True, slots=True)
class Published:
    """A row: what TE-CCL's finish is, and how long its solver took (80 cores, Gurobi)."""

    topology: str
    collective: str
    output_bytes: int
    finish_us: float | None
    solver_s: float | None


def _rows(
    topology: str, collective: str, rows: dict[int, tuple[float | None, float | None]]
) -> tuple[Published, ...]:
    return tuple(Published(topology, collective, size, *both) for size, both in rows.items())


PUBLISHED = (
    *_rows(
        "dgx1",
        "allgather",
        {
            1_024: (None, None),
            64_000: (None, None),
            1_000_000: (None, None),
            64_000_000: (None, None),
            1_000_000_000: (None, None),
        },
    ),
    *_rows(
        "teccl-ndv2x2",
        "allgather",
        {
            1_024: (4.137, 574.0),
            4_096: (4.185, 773.0),
            16_000: (4.44, 184.0),
            64_000: (6.08, 69.0),
            256_000: (14.72, 47.0),
            1_000_000: (48.75, 47.0),
            4_000_000: (190.0, 41.0),
            16_000_000: (700.0, 45.0),
            64_000_000: (2800.0, 43.0),
            256_000_000: (11_200.0, 34.0),
            1_000_000_000: (43_750.0, 43.0),
        },
    ),
    *_rows(
        "teccl-ndv2x2",
        "alltoall",
        {
            16_000: (7.27, 182.0),
            64_000: (23.30, 162.0),
            256_000: (85.52, 219.0),
            1_000_000: (325.3, 189.0),
            4_000_000: (1296.3, 166.0),
            1_000_000_000: (320_235.8, 336.0),
        },
    ),
    *_rows(
        "teccl-ndv2x4",
        "allgather",
        {
            1_024: (5.4495, 7560.0),
            4_096: (5.516, 9039.0),
            16_000: (5.81, 3031.0),
            64_000: (8.32, 2273.0),
            256_000: (20.96, 17_243.0),
            1_000_000: (69.375, 9510.0),
            4_000_000: (317.5, 17_071.0),
            16_000_000: (1170.0, 26_548.0),
            64_000_000: (4240.0, 30_850.0),
            256_000_000: (16_960.0, 30_872.0),
            1_000_000_000: (66_250.0, 30_855.0),
        },
    ),
    *_rows("teccl-ndv2x4", "alltoall", {1_000_000: (None, None), 1_000_000_000: (None, None)}),
    *_rows("ndv2x4", "allgather", {1_024_000: (None, None), 1_024_000_000: (None, None)}),
    *_rows(
        "torus:4x4@50,25GB", "allgather", {1_000_000: (None, None), 1_000_000_000: (None, None)}
    ),
    *_rows("rail:4x2", "allgather", {1_000_000: (None, None), 1_000_000_000: (None, None)}),
    *_rows("torus:4x4x4", "alltoall", {1_024_000: (None, None), 1_024_000_000: (None, None)}),
)


@dataclass(frozen=True, slots=True)
class LeastTimeResult:
    """A row beside what is published.

    Attributes:
        bound_us: no schedule of any chunks takes less.
        finish_us: of a schedule, judged.
        chunks: C of it.
        seconds: that both took together.
    """

    topology: str
    collective: str
    output_bytes: int
    published_us: float | None
    published_s: float | None
    bound_us: float
    finish_us: float
    gap: float
    chunks: int
    seconds: float


def run(*, smoke: bool) -> Iterator[LeastTimeResult]:
    """Yield each row, worked out on this machine.

    Args:
        smoke: only the first, with little effort.
    """
    for row in PUBLISHED[:1] if smoke else PUBLISHED:
        topology = resolve(row.topology)
        spec = named(row.collective, topology.ranks)
        gathers = row.collective == "allgather"  # else as much comes out of a rank as goes in
        size = row.output_bytes // (topology.ranks if gathers else 1)
        fluid = registry.load("fluid")
        began = time.perf_counter()
        effort = Effort(units=SMOKE_UNITS if smoke else UNITS)
        request = Request(topology, spec, size)
        outcome = registry.plan(fluid, request, fluid.Options(gap=GAP), effort)
        seconds = time.perf_counter() - began
        found = outcome.best if isinstance(outcome, GaveUp) else outcome
        assert isinstance(found, Found)
        bound = found.bound
        assert bound.least is not None
        assert bound.gap is not None
        yield LeastTimeResult(
            row.topology,
            row.collective,
            row.output_bytes,
            row.finish_us,
            row.solver_s,
            float(bound.least),
            float(bound.attained),
            float(bound.gap),
            found.plan.collective.chunks,
            round(seconds, 3),
        )
