"""Compare the times of exported plans in ASTRA-sim with those of the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

from benchmarks.astra import run_ns
from benchmarks.astra_cases import make_schedule, storing
from benchmarks.collectives import algorithms
from benchmarks.timing import Verdict
from sccl import formats
from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.core.clock import Clock, StepAlignment
from sccl.core.schedule import Schedule
from sccl.formats.common.contract import SizedPlan
from sccl.formats.files.export_plans import parse_options
from sccl.judge import require_valid
from sccl.sim import Messages, simulate
from sccl.topo import resolve_topology

CHUNKS = (10_000, 1_000_000)
"""Bytes of a chunk."""

COLLECTIVES = ("allgather", "allreduce", "reducescatter", "alltoall")

SCHEDULED = ("torus:3x3", "mesh:3x3", "hypercube:3")
"""Machines for which synthesizers make schedules."""

SCHEDULED_BYTES = 10**6
"""Bytes of a chunk of a schedule."""

TOLERANCE_PERCENT = 0.1
"""Greatest difference of both times that counts as agreement."""

Network = Literal["auto", "Switch", "ns3"]


@dataclass(frozen=True, slots=True, eq=False)
class ExportedCase:
    """A plan, its name, and the network that it is exported for."""

    name: str
    plan: Algorithm | Schedule
    network: Network
    chunk_bytes: int


@dataclass(frozen=True, slots=True)
class ExportedResult:
    """When the last rank ends, nanoseconds.

    Attributes:
        is_same_network: Whether the network behaves like sccl's machine, so that both times have
            to agree.
        ours_ns: Time with costs rounded up to nanoseconds, for ns-3 with barriers between steps.
    """

    plan: str
    topology: str
    network: str
    is_same_network: bool
    chunk_bytes: int
    sends: int
    astra_ns: int | None
    ours_ns: int

    @property
    def verdict(self) -> Verdict:
        """Return whether both times agree if they have to."""
        if self.astra_ns is None:
            return "failed"
        agree = not self.is_same_network or abs(self.percent) <= TOLERANCE_PERCENT
        return "sat" if agree else "unsat"

    @property
    def percent(self) -> float:
        """Return the deviation of ASTRA-sim's time from sccl's, in percent."""
        return 100 * ((self.astra_ns or 0) / self.ours_ns - 1)


def cases(*, smoke: bool, ns3: bool) -> Iterator[ExportedCase]:
    """Yield frontier points on machines of all kinds, and schedules of synthesizers.

    Args:
        smoke: Whether to take a few cases only.
        ns3: Whether to include machines that need ns-3.
    """
    chunks = CHUNKS[:1] if smoke else CHUNKS
    for machine, network, k in _machines(smoke=smoke, ns3=ns3):
        for collective in COLLECTIVES[:1] if smoke else COLLECTIVES:
            for algorithm in algorithms(machine, collective, k):
                for chunk in chunks:
                    yield ExportedCase(_point(algorithm), algorithm, network, chunk)
    ranks = 4 if smoke else 8
    direct = [a for name in COLLECTIVES for a in algorithms(f"full:{ranks}", name)]
    for algorithm in (_turning(ranks), *direct):
        for chunk in chunks:
            yield ExportedCase(_point(algorithm), _stored(algorithm, chunk), "auto", chunk)
    for machine in ("mesh:2x2",) if smoke else SCHEDULED:
        for synthesizer, collective in product(("tacos", "teccl"), COLLECTIVES):
            schedule = make_schedule(
                resolve_topology(machine), collective, SCHEDULED_BYTES, synthesizer
            )
            name = f"{collective} by {synthesizer}"
            yield ExportedCase(name, schedule, "auto", SCHEDULED_BYTES)


def _machines(*, smoke: bool, ns3: bool) -> Iterator[tuple[str, Network, int]]:
    """Yield machines, networks, and the greatest numbers of rounds in addition to steps."""
    if smoke:
        yield from (("ring:4", "auto", 1), ("full:4", "auto", 1), ("switch:4", "Switch", 2))
        return
    for machine in ("ring:8", "full:8", "torus:3x3", "hypercube:3", "mesh:2x3", "mesh:3x3"):
        yield machine, "auto", 1
    yield from (("switch:8", "Switch", 6),)
    yield from (("dgx-a100", "Switch", 6),)
    if ns3:
        yield from (("dgx1", "ns3", 1), ("ring:8", "ns3", 1), ("switch:8", "ns3", 6))
        yield from (("dgx-a100", "ns3", 6),)


def _turning(ranks: int) -> Algorithm:
    """Return the allgather around a ring, in which no two chunks come to a link at once."""
    sends = tuple(
        make_send((rank - step) % ranks, rank, (rank + 1) % ranks, step)
        for step in range(ranks - 1)
        for rank in range(ranks)
    )
    once = (1,) * (ranks - 1)
    algorithm = Algorithm(
        resolve_topology(f"ring:{ranks}"), named_spec("allgather", ranks).at(1), once, sends
    )
    return require_valid(algorithm, "the allgather around a ring")


def _stored(algorithm: Algorithm, chunk: int) -> Schedule:
    """Return the schedule of an algorithm whose sends pass a switch that stores chunks."""
    machine = storing(algorithm.topology.ranks)
    messages = Messages.from_algorithm(algorithm)
    clock = Clock.from_topology(machine, chunk, tick_ps=1000)
    return simulate(messages, machine, clock).schedule(algorithm.collective)


def measure(case: ExportedCase, binary: str) -> ExportedResult:
    """Return both times of a case.

    Raises:
        ScclError: ASTRA-sim failed.
    """
    ns3 = case.network == "ns3"
    form = formats.load("astra-sim")
    settings = [f"network={case.network}", *(["awaiting=step"] if ns3 else ())]
    size = case.chunk_bytes * case.plan.collective.chunks
    written = form.write(
        [SizedPlan("plan", case.plan, size_bytes=size)], parse_options(form, settings)
    )
    machine = case.plan.topology
    if isinstance(case.plan, Schedule):
        messages, clock = Messages.from_schedule(case.plan), case.plan.clock
    else:
        stepping = StepAlignment.BARRIER if ns3 else StepAlignment.PIPELINED
        messages = Messages.from_algorithm(case.plan, stepping)
        clock = Clock.from_topology(machine, case.chunk_bytes, tick_ps=1000)
    return ExportedResult(
        plan=case.name,
        topology=f"{machine.name}, storing" if machine.switches else machine.name,
        network="ns-3" if ns3 else _kind(written.files["network.yml"]),
        is_same_network=case.network == "auto",
        chunk_bytes=case.chunk_bytes,
        sends=len(messages),
        astra_ns=run_ns(written, binary, machine.ranks),
        ours_ns=-(-simulate(messages, machine, clock).finish * clock.tick_ps // 1000),
    )


def _point(algorithm: Algorithm) -> str:
    point = (algorithm.collective.chunks, algorithm.steps, algorithm.rounds)
    return f"{algorithm.collective.name} {point}"


def _kind(network: bytes) -> str:
    return network.decode().split()[2]
