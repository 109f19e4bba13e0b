"""``sccl run``, ``sccl bench`` and ``sccl tune``: generated projects at work."""

from __future__ import annotations

import json as json_lib
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import complete, options
from sccl.cli.report import err, out, print_output, reported
from sccl.core.files.disk import check_can_write, write_atomically
from sccl.core.words import counted
from sccl.emit import PROGRAM_FILE, SELECTION_FILE, selection_text
from sccl.errors import ParameterError
from sccl.runtime import (
    Mpi,
    Project,
    Timing,
    build,
    compare,
    fastest,
    find_mpi,
    in_groups,
    load_project,
    speedup,
    timed,
    tuned_selection,
)
from sccl.tasks.answers import (
    BenchOutput,
    CheckedPart,
    RunOutput,
    SwitchPart,
    TimingPart,
    TuneOutput,
)
from sccl.tasks.outputs import file_digest, plain

Directory = Annotated[Path, typer.Argument(help="A generated project.", show_default=False)]
Directories = Annotated[
    list[Path], typer.Argument(help="Generated projects of one target.", show_default=False)
]
Ranks = Annotated[
    int | None, typer.Option("--np", help="Ranks to start; a project is for one number of them.")
]
Sizes = Annotated[str, typer.Option(help="Bytes of a block, from..to, each twice the one before.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--collective",
        help="Only this one; may be repeated.",
        autocompletion=complete.collective,
    ),
]
MpiFolder = Annotated[
    Path | None,
    typer.Option("--mpi", help="Folder of mpicxx and mpirun.", show_default="sccl[mpi], or PATH"),
]
Repeat = Annotated[int, typer.Option(help="Repetitions, in turns; medians are shown.")]
Against = Annotated[
    str | None,
    typer.Option(
        help="'mpi': also the MPI library's own collectives.",
        autocompletion=complete.words(("mpi",), "the MPI library"),
    ),
]

_REPEAT = 5  # of sccl run, whose numbers are a first look

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@reported
def run(
    directory: Directory,
    np: Ranks = None,
    sizes: Sizes = "1..1M",
    collective: Only = None,
    mpi: MpiFolder = None,
    json: options.Json = False,
) -> None:
    """Build a project and run its benchmark, which checks the data of every size."""
    project = _project(directory, np)
    names, low_high = _known(project, collective), _range(sizes)
    found = _built([project], mpi)
    timings: list[Timing] = []
    for timing in timed([project], found, sizes=low_high, repeat=_REPEAT, collectives=names):
        if not json:
            _print_row(timing, timings[-1].collective if timings else "", project.ranks)
        timings.append(timing)
    _require_some(timings, sizes)
    if json:
        print_output(
            RunOutput(
                inputs=_digests([project]),
                directory=str(directory),
                ranks=project.ranks,
                timings=_parts(timings),
                checked=_checked(timings),
            )
        )
    else:
        _print_checked(timings)


