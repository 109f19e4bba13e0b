"""Generate a project's files and write them into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from sccl import __version__
from sccl.codegen.bundle import Bundle, CostFunction, build_bundle, with_selection
from sccl.codegen.program_file import PROGRAM_FILE, project_to_wire
from sccl.codegen.switch_points import Protocols, Selection
from sccl.codegen.targets import cuda, gpu, hip, host
from sccl.codegen.targets.codegen_options import TRANSPORTS, CodegenOptions
from sccl.codegen.targets.rendering import render
from sccl.core.algorithm import Algorithm
from sccl.core.cost import Costs
from sccl.core.files.disk import check_can_create, write_folder
from sccl.core.files.json_text import parse
from sccl.core.files.programs import ProjectWire, project_text
from sccl.errors import FormatError, InputError, unknown_name


class Target(Protocol):
    """A module of this package that generates the sources of one target."""

    SERIAL: bool
    PROTOCOLS: Protocols

    def files(self, bundle: Bundle, options: CodegenOptions) -> dict[str, str]:
        """Return the sources of a bundle by file name."""

    def readme(self, options: CodegenOptions) -> dict[str, str]:
        """Return the README's values for this target."""


_TARGETS: dict[str, Target] = {"cuda": cuda, "hip": hip, "host": host}


def targets() -> tuple[str, ...]:
    """List the names of all targets."""
    return tuple(sorted(_TARGETS))


def generate(
    algorithms: Sequence[Algorithm],
    target: str,
    options: CodegenOptions | None = None,
    select: str | None = None,
    costs: CostFunction = Costs.from_topology,
) -> dict[str, str]:
    """Generate the files of a project, by name.

    Args:
        algorithms: Algorithms of the project, all for one number of ranks.
        select: Switch points that replace those of the cost model, in the syntax of
            ``SCCL_SELECT``.
        costs: Function that returns the costs of an algorithm's machine.

    Raises:
        UnknownNameError: The target or transport does not exist.
        ParameterError: The algorithms do not fit into one bundle, or ``select`` does not fit them.
        JudgeError: An algorithm fails verification.
    """
    if target not in _TARGETS:
        hint = f"the targets are {', '.join(targets())}"
        raise unknown_name("target", target, _TARGETS, hint)
    writer = _TARGETS[target]
    chosen = options or CodegenOptions()
    if chosen.transport not in TRANSPORTS:
        hint = f"the transports are {', '.join(TRANSPORTS)}"
        raise unknown_name("transport", chosen.transport, TRANSPORTS, hint)
    serial = writer.SERIAL or chosen.transport == "dma"
    protocols = writer.PROTOCOLS
    if chosen.transport == "dma":
        protocols = gpu.without_packets(protocols)
    bundle = build_bundle(algorithms, serial=serial, protocols=protocols, costs=costs)
    if select is not None:
        bundle = with_selection(bundle, Selection.parse(select), protocols)
    sources = writer.files(bundle, chosen)
    folder = "host" if target == "host" else "gpu"
    values = _readme_values(bundle, target, chosen)
    sources["README.md"] = render(f"{folder}/README.md.jinja", values)
    sources[PROGRAM_FILE] = project_text(project_to_wire(bundle, target, protocols))
    return sources


def _readme_values(bundle: Bundle, target: str, options: CodegenOptions) -> dict[str, Any]:
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
        for entry in bundle.entries
        for number, lowered in enumerate(entry.algorithms)
    ]
    return {
        "ranks": bundle.ranks,
        "version": __version__,
        "rows": rows,
        "slot_bytes": host.SLOT_BYTES if target == "host" else bundle.slot_bytes,
        "selection": str(bundle.selection()),
        **_TARGETS[target].readme(options),
    }


def write_project(directory: Path, sources: dict[str, str], *, force: bool = False) -> None:
    """Write a project into a new folder, or over a project of the same algorithms.

    Args:
        sources: Text of the files by name.
        force: Whether to write into any folder. Other files in it are kept.

    Raises:
        InputError: The folder has other contents, or cannot be written. Nothing is written then.
    """
    check_can_create(directory)
    if not force:
        _check_writable(directory, sources)
    write_folder(directory, sources, last=PROGRAM_FILE)


def _check_writable(directory: Path, sources: dict[str, str]) -> None:
    """Check that a folder is empty or contains the same project."""
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    if not (directory / PROGRAM_FILE).is_file():
        raise InputError(
            f"cannot write into {directory}: it holds files that are not a project of sccl; name a "
            "new folder, or give --force, which overwrites files of the same names"
        )
    before = _project_digests(
        (directory / PROGRAM_FILE).read_text(encoding="utf-8", errors="replace")
    )
    if before is None or before != _project_digests(sources[PROGRAM_FILE]):
        raise InputError(
            f"cannot write into {directory}: it holds another project, of other algorithms or for "
            "another target; name a new folder, or give --force, which overwrites it"
        )


def _project_digests(program: str) -> tuple[str, list[str]] | None:
    """Return a project's target and the digests of its algorithms. None: it is unreadable."""
    try:
        project = parse(program, ProjectWire, PROGRAM_FILE)
    except FormatError:
        return None
    digests = [a.digest for entry in project.collectives for a in entry.algorithms]
    return project.target, sorted(map(str, digests))
