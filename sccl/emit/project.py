"""A generated project: its files, and its ``program.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from sccl import __version__
from sccl.core.algorithm import Algorithm
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.disk import check_can_create, write_folder
from sccl.core.files.text import digest
from sccl.emit import cuda, hip, host
from sccl.emit.bundle import Bundle, bundle, with_selection
from sccl.emit.selection import Selection
from sccl.emit.shared import TRANSPORTS, EmitOptions
from sccl.emit.text import render
from sccl.errors import InputError, unknown_name
from sccl.lower import Instruction, Program, Slot

PROGRAM_FILE = "program.json"


class Target(Protocol):
    """A module of this room that writes the sources of one target."""

    SERIAL: bool
    EAGER_PART_BYTES: int
    SLOT_BYTES: int

    def files(self, made: Bundle, options: EmitOptions) -> dict[str, str]:
        """Return the sources of a bundle by file name."""

    def readme(self, options: EmitOptions) -> dict[str, str]:
        """Return what the README says of this target."""


_TARGETS: dict[str, Target] = {"cuda": cuda, "hip": hip, "host": host}


def targets() -> tuple[str, ...]:
    """Return the names of all targets."""
    return tuple(sorted(_TARGETS))


def generate(
    algorithms: Sequence[Algorithm],
    target: str,
    options: EmitOptions | None = None,
    select: str | None = None,
) -> dict[str, str]:
    """Return the files of a project by name.

    Args:
        select: switch points in place of the cost model's, as ``SCCL_SELECT`` spells them.

    Raises:
        UnknownNameError: there is no such target or transport.
        ParameterError: the algorithms do not fit into one bundle, or ``select`` does not fit them.
        JudgeError: the judge rejects one of them.
    """
    if target not in _TARGETS:
        hint = f"the targets are {', '.join(targets())}"
        raise unknown_name("target", target, _TARGETS, hint)
    writer = _TARGETS[target]
    chosen = options or EmitOptions()
    if chosen.transport not in TRANSPORTS:
        hint = f"the transports are {', '.join(TRANSPORTS)}"
        raise unknown_name("transport", chosen.transport, TRANSPORTS, hint)
    serial = writer.SERIAL or chosen.transport == "dma"
    made = bundle(algorithms, serial=serial, eager_part_bytes=writer.EAGER_PART_BYTES)
    if select is not None:
        made = with_selection(made, Selection.parse(select))
    found = writer.files(made, chosen)
    folder = "host" if target == "host" else "gpu"
    found["README.md"] = render(f"{folder}/README.md.jinja", _readme(made, writer, chosen))
    found[PROGRAM_FILE] = program_json(made, target)
    return found


def _readme(made: Bundle, writer: Target, options: EmitOptions) -> dict[str, Any]:
    rows = [
        {
            "collective": entry.identifier,
            "number": number,
            "label": lowered.label,
            "steps": lowered.algorithm.steps,
            "rounds": lowered.algorithm.rounds,
            "chunks": lowered.algorithm.collective.chunks,
            "eager": lowered.eager.scratch_slots,
            "direct": lowered.direct.scratch_slots,
        }
        for entry in made.entries
        for number, lowered in enumerate(entry.algorithms)
    ]
    return {
        "ranks": made.ranks,
        "version": __version__,
        "rows": rows,
        "slot_bytes": writer.SLOT_BYTES,
        "selection": str(made.selection()),
        **writer.readme(options),
    }


def write_project(directory: Path, found: dict[str, str], *, force: bool = False) -> None:
    """Write a project: into a new folder, or over the project of the same algorithms.

    Args:
        force: whatever the folder holds; what it holds beside the project's files stays.

    Raises:
        InputError: the folder holds something else, or cannot be written. Nothing is written then.
    """
    check_can_create(directory)
    if not force:
        _check_free(directory, found)
    write_folder(directory, found, last=PROGRAM_FILE)


def _check_free(directory: Path, found: dict[str, str]) -> None:
    """Check that what a folder holds is the project that is to be written, or nothing."""
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    if not (directory / PROGRAM_FILE).is_file():
        raise InputError(
            f"cannot write into {directory}: it holds files that are not a project of sccl; name a "
            "new folder, or give --force, which overwrites files of the same names"
        )
    before = _made_of((directory / PROGRAM_FILE).read_text(encoding="utf-8", errors="replace"))
    if before is None or before != _made_of(found[PROGRAM_FILE]):
        raise InputError(
            f"cannot write into {directory}: it holds another project, of other algorithms or for "
            "another target; name a new folder, or give --force, which overwrites it"
        )


def _made_of(program: str) -> tuple[str, list[str]] | None:
    """Return a project's target and the digests of its algorithms; None: it does not say."""
    try:
        value = json.loads(program)
        digests = [a["digest"] for c in value["collectives"] for a in c["algorithms"]]
        return value["target"], sorted(digests)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def selected(program: str, selection: Selection) -> dict[str, str]:
    """Return the files of a project that name its switch points, by name, with other ones.

    Args:
        program: its ``program.json``.
    """
    value = json.loads(program) | {"selection": str(selection)}
    return {
        "selection.hpp": render("common/selection.hpp.jinja", {"selection": str(selection)}),
        PROGRAM_FILE: _text(value),
    }


def program_json(made: Bundle, target: str) -> str:
    """Return a bundle as JSON: its programs, with the scratch they need, and its switch points."""
    value = {
        "schema": 1,
        "kind": "program",
        "target": target,
        "ranks": made.ranks,
        "selection": str(made.selection()),
        "collectives": [
            {
                "identifier": entry.identifier,
                "algorithms": [
                    {
                        "label": lowered.label,
                        "topology": lowered.algorithm.topology.name,
                        "collective": lowered.algorithm.collective.name,
                        "chunks": lowered.algorithm.collective.chunks,
                        "rounds": lowered.algorithm.rounds,
                        "root": lowered.algorithm.collective.root,
                        "digest": digest(algorithm_to_wire(lowered.algorithm)),
                        "eager": _program(lowered.eager),
                        "direct": _program(lowered.direct),
                    }
                    for lowered in entry.algorithms
                ],
            }
            for entry in made.entries
        ],
    }
    return _text(value)


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


def _program(program: Program) -> dict[str, Any]:
    return {
        "steps": program.steps,
        "landing": program.landing,
        "parts": program.layout.parts,
        "scratch_slots": program.scratch_slots,
        "flags": program.flags,
        "fields": ["op", "step", "chunk", "peer", "src", "other", "dst", "flag", "credit", "after"],
        "ranks": [
            {
                "scratch_slots": own.scratch_slots,
                "flags": own.flags,
                "saves": list(own.saves),
                "blocks": [
                    {
                        "send_peer": block.send_peer,
                        "recv_peer": block.recv_peer,
                        "instructions": [_row(line) for line in block.instructions],
                    }
                    for block in own.blocks
                ],
            }
            for own in program.ranks
        ],
    }


def _row(line: Instruction) -> list[Any]:
    def slot(which: Slot | None) -> str | None:
        return None if which is None else f"{which.buffer}:{which.index}"

    slots = [slot(line.src), slot(line.other), slot(line.dst)]
    after = [list(address) for address in line.after]
    return [line.op, line.step, line.chunk, line.peer, *slots, line.flag, line.credit, after]
