"""``sccl project run``, ``bench``, and ``tune``: generated projects at work."""

from __future__ import annotations

import json as json_lib
import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import err, next_command, out, print_output, print_text, report_errors
from sccl.codegen.switch_points import Selection
from sccl.core.files.disk import check_can_write, write_atomically
from sccl.core.files.outputs import to_plain
from sccl.core.formatting import format_count, single_line
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.runtime.measure import (
    ContenderTiming,
    fastest_contenders,
    geometric_speedup,
    group_by_collective,
)
from sccl.runtime.mpi import Mpi, find_mpi
from sccl.runtime.project import Project, build_project
from sccl.runtime.project_timing import (
    bench_output,
    build_trial,
    checked_parts,
    iterate_timings,
    load_project_for,
    project_digests,
    run_output,
    tune_by_costs,
    tune_output,
    tune_project,
)
from sccl.topo import resolve_topology

_TUNE_SIZES, _TUNE_REPEAT = "1..4M", 5

Directory = Annotated[
    Path, typer.Argument(metavar="DIRECTORY", help="Generated project.", show_default=False)
]
Directories = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIRECTORIES", help="Generated projects of one target.", show_default=False
    ),
]
Ranks = Annotated[int | None, "Number of ranks to start. A project has a fixed number."]
Sizes = Annotated[str, "Block sizes in bytes, from..to, in factors of 2."]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--collective",
        help="Collective to measure. Repeatable.",
        autocompletion=options.complete_collective,
    ),
]
MpiFolder = Annotated[Path | None, "Folder of mpicxx and mpirun.", "sccl[mpi], or PATH"]
Repeat = Annotated[int, "Number of interleaved repetitions; the table shows medians."]
TuneSizes = Annotated[
    str | None,
    typer.Option(
        help="Block sizes in bytes, from..to, in factors of 2.",
        show_default=_TUNE_SIZES,
    ),
]
TuneRepeat = Annotated[
    int | None,
    typer.Option(
        "--repeat",
        help="Number of interleaved repetitions; medians count.",
        show_default=str(_TUNE_REPEAT),
    ),
]
CostsOf = Annotated[
    str | None,
    "Machine for the costs that set the switch points; without it, they are measured.",
    options.complete_topology,
]
Against = Annotated[
    str | None,
    "'mpi' adds the collectives of the MPI library.",
    options.complete_words(("mpi",), "the MPI library"),
]

_REPEAT = 5  # of sccl project run, whose numbers are a first look


@report_errors
def run(
    directory: Directory,
    ranks: Ranks = None,
    size: Sizes = "1..1M",
    collective: Only = None,
    mpi: MpiFolder = None,
    json: options.Json = False,
) -> None:
    """Build one project, check its data at every size, and print the time of its calls."""
    project = load_project_for(directory, ranks)
    trial = build_trial(project, size, _REPEAT, collective or ())
    timings: list[ContenderTiming] = []
    with closing(iterate_timings([project], _build_projects([project], mpi), trial)) as stream:
        for timing in stream:
            if not json:
                _print_row(timing, timings[-1].collective if timings else "", project.ranks)
            timings.append(timing)
    if json:
        print_output(run_output(project, timings))
    else:
        _print_checked(timings)


