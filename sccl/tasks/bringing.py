"""``sccl import``: an algorithm of sccl's own from a file in the format of somebody else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from sccl.core.algorithm import Algorithm
from sccl.core.files.fields import Count, FileText
from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError
from sccl.formats.flows import machine_of
from sccl.judge import violations
from sccl.lower.step_graph import StepProgram
from sccl.tasks.files import write_plan
from sccl.tasks.foreign import Strange, faults_of, refuse_no_plan, strange_files
from sccl.tasks.outputs import Output
from sccl.topo import resolve

if TYPE_CHECKING:
    from sccl.transform.levels import Row


class ImportOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl import'."""

    kind: Literal["import"] = "import"
    format: Annotated[str, Meta(description="Name of the file's format.")]
    about: str
    notes: Annotated[tuple[str, ...], Meta(description="Assumptions and limits of the result.")]
    collective: str
    topology: str
    ranks: Count
    chunks: Count
    steps: Count
    rounds: Count
    file: FileText


@dataclass(frozen=True, slots=True)
class Brought:
    """A file of somebody else, and the algorithm that was made of it."""

    strange: Strange
    algorithm: Algorithm


def bring(file: Path, output: Path, machine: str | None) -> Brought:
    """Write the algorithm that a file of somebody else holds.

    Args:
        machine: whose links it is for. None: those that it uses.

    Raises:
        InputError: the file is of no format that is read, is wrong, or its transfers do not keep
            to steps or to the machine.
    """
    found, _ = strange_files([file])
    if not found:
        from sccl.tasks.foreign import content_of  # noqa: PLC0415 - says what is wrong with it

        content_of(file)
        refuse_no_plan(file)
    if len(found) > 1:
        some = ", ".join(str(one.file) for one in found[:3])
        raise InputError(f"{file} holds {len(found)} plans, expected one: name it, of {some}")
    (strange,) = found
    if faults := faults_of(strange):
        raise InputError(
            f"{file}: it is wrong, so that nothing is made of it: {faults[0].message}; see all "
            f"with 'sccl check {file}'"
        )
    topology = None if machine is None else resolve(machine)
    algorithm = _algorithm(strange, topology)
    if wrong := violations(algorithm):
        raise InputError(
            f"{file}: it does not keep to steps on {algorithm.topology.name!r}: {wrong[0].message}"
        )
    write_plan(output, algorithm)
    return Brought(strange, algorithm)


def _algorithm(strange: Strange, topology: Topology | None) -> Algorithm:
    from sccl.transform.levels import algorithm_of_rows  # noqa: PLC0415 - NumPy is slow to load

    plan = strange.foreign.plan
    if isinstance(plan, StepProgram):
        return _of_program(strange.file, plan, topology)
    if plan is None:
        raise FormatError(f"{strange.file}: {strange.foreign.about}, and no plan")
    if not isinstance(plan, Algorithm):
        raise FormatError(
            f"{strange.file}: it has times, and no steps: verify it with 'sccl check'"
        )
    if topology is None:
        return plan
    rows = [(2 * s.step, 2 * s.step + 1, s.chunk, s.src, s.dst, s.reduce) for s in plan.sends]
    return algorithm_of_rows(topology, plan.collective, rows)


def _of_program(file: Path, program: StepProgram, topology: Topology | None) -> Algorithm:
    """Return the algorithm of a program's messages, in an order in which they can be executed.

    Raises:
        FormatError: Its final state is not given, or a message is not one chunk.
    """
    from sccl.transform.levels import algorithm_of_rows  # noqa: PLC0415 - NumPy is slow to load

    if program.collective.name == "custom":
        raise FormatError(f"{file}: its final state is not given, which an algorithm needs")
    rows = _rows(file, program)
    edges = [(src, dst) for *_, src, dst, _ in rows]
    machine = topology or machine_of("imported", program.collective.ranks, edges)
    return algorithm_of_rows(machine, program.collective, rows)


def _rows(file: Path, program: StepProgram) -> list[Row]:
    """Return a program's messages as rows of whole chunks.

    Raises:
        FormatError: a message is not one chunk, or parts of chunks go different ways.
    """
    from sccl.lower.step_graph_run import run_graph  # noqa: PLC0415 - NumPy is slow to load

    graph = program.callings[0].graph
    parts = len(graph.given) // len(program.chunks)
    rows: list[list[Row]] = [[] for _ in range(parts)]
    for one in run_graph(graph).passages:
        chunks = {program.chunks[label] for label in one.content}
        if len(chunks) != 1:
            raise FormatError(
                f"{file}: a message from rank {one.src} to {one.dst} adds up chunks of several "
                "numbers, which an algorithm does not"
            )
        row = (one.sent, one.used, chunks.pop(), one.src, one.dst, one.reduced)
        rows[one.index % parts].append(row)
    ways = {tuple(sorted(row[2:] for row in part)) for part in rows}
    if len(ways) > 1:
        raise FormatError(
            f"{file}: parts of a chunk go ways of their own; those of algorithms do not"
        )
    return rows[0]


def import_output(brought: Brought, output: Path) -> ImportOutput:
    """Return the JSON output."""
    algorithm, strange = brought.algorithm, brought.strange
    return ImportOutput(
        inputs={str(strange.file): strange.digest},
        format=strange.format.NAME,
        about=strange.foreign.about,
        notes=strange.foreign.notes,
        collective=algorithm.collective.name,
        topology=algorithm.topology.name,
        ranks=algorithm.topology.ranks,
        chunks=algorithm.collective.chunks,
        steps=algorithm.steps,
        rounds=algorithm.rounds,
        file=str(output),
    )
