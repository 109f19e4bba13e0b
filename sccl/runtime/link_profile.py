"""Time transfers between pairs of MPI ranks, one pair after another, in rounds.

TACCL (NSDI 2023), section 4.1: n chunks one after another, and n at once. MPI does not notify the
sender of an arrival, so the receiver answers with an empty message. The time of the answers is
measured and subtracted.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sccl.core.files.disk import data_dir
from sccl.core.ids import Edge
from sccl.core.measurements import LinkTiming, Pacing
from sccl.errors import ParameterError, ToolError
from sccl.runtime.command_sessions import iterate_lines
from sccl.runtime.mpi import Mpi

_SOURCE, _HEADER = "profile.cpp", "plan.hpp"


@dataclass(frozen=True, slots=True)
class LinkTrial:
    """Parameters of a measurement of links.

    Attributes:
        ranks: Number of ranks to start.
        edges: Links, as ``(src, dst)``, in this order.
        sizes: Bytes of a chunk.
        counts: Numbers of chunks that are sent, one after another and at once.
        repeat: Number of repetitions.
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
        notify: Function that receives progress.

    Raises:
        ToolError: It cannot be compiled, or a rank failed.
    """
    with tempfile.TemporaryDirectory(prefix="sccl-profile-") as place:
        folder = Path(place)
        for name in (_SOURCE, _HEADER):
            shutil.copy(data_dir("codegen_templates") / "profile" / name, folder)
        notify(f"compiling with {mpi.compiler}")
        _compile(folder, mpi)
        words = [*mpi.launcher(trial.ranks), str(folder / "profile"), *trial.arguments()]
        return run_profiler(words, folder, mpi.environment(), trial, notify)


def _compile(folder: Path, mpi: Mpi) -> None:
    words = [mpi.compiler, "-std=c++17", "-O2", _SOURCE, "-o", "profile"]
    with closing(
        iterate_lines(words, folder, mpi.environment(), lambda _: f"{mpi.compiler} failed")
    ) as lines:
        for _ in lines:
            pass


_Row = tuple[int, int, Pacing, int, int]
"""A link, and how many chunks of how many bytes were sent how."""


def run_profiler(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    trial: LinkTrial,
    notify: Callable[[str], None],
) -> tuple[LinkTiming, ...]:
    """Return a program's measurements: all repetitions of a row together, in order of appearance.

    Args:
        words: Command.
        folder: Its working directory.
        notify: Function that receives progress.

    Raises:
        ToolError: It failed, or printed no timings.
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
    """Return a row that a line of the program is about, and its microseconds less its answers.

    An answer is no slower than a chunk, so a chunk takes at least half of both.

    Raises:
        ToolError: it is no such line.
    """
    try:
        record = json.loads(line)
        pacing, chunks = Pacing(record["pacing"]), record["chunks"]
        us, answers = record["us"], chunks if pacing is Pacing.IN_TURN else 1
        net_us = round(max(us - answers * record["answer_us"], us / 2), 3)
        return (record["src"], record["dst"], pacing, chunks, record["chunk_bytes"]), net_us
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(f"profile printed {line!r}, expected a line of JSON") from error
