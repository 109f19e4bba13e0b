"""An MPI of shell scripts: its compiler makes one script of everything, its launcher runs that."""

from __future__ import annotations

from pathlib import Path


def script(path: Path, text: str) -> Path:
    """Write a shell script and return where it is."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def scripted_mpi(folder: Path, bench: str) -> Path:
    """Return the folder of an MPI by which a project's benchmark is a script, and starts once."""
    folder.mkdir(exist_ok=True)
    made = script(folder / "made", bench)
    copies = f'for word; do [ "$last" = -o ] && cp "{made}" "$word"; last=$word; done; true'
    script(folder / "mpicxx", copies)
    script(folder / "mpirun", '[ "$1" = -n ] && shift 2 && exec "$@"')
    return folder


def scripted_tool(folder: Path, name: str, answers: dict[str, str]) -> Path:
    """Return the folder of a tool that prints an answer for its first word, and fails for others.

    The answers are files beside it.
    """
    folder.mkdir(exist_ok=True)
    lines = []
    for i, (word, text) in enumerate(answers.items()):
        answer = folder / f"{name}-{i}.txt"
        answer.write_text(text)
        lines.append(f'[ "$1" = "{word}" ] && exec cat "{answer}"')
    script(folder / name, "\n".join([*lines, "echo it has no driver >&2", "exit 9"]))
    return folder
