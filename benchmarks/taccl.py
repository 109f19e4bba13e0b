"""TACCL: its sketches on our machines and its own, and sketches derived from the machine.

Published solver times are those of TACCL (NSDI 2023): Table 2 (seconds for a sketch, Gurobi) and
section 9 (80 GPUs in under 8 minutes, 128 in about 11 hours). Published times of its schedules on
two NDv2 are those of TE-CCL (SIGCOMM 2024), Table 8.

TACCL measured Figures 6 to 8 and 11 on hardware against NCCL. Here the machine is simulated. The
stand-in for NCCL is our ``nccl`` (rings, trees), or ``direct`` for alltoall (each rank sends to
every other), with the best number of pieces.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from benchmarks.teccl import TACCL as FINISHES
from sccl.collectives import named_spec
from sccl.comparison.contenders import ClassicalContender, ComparisonProblem
from sccl.core.clock import AlphaModel, Clock
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.sim import Messages, concatenate, simulate
from sccl.sim.messages import NO_EXTRA_CHUNKS
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.sketches.sketch import (
    Hyperedge,
    HyperedgePolicy,
    RelayPattern,
    RelayRules,
    Rotation,
    Sketch,
)
from sccl.synth.sketches.sketch_files import sketch_to_wire
from sccl.topo import resolve_topology
from sccl.topo.importers.taccl import machine_of_profile

NDV2 = (
    '{"name": "NDv2_1MB", "gpus_per_node": 8, "nics_per_node": 1, "alpha": 0.7,'
    ' "node_betas_list": [23, 46], "remote_alpha": 1.7, "remote_beta": 106}'
)
DGX2 = (
    '{"name": "DGX2_1MB", "gpus_per_node": 16, "nics_per_node": 8, "alpha": 0.7,'
    ' "node_betas_list": [8], "remote_alpha": 1.7, "remote_beta": 106}'
)
"""Costs of Table 1: microseconds, and microseconds per MB of 10^6 bytes."""

_ODD = tuple((n, (n - 1,)) for n in range(1, 16, 2))
_PAIR = tuple((n, (n - 1, n)) for n in range(1, 16, 2))
_SWITCH = tuple(range(16))

SKETCHES = {
    "dgx2-sk-1": Sketch(
        "dgx2-sk-1", 2, 2, None, None,
        (Hyperedge(_SWITCH, HyperedgePolicy.MIN),),
        RelayRules(_ODD, leaves_by=_PAIR, local_first=True),
        (Rotation(2, 16), Rotation(16, 32)),
    ),
    "dgx2-sk-2": Sketch(
        "dgx2-sk-2", 2, 1, None, None,
        (Hyperedge(_SWITCH, HyperedgePolicy.MAX),),
        RelayRules(RelayPattern.DIRECT_MAP, leaves_by=tuple((n, (n,)) for n in range(16))),
        (Rotation(2, 16), Rotation(16, 32)),
    ),
    "ndv2-sk-1": Sketch(
        "ndv2-sk-1", 2, relays=RelayRules(((0, (1,)),)), rotations=(Rotation(8, 16),)
    ),
    "ndv2-sk-2": Sketch(
        "ndv2-sk-2", 2, relays=RelayRules(RelayPattern.FULLY_CONNECTED),
        rotations=(Rotation(8, 16),),
    ),
}  # fmt: skip
"""Logical topologies, policies, and chunks per buffer from section 7.1."""

UNITS = 0.5
LITTLE = 0.3
SMOKE_UNITS = 0.1


@dataclass(frozen=True, slots=True)
class TacclCase:
    """Planning problem, with published results.

    Attributes:
        part: Part of the benchmark.
        machine: Name, or a profile for the number of nodes in the sketch.
        sketch: Name of the sketch. Empty: sketches derived from the machine.
        size_bytes: Output size of a rank, in bytes.
        chunks: Number of chunks. 0: as in the sketch, or the best number.
        published_s: Time of TACCL's solver, in seconds.
        published_us: Time of TACCL's schedule, in microseconds.
        change: Difference from the sketch. Empty: none.
        planned_bytes: Output size of a rank for which the plan is made, in bytes. Its order then
            serves ``size_bytes``. 0: The plan is made for ``size_bytes``.
        instances: Number of concurrent instances, each with a part of every chunk. One thread block
            fills one of the six links of a GPU. 0: No model of thread blocks.
    """

    part: str
    machine: str
    collective: str
    size_bytes: int
    sketch: str = ""
    chunks: int = 0
    alpha: str = "travels"
    published_s: float | None = None
    published_us: float | None = None
    change: str = ""
    planned_bytes: int = 0
    instances: int = 0
    units: float = UNITS


def _table_2() -> Iterator[TacclCase]:
    """Yield TACCL's sketches, with chunks of about the size in section 7.1."""
    published = {
        ("allgather", "dgx2-sk-1"): 35.8,
        ("allgather", "dgx2-sk-2"): 11.3,
        ("allgather", "ndv2-sk-1"): 2.6,
        ("alltoall", "dgx2-sk-2"): 92.5,
        ("alltoall", "ndv2-sk-1"): 1809.8,
        ("alltoall", "ndv2-sk-2"): 8.4,
        ("allreduce", "dgx2-sk-1"): 6.1,
        ("allreduce", "dgx2-sk-2"): 127.8,
        ("allreduce", "ndv2-sk-1"): 0.3,
    }
    chunk = {"dgx2-sk-1": 2_000_000, "dgx2-sk-2": 1000, "ndv2-sk-1": 10**6, "ndv2-sk-2": 1000}
    for (collective, sketch), seconds in published.items():
        ranks = 32 if sketch.startswith("dgx2") else 16
        size = chunk[sketch] * ranks * SKETCHES[sketch].chunks
        for alpha in ("occupies", "travels"):
            case = TacclCase("table2", sketch[:4], collective, size, sketch, 0, alpha, seconds)
            yield replace(case, units=LITTLE)


