"""Bar or dot of a figure: the verified and simulated time of an algorithm on a machine."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from itertools import product

from benchmarks.tacos.cases import MB, NUMBERED, TACOS, Case
from benchmarks.tacos.ideal import ideal_us, phased_us
from sccl.collectives import Spec, named_spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.outcome import best_plan
from sccl.core.packed_schedule import PackedSchedule
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import JudgeError
from sccl.judge import require_valid
from sccl.sim import Messages, Timeline, replay, simulate
from sccl.solvers.effort import Effort
from sccl.synth import baselines
from sccl.synth.common import registry
from sccl.synth.common.contract import Feature, Request
from sccl.synth.common.synthesis import parse_options
from sccl.topo import resolve_topology
from sccl.topo.machine_model import machine_model


@dataclass(frozen=True, slots=True)
class FigureResult:
    """Result of a case.

    Attributes:
        pieces: Fastest number of pieces.
        us: Arrival of the last chunk, in microseconds.
        gb_per_s: Bytes that each rank reduces, divided by the time.
        ideal_us: Ideal time of the paper, from :func:`~benchmarks.tacos.ideal.ideal_us`.
        phased_us: Lower bound for two phases, from :func:`~benchmarks.tacos.ideal.phased_us`.
        bound_us: Proved lower bound for such chunks, in microseconds. None: a classical algorithm.
        busy: Mean fraction of the time in which a link is busy.
        idlest: Busy fraction of the least busy link. NaN: not computed.
        transfers: Number of transfers over links.
        seconds: Time to synthesize the schedule and to compute its bound.
        judge_seconds: Time of the verification. 0: a classical algorithm, verified during
            construction.
        utilisation: Busy fraction of all links, in equal intervals of the time.
    """

    case: Case
    ranks: int
    pieces: int
    us: float
    gb_per_s: float
    ideal_us: float
    phased_us: float
    bound_us: float | None
    busy: float
    idlest: float
    transfers: int
    seconds: float
    judge_seconds: float
    utilisation: tuple[float, ...]

    @property
    def efficiency(self) -> float:
        """Return the fraction of the paper's ideal bandwidth."""
        return self.ideal_us / self.us


@dataclass(frozen=True, slots=True)
class _Measured:
    """Verified algorithm or schedule.

    Attributes:
        busy: Mean fraction of the time in which a link is busy.
        idlest: Busy fraction of the least busy link. NaN: not computed.
        judge_seconds: Time of the verification. 0: verified during construction.
    """

    finish_us: float
    busy: float
    idlest: float
    transfers: int
    seconds: float
    judge_seconds: float
    bound_us: float | None = None
    utilisation: tuple[float, ...] = ()


def measure_case(case: Case) -> FigureResult:
    """Measure an algorithm on a machine, with the fastest number of pieces.

    Raises:
        JudgeError: The schedule is invalid, or the simulator finishes at another time.
    """
    machine = resolve_topology(case.topology)
    spec = named_spec("allreduce", machine.ranks)
    make = _synthesize if case.algorithm == TACOS else _classical
    pieces, best = min(
        ((pieces, make(case, machine, spec, pieces)) for pieces in case.pieces),
        key=lambda candidate: candidate[1].finish_us,
    )
    passed = 2 * case.size_bytes
    return FigureResult(
        case=case,
        ranks=machine.ranks,
        pieces=pieces,
        us=best.finish_us,
        gb_per_s=case.size_bytes / best.finish_us / 1000,
        ideal_us=ideal_us(machine, passed),
        phased_us=phased_us(machine, passed),
        bound_us=best.bound_us,
        busy=best.busy,
        idlest=best.idlest,
        transfers=best.transfers,
        seconds=best.seconds,
        judge_seconds=best.judge_seconds,
        utilisation=best.utilisation,
    )


