"""Profiling: transfers between pairs of MPI ranks are timed, one pair after another.

TACCL (NSDI 2023), section 4.1: n chunks one after another, and n at once. MPI does not tell the
sender that a chunk has arrived, so the receiver answers with an empty message; what the answers
take is measured beside and taken off.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sccl.core.files.disk import data_dir
from sccl.core.ids import Edge
from sccl.core.measurements import LinkTiming, Pacing
from sccl.errors import ToolError
from sccl.runtime.mpi import Mpi
from sccl.runtime.processes import lines_of

_SOURCE = "profile.cpp"


@dataclass(frozen=True, slots=True)
class LinkTrial:
    """What is timed of links.

    Attributes:
        ranks: how many are started.
        edges: the links, as ``(src, dst)``; in this order.
        sizes: bytes of a chunk.
        counts: how many chunks are sent, one after another and at once.
        repeat: how often each is timed.
    """

    ranks: int
    edges: tuple[Edge, ...]
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    repeat: int

    def arguments(self) -> list[str]:
        """Return what the program is told."""
        lists = [",".join(map(str, some)) for some in (self.sizes, self.counts)]
        return [str(self.repeat), *lists, *(f"{src}-{dst}" for src, dst in self.edges)]


def link_timings(
    trial: LinkTrial, mpi: Mpi, notify: Callable[[str], None] = lambda _: None
) -> Generator[LinkTiming, None, None]:
    """Build the program that times transfers, run it, and yield each timing as it comes.

    Args:
        notify: called with what is being done.

    Raises:
        ToolError: it cannot be compiled, or a rank failed.
    """
    with tempfile.TemporaryDirectory(prefix="sccl-profile-") as place:
        folder = Path(place)
        shutil.copy(data_dir("codegen_templates") / "profile" / _SOURCE, folder)
        notify(f"compiling with {mpi.compiler}")
        _compile(folder, mpi)
        words = [*mpi.launcher(trial.ranks), str(folder / "profile"), *trial.arguments()]
        yield from _run(words, folder, mpi, trial, notify)


def _compile(folder: Path, mpi: Mpi) -> None:
    words = [mpi.compiler, "-std=c++17", "-O2", _SOURCE, "-o", "profile"]
    with closing(
        lines_of(words, folder, mpi.environment(), lambda _: f"{mpi.compiler} failed")
    ) as lines:
        for _ in lines:
            pass


def _run(
    words: Sequence[str], folder: Path, mpi: Mpi, trial: LinkTrial, notify: Callable[[str], None]
) -> Generator[LinkTiming, None, None]:
    done: list[Edge] = []
    notify(_progress(trial, done))
    lines = lines_of(
        words, folder, mpi.environment(), lambda code: f"profile ended with exit code {code}"
    )
    with closing(lines):
        for line in lines:
            timing = _timing(line)
            if timing.edge not in done[-1:]:
                done.append(timing.edge)
                notify(_progress(trial, done))
            yield timing


def _progress(trial: LinkTrial, done: Sequence[Edge]) -> str:
    return f"measuring: {len(done)} of {len(trial.edges)} links"


def _timing(line: str) -> LinkTiming:
    """Return what a line of the program says, less its answers.

    An answer is no slower than a chunk, so a chunk takes at least half of both.

    Raises:
        ToolError: it is no such line.
    """
    try:
        row = json.loads(line)
        pacing, chunks = Pacing(row["pacing"]), row["chunks"]
        answers = chunks if pacing is Pacing.IN_TURN else 1
        pairs = zip(row["us"], row["answer_us"], strict=True)
        us = tuple(round(max(t - answers * answer, t / 2), 3) for t, answer in pairs)
        return LinkTiming(row["src"], row["dst"], pacing, chunks, row["chunk_bytes"], us)
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(f"profile printed {line!r}, expected a line of JSON") from error
