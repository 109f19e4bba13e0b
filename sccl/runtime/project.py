"""A generated project on disk: reading, building and running it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sccl.core.files.disk import read_text, write_folder
from sccl.emit import PROGRAM_FILE, Selection, selected
from sccl.errors import FormatError, InputError, ToolError
from sccl.runtime.mpi import Mpi

LINES = 15
"""Lines of a failed command that are shown."""


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
        InputError: there is none, or its program.json is not one.
    """
    file = directory / PROGRAM_FILE
    if not file.is_file():
        raise InputError(
            f"{directory} is not a generated project (it has no {PROGRAM_FILE}): "
            f"make one with 'sccl codegen FILE... --target host -o {directory}'"
        )
    try:
        return _project_of(json.loads(read_text(file)), directory)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            f"{file} is not what 'sccl codegen' writes ({type(error).__name__}: {error}): "
            "generate the project again"
        ) from error


def _project_of(value: Any, directory: Path) -> Project:
    if value["schema"] != 1 or value["kind"] != "program":
        raise ValueError("schema is not 1 or kind is not 'program'")
    return Project(
        directory,
        str(value["target"]),
        int(value["ranks"]),
        Selection.parse(str(value["selection"])),
        {str(c["identifier"]): len(c["algorithms"]) for c in value["collectives"]},
    )


def select(project: Project, selection: Selection) -> None:
    """Give a project on disk other switch points.

    Raises:
        InputError: it cannot be written.
    """
    program = read_text(project.directory / PROGRAM_FILE)
    write_folder(project.directory, selected(program, selection), last=PROGRAM_FILE)


def build(project: Project, mpi: Mpi) -> None:
    """Build a project with its own Makefile.

    Raises:
        ToolError: make or a compiler is missing, or the compiler rejects the code.
    """
    make = shutil.which("make")
    if make is None:
        raise ToolError("no make found: install it (Debian, Ubuntu: apt-get install make)")
    done = subprocess.run(  # noqa: S603 - our own Makefile, no shell
        [make, "-s", "-C", str(project.directory), f"MPICXX={mpi.compiler}"],
        capture_output=True,
        text=True,
        check=False,
        env=mpi.environment(),
    )
    if done.returncode:
        raise ToolError(f"building {project.directory} failed:\n{_end_of(done)}")


def command(project: Project, mpi: Mpi, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a project's benchmark."""
    return [*mpi.launcher(project.ranks), str((project.directory / "bench").resolve()), *arguments]


def lines_of(project: Project, mpi: Mpi, arguments: Sequence[str]) -> Iterator[str]:
    """Run a project's benchmark and yield each line that it prints, as it comes.

    Raises:
        ToolError: it ended with an error: a wrong result, or a rank that died.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        with subprocess.Popen(  # noqa: S603 - our own program, no shell
            command(project, mpi, arguments),
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            errors="replace",
            env=mpi.environment(),
            cwd=os.fspath(project.directory),
        ) as process:
            assert process.stdout is not None
            try:
                yield from process.stdout
            except BaseException:
                process.terminate()  # mpirun ends its ranks
                raise
        if process.returncode:
            said.seek(0)
            end = "\n".join(said.read().strip().splitlines()[-LINES:])
            raise ToolError(f"bench ended with exit code {process.returncode}:\n{end}")


def _end_of(done: subprocess.CompletedProcess[str]) -> str:
    text = (done.stderr or "") + (done.stdout or "")
    return "\n".join(text.strip().splitlines()[-LINES:])
