"""Operations of MSCCL++ plans as they are run, one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sccl.formats.mscclpp_plans.plan_file import OpPart
from sccl.formats.program_graph import Move

PIECES = 2
"""In so many pieces a pipeline goes here: enough that one meets the next."""

PORTED = frozenset({"put", "pws", "pwsf", "ppkt", "rppkt", "signal", "rlxsignal"})
"""Done by a port where they are over one."""


@dataclass(slots=True)
class PlanLine:
    """An operation at run time. An operation of a pipeline occurs once per piece.

    Attributes:
        moves_by_target: Its moves by destination.
        port_moves: Moves that it delegates to ports.
        origin: Number of the line that delegates this to a port. -1: a thread block does it.
    """

    rank: int
    block: int
    index: int
    op: OpPart
    piece: int = 0
    pieces: int = 1
    moves: list[Move] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    never_reason: str = ""
    moves_by_target: list[list[Move]] = field(default_factory=list)
    port_moves: list[Move] = field(default_factory=list)
    origin: int = -1


def port_operations(
    lines: Sequence[PlanLine], blocks: Sequence[int]
) -> Iterator[tuple[int, PlanLine]]:
    """Yield, for each port of each thread block, its moves and the delegating lines, in order.

    A port is a host thread: it reads and writes later than its delegation, in order.

    Args:
        blocks: Number of thread blocks of each rank. Ports are numbered after them.
    """
    commands: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        if line.op.channel_type == "port" and line.op.name in PORTED:
            for channel in line.op.channel_ids:
                commands[line.rank, line.block, channel].append(number)
    used = list(blocks)
    for (rank, block, _), numbers in commands.items():
        for number in numbers:
            text = f"{lines[number].op.name} by a port of thread block {block}"
            yield number, PlanLine(rank, used[rank], 0, OpPart(text), origin=number)
        used[rank] += 1


def number_lines(lines: Sequence[PlanLine]) -> Iterator[tuple[int, PlanLine]]:
    """Yield lines with their places among those of their thread block."""
    last, index = (-1, -2), 0
    for line in lines:
        index = index + 1 if (line.rank, line.block) == last else 0
        last = (line.rank, line.block)
        yield index, line


def unroll_pipelines(rank: int, block: int, ops: Sequence[OpPart]) -> Iterator[PlanLine]:
    """Yield the operations of a thread block, those of pipelines once for each piece."""
    index = 0
    for op in ops:
        if op.name != "pipeline":
            yield PlanLine(rank, block, index, op)
        for piece in range(PIECES if op.ops else 0):
            for i, inner in enumerate(op.ops):
                yield PlanLine(rank, block, index + 1 + i, inner, piece, PIECES)
        index += 1 + len(op.ops)
