"""Read, build, and run a generated project on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sccl.codegen.program_file import PROGRAM_FILE
from sccl.codegen.switch_points import Selection
from sccl.codegen.targets.rendering import render
from sccl.core.files.disk import path_exists, read_text, write_folder
from sccl.core.files.json_text import parse
from sccl.core.files.programs import ProjectWire, project_text
from sccl.errors import FormatError, InputError, ParameterError
from sccl.runtime.command_sessions import iterate_lines, run_make
from sccl.runtime.mpi import Mpi

PLAIN_LIBRARY = "libsccl-plain.so"
"""Library of a project for CPUs, for ranks without MPI."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project that ``sccl project new`` has written.

    Attributes:
        target: Kind of hardware that the code is for.
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
    wire = read_program_file(directory)
    try:
        selection = Selection.parse(wire.selection)
    except ParameterError as error:
        raise FormatError(f"{file}, $.selection: {error}") from error
    entries = {entry.identifier: len(entry.algorithms) for entry in wire.collectives}
    return Project(directory, wire.target, wire.ranks, selection, entries)


def read_program_file(directory: Path) -> ProjectWire:
    """Return the content of a project's ``program.json``.

    Raises:
        InputError: It cannot be read, or is malformed.
    """
    file = directory / PROGRAM_FILE
    return parse(read_text(file), ProjectWire, str(file))


def write_selection(project: Project, selection: Selection) -> None:
    """Replace the switch points of a project on disk.

    Raises:
        InputError: The project cannot be read or written.
    """
    text = str(selection)
    files = {
        "selection.hpp": render("common/selection.hpp.jinja", {"selection": text}),
        PROGRAM_FILE: project_text(read_program_file(project.directory).with_selection(text)),
    }
    write_folder(project.directory, files, last=PROGRAM_FILE)


def build_project(
    project: Project, mpi: Mpi, notify: Callable[[str], None] = lambda _: None
) -> None:
    """Build a project with its own Makefile, which compiles on all cores.

    Args:
        notify: Progress callback: a line of the compiler's output.

    Raises:
        ToolError: make or a compiler is missing, or the compiler rejects the code.
    """
    failed = f"building {project.directory} failed"
    words = [f"MPICXX={mpi.compiler}"]
    run_make(project.directory, words, mpi.environment(), failed, notify)


def build_plain_library(project: Project) -> None:
    """Build the library for ranks without MPI in the project's folder.

    Raises:
        ToolError: make or a compiler is missing, or the compiler rejects the code.
    """
    failed = f"building {project.directory} failed"
    run_make(project.directory, [PLAIN_LIBRARY], os.environ, failed)


def bench_lines(project: Project, mpi: Mpi, arguments: Sequence[str]) -> Generator[str, None, None]:
    """Run a project's benchmark, and yield each line of JSON as soon as it is printed.

    Raises:
        ToolError: The benchmark failed: a result is wrong, or a rank died.
    """
    bench = str((project.directory / "bench").resolve())
    return iterate_lines(
        [*mpi.launcher(project.ranks), bench, *arguments],
        project.directory,
        mpi.environment(),
        "bench ended with exit code {}".format,
        begin="{",
    )
