"""``sccl run``, ``sccl bench`` and ``sccl tune``: generated projects at work."""

from __future__ import annotations

import json as json_lib
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import complete, options
from sccl.cli.report import err, out, print_json, reported
from sccl.core.files import check_can_write, write_atomically
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
    tuned_selection,
)
from sccl.runtime import (
    run as run_project,
)

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

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@reported
def run(
    directory: Directory,
    np: Ranks = None,
    sizes: Sizes = "1..1M",
    collective: Only = None,
    mpi: MpiFolder = None,
) -> None:
    """Build a project and run its benchmark, which checks the data of every size."""
    project = _project(directory, np)
    low, high = _range(sizes)
    found = _built([project], mpi)
    arguments = [*_known(project, collective), "--sizes", f"{low}:{high}"]
    run_project(project, found, arguments, show=True)


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
    value = _as_json(timings, projects[0].ranks)
    if output is not None:
        write_atomically(output, json_lib.dumps(value, indent=1) + "\n")
    if json:
        print_json(value)
    else:
        for name, rows in in_groups(timings).items():
            _print(name, rows, str(projects[0].directory))


@reported
def tune(
    directory: Directory,
    np: Ranks = None,
    sizes: Sizes = "1..4M",
    repeat: Repeat = 5,
    collective: Only = None,
    mpi: MpiFolder = None,
) -> None:
    """Measure every program of a project and set its switch points accordingly."""
    project = _project(directory, np)
    names, low_high = _known(project, collective), _range(sizes)
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
    for entry in selection.split(";"):
        out().print(escape(entry), soft_wrap=True)


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
        with err().status(escape(f"building {project.directory}")):
            build(project, found)
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


def _as_json(timings: list[Timing], ranks: int) -> dict[str, object]:
    groups = in_groups(timings)
    speedups: dict[str, dict[str, float]] = {}
    switches: dict[str, list[dict[str, object]]] = {}
    for name, rows in groups.items():
        ours, *peers = next(iter(rows.values()))
        speedups[name] = {peer: round(speedup(rows, ours, peer), 3) for peer in peers}
        best = fastest(rows, [ours, *peers])
        switches[name] = [{"from_bytes": size, "contender": who} for size, who in best]
    return {
        "schema": 1,
        "ranks": ranks,
        "timings": [
            {
                "collective": t.collective,
                "size_bytes": t.size_bytes,
                "contender": t.contender,
                "median_us": round(t.median_us, 3),
                "us": list(t.us),
            }
            for t in timings
        ],
        "speedups": speedups,
        "fastest": switches,
    }
