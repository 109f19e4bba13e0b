"""TE-CCL's epoch models with the published number of epochs: solver times and finishes.

Published times are those of TE-CCL (SIGCOMM 2024), with Gurobi. Tables 3 and 7 use a DGX-1 and
chunks of 25 KB, with and without alpha, on 6 cores. Table 8 and the outputs of the public code use
two chassis, on 80 cores. Figures 9 and 11 give the effect of copies and of buffers as a fraction of
the time.

A published schedule in K epochs finishes after K times the epoch length. We place ours in exact
time, so it may finish earlier.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from benchmarks.teccl import FIFTEEN
from sccl.collectives import named_spec
from sccl.core.outcome import Solution, best_plan
from sccl.core.topology import Topology
from sccl.errors import InputError, ParameterError
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.topo import resolve_topology

UNITS = 40.0


@dataclass(frozen=True, slots=True)
class EpochCase:
    """Problem for an epoch model, with published results.

    Attributes:
        alpha: Whether links keep their alpha. Otherwise it is zero.
        copies: Whether switches copy.
        buffers: Number of foreign chunks that a rank may store to forward later. None: unlimited.
        epochs: Published number of epochs for the model. 0: none, and the model searches for the
            minimum.
        published_us: Published finish, in microseconds.
        published_s: Published time of the solver, in seconds.
        note: Reason why the published time may belong to another problem. Empty: none.
        figure: Figure of the case. Empty: The case belongs to a table.
        alone: Whether only a schedule in epochs counts. The benchmark then requests one epoch,
            which is too few, and retries with the number in the error message.
        units: Budget.
    """

    topology: str
    collective: str
    chunk_bytes: int
    chunks: int
    model: str
    epoch: str
    alpha: bool = True
    copies: bool = False
    buffers: int | None = None
    epochs: int = 0
    published_us: float | None = None
    published_s: float | None = None
    note: str = ""
    figure: str = ""
    alone: bool = False
    units: float = UNITS


@dataclass(frozen=True, slots=True)
class EpochResult:
    """Result of a case.

    Attributes:
        output_bytes: Output size of a rank, in bytes.
        epoch_us: Length of an epoch, in microseconds. None: The epoch model produced no schedule.
        epochs: Number of epochs of the schedule.
        finish_us: Finish in exact time, in microseconds. None: There is no schedule.
        bound_us: Lower bound over all schedules of such chunks, in microseconds.
        seconds: Total wall-clock time, including start and verification, in seconds.
        user_seconds: Processor time. Other load on the machine changes it less than wall-clock
            time.
        why: Reason why there is no schedule. Empty: There is one.
    """

    case: EpochCase
    output_bytes: int
    epoch_us: float | None
    epochs: int | None
    finish_us: float | None
    bound_us: float | None
    seconds: float
    user_seconds: float
    why: str = ""


_TABLE_7 = {1: (2, 0.09), 2: (3, 0.07), 3: (4, 0.19), 4: (5, 1.45), 5: (6, 8.96), 6: (7, 50.57)}

_NDV2_ROWS = {  # output bytes: (K, us, s) for slow epochs, then for fast ones
    1_000_000_000: ((10, 50_000.0, 5.0), (35, 43_750.0, 43.0)),
    16_000_000: ((10, 800.0, 5.0), (35, 700.0, 45.0)),
    1_000_000: ((14, 70.0, 5.0), (39, 48.75, 47.0)),
    256_000: ((15, 19.2, 7.0), (46, 14.72, 40.0)),
    64_000: ((24, 7.68, 9.0), (76, 6.08, 69.0)),
}

_TABLE_3 = {1: 4.0, 2: 5.0, 3: 6.1}
"""Finishes of an allgather by chunk count, with alpha paid in transit. Alltoall takes 4 us, too."""

_FIGURE_9 = (1_000, 100_000, 26_250_000)
"""Chunk sizes in bytes, up to 0.21 GB in total. The version without copies is an alltoall."""

_ALLTOALL = {  # Table 8, by output bytes: (us, s) for slow epochs, then for the best ones
    1_000_000_000: ((325_000.0, 14.8), (320_235.8, 336.0)),
    4_000_000: ((1300.0, 11.8), (1296.3, 166.0)),
    1_000_000: ((340.0, 10.9), (325.3, 189.0)),
    256_000: ((88.32, 10.0), (85.52, 219.0)),
    64_000: ((24.32, 10.5), (23.3, 162.0)),
    16_000: ((7.6, 8.8), (7.27, 182.0)),
}

_ALLTOALL_DGX2 = {  # outputs of the public code, fast epochs
    1_000_000_000: (80_500.0, 1590.0),
    1_000_000: (84.25, 1204.0),
    64_000: (8.464, 1206.0),
}

_ALLTOALL_7 = {1: (3.0, None), 3: (8.0, None), 8: (30.0, None)}

_DGX2_ROWS = {
    1_000_000_000: (4, 10_000.0, 12.0),
    1_000_000: (9, 22.5, 19.0),
    256_000: (12, 7.68, 23.0),
}


def _with_published(case: EpochCase, published: tuple[int, float, float]) -> EpochCase:
    count, us, seconds = published
    return replace(case, epochs=count, published_us=us, published_s=seconds)


_DGX1 = EpochCase("teccl-dgx1", "allgather", 25_000, 1, "milp", "slowest", alpha=False)
_NDV2X2 = EpochCase("teccl-ndv2x2", "allgather", 62_500, 1, "milp", "slowest")
_DGX2X2 = EpochCase("teccl-dgx2x2", "allgather", 31_250, 1, "milp", "slowest", copies=True)


def _flows(
    case: EpochCase, size: int, ranks: int, published: tuple[float | None, float | None]
) -> EpochCase:
    us, seconds = published
    return replace(
        case,
        collective="alltoall",
        chunk_bytes=size // ranks,
        model="lp",
        published_us=us,
        published_s=seconds,
    )


CASES = (
    *(
        _with_published(replace(_DGX1, chunks=chunks), (count, float(count), seconds))
        for chunks, (count, seconds) in _TABLE_7.items()
    ),
    *(
        _with_published(
            replace(_NDV2X2, chunk_bytes=size // 16, epoch=epoch, note=FIFTEEN), published
        )
        for size, both in _NDV2_ROWS.items()
        for epoch, published in zip(("slowest", "fastest"), both, strict=True)
    ),
    *(
        _with_published(replace(_DGX2X2, chunk_bytes=size // 32), published)
        for size, published in _DGX2_ROWS.items()
    ),
    *(
        replace(_NDV2X2, chunk_bytes=size // 16, model="astar", epoch="fastest")
        for size in _NDV2_ROWS
    ),
    *(replace(_DGX2X2, model="astar", epoch="fastest", copies=copies) for copies in (False, True)),
    *(replace(_DGX1, chunks=4, buffers=buffers) for buffers in (None, 0)),
    *(
        replace(_DGX1, alpha=True, chunks=chunks, epoch="fastest", published_us=us)
        for chunks, us in _TABLE_3.items()
    ),
    _flows(replace(_DGX1, alpha=True, epoch="auto"), 8 * 25_000, 8, (4.0, None)),
    *(
        case
        for size in _FIGURE_9
        for case in (
            replace(
                _DGX1, alpha=True, chunk_bytes=size, chunks=4, model="continuous", epoch="auto"
            ),
            _flows(replace(_DGX1, alpha=True, epoch="auto"), 4 * 8 * size, 8, (None, None)),
        )
    ),
    *(
        _flows(replace(_DGX1, chunks=chunks), 8 * 25_000, 8, published)
        for chunks, published in _ALLTOALL_7.items()
    ),
    *(
        _flows(replace(_NDV2X2, epoch=epoch), size, 16, published)
        for size, both in _ALLTOALL.items()
        for epoch, published in zip(("slowest", "auto"), both, strict=True)
    ),
    *(
        _flows(replace(_DGX2X2, epoch="auto", copies=False), size, 32, published)
        for size, published in _ALLTOALL_DGX2.items()
    ),
    *(
        _flows(
            replace(_NDV2X2, topology=f"ndv2:{count}", epoch="auto"), 10**9, 8 * count, (None, None)
        )
        for count in (4, 8, 16)
    ),
)


def run(cases: Sequence[EpochCase]) -> Iterator[EpochResult]:
    """Yield the result of each case on this machine."""
    for case in cases:
        yield _run_case(case)


def _run_case(case: EpochCase) -> EpochResult:
    topology = _machine(case)
    spec, teccl = named_spec(case.collective, topology.ranks), registry.load("teccl")
    request = Request(topology, spec, case.chunk_bytes * spec.at(spec.unit * case.chunks).chunks)
    options = teccl.Options(
        chunks=case.chunks,
        model=case.model,
        epoch=case.epoch,
        epochs=case.epochs,
        buffers=case.buffers,
    )
    events: list[Any] = []
    began, user = time.perf_counter(), time.process_time()
    solution: Solution | None = None
    try:
        if case.alone:
            options = structs.replace(
                options, epochs=_find_fewest_epochs(request, options, case.units)
            )
        outcome = registry.plan(teccl, request, options, Effort(units=case.units), events.append)
        solution, reason = best_plan(outcome)
        why = str(reason)
    except InputError as error:
        why = str(error)
    last = [event for event in events if hasattr(event, "epochs")][-1:]
    return EpochResult(
        case,
        case.chunk_bytes * case.chunks * topology.ranks,
        last[0].epoch_us if last else None,
        last[0].epochs if last else None,
        None if solution is None else float(solution.objective),
        None if solution is None else float(solution.bound.value),
        round(time.perf_counter() - began, 3),
        round(time.process_time() - user, 3),
        "" if solution else why,
    )


def _find_fewest_epochs(request: Request, options: Any, units: float) -> int:
    """Return the fewest epochs with a schedule, from the error message for a single epoch.

    Raises:
        InputError: The number is unknown, or the model would be too large.
    """
    single_epoch = structs.replace(options, epochs=1)
    try:
        registry.plan(registry.load("teccl"), request, single_epoch, Effort(units=units))
    except ParameterError as error:
        will_do = re.search(r"(\d+) will do$", str(error))
        if will_do is None:
            raise
        return int(will_do[1])
    return 1


def _machine(case: EpochCase) -> Topology:
    topology = resolve_topology(case.topology)
    if not case.alpha:
        links = tuple(replace(link, alpha_us=0.0) for link in topology.links)
        topology = replace(topology, alpha_us=0.0, links=links)
    switches = tuple(replace(switch, copies=case.copies) for switch in topology.switches)
    return replace(topology, switches=switches)
