"""Running: generated projects are timed, compared with others, and tuned."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.fields import Count, FileText, Part
from sccl.core.topology import Topology
from sccl.emit import PROGRAM_FILE, Selection
from sccl.errors import ParameterError
from sccl.runtime import (
    Mpi,
    Project,
    Timing,
    Trial,
    build,
    by_collective,
    fastest,
    load_project,
    select,
    select_on,
    speedup,
    timed,
    tuned,
)
from sccl.tasks.outputs import Output, file_digest, question_digests
from sccl.tasks.sizes import size_in_bytes


class TimingPart(Part, frozen=True, kw_only=True):
    """How long calls of a size took."""

    collective: str
    size_bytes: Annotated[int, Meta(ge=0, description="Bytes of a block.")]
    contender: Annotated[str, Meta(description="The project, mpi, or the program measured.")]
    median_us: float
    us: Annotated[tuple[float, ...], Meta(description="Microseconds of a call, by repetition.")]


class CheckedPart(Part, frozen=True, kw_only=True):
    """Data that were checked: of every contender at every size, before it was timed."""

    collective: str
    sizes: Count
    contenders: Count
    compared: Annotated[str, Meta(description="Scope of the comparison.")]


class SwitchPart(Part, frozen=True, kw_only=True):
    """From which size on which contender is the fastest."""

    from_bytes: Count
    contender: str


class RunOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl run'."""

    kind: Literal["run"] = "run"
    directory: FileText
    ranks: Count
    timings: tuple[TimingPart, ...]
    checked: tuple[CheckedPart, ...]


class BenchOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl bench'."""

    kind: Literal["bench"] = "bench"
    ranks: Count
    timings: tuple[TimingPart, ...]
    checked: tuple[CheckedPart, ...]
    speedups: Annotated[
        dict[str, dict[str, float | None]],
        Meta(
            description="By collective and peer: geometric mean over sizes; null: no size of both."
        ),
    ]
    fastest: dict[str, tuple[SwitchPart, ...]]


class TuneOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl tune'."""

    kind: Literal["tune"] = "tune"
    directory: FileText
    ranks: Count
    selection: Annotated[str, Meta(description="The switch points, as SCCL_SELECT spells them.")]
    machine: Annotated[
        str | None,
        Meta(description="By whose costs; null: by the timings."),
    ] = None
    timings: tuple[TimingPart, ...]
    checked: tuple[CheckedPart, ...]


_LARGEST = 1 << 40  # bytes
_COMPARED = (
    "every byte of every rank's output was compared with the definition of the collective, on "
    "inputs that identify ranks, blocks and places"
)


def project_of(directory: Path, ranks: int | None) -> Project:
    """Return the project in a folder.

    Args:
        ranks: how many are to be started. None: as many as it is for.

    Raises:
        InputError: there is no project, or it is for another number of ranks.
    """
    project = load_project(directory)
    if ranks not in (None, project.ranks):
        raise ParameterError(
            f"np is {ranks}, but {directory} is for {project.ranks} ranks: leave --np out, or "
            f"generate a project from algorithms for {ranks} ranks"
        )
    return project


def trial_of(project: Project, sizes: str, repeat: int, collectives: Sequence[str]) -> Trial:
    """Return the parameters of a benchmark of a project.

    Args:
        sizes: Bytes of a block, ``from..to``, such as ``"1..4M"``.
        collectives: Collectives to time. Empty: all.

    Raises:
        ParameterError: The sizes or the repetitions are out of range, or the project has no such
            collective.
    """
    low_high = size_range(sizes)
    check_collectives(project, collectives)
    if repeat < 1:
        raise ParameterError(f"repeat is {repeat}, expected at least 1")
    return Trial(low_high, repeat, tuple(collectives))


def size_range(text: str) -> tuple[int, int]:
    """Return the first and the last of some sizes, ``from..to``, bytes.

    Raises:
        ParameterError: the text is of another form, one is out of range, or the last is less than
            the first.
    """
    first, between, last = (part.strip() for part in text.partition(".."))
    if between:
        low, high = size_in_bytes(first, "sizes"), size_in_bytes(last, "sizes")
        if low <= high <= _LARGEST:
            return low, high
        if low > high:
            raise ParameterError(
                f"sizes is {text!r}, from {first} to less, {last}: "
                f"expected from..to, such as {last}..{first}"
            )
    raise ParameterError(
        f"sizes is {text!r}, expected from..to in bytes of at most {_LARGEST >> 30}G, such as 1..4M"
    )


