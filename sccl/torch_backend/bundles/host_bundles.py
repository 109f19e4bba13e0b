"""Find or build the host bundles that serve calls outside plans: named by the user, or generated.

A generated bundle sends all data directly between ranks, which is best with shared memory. It is
built once for each processor and compiler, and stored in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import platformdirs

from sccl.codegen.program_file import PROGRAM_FILE
from sccl.codegen.project_writer import generate, write_project
from sccl.collectives import named_spec
from sccl.errors import InputError, ToolError
from sccl.runtime.project import PLAIN_LIBRARY, build_plain_library, load_project
from sccl.runtime.tool_checks import command_output
from sccl.synth import baselines
from sccl.synth.common.contract import Request
from sccl.topo import resolve_topology

BUNDLES = "SCCL_BUNDLES"
"""Environment variable. 0: no bundles. Otherwise folders, separated as in PATH, of projects by
``sccl project new``."""

MAX_RANKS = 8
"""Largest group for a generated bundle. Shared memory grows with the square of the ranks."""

_SIZE_BYTES = 2**20  # any size: a direct algorithm is the same for all
_DIRECT_COLLECTIVES = ("allgather", "allreduce", "broadcast", "reducescatter")


@dataclass(frozen=True, slots=True)
class HostBundle:
    """A built bundle.

    Attributes:
        library: Library with the C API, without MPI.
        collectives: Collectives that the bundle implements.
    """

    library: Path
    collectives: tuple[str, ...]


def find_bundle(ranks: int, wish: str) -> HostBundle:
    """Return the bundle that serves groups of a number of ranks, and build it if necessary.

    Args:
        wish: Value of :data:`BUNDLES`.

    Raises:
        InputError: A named folder is no project for the host.
        ToolError: There is no compiler, or it rejects the code.
    """
    for folder in filter(None, wish.split(os.pathsep)):
        project = load_project(Path(folder))
        if project.target != "host":
            raise InputError(f"{folder} is a project for {project.target}, expected one for host")
        if project.ranks == ranks:
            return _build_project(Path(folder))
    if ranks > MAX_RANKS:
        raise InputError(
            f"the group has {ranks} ranks, more than the {MAX_RANKS} that bundles are made for: "
            f"name one in {BUNDLES}"
        )
    return _default_bundle(ranks)


def _build_project(folder: Path) -> HostBundle:
    """Return the bundle of a project, and build it if its sources have changed."""
    project = load_project(folder)
    build_plain_library(project)
    return HostBundle((folder / PLAIN_LIBRARY).resolve(), tuple(sorted(project.collectives)))


def _default_bundle(ranks: int) -> HostBundle:
    """Return the generated bundle, from the cache if possible."""
    made = _generate_sources(ranks)
    digest = sha256()
    for name, text in sorted(made.items()):
        digest.update(f"{name}\0{text}\0".encode())
    digest.update(_compiler_key().encode())
    cache = Path(platformdirs.user_cache_dir("sccl")) / "bundles"
    folder = cache / digest.hexdigest()
    if not (folder / PLAIN_LIBRARY).is_file():
        _build_into(cache, folder, made)
    project = load_project(folder)
    return HostBundle(folder / PLAIN_LIBRARY, tuple(sorted(project.collectives)))


def _build_into(cache: Path, folder: Path, made: dict[str, str]) -> None:
    """Build in a temporary folder, and rename it. If another process was faster, use its bundle."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=cache) as aside:
            project = Path(aside) / "project"
            write_project(project, made)
            build_plain_library(load_project(project))
            for part in project.iterdir():
                if part.name not in (PLAIN_LIBRARY, PROGRAM_FILE):
                    part.unlink()
            try:
                project.rename(folder)
            except OSError:
                if not (folder / PLAIN_LIBRARY).is_file():
                    raise
    except OSError as error:
        raise InputError(f"cannot keep a bundle in {cache}: {error.strerror or error}") from error


def _generate_sources(ranks: int) -> dict[str, str]:
    machine = resolve_topology(f"full:{ranks}")
    algorithms = []
    for name in _DIRECT_COLLECTIVES:
        request = Request(machine, named_spec(name, ranks), _SIZE_BYTES)
        algorithms.append(
            baselines.to_algorithm(baselines.make_pattern("direct", request), machine)
        )
    return generate(algorithms, "host")


def _compiler_key() -> str:
    """Return a key of everything that affects compilation: compiler and processor."""
    compiler = os.environ.get("CXX") or "c++"
    if shutil.which(compiler.split()[0]) is None:
        raise ToolError(f"no {compiler}: install a C++ compiler (Debian: apt-get install g++)")
    flags = {line for line in _cpu_info().splitlines() if line.startswith(("model name", "flags"))}
    return "\n".join([command_output([*compiler.split(), "--version"]), *sorted(flags)])


def _cpu_info() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
