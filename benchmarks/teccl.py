"""Times that TE-CCL published, compared with schedules of equal and of arbitrary chunks.

Equal chunks: the models of ``sccl synth teccl``, with the fewest chunks that finish no later than
published. Arbitrary chunks: the lower bound over all chunkings and a schedule close to it, where
``limits-time`` supports the problem.

Published times are those of TE-CCL (SIGCOMM 2024), Table 8, and the outputs of its public code.
Sizes are output buffers of a rank, as in the paper. Its allgather rows for two NDv2 use 15 GPUs, or
may do so, because the public code takes one GPU for a switch. These rows carry a note and are not
compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.amd_rings import rings_us
from sccl.collectives import named_spec
from sccl.core.outcome import Inconclusive, Outcome, Solution
from sccl.errors import InputError
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.topo import resolve_topology

GAP = 0.002
"""Relative gap at which a schedule suffices. Some published times are a few thousandths above it.
"""

CHUNKS = (1, 2, 4)
EQUAL_UNITS = 2.0
UNITS = 12.0
SMOKE_UNITS = 0.5


@dataclass(frozen=True, slots=True)
class Published:
    """Published row: TE-CCL's finish and the time of its solver (80 cores, Gurobi).

    Attributes:
        note: Reason why the published time may belong to another problem. Empty: none.
        figure: Figure of the row. Empty: The row belongs to a table.
    """

    topology: str
    collective: str
    output_bytes: int
    finish_us: float | None
    solver_s: float | None
    note: str = ""
    figure: str = ""


def _rows(
    topology: str,
    collective: str,
    rows: dict[int, tuple[float | None, float | None]],
    note: str = "",
) -> tuple[Published, ...]:
    return tuple(Published(topology, collective, size, *both, note) for size, both in rows.items())


FIFTEEN = "15 GPUs"
"""The public code takes one GPU of two NDv2 for a switch that copies. The paper has the same times.
"""


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
        FIFTEEN,
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
    *_rows(
        "teccl-dgx2x2",
        "allgather",
        {
            1_024: (4.006, 18_422.0),
            4_096: (4.03, 1073.0),
            16_000: (4.084, 2923.0),
            64_000: (4.32, 634.0),
            256_000: (5.376, 170.0),
            1_000_000: (10.75, 8181.0),
            4_000_000: (33.0, 1137.0),
            16_000_000: (124.0, 1262.0),
            64_000_000: (496.0, 279.0),
            256_000_000: (1984.0, 2694.0),
            1_000_000_000: (7750.0, 2700.0),
        },
    ),
    *_rows(
        "teccl-dgx2x2",
        "alltoall",
        {
            1_024: (4.06, 1333.0),
            4_096: (4.21, 958.0),
            16_000: (4.704, 1307.0),
            64_000: (8.464, 1206.0),
            256_000: (24.0, 1169.0),
            1_000_000: (84.25, 1204.0),
            4_000_000: (327.0, 1221.0),
            16_000_000: (1292.0, 1465.0),
            64_000_000: (5168.0, 1448.0),
            256_000_000: (20_608.0, 1413.0),
            1_000_000_000: (80_500.0, 1590.0),
        },
    ),
    *_rows("teccl-ndv2x4", "alltoall", {1_000_000: (None, None), 1_000_000_000: (None, None)}),
    *_rows("ndv2x4", "allgather", {1_024_000: (None, None), 1_024_000_000: (None, None)}),
    *(
        row
        for topology in ("z52", "torus:4x4@50,25GB", "rail:4x4")
        for row in _rows(
            topology,
            "allgather",
            {
                1_024: (None, None),
                64_000: (None, None),
                1_000_000: (None, None),
                16_000_000: (None, None),
                1_000_000_000: (None, None),
            },
        )
    ),
    *(
        row
        for collective in ("allgather", "alltoall")
        for row in _rows(
            "teccl-amd",
            collective,
            {64_000: (None, None), 1_024_000: (None, None), 1_024_000_000: (None, None)},
        )
    ),
    *_rows("ndv2:8", "allgather", {1_024_000: (None, None), 1_024_000_000: (None, None)}),
    *_rows("ndv2:16", "allgather", {1_024_000: (None, None), 1_024_000_000: (None, None)}),
    *_rows("ndv2:8", "alltoall", {1_024_000: (None, None), 1_024_000_000: (None, None)}),
    *_rows("ndv2:16", "alltoall", {1_024_000: (None, None), 1_024_000_000: (None, None)}),
    *_rows("torus:4x4x4", "alltoall", {1_024_000: (None, None), 1_024_000_000: (None, None)}),
)

PARTS = {
    f"tables-{topology}": tuple(row for row in PUBLISHED if row.topology == topology)
    for topology in dict.fromkeys(row.topology for row in PUBLISHED)
}
"""Rows by machine, so that each machine can be measured separately."""

FIGURE_8 = tuple(
    Published("teccl-amdx2", "allgather", 32 * size, None, None, figure="fig8")
    for size in (16_000, 256_000, 10**6, 16 * 10**6, 256 * 10**6)
)
"""Input sizes from 16 KB to 256 MB. The paper has curves: 3 times as fast as RCCL at 1 MB, 1.5 to 2
times for larger sizes."""


TACCL = {
    ("teccl-ndv2x2", "allgather"): {
        1_024: 10.16,
        4_096: 11.85,
        16_000: 12.68,
        64_000: 13.08,
        256_000: 25.26,
        1_000_000: 62.15,
        4_000_000: 216.5,
        64_000_000: 3133.2,
        256_000_000: 12_494.6,
        1_000_000_000: 53_766.7,
    },
    ("teccl-ndv2x2", "alltoall"): {
        1_024: 36.8,
        4_096: 32.16,
        16_000: 35.76,
        64_000: 50.34,
        256_000: 115.72,
        1_000_000: 359.0,
        4_000_000: 1324.2,
        16_000_000: 5164.4,
        64_000_000: 20_532.0,
        256_000_000: 81_964.2,
        1_000_000_000: 320_049.4,
    },
}
"""Times of TACCL's algorithms in Table 8: microseconds by output bytes."""


