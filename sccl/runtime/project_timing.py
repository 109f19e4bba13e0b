"""Time generated projects, compare them with others, and tune their switch points."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from sccl.codegen.program_file import PROGRAM_FILE
from sccl.codegen.switch_points import Selection, select_by_costs
from sccl.core.files.json_text import file_digest
from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import FileText, NonNegative, Part
from sccl.core.sizes import parse_size
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.runtime.measure import (
    ContenderTiming,
    TimingTrial,
    fastest_contenders,
    geometric_speedup,
    group_by_collective,
    time_projects,
    tune_selection,
)
from sccl.runtime.mpi import Mpi
from sccl.runtime.project import (
    Project,
    build_project,
    load_project,
    read_program_file,
    write_selection,
)


class TimingPart(Part, frozen=True, kw_only=True):
    """How long calls of a size took."""

    collective: str
    size_bytes: Annotated[NonNegative, "Bytes of a block."]
    contender: Annotated[str, "The project, mpi, or the program measured."]
    median_us: float
    us: Annotated[tuple[float, ...], "Microseconds of a call, by repetition."]


class CheckedPart(Part, frozen=True, kw_only=True):
    """Data that were checked: of every contender at every size, before it was timed."""

    collective: str
    sizes: NonNegative
    contenders: NonNegative
    compared: Annotated[str, "Scope of the comparison."]


class SwitchPart(Part, frozen=True, kw_only=True):
    """From which size on which contender is the fastest."""

    from_bytes: NonNegative
    contender: str


class RunOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl project run'."""

    kind: Literal["run"] = "run"
    directory: FileText
    ranks: NonNegative
    timings: tuple[TimingPart, ...]
    checked: tuple[CheckedPart, ...]


class BenchOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl project bench'."""

    kind: Literal["bench"] = "bench"
    ranks: NonNegative
    timings: tuple[TimingPart, ...]
    checked: tuple[CheckedPart, ...]
    speedups: Annotated[
        dict[str, dict[str, float | None]],
        "By collective and peer: geometric mean over sizes; null: no common size.",
    ]
    fastest: dict[str, tuple[SwitchPart, ...]]


class TuneOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl project tune'."""

    kind: Literal["tune"] = "tune"
    directory: FileText
    ranks: NonNegative
    selection: Annotated[str, "The switch points, as SCCL_SELECT spells them."]
    machine: Annotated[
        str | None,
        "Machine for the costs that set the switch points; null: measured timings set them.",
    ] = None
    timings: tuple[TimingPart, ...]
    checked: tuple[CheckedPart, ...]


_MAX_SIZE = 1 << 40  # bytes
_CHECK_TEXT = (
    "every byte of every rank's output was compared with the definition of the collective, on "
    "inputs that identify ranks, blocks and places"
)


def load_project_for(directory: Path, ranks: int | None) -> Project:
    """Return the project in a folder.

    Args:
        ranks: Number of ranks to start. None: the number that the project is for.

    Raises:
        InputError: There is no project, or it is for another number of ranks.
    """
    project = load_project(directory)
    if ranks not in (None, project.ranks):
        raise ParameterError(
            f"{ranks} ranks are asked for, but {directory} is for {project.ranks} ranks: "
            f"leave --ranks out, or generate a project from algorithms for {ranks} ranks"
        )
    return project


def build_trial(
    project: Project, sizes: str, repeat: int, collectives: Sequence[str]
) -> TimingTrial:
    """Return the parameters of a benchmark of a project.

    Args:
        sizes: Range of block sizes in bytes, ``from..to``, such as ``"1..4M"``.
        collectives: Collectives to time. Empty: all.

    Raises:
        ParameterError: The sizes or the repetitions are out of range, or the project has no such
            collective.
    """
    low_high = size_range(sizes)
    check_collectives(project, collectives)
    if repeat < 1:
        raise ParameterError(f"repeat is {repeat}, expected at least 1")
    return TimingTrial(low_high, repeat, tuple(collectives))


def size_range(text: str) -> tuple[int, int]:
    """Parse a range of sizes, ``from..to``, and return both ends in bytes.

    Raises:
        ParameterError: The text has another form, a size is out of range, or the last size is
            smaller than the first.
    """
    first, between, last = (part.strip() for part in text.partition(".."))
    if between:
        low, high = parse_size(first, "sizes"), parse_size(last, "sizes")
        if low <= high <= _MAX_SIZE:
            return low, high
        if low > high:
            raise ParameterError(
                f"sizes is {text!r}, from {first} to less, {last}: "
                f"expected from..to, such as {last}..{first}"
            )
    raise ParameterError(
        f"sizes is {text!r}, expected from..to in bytes of at most {_MAX_SIZE >> 30}G, such as "
        "1..4M"
    )


