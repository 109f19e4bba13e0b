"""Select the program of a bundle for each size, by the cost model (SCCL section 3.6)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sccl.codegen.ir import Program
from sccl.codegen.targets.codegen_options import gpu_slot_bytes
from sccl.core.cost import Costs, fastest_by_size
from sccl.core.files.programs import (
    CollectiveProgramsWire,
    LoweredWire,
    ProgramWire,
    ProjectWire,
)
from sccl.core.topology import Topology
from sccl.errors import InputError, ParameterError

INSTRUCTION_US = 0.5
"""Estimated overhead of an instruction of a thread block, in microseconds: a wait for a flag with
an acquire, or a fence and a flag, each some 0.4 us, and barriers."""

Protocols = Sequence[tuple[str, int]]
"""Letter of each protocol of a target, and the smallest part in bytes for it. The first is 0."""


@dataclass(frozen=True, slots=True)
class ModeledProgram:
    """Parameters of an algorithm in the cost model.

    Attributes:
        steps: S.
        rounds: R.
        chunks: C.
        parts: Number of parts of a block.
        costs: Costs of a step and of a byte on the machine.
        instructions: Number of instructions of the busiest thread block, by :func:`longest_block`.
        slot_bytes: Maximum bytes of a part in one piece of a call. None: no limit.
    """

    root: int
    steps: int
    rounds: int
    chunks: int
    parts: int
    costs: Costs
    instructions: int = 0
    slot_bytes: int | None = None

    @property
    def blocks(self) -> int:
        """Return the number of blocks in the cost model's buffer of C chunks."""
        return self.chunks // self.parts or 1

    @property
    def cost(self) -> Fraction:
        """Return R/C."""
        return Fraction(self.rounds, self.chunks)

    def fixed_us(self) -> float:
        """Return the microseconds of a piece that do not depend on its size."""
        return self.steps * self.costs.alpha_us + self.instructions * INSTRUCTION_US

    def time_us(self, size_bytes: float) -> float:
        """Return the time of a call in microseconds, with the fixed time for each of its pieces."""
        piece = (self.slot_bytes or math.inf) * self.parts * self.blocks
        fixed = self.fixed_us() * max(1.0, size_bytes / piece)
        return fixed + self.costs.time_us(0, self.cost, size_bytes)


