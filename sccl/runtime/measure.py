"""Compare projects and the MPI library's own collectives, and tune switch points.

All of them are measured in one interleaved run.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sccl.codegen.switch_points import Selection, SwitchPoint
from sccl.errors import InputError, ToolError
from sccl.runtime.mpi import Mpi
from sccl.runtime.project import Project, bench_lines


@dataclass(frozen=True, slots=True)
class ContenderTiming:
    """The times of a contender for a collective at a size.

    Attributes:
        size_bytes: Bytes of a block, as in the OSU benchmarks.
        us: Microseconds of a call for each repetition, as the mean over ranks and calls.
    """

    collective: str
    size_bytes: int
    contender: str
    us: tuple[float, ...]

    @property
    def median_us(self) -> float:
        """Return the median over repetitions."""
        return statistics.median(self.us)


@dataclass(frozen=True, slots=True)
class TimingTrial:
    """Parameters of a benchmark of projects.

    Attributes:
        sizes: Smallest and largest bytes of a block. The sizes are powers of two times the
            smallest.
        repeat: Number of repetitions, in which contenders alternate.
        collectives: Collectives to time. Empty: all of the first project.
        against_mpi: Whether to time the MPI library's collectives as well.
        each: Whether to time every program of the first project separately.
    """

    sizes: tuple[int, int]
    repeat: int
    collectives: tuple[str, ...] = ()
    against_mpi: bool = False
    each: bool = False

    def arguments(self) -> list[str]:
        """Return the arguments of a project's benchmark."""
        words = [*self.collectives, "--json", "--repeat", str(self.repeat)]
        words += ["--sizes", f"{self.sizes[0]}:{self.sizes[1]}"]
        words += ["--against", "mpi"] if self.against_mpi else []
        return words + (["--each"] if self.each else [])


def time_projects(
    projects: Sequence[Project], mpi: Mpi, trial: TimingTrial
) -> Iterator[ContenderTiming]:
    """Time projects alternately, size by size, in a single run.

    Before a contender is timed at a size, every byte of every rank's output is checked.

    Args:
        projects: Projects. The first runs the benchmark and loads the others.

    Raises:
        InputError: The projects are for different targets or numbers of ranks.
        ToolError: The run failed, or a contender delivered wrong data.
    """
    first = projects[0]
    for project in projects[1:]:
        if (project.target, project.ranks) != (first.target, first.ranks):
            raise InputError(
                f"{project.directory} is for {project.ranks} ranks ({project.target}), "
                f"{first.directory} for {first.ranks} ({first.target}): "
                "compare projects of one target and number of ranks"
            )
    arguments = trial.arguments()
    for project in projects[1:]:
        arguments += ["--with", str((project.directory / "libsccl.so").resolve())]
    names = {f"with-{i}": str(p.directory) for i, p in enumerate(projects) if i}
    if not trial.each:
        names["sccl"] = str(first.directory)
    for line in bench_lines(first, mpi, arguments):
        yield _parse_timing(line, names)


def _parse_timing(line: str, names: dict[str, str]) -> ContenderTiming:
    try:
        row = json.loads(line)
        return ContenderTiming(
            row["collective"],
            row["size"],
            names.get(row["contender"], row["contender"]),
            tuple(row["us"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(f"bench printed {line!r}, expected a line of JSON") from error


def group_by_collective(
    timings: Iterable[ContenderTiming],
) -> dict[str, dict[int, dict[str, ContenderTiming]]]:
    """Return timings by collective, size and contender."""
    grouped: dict[str, dict[int, dict[str, ContenderTiming]]] = {}
    for timing in timings:
        sizes = grouped.setdefault(timing.collective, {})
        sizes.setdefault(timing.size_bytes, {})[timing.contender] = timing
    return grouped


_MIN_GAIN = 0.03
"""Relative gain that a switch of contenders must exceed, so that noise causes no switches."""


def fastest_contenders(
    sizes: dict[int, dict[str, ContenderTiming]], names: Iterable[str]
) -> list[tuple[int, str]]:
    """Return the switch points between the fastest contenders.

    Returns:
        Pairs of a size and the contender to use from this size.
    """
    switches: list[tuple[int, str]] = []
    contenders = list(names)
    for size, row in sorted(sizes.items()):
        best = min((n for n in contenders if n in row), key=lambda n: row[n].median_us)
        current = switches[-1][1] if switches else None
        gain = 1.0 if current is None else row[best].median_us / row[current].median_us
        if current is None or gain < 1 - _MIN_GAIN:
            switches.append((size, best))
    return switches


def geometric_speedup(sizes: dict[int, dict[str, ContenderTiming]], name: str, peer: str) -> float:
    """Return the geometric mean over sizes of the speedup of ``name`` relative to ``peer``."""
    logs = [
        math.log(row[peer].median_us / row[name].median_us)
        for row in sizes.values()
        if name in row and peer in row
    ]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def tune_selection(timings: Iterable[ContenderTiming], current: Selection) -> Selection:
    """Return the selection in which the fastest program serves each size.

    Args:
        timings: Timings of every program separately (``0e``, ``0d``, ``1e``, ...).
        current: Current selection. Collectives and, on GPUs, roots that were not measured keep
            their switch points.
    """
    chosen = dict(current.switches)
    for collective, sizes in group_by_collective(timings).items():
        names = sorted({name for row in sizes.values() for name in row})
        best = fastest_contenders(sizes, names)
        switches = [
            SwitchPoint.for_program(name, size if i else 0) for i, (size, name) in enumerate(best)
        ]
        measured = {SwitchPoint.for_program(name, 0).index for name in names}
        switches += [s for s in chosen.get(collective, ()) if s.index not in measured]
        chosen[collective] = tuple(sorted(switches, key=lambda switch: switch.from_bytes))
    return Selection(dict(sorted(chosen.items())))