@reported
def bench(
    directories: Directories,
    np: Ranks = None,
    against: Against = None,
    sizes: Sizes = "1..1M",
    repeat: Repeat = 5,
    collective: Only = None,
    mpi: MpiFolder = None,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Compare projects, and the MPI library, in one interleaved run."""
    if against not in (None, "mpi"):
        raise ParameterError(f"against is {against!r}, expected 'mpi'")
    projects = [_project(d, np) for d in directories]
    low_high, names = _range(sizes), _known(projects[0], collective)
    if repeat < 1:
        raise ParameterError(f"repeat is {repeat}, expected at least 1")
    if output is not None:
        check_can_write(output)
    found = _built(projects, mpi)
    with err().status("measuring"):
        timings = compare(
            projects,
            found,
            sizes=low_high,
            repeat=repeat,
            collectives=names,
            against_mpi=against == "mpi",
        )
    _require_some(timings, sizes)
    value = _bench_output(projects, timings)
    if output is not None:
        write_atomically(output, json_lib.dumps(plain(value), indent=1) + "\n")
    if json:
        print_output(value)
    else:
        for name, rows in in_groups(timings).items():
            _print(name, rows, str(projects[0].directory))
        _print_checked(timings)


@reported
def tune(
    directory: Directory,
    np: Ranks = None,
    sizes: Sizes = "1..4M",
    repeat: Repeat = 5,
    collective: Only = None,
    mpi: MpiFolder = None,
    json: options.Json = False,
) -> None:
    """Measure every program of a project and set its switch points accordingly."""
    project = _project(directory, np)
    names, low_high = _known(project, collective), _range(sizes)
    inputs = _digests([project])
    found = _built([project], mpi)
    with err().status("measuring every program by itself"):
        timings = compare(
            [project], found, sizes=low_high, repeat=repeat, collectives=names, each=True
        )
    _require_some(timings, sizes)
    selection = tuned_selection(timings, project.selection)
    file = directory / PROGRAM_FILE
    value = json_lib.loads(file.read_text(encoding="utf-8"))
    value["selection"] = selection
    write_atomically(file, json_lib.dumps(value, separators=(",", ":")) + "\n")
    write_atomically(directory / SELECTION_FILE, selection_text(selection))
    build(project, found)
    if json:
        print_output(
            TuneOutput(
                inputs=inputs,
                directory=str(directory),
                ranks=project.ranks,
                selection=selection,
                timings=_parts(timings),
                checked=_checked(timings),
            )
        )
        return
    for entry in selection.split(";"):
        out().print(escape(entry), soft_wrap=True)
    _print_checked(timings)


def _project(directory: Path, np: int | None) -> Project:
    project = load_project(directory)
    if np not in (None, project.ranks):
        raise ParameterError(
            f"np is {np}, but {directory} is for {project.ranks} ranks: leave --np out, or "
            f"generate a project from algorithms for {np} ranks"
        )
    return project


def _known(project: Project, wanted: list[str] | None) -> list[str]:
    for name in wanted or []:
        if name not in project.collectives:
            raise ParameterError(
                f"{project.directory} has no {name!r}, only {', '.join(project.collectives)}"
            )
    return wanted or []


_LARGEST = 1 << 40  # bytes


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,13})([KMG]?)\.\.(\d{1,13})([KMG]?)", text)
    if found:
        low = int(found[1]) * UNITS[found[2]]
        high = int(found[3]) * UNITS[found[4]]
        if 1 <= low <= high <= _LARGEST:
            return low, high
        if low > high:
            raise ParameterError(
                f"sizes is {text!r}, from {found[1]}{found[2]} to less, {found[3]}{found[4]}: "
                f"expected from..to, such as {found[3]}{found[4]}..{found[1]}{found[2]}"
            )
    raise ParameterError(
        f"sizes is {text!r}, expected from..to in bytes of at most {_LARGEST >> 30}G, such as 1..4M"
    )


def _require_some(timings: list[Timing], sizes: str) -> None:
    if not timings:
        raise ParameterError(
            f"sizes is {sizes!r}, of which none was measured: what is reduced are numbers of 4 "
            "bytes, so give sizes of at least that"
        )


def _built(projects: list[Project], folder: Path | None) -> Mpi:
    found = find_mpi(folder)
    for project in projects:
        text = f"building {project.directory} with {found.compiler}"
        err().print(text, markup=False, soft_wrap=True)
        with err().status(escape(text)):
            build(project, found)
    err().print("built; checking the data of every size, then measuring")
    return found


def _print(name: str, rows: dict[int, dict[str, Timing]], ours: str) -> None:
    contenders = list(next(iter(rows.values())))
    table = Table(title=f"{name}: median microseconds of a call")
    table.add_column("bytes", justify="right")
    for contender in contenders:
        table.add_column(escape(contender), justify="right")
    for size, row in rows.items():
        table.add_row(str(size), *(f"{row[c].median_us:.2f}" for c in contenders))
    console = out()
    console.print(table)
    for peer in contenders:
        if peer != ours:
            ratio = speedup(rows, ours, peer)
            console.print(escape(f"{ours} is {ratio:.2f} times as fast as {peer} (geometric mean)"))
    switches = [f"{size} B: {who}" for size, who in fastest(rows, contenders)]
    console.print(escape("fastest from " + ", ".join(switches)), soft_wrap=True)


def _print_row(timing: Timing, before: str, ranks: int) -> None:
    """Print a size as the OSU benchmarks do, under a head for every collective."""
    if timing.collective != before:
        typer.echo(f"\n# sccl {timing.collective}, {ranks} ranks")
        typer.echo(f"{'# Size':10}{'Avg Latency(us)':>22}")
    typer.echo(f"{timing.size_bytes:<10}{timing.median_us:22.2f}")


def _print_checked(timings: Sequence[Timing]) -> None:
    parts = _checked(timings)
    counts = " and ".join(f"{counted(x.sizes, 'size')} of {x.collective}" for x in parts)
    by = f" by {counted(parts[0].contenders, 'contender')}" if parts[0].contenders > 1 else ""
    out().print(
        f"# data checked and right, {counts}{by}: {_COMPARED}", markup=False, soft_wrap=True
    )


_COMPARED = (
    "every byte of every rank's output was compared with what the definition of the collective "
    "makes of inputs that tell ranks, blocks and places apart"
)


def _checked(timings: Sequence[Timing]) -> tuple[CheckedPart, ...]:
    """Return what was checked: the benchmark fails if a contender is wrong at a size."""
    return tuple(
        CheckedPart(
            collective=name,
            sizes=len(rows),
            contenders=len({contender for row in rows.values() for contender in row}),
            compared=_COMPARED,
        )
        for name, rows in in_groups(timings).items()
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


def _digests(projects: Sequence[Project]) -> dict[str, str]:
    return {str(p.directory): file_digest(p.directory / PROGRAM_FILE) for p in projects}


def _bench_output(projects: Sequence[Project], timings: Sequence[Timing]) -> BenchOutput:
    speedups: dict[str, dict[str, float | None]] = {}
    switches: dict[str, tuple[SwitchPart, ...]] = {}
    for name, rows in in_groups(timings).items():
        ours, *peers = next(iter(rows.values()))
        ratios = {peer: round(speedup(rows, ours, peer), 3) for peer in peers}
        speedups[name] = {p: None if math.isnan(ratio) else ratio for p, ratio in ratios.items()}
        best = fastest(rows, [ours, *peers])
        switches[name] = tuple(SwitchPart(from_bytes=size, contender=who) for size, who in best)
    return BenchOutput(
        inputs=_digests(projects),
        ranks=projects[0].ranks,
        timings=_parts(timings),
        checked=_checked(timings),
        speedups=speedups,
        fastest=switches,
    )