@report_errors
def bench(
    directories: Directories,
    ranks: Ranks = None,
    against: Against = None,
    size: Sizes = "1..1M",
    repeat: Repeat = 5,
    collective: Only = None,
    mpi: MpiFolder = None,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Compare the times of several projects, or of a project and the MPI library."""
    if against not in (None, "mpi"):
        raise ParameterError(f"against is {against!r}, expected 'mpi'")
    projects = [load_project_for(directory, ranks) for directory in directories]
    trial = build_trial(projects[0], size, repeat, collective or ())
    if output is not None:
        check_can_write(output)
    library = _build_projects(projects, mpi)
    cores = len(os.sched_getaffinity(0))
    if against and projects[0].ranks > cores:
        print_text(
            f"warning: {format_count(projects[0].ranks, 'rank')} share "
            f"{format_count(cores, 'core')}: the "
            "ratio measures how each library waits, not how fast it copies",
            err(),
        )
    with err().status("measuring"):
        timings = list(
            iterate_timings(projects, library, replace(trial, against_mpi=against == "mpi"))
        )
    value = bench_output(projects, timings)
    if output is not None:
        write_atomically(output, json_lib.dumps(to_plain(value), indent=1) + "\n")
    if json:
        print_output(value)
    else:
        for name, rows in group_by_collective(timings).items():
            _print(name, rows, str(projects[0].directory))
        _print_checked(timings)


@report_errors
def tune(
    directory: Directory,
    ranks: Ranks = None,
    size: TuneSizes = None,
    repeat: TuneRepeat = None,
    collective: Only = None,
    topo: CostsOf = None,
    mpi: MpiFolder = None,
    json: options.Json = False,
) -> None:
    """Measure every program of a project, and set the buffer size from which each is used.

    With --topo nothing is built or run: the cost model sets the switch points, as for a newly
    generated project.
    """
    project = load_project_for(directory, ranks)
    before = project_digests([project])
    if topo is not None:
        values = {"size": size, "repeat": repeat, "mpi": mpi}
        options.reject_options(values, "sets a measurement, and --topo gives the costs of links")
        machine = resolve_topology(topo)
        selection = tune_by_costs(project, machine, collective or ())
        if json:
            print_output(tune_output(project, before, selection, machine=machine))
        else:
            _print_by_costs(project, selection, machine)
        return
    times = _TUNE_REPEAT if repeat is None else repeat
    trial = build_trial(project, _TUNE_SIZES if size is None else size, times, collective or ())
    library = _build_projects([project], mpi)
    with err().status("measuring each program separately"):
        timings = list(iterate_timings([project], library, replace(trial, each=True)))
    selection = tune_project(project, library, timings)
    if json:
        print_output(tune_output(project, before, selection, timings))
        return
    _print_entries(selection)
    _print_checked(timings)


def _print_by_costs(project: Project, selection: Selection, machine: Topology) -> None:
    _print_entries(selection)
    out().print(
        f"# by the costs of {escape(single_line(machine.name))}; next: "
        f"{next_command(project.directory, project.target)}",
        soft_wrap=True,
    )


def _print_entries(selection: Selection) -> None:
    for entry in selection.entries():
        out().print(escape(entry), soft_wrap=True)


def _build_projects(projects: list[Project], folder: Path | None) -> Mpi:
    library = find_mpi(folder)
    for project in projects:
        text = f"building {project.directory} with {library.compiler}"
        print_text(text, err())
        with err().status(escape(text)):
            build_project(project, library, lambda line: print_text(line, err()))
    err().print("built; checking the data of every size, then measuring")
    return library


def _print(name: str, rows: dict[int, dict[str, ContenderTiming]], ours: str) -> None:
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
            ratio = geometric_speedup(rows, ours, peer)
            console.print(escape(f"{ours} is {ratio:.2f} times as fast as {peer} (geometric mean)"))
    switches = [f"{size} B: {winner}" for size, winner in fastest_contenders(rows, contenders)]
    console.print(escape("fastest from " + ", ".join(switches)), soft_wrap=True)


def _print_row(timing: ContenderTiming, before: str, ranks: int) -> None:
    """Print a size as the OSU benchmarks do, under a head for every collective."""
    if timing.collective != before:
        typer.echo(f"\n# sccl {timing.collective}, {ranks} ranks")
        typer.echo(f"{'# Size':10}{'Avg Latency(us)':>22}")
    typer.echo(f"{timing.size_bytes:<10}{timing.median_us:22.2f}")


def _print_checked(timings: Sequence[ContenderTiming]) -> None:
    parts = checked_parts(timings)
    counts = " and ".join(f"{format_count(x.sizes, 'size')} of {x.collective}" for x in parts)
    by = f" by {format_count(parts[0].contenders, 'contender')}" if parts[0].contenders > 1 else ""
    print_text(f"# data of all sizes right, {counts}{by}: {parts[0].compared}")
