"""Time transfers between pairs of MPI ranks or GPUs, one pair after another."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sccl.codegen.targets import cuda, gpu, hip
from sccl.codegen.targets.rendering import render
from sccl.core.files.disk import data_dir, read_text, write_folder
from sccl.core.formatting import format_count
from sccl.core.ids import Edge
from sccl.core.topology import BusIds
from sccl.errors import InputError, ParameterError, ToolError
from sccl.runtime.command_sessions import iterate_lines, run_command, run_make
from sccl.runtime.mpi import Mpi
from sccl.topo.profiles.measurements import LinkTiming, Pacing

_SOURCE, _HEADER = "profile.cpp", "plan.hpp"


@dataclass(frozen=True, slots=True)
class LinkTrial:
    """Parameters of a measurement of links.

    Attributes:
        edges: Links, as ``(src, dst)``, in the order of measurement.
        counts: Numbers of chunks to send, both one after another and at once.
    """

    ranks: int
    edges: tuple[Edge, ...]
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    repeat: int

    def arguments(self) -> list[str]:
        """Return the arguments of the program."""
        lists = [",".join(map(str, values)) for values in (self.sizes, self.counts)]
        return [str(self.repeat), *lists, *(f"{src}-{dst}" for src, dst in self.edges)]


def measure_links(
    trial: LinkTrial, mpi: Mpi, notify: Callable[[str], None] = lambda _: None
) -> tuple[LinkTiming, ...]:
    """Build and run the program that times transfers, and return its measurements.

    Args:
        notify: Progress callback: description of the current work.

    Raises:
        ToolError: The program cannot be compiled, or a rank failed.
    """
    with tempfile.TemporaryDirectory(prefix="sccl-profile-") as place:
        folder = Path(place)
        for name in (_SOURCE, _HEADER):
            shutil.copy(data_dir("codegen_templates") / "profile" / name, folder)
        notify(f"compiling with {mpi.compiler}")
        compiling = [mpi.compiler, "-std=c++17", "-O2", _SOURCE, "-o", "profile"]
        run_command(compiling, folder, mpi.environment(), f"{mpi.compiler} failed")
        words = [*mpi.launcher(trial.ranks), str(folder / "profile"), *trial.arguments()]
        return run_profiler(words, folder, mpi.environment(), trial, notify)


_Row = tuple[int, int, Pacing, int, int]
"""(source, destination, pacing, number of chunks, bytes of a chunk)."""


def run_profiler(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    trial: LinkTrial,
    notify: Callable[[str], None],
) -> tuple[LinkTiming, ...]:
    """Run a program that times transfers, and return its measurements.

    The repetitions of each link, pacing, count and size are collected, in order of appearance.

    Raises:
        ToolError: The program failed, or printed invalid timings.
    """
    by_row: dict[_Row, list[float]] = {}
    visits, before = 0, (-1, -1)
    with closing(
        iterate_lines(words, folder, environment, "profile ended with exit code {}".format, "{")
    ) as lines:
        for line in lines:
            row, us = _parse_row(line)
            by_row.setdefault(row, []).append(us)
            if row[:2] != before:
                before, visits = row[:2], visits + 1
                notify(f"measuring: {visits} of {trial.repeat * len(trial.edges)}")
    try:
        return tuple(LinkTiming(*row, tuple(us)) for row, us in by_row.items())
    except ParameterError as error:
        raise ToolError(f"profile printed an impossible value: {error}") from error


def _parse_row(line: str) -> tuple[_Row, float]:
    """Parse a line of the program, and return the row and its microseconds without the replies.

    Each exchange is a chunk and a reply. A reply is no slower than a chunk, so a chunk takes at
    least half of the time of both.

    Raises:
        ToolError: The line is malformed.
    """
    try:
        record = json.loads(line)
        pacing, chunks = Pacing(record["pacing"]), record["chunks"]
        us, answers = record["us"], chunks if pacing is Pacing.IN_TURN else 1
        net_us = round(max(us - answers * record["answer_us"], us / 2), 3)
        return (record["src"], record["dst"], pacing, chunks, record["chunk_bytes"]), net_us
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(f"profile printed {line!r}, expected a line of JSON") from error


_COMPILERS = {"cuda": "nvcc", "hip": "hipcc"}


@dataclass(frozen=True, slots=True)
class GpuProfiler:
    """A compiled program that times transfers between the visible GPUs.

    Attributes:
        gpus: Number of visible GPUs, at least two.
    """

    folder: Path
    gpus: int

    def measure(
        self, trial: LinkTrial, bus_ids: BusIds, notify: Callable[[str], None]
    ) -> tuple[LinkTiming, ...]:
        """Run the program, and return its measurements.

        Args:
            trial: Parameters, with GPUs as ranks.
            bus_ids: PCI bus id of each GPU. Empty: GPUs are numbered as by CUDA or HIP.
            notify: Progress callback: description of the current work.

        Raises:
            InputError: Fewer GPUs are visible than ``trial`` has ranks.
            ToolError: A GPU failed.
        """
        if trial.ranks > self.gpus:
            raise InputError(
                f"{format_count(self.gpus, 'GPU')} can be seen, and {trial.ranks} are to be "
                "measured: "
                "name a machine of as many, or leave --topo out"
            )
        order = (bus_ids if isinstance(bus_ids, str) else ",".join(bus_ids)) or "device"
        words = [str(self.folder / "gpus"), order, *trial.arguments()]
        return run_profiler(words, self.folder, os.environ, trial, notify)


@contextmanager
def build_gpu_profiler(notify: Callable[[str], None] = lambda _: None) -> Iterator[GpuProfiler]:
    """Build the program that times transfers between GPUs. Remove it at the end of the context.

    Args:
        notify: Progress callback: description of the current work.

    Raises:
        ToolError: No compiler for GPUs works, or fewer than two GPUs are visible.
    """
    target, compiler = _compiler()
    with tempfile.TemporaryDirectory(prefix="sccl-profile-") as place:
        folder = Path(place)
        write_folder(folder, profiler_files(target), last="Makefile")
        notify(f"compiling with {compiler}")
        run_make(folder, [f"GPUCXX={compiler}", "gpus"], os.environ, f"{compiler} failed")
        yield GpuProfiler(folder, _visible_gpus(folder))


def _compiler() -> tuple[str, str]:
    """Return the target and the GPU compiler, which the variable GPUCXX may name.

    Generated Makefiles choose the compiler in the same way.

    Raises:
        ToolError: There is no compiler for GPUs.
    """
    named = os.environ.get("GPUCXX")
    tools = {"hip" if "hip" in Path(named).name else "cuda": named} if named else _COMPILERS
    for target, compiler in tools.items():
        if shutil.which(compiler):
            return target, compiler
    raise ToolError(
        f"no {' and no '.join(tools.values())} found, which --gpus needs: install the CUDA "
        "toolkit or HIP's compiler (see 'sccl doctor'), or give --ranks to measure MPI ranks"
    )


def _visible_gpus(folder: Path) -> int:
    """Return the number of GPUs that the program sees.

    Raises:
        ToolError: There are fewer than two, or the program failed.
    """
    failed = "counting GPUs ended with exit code {}".format
    with closing(iterate_lines([str(folder / "gpus")], folder, os.environ, failed)) as lines:
        said = "".join(lines)
    try:
        record = json.loads(said)
        gpus, why = int(record["gpus"]), str(record["why"])
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(f"gpus printed {said!r}, expected a line of JSON") from error
    if gpus < 2:
        seen = f"no GPU can be seen ({why})" if not gpus else "1 GPU can be seen"
        raise ToolError(
            f"{seen}, and links are measured between two at least: run it on a machine that has "
            "them, or give --ranks to measure MPI ranks"
        )
    return gpus


_TEXTS = {"cuda": cuda.TEXTS, "hip": hip.TEXTS}
_VERBATIM_FILES = ("gpus.cpp", "plan.hpp")


def profiler_files(target: str) -> dict[str, str]:
    """Return the sources of the program that times transfers between GPUs, by file name."""
    values = {**_TEXTS[target], "threads": gpu.THREADS}
    folder = data_dir("codegen_templates") / "profile"
    return {
        **{name: read_text(folder / name) for name in _VERBATIM_FILES},
        "gpu.hpp": render("gpu/gpu.hpp.jinja", values),
        "Makefile": render("profile/Makefile.jinja", values),
    }
