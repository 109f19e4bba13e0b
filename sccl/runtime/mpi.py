"""Find an MPI installation: its compiler wrapper and launcher."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sccl.errors import ToolError


@dataclass(frozen=True, slots=True)
class Mpi:
    """An MPI installation.

    Attributes:
        open_mpi: Whether it is Open MPI, whose launcher starts more ranks than cores only with an
            option.
    """

    folder: Path
    open_mpi: bool

    def launcher(self, ranks: int) -> list[str]:
        """Return the command that starts ``ranks`` ranks of the program that follows it."""
        extra = ["--oversubscribe"] if self.open_mpi else []
        if self.open_mpi and os.geteuid() == 0:
            extra.append("--allow-run-as-root")  # the user already runs sccl as root
        return [str(self.folder / "mpirun"), *extra, "-n", str(ranks)]

    @property
    def compiler(self) -> str:
        """Return the C++ compiler wrapper."""
        return str(self.folder / "mpicxx")

    def environment(self) -> dict[str, str]:
        """Return environment variables with the installation's folder first on PATH."""
        path = os.environ.get("PATH", os.defpath)
        return {**os.environ, "PATH": f"{self.folder}{os.pathsep}{path}"}


def find_mpi(folder: Path | None = None) -> Mpi:
    """Return the MPI installation to use.

    Args:
        folder: Folder of mpicxx and mpirun. None: the one next to Python (the ``mpi`` extra of the
            package), or else the one on PATH.

    Raises:
        ToolError: No MPI was found. The message describes how to install one.
    """
    place = mpi_folder(folder)
    if place:
        return Mpi(place, _is_open_mpi(place))
    where = f"in {folder}" if folder else "next to Python or on PATH"
    raise ToolError(
        f"MPI is missing {where} (mpicxx and mpirun are needed): pip install 'sccl[mpi]', or on "
        "Debian apt-get install libmpich-dev, or name its folder with --mpi"
    )


def mpi_folder(folder: Path | None = None) -> Path | None:
    """Return the folder of mpicxx and mpirun that :func:`find_mpi` selects, or None."""
    for place in [folder] if folder else _candidate_folders():
        if all(os.access(place / tool, os.X_OK) for tool in ("mpicxx", "mpirun")):
            return place.absolute()
    return None


def _candidate_folders() -> Iterable[Path]:
    yield Path(sys.executable).parent
    compiler = shutil.which("mpicxx")
    if compiler:
        yield Path(compiler).parent


def _is_open_mpi(folder: Path) -> bool:
    answer = subprocess.run(  # noqa: S603 - the command is on PATH or named by the user
        [str(folder / "mpirun"), "--version"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"},
    )
    return "Open MPI" in answer.stdout or "open-mpi" in answer.stdout.lower()