def _finishes() -> Iterator[TacclCase]:
    """Yield the cases for TACCL's schedules on two NDv2 and ours with the same sketch."""
    for (machine, collective), rows in FINISHES.items():
        for size, us in rows.items():
            yield TacclCase(
                "finish", machine, collective, size, "ndv2-sk-1", published_us=us, units=LITTLE
            )


def _by_hand() -> Iterator[TacclCase]:
    """Yield cases with manual and with derived sketches, by size."""
    hands = {
        "teccl-ndv2x2": ("ndv2-sk-1",),
        "teccl-ndv2x4": ("ndv2-sk-1",),
        "dgx2:2": ("dgx2-sk-1",),
    }
    for machine, names in hands.items():
        for collective in ("allgather", "alltoall", "allreduce"):
            for size in (1024, 65_536, 1_024_000, 64_000_000, 1_024_000_000):
                for name in (*names, ""):
                    yield TacclCase("auto", machine, collective, size, name)


def _figure_9() -> Iterator[TacclCase]:
    """Yield changes of a sketch for two DGX-2: connections, sizes, partitions, policies, instances.

    Parts b and e run schedules at sizes other than planned, and several instances at once.
    """
    chunks_of = (1000, 32_000, 1_000_000)
    sizes = tuple(32 * 1000 * 8**k for k in range(6))  # to 1 GB
    for chunk in chunks_of:
        base = TacclCase("fig9", "dgx2", "allgather", chunk * 32, "dgx2-sk-1", 1, "occupies")
        for change in ("1 receiver", "4 receivers", "8 receivers", "uc-min", "uc-max"):
            yield replace(base, change=change)
        word = f"planned for {chunk // 1000} KB" if chunk < 10**6 else "planned for 1 MB"
        for size in sizes:
            yield replace(base, size_bytes=size, planned_bytes=chunk * 32, change=word)
    base = replace(base, change="", size_bytes=0)
    for size in (*(chunk * 32 for chunk in chunks_of), 1_024_000_000):
        for chunks in (1, 2):
            yield replace(base, size_bytes=size, change=f"{chunks} of a buffer", chunks=chunks)
    for size in sizes:
        for count in (1, 2, 4, 8):
            change = f"{count} at once"
            yield replace(base, size_bytes=size, change=change, planned_bytes=size, instances=count)


CASES = {
    "table2": tuple(_table_2()),
    "finish": tuple(_finishes()),
    "auto": tuple(_by_hand()),
    "fig9": tuple(_figure_9()),
    "scale": (
        TacclCase("scale", "ndv2:10", "allgather", 80 * 12_800_000, published_s=480.0),
        TacclCase("scale", "dgx2:8", "allgather", 1_024_000_000, chunks=1, published_s=39_600.0),
        TacclCase("scale", "torus:6x8", "allgather", 48 * 21_000_000),
    ),
    "pods": (TacclCase("pods", "rail:8x64", "allgather", 1_024_000_000, chunks=1),),
}


@dataclass(frozen=True, slots=True)
class TacclResult:
    """Result of a case.

    Attributes:
        by: Method that produced the plan, by phase.
        kept: Sketch that the plan follows.
        nccl_us: Time of NCCL's stand-in, in microseconds. None: Not computed, or not supported.
        memory_mb: Peak memory of the process so far, in MB.
    """

    case: TacclCase
    finish_us: float
    bound_us: float
    chunks: int
    seconds: float
    by: tuple[str, ...]
    kept: str
    nccl_us: float | None
    memory_mb: int


def run(cases: Sequence[TacclCase], *, smoke: bool) -> Iterator[TacclResult]:
    """Yield the result of each case on this machine.

    Args:
        smoke: Whether to use a small budget.
    """
    for case in cases:
        yield _plan_case(case, SMOKE_UNITS if smoke else case.units)


