"""A project's ``program.json``: its programs, with the scratch they need, and its switch points."""

from __future__ import annotations

from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.programs import (
    BlockWire,
    CollectiveProgramsWire,
    InstructionRow,
    LinkRow,
    LoweredWire,
    ProgramWire,
    ProjectWire,
    RankProgramWire,
)
from sccl.core.files.text import digest
from sccl.emit.bundle import Bundle, Lowered
from sccl.emit.switch_points import Protocols
from sccl.lower import Instruction, Program, Slot

PROGRAM_FILE = "program.json"


def project_to_wire(made: Bundle, target: str, protocols: Protocols) -> ProjectWire:
    """Return the file shape of a bundle's programs.

    Args:
        protocols: those of its target.
    """
    return ProjectWire(
        target=target,
        ranks=made.ranks,
        selection=str(made.selection()),
        protocols=tuple(protocols),
        collectives=tuple(
            CollectiveProgramsWire(
                identifier=entry.identifier, algorithms=tuple(map(_lowered, entry.algorithms))
            )
            for entry in made.entries
        ),
    )


def _lowered(lowered: Lowered) -> LoweredWire:
    collective = lowered.algorithm.collective
    return LoweredWire(
        label=lowered.label,
        topology=lowered.algorithm.topology.name,
        collective=collective.name,
        chunks=collective.chunks,
        rounds=lowered.algorithm.rounds,
        root=collective.root,
        digest=digest(algorithm_to_wire(lowered.algorithm)),
        links=tuple(LinkRow(*edge, n) for edge, n in lowered.algorithm.topology.lanes().items()),
        eager=_program(lowered.eager),
        direct=_program(lowered.direct),
    )


def _program(program: Program) -> ProgramWire:
    return ProgramWire(
        steps=program.steps,
        landing=program.landing.value,
        parts=program.layout.parts,
        scratch_slots=program.scratch_slots,
        flags=program.flags,
        ranks=tuple(
            RankProgramWire(
                scratch_slots=own.scratch_slots,
                flags=own.flags,
                saves=own.saves,
                blocks=tuple(
                    BlockWire(
                        send_peer=block.send_peer,
                        recv_peer=block.recv_peer,
                        instructions=tuple(map(_row, block.instructions)),
                    )
                    for block in own.blocks
                ),
            )
            for own in program.ranks
        ),
    )


def _row(line: Instruction) -> InstructionRow:
    def slot(which: Slot | None) -> str | None:
        """Return a slot as text, such as ``"scratch:3"``."""
        return None if which is None else f"{which.buffer}:{which.index}"

    return InstructionRow(
        line.op.value,
        line.step,
        line.chunk,
        line.peer,
        slot(line.src),
        slot(line.other),
        slot(line.dst),
        line.flag,
        line.credit,
        line.after,
        line.next_peer,
        line.next_flag,
        tuple((a.peer, a.flag, f"{a.slot.buffer}:{a.slot.index}") for a in line.arrivals),
    )