def timings_of(
    projects: Sequence[Project], mpi: Mpi, trial: Trial
) -> Generator[Timing, None, None]:
    """Yield timings of built projects, as they come. Each contender's data are checked first.

    Raises:
        InputError: the projects do not compare, or no size could be measured.
        ToolError: the run failed, or a contender delivered wrong data.
    """
    timing = None
    for timing in timed(projects, mpi, trial):
        yield timing
    if timing is None:
        low, high = trial.sizes
        raise ParameterError(
            f"sizes is '{low}..{high}', of which none was measured: reductions use numbers of 4 "
            "bytes, so give sizes of at least that"
        )


def tune_project(project: Project, mpi: Mpi, timings: Sequence[Timing]) -> Selection:
    """Give a project the switch points that timings of each of its programs ask for.

    Raises:
        InputError: its folder cannot be written.
        ToolError: it cannot be built again.
    """
    selection = tuned(timings, project.selection)
    select(project, selection)
    build(project, mpi)
    return selection


def check_collectives(project: Project, collectives: Sequence[str]) -> None:
    """Check that a project has some collectives.

    Raises:
        ParameterError: it lacks one.
    """
    for name in collectives:
        if name not in project.collectives:
            raise ParameterError(
                f"{project.directory} has no {name!r}, only {', '.join(project.collectives)}"
            )


def tune_by_costs(
    project: Project, machine: Topology, collectives: Sequence[str] = ()
) -> Selection:
    """Give a project the switch points that a machine's costs ask for. Nothing is built or run.

    Args:
        machine: such as one that was measured.
        collectives: whose. Empty: all.

    Raises:
        InputError: the project has no such collective, or does not fit the machine, or its folder
            cannot be written.
    """
    check_collectives(project, collectives)
    return select_on(project, machine, collectives)


def digests_of(projects: Sequence[Project]) -> dict[str, str]:
    """Return the digests of the programs of projects, by folder."""
    return {str(p.directory): file_digest(p.directory / PROGRAM_FILE) for p in projects}


def checked_of(timings: Sequence[Timing]) -> tuple[CheckedPart, ...]:
    """Return the checked results. The benchmark fails if a contender is wrong at a size."""
    return tuple(
        CheckedPart(
            collective=name,
            sizes=len(rows),
            contenders=len({contender for row in rows.values() for contender in row}),
            compared=_COMPARED,
        )
        for name, rows in by_collective(timings).items()
    )


def run_output(project: Project, timings: Sequence[Timing]) -> RunOutput:
    """Return the JSON output of a run."""
    return RunOutput(
        inputs=digests_of([project]),
        directory=str(project.directory),
        ranks=project.ranks,
        timings=_parts(timings),
        checked=checked_of(timings),
    )


def bench_output(projects: Sequence[Project], timings: Sequence[Timing]) -> BenchOutput:
    """Return the JSON output of a comparison: the first project with each other contender."""
    speedups: dict[str, dict[str, float | None]] = {}
    switches: dict[str, tuple[SwitchPart, ...]] = {}
    for name, rows in by_collective(timings).items():
        ours, *peers = next(iter(rows.values()))
        ratios = {peer: round(speedup(rows, ours, peer), 3) for peer in peers}
        speedups[name] = {p: None if math.isnan(ratio) else ratio for p, ratio in ratios.items()}
        best = fastest(rows, [ours, *peers])
        switches[name] = tuple(SwitchPart(from_bytes=size, contender=who) for size, who in best)
    return BenchOutput(
        inputs=digests_of(projects),
        ranks=projects[0].ranks,
        timings=_parts(timings),
        checked=checked_of(timings),
        speedups=speedups,
        fastest=switches,
    )


def tune_output(
    project: Project,
    inputs: dict[str, str],
    selection: Selection,
    timings: Sequence[Timing] = (),
    machine: Topology | None = None,
) -> TuneOutput:
    """Return the JSON output of tuning a project, from measurements or a machine's costs.

    Args:
        inputs: Its digest before.
    """
    return TuneOutput(
        inputs=inputs if machine is None else inputs | question_digests(machine),
        directory=str(project.directory),
        ranks=project.ranks,
        selection=str(selection),
        machine=None if machine is None else machine.name,
        timings=_parts(timings),
        checked=checked_of(timings),
    )


def _parts(timings: Sequence[Timing]) -> tuple[TimingPart, ...]:
    return tuple(
        TimingPart(
            collective=t.collective,
            size_bytes=t.size_bytes,
            contender=t.contender,
            median_us=round(t.median_us, 3),
            us=t.us,
        )
        for t in timings
    )
