"""A generated project on disk: reading, building and running it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sccl.core.files.disk import is_there, read_text, write_folder
from sccl.core.files.programs import ProjectWire
from sccl.core.files.text import parse
from sccl.core.topology import Topology
from sccl.emit import PROGRAM_FILE, Selection, selected, selection_on
from sccl.errors import FormatError, InputError, ParameterError, ToolError
from sccl.runtime.mpi import Mpi
from sccl.runtime.processes import lines_of

PLAIN = "libsccl-plain.so"
"""Library of a host project for ranks without MPI."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project as ``sccl codegen`` wrote it.

    Attributes:
        directory: where it lies.
        collectives: the identifier of each collective and how many algorithms it has.
    """

    directory: Path
    target: str
    ranks: int
    selection: Selection
    collectives: dict[str, int]


def load_project(directory: Path) -> Project:
    """Return the project in a folder.

    Raises:
        InputError: there is none.
        FormatError: its program.json is not one.
    """
    file = directory / PROGRAM_FILE
    if not is_there(file):
        raise InputError(
            f"{directory} is not a generated project (it has no {PROGRAM_FILE}): "
            f"make one with 'sccl codegen FILE... --target host -o {directory}'"
        )
    wire = _read(directory)
    try:
        selection = Selection.parse(wire.selection)
    except ParameterError as error:
        raise FormatError(f"{file}, $.selection: {error}") from error
    entries = {entry.identifier: len(entry.algorithms) for entry in wire.collectives}
    return Project(directory, wire.target, wire.ranks, selection, entries)


def _read(directory: Path) -> ProjectWire:
    file = directory / PROGRAM_FILE
    return parse(read_text(file), ProjectWire, str(file))


def select(project: Project, selection: Selection) -> None:
    """Give a project on disk other switch points.

    Raises:
        InputError: it cannot be read or written.
    """
    found = selected(_read(project.directory), selection)
    write_folder(project.directory, found, last=PROGRAM_FILE)


def select_on(project: Project, machine: Topology, collectives: Sequence[str] = ()) -> Selection:
    """Give a project on disk the switch points by a machine's costs, and return them.

    Args:
        collectives: whose change, by identifier. Empty: all.

    Raises:
        InputError: the machine has other ranks or lacks links, the project does not tell which
            links it uses, or it cannot be read or written. Nothing is written then.
    """
    selection = selection_on(_read(project.directory), machine, collectives)
    select(project, selection)
    return selection


def build(project: Project, mpi: Mpi, notify: Callable[[str], None] = lambda _: None) -> None:
    """Build a project with its own Makefile, which compiles on all cores.

    Args:
        notify: Function that receives each line on the progress of the compilation.

    Raises:
        ToolError: make or a compiler is missing, or the compiler rejects the code.
    """
    _make(project, [f"MPICXX={mpi.compiler}"], mpi.environment(), notify)


def build_plain(project: Project, notify: Callable[[str], None] = lambda _: None) -> None:
    """Build the library for ranks without MPI in the project's folder.

    Args:
        notify: As in :func:`build`.

    Raises:
        ToolError: make or a compiler is missing, or the compiler rejects the code.
    """
    _make(project, [PLAIN], dict(os.environ), notify)


def _make(
    project: Project,
    words: Sequence[str],
    environment: Mapping[str, str],
    notify: Callable[[str], None],
) -> None:
    make = shutil.which("make")
    if make is None:
        raise ToolError("make is missing: install it (Debian, Ubuntu: apt-get install make)")
    failed = f"building {project.directory} failed"
    lines_made = lines_of([make, "-s", *words], project.directory, environment, lambda _: failed)
    with closing(lines_made) as lines:
        for line in lines:
            notify(line.rstrip())


def command(project: Project, mpi: Mpi, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a project's benchmark."""
    return [*mpi.launcher(project.ranks), str((project.directory / "bench").resolve()), *arguments]


def bench_lines(project: Project, mpi: Mpi, arguments: Sequence[str]) -> Generator[str, None, None]:
    """Run a project's benchmark and yield each line of JSON that it prints, as it comes.

    Raises:
        ToolError: it ended with an error: a wrong result, or a rank that died.
    """
    words = command(project, mpi, arguments)
    return lines_of(
        words,
        project.directory,
        mpi.environment(),
        "bench ended with exit code {}".format,
        begin="{",
    )
