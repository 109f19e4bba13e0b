"""Run every synthesiser once and keep what it writes: for tests that do so twice.

Usage: python synthesisers.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from typer.testing import CliRunner

from sccl import backends
from sccl.cli.main import app

ASKED = {
    "symmetric": ("alltoall", "torus:4x4", 16, 4, 8, "cpsat"),
    "symmetric-layered": ("allgather", "mesh:4x4", 2, 6, 15, "cpsat"),
    "symmetric-shortest": ("allgather", "torus:4x4x4", 2, 6, 21, "cpsat"),
} | {
    solver: ("allgather", "ring:5", 2, 3, 4, solver)
    for solver in backends.names()
    if solver != "portfolio"  # a race: the one that does not promise it
}


def command_lines(folder: Path) -> list[tuple[str, ...]]:
    """Return the commands to run, each of which writes into the folder."""
    lines = []
    for name, (collective, machine, chunks, steps, rounds, solver) in ASKED.items():
        where = ("--collective", collective, "--topo", machine)
        size = ("--chunks", chunks, "--steps", steps, "--rounds", rounds)
        how = ("--solver", solver, "--no-store", "-o", folder / f"{name}.json")
        lines.append(tuple(str(word) for word in ("solve", *where, *size, *how)))
    return lines


def main(folder: Path) -> None:
    """Run all commands."""
    folder.mkdir(exist_ok=True)
    for words in command_lines(folder):
        done = CliRunner().invoke(app, words)
        if done.exit_code:
            raise SystemExit(f"{' '.join(words)}: exit code {done.exit_code}\n{done.output}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
