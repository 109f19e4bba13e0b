"""Cases for the simulator and ASTRA-sim: algorithms of all origins, and plain traffic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
from msgspec import convert

from benchmarks.astra import Case, order_by_arrival
from benchmarks.astra_traces import Network
from benchmarks.collectives import algorithms
from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Sat
from sccl.core.clock import AlphaModel
from sccl.core.outcome import Solution
from sccl.core.schedule import Schedule
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import ScclError
from sccl.sim import Messages, StepAlignment, concatenate
from sccl.sim.messages import NO_GATE
from sccl.solvers.effort import Effort
from sccl.synth import baselines
from sccl.synth.baselines import Pattern
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.syncoll import solve as syncoll_solve
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform import build_question, solve_question

ALPHA_US, GB_PER_S = 0.5, 50.0
GIB_PER_S = 53.6870912
"""50 GiB/s, ASTRA-sim's unit, as 10^9 bytes per second."""

KB = 50_000
"""Bytes that pass in a whole microsecond at :data:`GB_PER_S`."""

SCHEDULE_SECONDS = 60.0
"""Time that a synthesizer has for a schedule."""


PatternOrAlgorithm: TypeAlias = Pattern | Algorithm


def cases(*, smoke: bool) -> Iterator[Case]:
    """Yield the cases, or a few for a smoke test. Each without releases also comes without ties."""
    for case in _smoke_cases() if smoke else _all_cases():
        yield case
        if case.parts == (case.messages,) and not case.messages.release.any():
            yield separate_arrivals(case)


def _smoke_cases() -> Iterator[Case]:
    yield from _ring_cases((4,))
    yield from _switch_cases((4,))


def _all_cases() -> Iterator[Case]:
    yield from _ring_cases((4, 8, 16, 64))
    yield from _switch_cases((8, 16))
    yield from _rounding_cases()
    yield from _sweep_cases()
    yield from _classical_cases()
    yield from _tacos_cases()
    yield from _traffic_cases()