def iterate_timings(
    projects: Sequence[Project], mpi: Mpi, trial: TimingTrial
) -> Generator[ContenderTiming, None, None]:
    """Yield timings of built projects during the run. Each contender's data are checked first.

    Raises:
        InputError: The projects cannot be compared, or no size could be measured.
        ToolError: The run failed, or a contender delivered wrong data.
    """
    timing = None
    for timing in time_projects(projects, mpi, trial):
        yield timing
    if timing is None:
        low, high = trial.sizes
        raise ParameterError(
            f"sizes is '{low}..{high}', and no size was measured: reductions use 4-byte numbers, "
            "so give sizes of at least 4 bytes"
        )


def tune_project(project: Project, mpi: Mpi, timings: Sequence[ContenderTiming]) -> Selection:
    """Set the switch points of a project by the timings of each of its programs, and rebuild it.

    Raises:
        InputError: The project's folder cannot be written.
        ToolError: The project cannot be rebuilt.
    """
    selection = tune_selection(timings, project.selection)
    write_selection(project, selection)
    build_project(project, mpi)
    return selection


def check_collectives(project: Project, collectives: Sequence[str]) -> None:
    """Check that a project contains all of the given collectives.

    Raises:
        ParameterError: A collective is missing.
    """
    for name in collectives:
        if name not in project.collectives:
            raise ParameterError(
                f"{project.directory} has no {name!r}, only {', '.join(project.collectives)}"
            )


def tune_by_costs(
    project: Project, machine: Topology, collectives: Sequence[str] = ()
) -> Selection:
    """Set the switch points of a project by the costs of a machine, without building or running it.

    Args:
        machine: Machine with the costs, such as a measured one.
        collectives: Collectives whose switch points change. Empty: all.

    Raises:
        InputError: The project has no such collective, does not fit the machine, or its folder
            cannot be written.
    """
    check_collectives(project, collectives)
    selection = select_by_costs(read_program_file(project.directory), machine, collectives)
    write_selection(project, selection)
    return selection


def project_digests(projects: Sequence[Project]) -> dict[str, str]:
    """Return the digests of the programs of projects, by folder."""
    return {str(p.directory): file_digest(p.directory / PROGRAM_FILE) for p in projects}


def checked_parts(timings: Sequence[ContenderTiming]) -> tuple[CheckedPart, ...]:
    """Return the checks that the benchmark made. It fails if a contender delivers wrong data."""
    return tuple(
        CheckedPart(
            collective=name,
            sizes=len(rows),
            contenders=len({contender for row in rows.values() for contender in row}),
            compared=_CHECK_TEXT,
        )
        for name, rows in group_by_collective(timings).items()
    )


def run_output(project: Project, timings: Sequence[ContenderTiming]) -> RunOutput:
    """Return the JSON output of a run."""
    return build_output(
        RunOutput,
        project,
        inputs=project_digests([project]),
        timings=_timing_parts(timings),
        checked=checked_parts(timings),
    )


def bench_output(projects: Sequence[Project], timings: Sequence[ContenderTiming]) -> BenchOutput:
    """Return the JSON output of a comparison of the first project with each other contender."""
    speedups: dict[str, dict[str, float | None]] = {}
    switches: dict[str, tuple[SwitchPart, ...]] = {}
    for name, rows in group_by_collective(timings).items():
        ours, *peers = next(iter(rows.values()))
        ratios = {peer: round(geometric_speedup(rows, ours, peer), 3) for peer in peers}
        speedups[name] = {p: None if math.isnan(ratio) else ratio for p, ratio in ratios.items()}
        best = fastest_contenders(rows, [ours, *peers])
        switches[name] = tuple(
            SwitchPart(from_bytes=size, contender=contender) for size, contender in best
        )
    return BenchOutput(
        inputs=project_digests(projects),
        ranks=projects[0].ranks,
        timings=_timing_parts(timings),
        checked=checked_parts(timings),
        speedups=speedups,
        fastest=switches,
    )


def tune_output(
    project: Project,
    inputs: dict[str, str],
    selection: Selection,
    timings: Sequence[ContenderTiming] = (),
    machine: Topology | None = None,
) -> TuneOutput:
    """Return the JSON output of tuning a project, from measurements or a machine's costs.

    Args:
        inputs: Digest of the project before tuning.
        timings: Measurements. Empty if a machine's costs set the switch points.
        machine: Machine whose costs set the switch points. None: measurements set them.
    """
    return build_output(
        TuneOutput,
        project,
        inputs=inputs if machine is None else inputs | question_digests(machine),
        selection=selection,
        machine=machine,
        timings=_timing_parts(timings),
        checked=checked_parts(timings),
    )


def _timing_parts(timings: Sequence[ContenderTiming]) -> tuple[TimingPart, ...]:
    return tuple(
        build_output(TimingPart, timing, median_us=round(timing.median_us, 3)) for timing in timings
    )
