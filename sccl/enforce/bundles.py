"""Bundles for the host that serve jobs without a plan: those that a user names, or one of our own.

Our own has everything go straight from rank to rank, which is right where ranks share memory. It is
built once for a machine's processor and compiler, and kept in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import platformdirs

from sccl.collectives import named
from sccl.emit import PROGRAM_FILE, generate, write_project
from sccl.errors import InputError, ToolError
from sccl.runtime import PLAIN, answer, build_plain, load_project
from sccl.synth import baselines
from sccl.synth.contract import Request
from sccl.topo import resolve

BUNDLES = "SCCL_BUNDLES"
"""0: gloo serves all. Otherwise folders, as in PATH, of projects that ``sccl codegen`` made."""

MAX_RANKS = 8
"""Largest group for a generated bundle. Shared memory grows with the square of the ranks."""

_SIZE_BYTES = 2**20  # of a request; what is straight is so at any size
_STRAIGHT = ("allgather", "allreduce", "broadcast", "reducescatter")


@dataclass(frozen=True, slots=True)
class HostBundle:
    """A bundle that is built.

    Attributes:
        library: its C API, without MPI.
        collectives: that it has algorithms of.
    """

    library: Path
    collectives: tuple[str, ...]


def bundle_for(ranks: int, wish: str) -> HostBundle:
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
            return _built(Path(folder))
    if ranks > MAX_RANKS:
        raise InputError(
            f"the group has {ranks} ranks, more than the {MAX_RANKS} that bundles are made for: "
            f"name one in {BUNDLES}"
        )
    return _own(ranks)


def _built(folder: Path) -> HostBundle:
    """Return the bundle of a project, which is built where anything of it is new."""
    project = load_project(folder)
    build_plain(project)
    return HostBundle((folder / PLAIN).resolve(), tuple(sorted(project.collectives)))


def _own(ranks: int) -> HostBundle:
    """Return our own bundle, from the cache if it is there."""
    made = _generated(ranks)
    told = sha256()
    for name, text in sorted(made.items()):
        told.update(f"{name}\0{text}\0".encode())
    told.update(_builder().encode())
    cache = Path(platformdirs.user_cache_dir("sccl")) / "bundles"
    folder = cache / told.hexdigest()
    if not (folder / PLAIN).is_file():
        _build_into(cache, folder, made)
    project = load_project(folder)
    return HostBundle(folder / PLAIN, tuple(sorted(project.collectives)))


def _build_into(cache: Path, folder: Path, made: dict[str, str]) -> None:
    """Build in a temporary folder and rename it. If another process was faster, use its result."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=cache) as aside:
            project = Path(aside) / "project"
            write_project(project, made)
            build_plain(load_project(project))
            for part in project.iterdir():
                if part.name not in (PLAIN, PROGRAM_FILE):
                    part.unlink()
            try:
                project.rename(folder)
            except OSError:
                if not (folder / PLAIN).is_file():
                    raise
    except OSError as error:
        raise InputError(f"cannot keep a bundle in {cache}: {error.strerror or error}") from error


def _generated(ranks: int) -> dict[str, str]:
    machine = resolve(f"full:{ranks}")
    algorithms = []
    for name in _STRAIGHT:
        request = Request(machine, named(name, ranks), _SIZE_BYTES)
        algorithms.append(baselines.on_machine(baselines.make("direct", request), machine))
    return generate(algorithms, "host")


def _builder() -> str:
    """Return a key of everything that affects compilation: compiler and processor."""
    compiler = os.environ.get("CXX") or "c++"
    if shutil.which(compiler.split()[0]) is None:
        raise ToolError(f"no {compiler}: install a C++ compiler (Debian: apt-get install g++)")
    flags = {line for line in _cpu().splitlines() if line.startswith(("model name", "flags"))}
    return "\n".join([answer([*compiler.split(), "--version"]), *sorted(flags)])


def _cpu() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
