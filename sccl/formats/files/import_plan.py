"""``sccl import``: convert a plan in a foreign format to an algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from sccl.core.algorithm import Algorithm
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import FileText, NonNegative
from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError
from sccl.formats.common.program_graph import StepProgram
from sccl.formats.common.transfer_lists import machine_of_edges
from sccl.formats.files.foreign import (
    ForeignFile,
    find_faults,
    load_foreign_files,
    raise_unrecognized,
)
from sccl.formats.files.plans import write_plan
from sccl.judge import violations
from sccl.topo import resolve_topology

if TYPE_CHECKING:
    from sccl.transform.levels import TimedRow


class ImportOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl import'."""

    kind: Literal["import"] = "import"
    format: Annotated[str, "Name of the file's format."]
    about: str
    notes: Annotated[tuple[str, ...], "Assumptions and limits of the result."]
    collective: str
    topology: str
    ranks: NonNegative
    chunks: NonNegative
    steps: NonNegative
    rounds: NonNegative
    file: FileText


@dataclass(frozen=True, slots=True)
class ImportedPlan:
    """A foreign file and its algorithm."""

    source: ForeignFile
    algorithm: Algorithm


def import_plan(file: Path, output: Path, machine: str | None) -> ImportedPlan:
    """Convert a foreign file to an algorithm, and write it.

    Args:
        machine: Name of the machine. None: the links that the plan uses.

    Raises:
        InputError: The file has an unknown format or is invalid, or its transfers match no steps or
            not the machine.
    """
    foreign_files, _ = load_foreign_files([file])
    if not foreign_files:
        raise_unrecognized(file)
    if len(foreign_files) > 1:
        names = ", ".join(str(entry.file) for entry in foreign_files[:3])
        raise InputError(
            f"{file} holds {len(foreign_files)} plans, expected one: name it, of {names}"
        )
    (foreign_file,) = foreign_files
    if faults := find_faults(foreign_file):
        raise InputError(
            f"{file}: it fails verification and is not converted: {faults[0].message}; see all "
            f"with 'sccl check {file}'"
        )
    topology = None if machine is None else resolve_topology(machine)
    algorithm = _algorithm_of_file(foreign_file, topology)
    if wrong := violations(algorithm):
        raise InputError(
            f"{file}: it cannot be expressed in steps on {algorithm.topology.name!r}: "
            f"{wrong[0].message}"
        )
    write_plan(output, algorithm)
    return ImportedPlan(foreign_file, algorithm)


def _algorithm_of_file(foreign_file: ForeignFile, topology: Topology | None) -> Algorithm:
    from sccl.transform.levels import algorithm_from_rows  # noqa: PLC0415 - NumPy is slow to load

    plan = foreign_file.content.plan
    if isinstance(plan, StepProgram):
        return _algorithm_of_program(foreign_file.file, plan, topology)
    if plan is None:
        raise FormatError(f"{foreign_file.file}: {foreign_file.content.about}, and no plan")
    if not isinstance(plan, Algorithm):
        raise FormatError(
            f"{foreign_file.file}: it has times instead of steps: verify it with 'sccl check'"
        )
    if topology is None:
        return plan
    rows = [(2 * s.step, 2 * s.step + 1, s.chunk, s.src, s.dst, s.reduce) for s in plan.sends]
    return algorithm_from_rows(topology, plan.collective, rows)


def _algorithm_of_program(file: Path, program: StepProgram, topology: Topology | None) -> Algorithm:
    """Return the algorithm of a program's messages in an executable order.

    Raises:
        FormatError: The final state is unknown, or a message is not one chunk.
    """
    from sccl.transform.levels import algorithm_from_rows  # noqa: PLC0415 - NumPy is slow to load

    if program.collective.name == "custom":
        raise FormatError(f"{file}: its final state is not given, which an algorithm needs")
    rows = _message_rows(file, program)
    edges = [(src, dst) for *_, src, dst, _ in rows]
    machine = topology or machine_of_edges("imported", program.collective.ranks, edges)
    return algorithm_from_rows(machine, program.collective, rows)


def _message_rows(file: Path, program: StepProgram) -> list[TimedRow]:
    """Return a program's messages as rows of whole chunks.

    Raises:
        FormatError: A message is not one chunk, or parts of a chunk take different routes.
    """
    from sccl.formats.common.program_check import run_graph  # noqa: PLC0415 - NumPy is slow to load

    graph = program.call_modes[0].graph
    parts = len(graph.initial) // len(program.chunks)
    rows: list[list[TimedRow]] = [[] for _ in range(parts)]
    for move in run_graph(graph).transfers:
        chunks = {program.chunks[label] for label in move.content}
        if len(chunks) != 1:
            raise FormatError(
                f"{file}: a message from rank {move.src} to {move.dst} adds up several different "
                "chunks, which an algorithm cannot express"
            )
        row = (move.sent, move.used, chunks.pop(), move.src, move.dst, move.reduced)
        rows[move.index % parts].append(row)
    routes = {tuple(sorted(row[2:] for row in part)) for part in rows}
    if len(routes) > 1:
        raise FormatError(
            f"{file}: parts of a chunk take different routes, and in an algorithm all parts of a "
            "chunk take one route"
        )
    return rows[0]


def import_output(imported: ImportedPlan, output: Path) -> ImportOutput:
    """Return the JSON output."""
    algorithm, foreign_file = imported.algorithm, imported.source
    return build_output(
        ImportOutput,
        algorithm,
        inputs={str(foreign_file.file): foreign_file.digest},
        format=foreign_file.format.NAME,
        about=foreign_file.content.about,
        notes=foreign_file.content.notes,
        ranks=algorithm.topology.ranks,
        chunks=algorithm.collective.chunks,
        file=output,
    )
