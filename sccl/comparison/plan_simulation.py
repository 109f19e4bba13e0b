"""Simulate plans on their machines at given sizes, with lower bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sccl.codegen.ir import Program
from sccl.codegen.program_file import is_project, load_programs
from sccl.codegen.program_messages import build_messages
from sccl.collectives import recover_spec
from sccl.core.algorithm import Algorithm, KSynchronousPlan
from sccl.core.bound import require_at_least_bound
from sccl.core.clock import AlphaModel, Clock, StepAlignment
from sccl.core.collective import Collective
from sccl.core.outcome import Plan
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import InputError, ParameterError
from sccl.formats.files.plans import load_plans
from sccl.sim import Messages, Timeline, concatenate, simulate
from sccl.sim.settings import SimulationSettings, finest_tick
from sccl.synth.packing.by_time.time_bound import TickBound, compute_time_bound
from sccl.transform.validated import validated_algorithm, validated_schedule

DEFAULT_SIZE = 1 << 20
"""Default size of algorithms in bytes. Schedules have their own."""


@dataclass(frozen=True, slots=True, eq=False)
class SimulationSource:
    """A verified plan to simulate.

    Attributes:
        file: File name as given.
        program: Name of the program in the file. None: the plan is not a program.
        plan: Plan.
        topology: Machine of the plan.
    """

    file: str
    program: str | None
    plan: Algorithm | Schedule | Program
    topology: Topology

    @property
    def name(self) -> str:
        """Return the file name, with the name of the program if there is one."""
        return f"{self.file}: {self.program}" if self.program else self.file

    @property
    def collective(self) -> Collective:
        """Return the collective of the plan."""
        return self.plan.collective

    def messages(self, stepping: StepAlignment) -> Messages:
        """Return the messages of the plan."""
        match self.plan:
            case Schedule():
                return Messages.from_schedule(self.plan)
            case Program():
                return build_messages(self.plan)
        return Messages.from_algorithm(self.plan, stepping)

    def chunk_bytes(self, size_bytes: int | None) -> int | tuple[int, ...]:
        """Return the chunk size, rounded up, for which C chunks have ``size_bytes`` bytes.

        A schedule has chunk sizes of its own, which are returned.

        Raises:
            ParameterError: the plan is a schedule of another size.
        """
        size = DEFAULT_SIZE if size_bytes is None else size_bytes
        chunk = -(-size // self.collective.chunks)
        if not isinstance(self.plan, Schedule):
            return chunk
        plan_chunk_bytes = self.plan.chunk_bytes
        if size_bytes is not None and size != buffer_bytes(self.plan) and chunk != plan_chunk_bytes:
            raise ParameterError(
                f"{self.name}: it is a schedule for {buffer_bytes(self.plan)} bytes, and size is "
                f"{size}: leave --size out, or give an algorithm, which has no fixed size"
            )
        return plan_chunk_bytes

    def size_bytes(self, requested_bytes: int | None) -> int:
        """Return the size of C chunks: as requested, else the schedule's, else the default."""
        if requested_bytes is None and isinstance(self.plan, Schedule):
            return buffer_bytes(self.plan)
        return DEFAULT_SIZE if requested_bytes is None else requested_bytes