def _sketch(case: TacclCase, topology: Topology | None) -> Sketch | None:
    """Return the sketch of a case, for the number of nodes of its machine."""
    if not case.sketch:
        return None
    sketch = SKETCHES[case.sketch]
    local = 16 if case.sketch.startswith("dgx2") else 8
    if topology is not None and topology.ranks != local * sketch.nodes:
        nodes = topology.ranks // local
        last = Rotation(local, topology.ranks)
        sketch = replace(sketch, nodes=nodes, rotations=(*sketch.rotations[:-1], last))
    if case.change.endswith(("receiver", "receivers")):
        count = int(case.change.split()[0])
        joined = tuple((n, tuple((n - 1 + 2 * k) % 16 for k in range(count))) for n, _ in _ODD)
        sketch = replace(sketch, relays=RelayRules(joined, leaves_by=_PAIR))
    if case.change.startswith("uc-"):
        edges = (Hyperedge(_SWITCH, HyperedgePolicy(case.change)),)
        sketch = replace(sketch, hyperedges=edges)
    return sketch


def _machine(case: TacclCase) -> Topology:
    profiles = {"ndv2": NDV2, "dgx2": DGX2}
    if case.machine in profiles and case.sketch:
        return machine_of_profile(profiles[case.machine], 2, f"taccl-{case.machine}")
    return resolve_topology(case.machine)


def _plan_case(case: TacclCase, units: float) -> TacclResult:
    planned_size = case.planned_bytes or case.size_bytes
    change = "" if case.planned_bytes else case.change
    planned = replace(case, size_bytes=planned_size, planned_bytes=0, instances=0, change=change)
    request, solution, seconds, last = _solve(planned, units)
    finish, lower = float(solution.objective), float(solution.bound.value)
    if case.planned_bytes:  # the bound belongs to the planned size
        assert isinstance(solution.plan, Schedule)
        finish, lower = _simulate_at_size(case, solution.plan), 0.0
    return TacclResult(
        case=case,
        finish_us=finish,
        bound_us=lower,
        chunks=solution.plan.collective.chunks,
        seconds=round(seconds, 3),
        by=tuple(phase.by for phase in getattr(last, "phases", ())),
        kept=getattr(getattr(last, "kept", None), "name", ""),
        nccl_us=_nccl(case, request) if case.part == "auto" and not case.sketch else None,
        memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )


@lru_cache(maxsize=1)  # cases that share a plan are adjacent
def _solve(case: TacclCase, units: float) -> tuple[Request, Solution, float, object]:
    """Return the request, the best plan, its time in seconds, and the last event with phases."""
    taccl, topology = registry.load("taccl"), _machine(case)
    spec = named_spec(case.collective, topology.ranks)
    size = case.size_bytes // (topology.ranks if case.collective == "allgather" else 1)
    sketch = _sketch(case, topology)
    wire = None if sketch is None else sketch_to_wire(sketch)
    options = taccl.Options(sketch=wire, chunks=case.chunks, alpha=case.alpha)
    request = Request(topology, spec, size)
    events: list[object] = []
    began = time.perf_counter()
    outcome = registry.plan(taccl, request, options, Effort(units=units), events.append)
    seconds = time.perf_counter() - began
    solution = outcome.best if isinstance(outcome, Inconclusive) else outcome
    assert isinstance(solution, Solution)
    last = next((e for e in reversed(events) if hasattr(e, "phases")), None)
    return request, solution, seconds, last


_LINKS_OF_A_GPU = 6
"""NVLinks of a V100 to the switches of a DGX-2. One thread block fills one (section 7.2)."""


def _simulate_at_size(case: TacclCase, schedule: Schedule) -> float:
    """Return the microseconds of a schedule's transfers in the same order, at another size."""
    count, topology = max(1, case.instances), schedule.topology
    if case.instances:
        filled = min(1.0, case.instances / _LINKS_OF_A_GPU)
        slowest = min(link.gb_per_s for link in topology.links)
        links = (
            replace(k, gb_per_s=k.gb_per_s * filled) if k.gb_per_s > slowest else k
            for k in topology.links
        )
        topology = replace(topology, links=tuple(links))
    size = -(-case.size_bytes // (schedule.collective.num_chunks * count))
    sent = Messages.from_schedule(schedule)
    zeros = np.zeros_like(sent.release)
    carried = 1 + np.bincount(sent.more.message, minlength=len(sent))
    sent = replace(  # merged sends become one chunk of as many bytes, without times
        sent, release=zeros, at_least=zeros, chunk=np.arange(len(sent), dtype=sent.chunk.dtype),
        num_chunks=len(sent), more=NO_EXTRA_CHUNKS,
    )  # fmt: skip
    clock = Clock.from_topology(
        topology, (*(carried * size).tolist(),) * count, schedule.clock.model
    )
    line = simulate(concatenate([sent] * count), topology, clock)
    return line.finish * clock.tick_ps / 10**6


def _nccl(case: TacclCase, request: Request) -> float | None:
    """Return the microseconds of NCCL's stand-in, or None if it does not support the case."""
    contest = ComparisonProblem(request.topology, request.spec, AlphaModel(case.alpha))
    name = "direct" if case.collective == "alltoall" else "nccl"
    try:
        plan = ClassicalContender(contest, name, "baseline", "").fastest(request.size_bytes)
    except InputError:
        return None
    return None if plan is None else float(plan.us)