def warm() -> None:
    """Compile all loops, so that no case includes compilation."""
    for alpha, name in product(AlphaModel, ("mesh:2x2", "mesh:2x2@2,1GB", "switch2d:2x2")):
        for algorithm in (TACOS, "ring-both"):
            measure_case(Case("", name, algorithm, MB, (1,), alpha))


def _synthesize(case: Case, machine: Topology, spec: Spec, pieces: int) -> _Measured:
    """Synthesize and verify a TACOS schedule, with its lower bound."""
    tacos = registry.load(TACOS)
    model = machine if Feature.SWITCHES in tacos.FEATURES else _by_links(machine)
    options = parse_options("tacos", chunks=pieces, alpha=case.alpha.value)
    began = time.perf_counter()
    outcome = tacos.plan(
        Request(model, spec, case.size_bytes), options, Effort(seed=0), lambda _: None
    )
    planned = time.perf_counter()
    solution, why = best_plan(outcome)
    plan = solution.plan if solution else None
    if solution is None or not isinstance(plan, Schedule | PackedSchedule):
        raise JudgeError(f"tacos on {case.topology} found no schedule: {why}")
    require_valid(plan, "tacos")
    judge_seconds = time.perf_counter() - planned
    values = _replay_schedule(case, plan) if isinstance(plan, Schedule) else _stated_values(plan)
    lower_bound = None if solution.bound.value is None else float(solution.bound.value)
    seconds = planned - began
    return replace(values, seconds=seconds, judge_seconds=judge_seconds, bound_us=lower_bound)


def _replay_schedule(case: Case, schedule: Schedule) -> _Measured:
    """Simulate a schedule.

    Raises:
        JudgeError: The simulator finishes at another time.
    """
    timeline = replay(schedule)
    if timeline.finish != schedule.finish:
        raise JudgeError(
            f"tacos on {case.topology}: the schedule says {schedule.finish} ticks, the simulator "
            f"{timeline.finish}"
        )
    return _measure_timeline(case, timeline, 0.0)


def _stated_values(schedule: PackedSchedule) -> _Measured:
    """Return the stated values of a schedule that is too large to simulate."""
    carried = schedule.num_sends * schedule.round_ticks
    return _Measured(
        finish_us=schedule.clock.us(schedule.finish),
        busy=carried / schedule.finish / len(schedule.topology.links),
        idlest=math.nan,
        transfers=schedule.num_sends,
        seconds=0.0,
        judge_seconds=0.0,
    )


def _measure_timeline(case: Case, timeline: Timeline, seconds: float) -> _Measured:
    """Return the values of a simulation."""
    busy = timeline.busy() / timeline.finish
    return _Measured(
        finish_us=timeline.finish_us,
        busy=float(busy.mean()),
        idlest=float(busy.min()),
        transfers=len(timeline.start),
        seconds=seconds,
        judge_seconds=0.0,
        utilisation=tuple(timeline.utilization(case.bins).tolist()) if case.bins else (),
    )


def _classical(case: Case, machine: Topology, spec: Spec, pieces: int) -> _Measured:
    """Simulate a classical algorithm, with each hop on a shortest path."""
    name = case.algorithm.removesuffix(NUMBERED)
    model = _by_links(machine) if name == case.algorithm else resolve_topology(f"full:{spec.ranks}")
    began = time.perf_counter()
    p = baselines.make_pattern(name, Request(model, spec, case.size_bytes), pieces)
    end = time.perf_counter()
    messages = Messages.from_steps(p.step, p.chunk, p.src, p.dst, p.reduce)
    chunk_bytes = -(-case.size_bytes // p.collective.chunks)
    timeline = simulate(messages, machine, Clock.from_topology(machine, chunk_bytes, case.alpha))
    return _measure_timeline(case, timeline, end - began)


def _by_links(machine: Topology) -> Topology:
    """Return a machine with links in place of switches, so that rings follow links."""
    return machine_model(machine).topology if machine.switches else machine