def buffer_bytes(schedule: Schedule) -> int:
    """Return the bytes of C chunks of a schedule, on average if chunk sizes differ.

    For a collective with element counts, this is the size of an element.
    """
    chunk_bytes, c = schedule.chunk_bytes, schedule.collective
    total = chunk_bytes * c.num_chunks if isinstance(chunk_bytes, int) else sum(chunk_bytes)
    return -(-total * c.chunks // c.amount(range(c.num_chunks)))


@dataclass(frozen=True, slots=True)
class SimulatedCollective:
    """One of the collectives that ran at the same time.

    Attributes:
        source: Plan of the collective.
        size_bytes: L, the size of C chunks in bytes.
        chunk_bytes: Size of every chunk in bytes, or of each.
        first_message: Index of its first message in the timeline.
        messages: Number of its messages.
        finish: Tick of its last arrival.
        bound: Lower bound in ticks, for the collective alone or with others. None: unknown, see
            ``no_bound_reason``.
        no_bound_reason: Reason why there is no bound, or empty.
    """

    source: SimulationSource
    size_bytes: int
    chunk_bytes: int | tuple[int, ...]
    first_message: int
    messages: int
    finish: int
    bound: TickBound | None
    no_bound_reason: str

    @property
    def gap(self) -> float | None:
        """Return the gap: finish / bound - 1. None: the bound is unknown or 0."""
        return self.finish / self.bound.value - 1 if self.bound and self.bound.value else None


@dataclass(frozen=True, slots=True, eq=False)
class SimulationRun:
    """A simulated run of one or several collectives.

    Attributes:
        parts: Collectives that ran.
        timeline: Timeline of all messages.
        stepping: Start of sends. None: only schedules and programs ran, which have their own times.
    """

    parts: tuple[SimulatedCollective, ...]
    timeline: Timeline
    stepping: StepAlignment | None

    def to_us(self, ticks: int) -> float:
        """Return ticks in microseconds."""
        return self.timeline.clock.us(ticks)

    def gb_per_s(self, part: SimulatedCollective) -> float:
        """Return the algorithm bandwidth of a collective, L / time, in 10^9 bytes per second."""
        finish = self.to_us(part.finish)
        return part.size_bytes / finish / 1000 if finish else 0.0


def load_sources(words: Iterable[str | Path], machine: str | None) -> list[SimulationSource]:
    """Return the plans and programs of files, all verified.

    Args:
        words: Files, folders, patterns, and projects (by their folder or their program.json).
        machine: Machine of programs. None: the one that each program names.

    Raises:
        InputError: There is no plan or program, a file contains neither, one fails verification, or
            a machine is given without a program.
    """
    word_list = list(words)
    projects = [word for word in word_list if is_project(Path(word))]
    programs = [entry for word in projects for entry in load_programs(Path(word), machine)]
    if machine and not programs:
        raise ParameterError(
            "--topo is the machine of programs, and plans have their own: leave it out"
        )
    rest = [word for word in word_list if word not in projects]
    return [
        *(
            build_source(str(entry.file), entry.plan)
            for entry in (load_plans(rest) if rest else ())
        ),
        *(
            SimulationSource(str(entry.file), entry.name, entry.program, entry.topology)
            for entry in programs
        ),
    ]


def build_source(name: str, plan: Plan) -> SimulationSource:
    """Return a verified plan to simulate.

    Args:
        name: Name of the plan.
        plan: Plan.

    Raises:
        InputError: The plan fails verification.
    """
    if isinstance(plan, KSynchronousPlan):
        return SimulationSource(name, None, validated_algorithm(plan, name), plan.topology)
    return SimulationSource(name, None, validated_schedule(plan, name), plan.topology)


def run_simulations(
    sources: Sequence[SimulationSource],
    sizes: Sequence[int | None],
    settings: SimulationSettings,
    *,
    at_once: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Iterator[SimulationRun]:
    """Yield the run of each plan, or of all plans concurrently, at each size.

    Args:
        sources: Plans.
        sizes: Sizes of C chunks in bytes. None: the plan's own.
        settings: Settings of the simulations.
        at_once: Whether all plans run concurrently.
        on_progress: Progress callback: number of finished simulations, and total.

    Raises:
        InputError: A size or a setting does not fit a plan or its machine.
    """
    groups = [tuple(sources)] if at_once else [(source,) for source in sources]
    for group in groups:
        for size in sizes:
            _check_fits(group, size, settings)
    for done, (group, size) in enumerate((g, s) for s in sizes for g in groups):
        on_progress(done, len(groups) * len(sizes))
        yield run_together(group, size, settings)


def run_together(
    sources: Sequence[SimulationSource], size_bytes: int | None, settings: SimulationSettings
) -> SimulationRun:
    """Simulate plans that run concurrently.

    Args:
        sources: Plans.
        size_bytes: Size of C chunks of each plan. None: the plan's own.
        settings: Settings of the simulation.

    Raises:
        InputError: The size or a setting does not fit a plan or its machine.
        ContradictionError: A plan finishes before its lower bound.
    """
    _check_fits(sources, size_bytes, settings)
    topology = settings.apply_to(sources[0].topology)
    stepping = settings.stepping or StepAlignment.PIPELINED
    sent = [source.messages(stepping) for source in sources]
    sizes = [source.chunk_bytes(size_bytes) for source in sources]
    clock = _choose_clock(sources, topology, settings, sizes, sum(map(len, sent)))
    all_messages = concatenate(sent) if len(sent) > 1 else sent[0]
    timeline = simulate(all_messages, topology, clock)
    parts, first = [], 0
    for source, chunk_bytes, messages in zip(sources, sizes, sent, strict=True):
        bound, why = _lower_bound(
            source, Clock.from_topology(topology, chunk_bytes, clock.model, clock.tick_ps), topology
        )
        finish = timeline.finish_of_messages(first, first + len(messages))
        if bound:
            us = Fraction(clock.tick_ps, 10**6)
            require_at_least_bound(
                finish * us,
                bound.value * us,
                result=f"the simulated completion time of {source.name}",
                limit=f"the lower bound on it ({bound.proof})",
                unit="us",
            )
        size = source.size_bytes(size_bytes)
        parts.append(
            SimulatedCollective(source, size, chunk_bytes, first, len(messages), finish, bound, why)
        )
        first += len(messages)
    steps = any(isinstance(source.plan, Algorithm) for source in sources)
    return SimulationRun(tuple(parts), timeline, stepping if steps else None)


def _lower_bound(
    source: SimulationSource, clock: Clock, topology: Topology
) -> tuple[TickBound | None, str]:
    """Return the lower bound, or None with the reason why there is none."""
    c, plan = source.collective, source.plan
    together = isinstance(plan, Schedule) and plan.has_combined_transfers
    try:
        return compute_time_bound(topology, recover_spec(c), c, clock, together=together), ""
    except InputError as error:
        return None, str(error)


def _check_fits(
    sources: Sequence[SimulationSource], size_bytes: int | None, settings: SimulationSettings
) -> None:
    """Check that the size and the settings fit the plans.

    Raises:
        ParameterError: They do not.
    """
    first = sources[0]
    for source in sources:
        source.chunk_bytes(size_bytes)
        if source.topology != first.topology:
            raise ParameterError(
                f"{first.name} is for {first.topology.name!r} and {source.name} for "
                f"{source.topology.name!r}: plans that run together must be for one machine"
            )
        if isinstance(source.plan, Schedule):
            _check_schedule(source.name, source.plan, settings)
        if isinstance(source.plan, Program) and settings.stepping is not None:
            raise ParameterError(
                f"{source.name}: its instructions define the dependencies, because it is a "
                "program: leave --stepping out"
            )
    ticks = {(s.plan.tick_ps, s.plan.model) for s in sources if isinstance(s.plan, Schedule)}
    if len(ticks) > 1:
        raise ParameterError(
            f"{first.name} and those after it are schedules of several ticks or alphas: schedules "
            "that run together need one tick and one alpha"
        )


def _check_schedule(name: str, schedule: Schedule, settings: SimulationSettings) -> None:
    if settings.stepping is not None:
        raise ParameterError(
            f"{name}: it is a schedule, which has times instead of steps: leave --stepping out"
        )
    if settings.model not in {None, schedule.model}:
        raise ParameterError(
            f"{name}: its times are for links where alpha {schedule.model}: leave --alpha out"
        )
    if settings.has_costs:
        raise ParameterError(
            f"{name}: its times are for the costs of its own machine: leave --alpha-us and "
            "--gb-per-s out"
        )


def _choose_clock(
    sources: Sequence[SimulationSource],
    topology: Topology,
    settings: SimulationSettings,
    sizes: Sequence[int | tuple[int, ...]],
    messages: int,
) -> Clock:
    """Return the clock of concurrent plans, with the tick of a schedule, else the finest tick."""
    chunk_bytes: int | tuple[int, ...] = sizes[0]
    if len(sources) > 1:
        combined: list[int] = []
        for source, source_bytes in zip(sources, sizes, strict=True):
            combined += (
                [source_bytes] * source.collective.num_chunks
                if isinstance(source_bytes, int)
                else source_bytes
            )
        chunk_bytes = tuple(combined)
    timed = [source.plan for source in sources if isinstance(source.plan, Schedule)]
    if timed:
        return Clock.from_topology(topology, chunk_bytes, timed[0].model, timed[0].tick_ps)
    largest = chunk_bytes if isinstance(chunk_bytes, int) else max(chunk_bytes)
    tick = finest_tick(topology, largest, messages)
    return Clock.from_topology(topology, chunk_bytes, settings.model or AlphaModel.TRAVELS, tick)