def separate_arrivals(case: Case) -> Case:
    """Return a case in which two chunks rarely reach a link at once.

    Sizes are larger and all differ. The first sends of each rank are released a microsecond apart.
    """
    messages = case.messages
    random = np.random.default_rng(0)
    sizes = 20 * KB + 50 * random.integers(0, KB // 50, messages.num_chunks)
    first = messages.waits_for == NO_GATE
    order = np.argsort(messages.src[first], kind="stable")
    senders = messages.src[first][order]
    later = np.zeros(len(senders), np.int64)
    later[order] = 1000 * (np.arange(len(senders)) - np.searchsorted(senders, senders))
    release = messages.release.copy()
    release[first] += later
    apart = replace(messages, release=release)
    name = f"{case.name}, told apart"
    return Case(name, case.network, case.topology, tuple(sizes.tolist()), apart, (apart,))


def _ring_cases(counts: tuple[int, ...]) -> Iterator[Case]:
    """Yield allgathers and allreduces around rings, on the routes of ASTRA-sim."""
    for ranks in counts:
        machine = priced(resolve_topology(f"ring:{ranks}"))
        for collective in ("allgather", "allreduce"):
            pattern = _baseline("ring", collective, machine)
            yield from _with_and_without_barriers(
                f"{collective}, ring", machine, pattern, Network.RING
            )


def _switch_cases(counts: tuple[int, ...]) -> Iterator[Case]:
    """Yield classical algorithms through a store-and-forward switch."""
    patterns = (("ring", "allgather"), ("direct", "alltoall"), ("halving-doubling", "allreduce"))
    for ranks in counts:
        for name, collective in patterns:
            pattern = _baseline(name, collective, priced(resolve_topology(f"full:{ranks}")))
            yield _pipelined_case(f"{collective}, {name}", storing(ranks), pattern, Network.SWITCH)


def _rounding_cases() -> Iterator[Case]:
    """Yield cases with fractional nanoseconds: odd sizes, and a bandwidth in GiB per second."""
    ring, machine = priced(resolve_topology("ring:8")), ring_of_eight()
    around, best = _baseline("ring", "allgather", ring), best_around(machine)
    for size in (1_000, 65_536, 2**20 + 1):
        yield _pipelined_case("allgather, ring", ring, around, Network.RING, size)
    for per_rank in (131_072, 1_048_576):
        name = "allgather (2, 4, 7), 50 GiB/s"
        yield from _with_and_without_barriers(name, machine, best, Network.RING, per_rank // 2)


def _sweep_cases() -> Iterator[Case]:
    """Yield the algorithms of sweeps."""
    for name, collective in (
        ("ring:8", "allgather"),
        ("ring:8", "allreduce"),
        ("ring:8", "alltoall"),
        ("hypercube:3", "allgather"),
        ("torus:3x3", "allreduce"),
    ):
        for algorithm in algorithms(name, collective):
            numbers = (algorithm.collective.chunks, algorithm.steps, algorithm.rounds)
            yield from _with_and_without_barriers(
                f"{collective} {numbers}", priced(algorithm.topology), algorithm
            )


def _classical_cases() -> Iterator[Case]:
    """Yield classical algorithms on pairs of ranks, and over the links of other machines."""
    for name, collective, where in (
        ("direct", "allgather", "full:8"),
        ("direct", "alltoall", "full:64"),
        ("halving-doubling", "allreduce", "full:16"),
        ("recursive-doubling", "allgather", "full:16"),
        ("halving-doubling", "allreduce", "ring:8"),
        ("halving-doubling", "allreduce", "torus:4x4"),
        ("bruck", "alltoall", "torus:4x4"),
        ("direct", "alltoall", "torus:4x4"),
        ("direct", "alltoall", "hypercube:4"),
        ("swing", "allreduce", "torus:4x4"),
        ("multitree", "allreduce", "torus:4x4"),
        ("double-binary-tree", "allreduce", "mesh:4x4"),
    ):
        machine = priced(resolve_topology(where))
        yield from _with_and_without_barriers(
            f"{collective}, {name}", machine, _baseline(name, collective, machine)
        )
    odd = priced(resolve_topology("ring:9"))
    direct = _baseline("direct", "alltoall", odd)
    yield _pipelined_case("alltoall, direct", odd, direct, Network.RING)


def _tacos_cases() -> Iterator[Case]:
    """Yield schedules of TACOS, at their times and as soon as possible."""
    for name, collective, size in (
        ("ring:8", "allgather", KB),
        ("mesh:4x4", "allgather", KB),
        ("torus:4x4", "allgather", 4 * KB),
        ("torus:4x4", "reducescatter", KB),
        ("torus:4x4", "allreduce", KB),
        ("torus:4x4x4", "allgather", KB),
        ("hypercube:4", "alltoall", KB),
    ):
        machine = priced(resolve_topology(name), alpha_us=1.0)
        schedule = make_schedule(machine, collective, size)
        rows = Messages.from_schedule(schedule)
        zeros = np.zeros_like(rows.release)
        timed = replace(rows, release=rows.release * schedule.tick_ps // 1000, at_least=zeros)
        for timing, messages in (
            ("at its times", timed),
            ("as soon as possible", replace(timed, release=zeros)),
        ):
            yield _traffic_case(f"{collective}, TACOS, {timing}", machine, messages, size=size)


def _traffic_cases() -> Iterator[Case]:
    """Yield traffic: many chunks for one link or port, sizes of all kinds, several collectives."""
    ring = priced(resolve_topology("ring:9"))
    many = Messages.from_steps([0] * 20, range(20), [0] * 20, [4] * 20)
    yield _traffic_case("20 chunks from 0 to 4", ring, many, Network.RING)
    gathered = Messages.from_steps([0] * 7, range(7), range(1, 8), [0] * 7)
    yield _traffic_case("all to rank 0", storing(8), gathered, Network.SWITCH)
    patterns = (_baseline("ring", "allgather", ring), _baseline("direct", "alltoall", ring))
    at_once = concatenate([_messages(pattern, StepAlignment.PIPELINED) for pattern in patterns])
    yield _traffic_case("allgather and alltoall at once", ring, at_once, Network.RING)
    for network, machine in (
        (Network.RING, ring),
        (Network.PAIRS, priced(resolve_topology("full:8"))),
        (Network.SWITCH, storing(8)),
    ):
        for seed in range(4):
            messages, sizes = _random(machine.ranks, seed)
            yield _traffic_case(f"random traffic {seed}", machine, messages, network, sizes)


def priced(topology: Topology, gb_per_s: float = GB_PER_S, alpha_us: float = ALPHA_US) -> Topology:
    """Return a machine whose links all cost the same."""
    links = (replace(k, gb_per_s=gb_per_s, alpha_us=alpha_us) for k in topology.links)
    return replace(topology, links=tuple(links), gb_per_s=gb_per_s, alpha_us=alpha_us)


def ring_of_eight() -> Topology:
    """Return a ring whose links carry 50 GiB/s."""
    return priced(resolve_topology("ring:8"), GIB_PER_S)


def storing(ranks: int) -> Topology:
    """Return ranks on a store-and-forward switch with unlimited buffers, as in ASTRA-sim."""
    pairs = [pair for rank in range(ranks) for pair in ((rank, ranks), (ranks, rank))]
    links = tuple(Link(*pair, 1, ALPHA_US, GB_PER_S) for pair in pairs)
    switch = Switch("stores", buffer_chunks=None, cut_through=False)
    return Topology(f"switch:{ranks}", ranks, links, ALPHA_US, GB_PER_S, switches=(switch,))


def _with_and_without_barriers(
    name: str,
    machine: Topology,
    plan: PatternOrAlgorithm,
    network: Network = Network.PAIRS,
    size: int = KB,
) -> Iterator[Case]:
    """Yield an algorithm with barriers between its steps, and pipelined."""
    steps = _messages(plan, StepAlignment.BARRIER)
    yield Case(f"{name}, barriers", network, machine, size, steps, _apart(steps))
    yield _pipelined_case(f"{name}, pipelined", machine, plan, network, size)


def _pipelined_case(
    name: str, machine: Topology, plan: PatternOrAlgorithm, network: Network, size: int = KB
) -> Case:
    return _traffic_case(name, machine, _messages(plan, StepAlignment.PIPELINED), network, size)


def _traffic_case(
    name: str,
    machine: Topology,
    messages: Messages,
    network: Network = Network.PAIRS,
    size: int | tuple[int, ...] = KB,
) -> Case:
    return Case(name, network, machine, size, messages, (messages,))


def _messages(plan: PatternOrAlgorithm, stepping: StepAlignment) -> Messages:
    if isinstance(plan, Algorithm):
        return order_by_arrival(Messages.from_algorithm(plan, stepping))
    columns = (plan.step, plan.chunk, plan.src, plan.dst, plan.reduce)
    steps = Messages.from_steps(*columns, stepping=stepping)
    return order_by_arrival(replace(steps, num_chunks=plan.collective.num_chunks))


def _apart(messages: Messages) -> tuple[Messages, ...]:
    """Return the messages between barriers, one part for each step."""
    parts = []
    for gate in np.unique(messages.waits_for):
        rows = np.flatnonzero(messages.waits_for == gate)
        columns = (messages.chunk[rows], messages.src[rows], messages.dst[rows])
        parts.append(Messages.from_steps(np.zeros_like(rows), *columns))
    return tuple(parts)


def best_around(machine: Topology) -> Algorithm:
    """Return the allgather of 2 chunks, 4 steps and 7 rounds, which is optimal in both costs."""
    question = build_question(machine, named_spec("allgather", machine.ranks), 2, 4, 7)
    solve = partial(
        syncoll_solve.solve,
        solver=syncoll_solve.DEFAULT_SOLVER,
        effort=syncoll_solve.Effort(60.0, 0),
    )
    answer = solve_question(question, solve)
    if not isinstance(answer, Sat):
        raise ScclError(f"an allgather (2, 4, 7) on {machine.name} was not found in time")
    return expand_algorithm(answer.algorithm)


def _baseline(name: str, collective: str, machine: Topology) -> Pattern:
    request = Request(machine, named_spec(collective, machine.ranks), KB * machine.ranks)
    return baselines.make_pattern(name, request)


def make_schedule(
    machine: Topology, collective: str, size: int, synthesizer: str = "tacos"
) -> Schedule:
    """Return a synthesizer's schedule for chunks of some bytes.

    Raises:
        ScclError: The synthesizer finds no schedule.
    """
    spec = named_spec(collective, machine.ranks)
    parts = 1 if collective == "allgather" else machine.ranks
    request = Request(machine, spec, size * parts)
    planner = registry.load(synthesizer)
    options = convert({"alpha": str(AlphaModel.TRAVELS)}, planner.Options)
    solution = registry.plan(planner, request, options, Effort(SCHEDULE_SECONDS))
    if not isinstance(solution, Solution) or not isinstance(solution.plan, Schedule):
        raise ScclError(f"no schedule of {collective} on {machine.name}")
    return solution.plan


def _random(ranks: int, seed: int) -> tuple[Messages, tuple[int, ...]]:
    """Return messages of six steps between any ranks, and the sizes of their chunks."""
    random = np.random.default_rng(seed)
    step, chunk, src, hop = (random.integers(0, end, 100) for end in (6, 20, ranks, ranks - 1))
    rows = np.unique(np.stack((step, chunk, src, (src + hop + 1) % ranks)), axis=1)
    messages = order_by_arrival(replace(Messages.from_steps(*rows), num_chunks=20))
    return messages, tuple((random.integers(20, 20_000, 20) * 50).tolist())
