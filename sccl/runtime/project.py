"""Read, build, and run a generated project on disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sccl.codegen.program_file import PROGRAM_FILE
from sccl.codegen.project_writer import selection_files
from sccl.codegen.switch_points import Selection, select_by_costs
from sccl.core.files.disk import path_exists, read_text, write_folder
from sccl.core.files.json_text import parse
from sccl.core.files.programs import ProjectWire
from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError, ParameterError, ToolError
from sccl.runtime.command_sessions import iterate_lines
from sccl.runtime.mpi import Mpi

PLAIN_LIBRARY = "libsccl-plain.so"
"""Library of a project for CPUs, for ranks without MPI."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project that ``sccl project new`` has written.

    Attributes:
        directory: Folder of the project.
        target: Kind of hardware that the code is for.
        ranks: Number of ranks.
        selection: Switch points between algorithms.
        collectives: Number of algorithms of each collective, by identifier.
    """

    directory: Path
    target: str
    ranks: int
    selection: Selection
    collectives: dict[str, int]


def load_project(directory: Path) -> Project:
    """Return the project in a folder.

    Raises:
        InputError: There is no project.
        FormatError: The project's program.json is malformed.
    """
    file = directory / PROGRAM_FILE
    if not path_exists(file):
        raise InputError(
            f"{directory} is not a generated project (it has no {PROGRAM_FILE}): "
            f"make one with 'sccl project new FILE... --target host -o {directory}'"
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


def write_selection(project: Project, selection: Selection) -> None:
    """Replace the switch points of a project on disk.

    Raises:
        InputError: The project cannot be read or written.
    """
    files = selection_files(_read(project.directory), selection)
    write_folder(project.directory, files, last=PROGRAM_FILE)


def write_selection_by_costs(
    project: Project, machine: Topology, collectives: Sequence[str] = ()
) -> Selection:
    """Replace the switch points of a project on disk by those that a machine's costs determine.

    Args:
        project: Project.
        machine: Machine with the costs.
        collectives: Identifiers of the collectives whose switch points change. Empty: all.

    Returns:
        The new switch points.

    Raises:
        InputError: The machine has another number of ranks or lacks links, the project does not
            state which links it uses, or it cannot be read or written. Then nothing is written.
    """
    selection = select_by_costs(_read(project.directory), machine, collectives)
    write_selection(project, selection)
    return selection


def build_project(
    project: Project, mpi: Mpi, notify: Callable[[str], None] = lambda _: None
) -> None:
    """Build a project with its own Makefile, which compiles on all cores.

    Args:
        project: Project.
        mpi: MPI installation to build with.
        notify: Progress callback: a line of the compiler's output.

    Raises:
        ToolError: make or a compiler is missing, or the compiler rejects the code.
    """
    _make(project, [f"MPICXX={mpi.compiler}"], mpi.environment(), notify)


def build_plain_library(project: Project) -> None:
    """Build the library for ranks without MPI in the project's folder.

    Raises:
        ToolError: make or a compiler is missing, or the compiler rejects the code.
    """
    _make(project, [PLAIN_LIBRARY], dict(os.environ), lambda _: None)


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
    lines_made = iterate_lines(
        [make, "-s", *words], project.directory, environment, lambda _: failed
    )
    with closing(lines_made) as lines:
        for line in lines:
            notify(line.rstrip())


def benchmark_command(project: Project, mpi: Mpi, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a project's benchmark."""
    return [*mpi.launcher(project.ranks), str((project.directory / "bench").resolve()), *arguments]


def bench_lines(project: Project, mpi: Mpi, arguments: Sequence[str]) -> Generator[str, None, None]:
    """Run a project's benchmark, and yield each line of JSON as soon as it is printed.

    Raises:
        ToolError: The benchmark failed: a result is wrong, or a rank died.
    """
    words = benchmark_command(project, mpi, arguments)
    return iterate_lines(
        words,
        project.directory,
        mpi.environment(),
        "bench ended with exit code {}".format,
        begin="{",
    )