def choose_switch_points(
    algorithms: Sequence[ModeledProgram], protocols: Protocols
) -> tuple[SwitchPoint, ...]:
    """Choose the switch points of a collective by the cost model, one root at a time.

    Args:
        algorithms: Algorithms of one collective, in the order of their numbers.
        protocols: Default protocols by the bytes of a part, until a measurement replaces them.
    """
    switch_points: list[SwitchPoint] = []
    for root in sorted({algorithm.root for algorithm in algorithms}):
        indices = [i for i, algorithm in enumerate(algorithms) if algorithm.root == root]
        points, costs = _comparable_costs([algorithms[i] for i in indices])
        spans = fastest_by_size(points, costs)
        starts_at = [0.0 if n == 0 else span.from_bytes for n, span in enumerate(spans)]
        for n in range(1, len(spans)):
            before, after = (algorithms[indices[spans[m].index]] for m in (n - 1, n))
            starts_at[n] = _crossover_size(before, after, starts_at[n - 1], starts_at[n])
        for n, span in enumerate(spans):
            index = indices[span.index]
            blocks = algorithms[index].blocks
            first = int(starts_at[n] // blocks)
            end = int(starts_at[n + 1] // blocks) if n + 1 < len(spans) else None
            starts = [turn * algorithms[index].parts for _, turn in protocols]
            stops = [*starts[1:], None]
            for (protocol, _), start, stop in zip(protocols, starts, stops, strict=True):
                low = max(first, start)
                if all(limit is None or low < limit for limit in (end, stop)):
                    switch_points.append(SwitchPoint(low, index, protocol))
    return tuple(sorted(switch_points, key=lambda s: (s.from_bytes, s.index)))


def _crossover_size(
    before: ModeledProgram, after: ModeledProgram, first: float, last: float
) -> float:
    """Return the size from which ``after`` is faster than ``before``.

    Args:
        first: Smallest size for which ``before`` is the fastest algorithm.
        last: Smallest size for which ``after`` is the fastest if calls have one piece.
    """
    if before.slot_bytes is None or before.time_us(last) <= after.time_us(last):
        return last
    low, high = int(first), int(last)
    while low < high:
        middle = (low + high) // 2
        if after.time_us(middle) <= before.time_us(middle):
            high = middle
        else:
            low = middle + 1
    return low


def longest_block(program: Program | ProgramWire) -> int:
    """Count the instructions of the busiest thread block, including waits for other blocks.

    Programs of single threads, for hosts and copy engines, count 0.
    """
    if all(len(rank_program.blocks) <= 1 for rank_program in program.ranks):
        return 0
    return max(
        sum(1 + len(line.after) for line in block.instructions)
        for rank_program in program.ranks
        for block in rank_program.blocks
    )


def _comparable_costs(
    algorithms: Sequence[ModeledProgram],
) -> tuple[list[tuple[Fraction, Fraction]], Costs]:
    """Return (latency in alphas, R/C) of algorithms in common units, and the costs of these units.

    The algorithms may be for machine models with lanes of different speeds.
    """
    costs = [algorithm.costs for algorithm in algorithms]
    max_costs = Costs(max(c.alpha_us for c in costs), max(c.gb_per_s for c in costs))
    fastest = Fraction(str(max_costs.gb_per_s))
    alpha = Fraction(str(max_costs.alpha_us))
    price = Fraction(str(INSTRUCTION_US)) / alpha if alpha else Fraction(0)
    return [
        (
            algorithm.steps + algorithm.instructions * price,
            algorithm.cost * fastest / Fraction(str(algorithm.costs.gb_per_s)),
        )
        for algorithm in algorithms
    ], max_costs


def select_by_costs(
    project: ProjectWire, machine: Topology, collectives: Iterable[str] = ()
) -> Selection:
    """Choose the switch points of a project by the costs of a machine, for example a measured one.

    The result equals the selection of a project that is generated for that machine.

    Args:
        collectives: Identifiers of the collectives to change. Empty: all.

    Raises:
        InputError: The project lacks the links of its algorithms.
        ParameterError: The machine has other ranks, or lacks a link that an algorithm may use.
    """
    chosen = dict(Selection.parse(project.selection).switches)
    wanted = set(collectives)
    for entry in project.collectives:
        if not wanted or entry.identifier in wanted:
            chosen[entry.identifier] = _entry_switches(project, entry, machine)
    return Selection(chosen)


def _entry_switches(
    project: ProjectWire, entry: CollectiveProgramsWire, machine: Topology
) -> tuple[SwitchPoint, ...]:
    if not isinstance(project.protocols, tuple):
        raise _outdated_error()
    direct = (algorithm.direct for each in project.collectives for algorithm in each.algorithms)
    slot_bytes = gpu_slot_bytes(max(program.scratch_slots for program in direct))
    modeled = [
        _model_program(algorithm, project.ranks, machine, slot_bytes)
        for algorithm in entry.algorithms
    ]
    return choose_switch_points(modeled, project.protocols)


def _model_program(
    lowered: LoweredWire, ranks: int, machine: Topology, slot_bytes: int
) -> ModeledProgram:
    if not isinstance(lowered.links, tuple):
        raise _outdated_error()
    instructions = longest_block(lowered.eager)
    lanes = {(link.src, link.dst): link.lanes for link in lowered.links}
    return ModeledProgram(
        root=lowered.root or 0,
        steps=lowered.eager.steps,
        rounds=lowered.rounds,
        chunks=lowered.chunks,
        parts=lowered.eager.parts,
        costs=Costs.from_links(lanes, machine, lowered.topology, ranks),
        instructions=instructions,
        slot_bytes=slot_bytes if instructions and lowered.direct.scratch_slots else None,
    )


def _outdated_error() -> InputError:
    return InputError(
        "the project was written by an older sccl and does not list the links of its algorithms: "
        "generate it again with 'sccl project new', or leave --topo out to measure its programs"
    )


_SWITCH = r"\d+=\d+[adep]"
_ENTRY = rf"[a-z0-9_]+:{_SWITCH}(,{_SWITCH})*"
_TEXT = re.compile(rf"{_ENTRY}(;{_ENTRY})*")


@dataclass(frozen=True, slots=True)
class SwitchPoint:
    """The smallest block size for which a program is used, up to the next switch point.

    Attributes:
        from_bytes: Smallest size of a block.
        index: Number of the algorithm in its collective.
        protocol: ``e`` for the eager program, ``d`` for the direct one, ``a`` for the faster of
            these on the machine (host), ``p`` for the eager one in packets (kernels of GPU
            targets).
    """

    from_bytes: int
    index: int
    protocol: str

    @classmethod
    def for_program(cls, program: str, from_bytes: int) -> SwitchPoint:
        """Build the switch point to a program by its name, such as ``"0e"``."""
        return cls(from_bytes, int(program[:-1]), program[-1])

    def __str__(self) -> str:
        return f"{self.from_bytes}={self.index}{self.protocol}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Switch points of each collective, by its identifier."""

    switches: Mapping[str, tuple[SwitchPoint, ...]]

    @classmethod
    def parse(cls, text: str) -> Selection:
        """Parse a selection.

        Raises:
            ParameterError: The text is not of the form ``collective:from=program,...``.
        """
        if not _TEXT.fullmatch(text):
            raise ParameterError(
                f"select is {text!r}, expected collective:from=program,..., such as "
                "'allgather:0=0e,65536=1d;allreduce:0=0e'"
            )
        entries = (entry.split(":") for entry in text.split(";"))
        return cls(
            {name: tuple(map(_parse_switch, several.split(","))) for name, several in entries}
        )

    def entries(self) -> list[str]:
        """Format the switch points of each collective as ``"allgather:0=0e,65536=1d"``."""
        return [f"{name}:{','.join(map(str, s))}" for name, s in self.switches.items()]

    def __str__(self) -> str:
        """Format the selection for generated code, ``program.json``, and ``SCCL_SELECT``."""
        return ";".join(self.entries())


def _parse_switch(text: str) -> SwitchPoint:
    from_bytes, program = text.split("=")
    return SwitchPoint.for_program(program, int(from_bytes))