@dataclass(frozen=True, slots=True)
class Attained:
    """Finish of a schedule and its lower bound.

    Attributes:
        finish_us: Finish of the verified schedule, in microseconds.
        bound_us: Lower bound over all schedules of such chunks, in microseconds.
        chunks: For equal chunks, C divided by its unit. Otherwise C.
        seconds: Total time of both, in seconds.
    """

    finish_us: float
    bound_us: float
    chunks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LeastTimeResult:
    """Measured and published times of a row.

    Attributes:
        equal: Result for equal chunks.
        any: Result for chunks of any number and size. None: not computed.
        note: Reason why the published time may belong to another problem. Empty: none.
        figure: Figure of the row. Empty: The row belongs to a table.
        rings_us: Time of eight rings, in microseconds. None: not computed.
        least_us: Lower bound over all chunkings, in microseconds. None: not computed here, see
            ``any``.
    """

    topology: str
    collective: str
    output_bytes: int
    published_us: float | None
    published_s: float | None
    equal: Attained
    any: Attained | None
    note: str = ""
    figure: str = ""
    rings_us: float | None = None
    least_us: float | None = None


def run(rows: Sequence[Published], *, smoke: bool) -> Iterator[LeastTimeResult]:
    """Yield the result of each row on this machine.

    Args:
        smoke: Whether to use a small budget.
    """
    for row in rows:
        topology = resolve_topology(row.topology)
        gathers = row.collective == "allgather"  # else inputs and outputs have the same size
        size = row.output_bytes // (topology.ranks if gathers else 1)
        request = Request(topology, named_spec(row.collective, topology.ranks), size)
        if row.figure:
            yield _compare_with_rings(row, request)
            continue
        yield LeastTimeResult(
            row.topology,
            row.collective,
            row.output_bytes,
            row.finish_us,
            row.solver_s,
            _solve_equal_chunks(request, row.finish_us, smoke=smoke),
            _solve_any_chunks(request, smoke=smoke),
            row.note,
        )


def _compare_with_rings(row: Published, request: Request) -> LeastTimeResult:
    """Return a schedule of a few equal chunks, the time of rings, and the lower bound."""
    began, teccl = time.perf_counter(), registry.load("teccl")
    options = teccl.Options(chunks=CHUNKS[-1])
    solution = _best(registry.plan(teccl, request, options, Effort(units=SMOKE_UNITS)))
    seconds = round(time.perf_counter() - began, 3)
    attained, lower = float(solution.objective), float(solution.bound.value)
    return LeastTimeResult(
        row.topology,
        row.collective,
        row.output_bytes,
        row.finish_us,
        row.solver_s,
        Attained(attained, lower, CHUNKS[-1], seconds),
        None,
        row.note,
        row.figure,
        rings_us(request.size_bytes),
        float(completion_time_bound(request.topology, request.spec).us(request.size_bytes)),
    )


def _solve_equal_chunks(request: Request, published_us: float | None, *, smoke: bool) -> Attained:
    """Return a schedule of equal chunks, with the fewest chunks that match the published time."""
    teccl, seconds = registry.load("teccl"), 0.0
    for chunks in CHUNKS:
        began = time.perf_counter()
        effort = Effort(units=SMOKE_UNITS if smoke else EQUAL_UNITS)
        solution = _best(registry.plan(teccl, request, teccl.Options(chunks=chunks), effort))
        seconds += time.perf_counter() - began
        finish = float(solution.objective)
        if published_us is None or finish <= published_us:
            break
    return Attained(finish, float(solution.bound.value), chunks, round(seconds, 3))


def _solve_any_chunks(request: Request, *, smoke: bool) -> Attained | None:
    """Return the result for arbitrary chunks, or None if machine or collective is not supported."""
    fluid, began = registry.load("limits-time"), time.perf_counter()
    effort = Effort(units=SMOKE_UNITS if smoke else UNITS)
    try:
        solution = _best(registry.plan(fluid, request, fluid.Options(gap=GAP), effort))
    except InputError:
        return None
    seconds = round(time.perf_counter() - began, 3)
    attained, lower = float(solution.objective), float(solution.bound.value)
    return Attained(attained, lower, solution.plan.collective.chunks, seconds)


def _best(outcome: Outcome) -> Solution:
    solution = outcome.best if isinstance(outcome, Inconclusive) else outcome
    assert isinstance(solution, Solution)
    return solution
