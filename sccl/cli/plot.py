"""``sccl plot``: pictures of frontiers, algorithms and machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from sccl.cli import complete, options
from sccl.cli.report import err, named, out, print_output, reported
from sccl.core.algorithm import Algorithm
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.disk import slug
from sccl.core.files.kinds import ALGORITHMS, CERTIFICATE, FRONTIER, TOPOLOGY
from sccl.core.frontier import Frontier
from sccl.core.topology import Topology
from sccl.errors import InputError, ParameterError
from sccl.tasks.files import (
    ALGORITHM_OR_FRONTIER,
    files_of,
    frontier_files,
    is_folder,
    kind_among,
    paths_of,
)
from sccl.tasks.frontiers import of_algorithms, of_folder, parts_of, read_frontiers
from sccl.tasks.outputs import digest_of, question_digests
from sccl.tasks.plot import PlotOutput
from sccl.topo import resolve as resolve_topology
from sccl.topo.symmetry.expand import expand
from sccl.view import charts
from sccl.view.charts import FrontierData, lines_of
from sccl.view.charts.values import classes_of

if TYPE_CHECKING:
    from sccl.view.charts import ChartType


class What(StrEnum):
    """The charts there are."""

    FRONTIER = "frontier"
    TIME = "time"
    UTILISATION = "utilisation"
    ARRIVAL = "arrival"
    TOPOLOGY = "topology"


Source = Algorithm | Topology | Frontier
"""What is drawn."""


@reported
def plot(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Algorithm files, the folder of 'sccl pareto --out', what 'sccl pareto --json' "
            "printed, or topologies (a name such as dgx1 or torus:4x4, or a .json file).",
            show_default=False,
            autocompletion=complete.topology,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help=".html, .svg, .png or .pdf.",
            show_default="an .svg in this folder, named by what it shows",
        ),
    ] = None,
    what: Annotated[
        What | None,
        typer.Option(
            help="Which chart.",
            show_default="frontier, utilisation or topology, by what FILE is",
        ),
    ] = None,
    alpha_us: options.AlphaUs = None,
    gb_per_s: options.GbPerS = None,
    json: options.Json = False,
) -> None:
    """Draw a frontier, times by buffer size, an algorithm, or a machine.

    A page (.html) needs no network; a .png has two pixels for each of the others'. Frontiers (what
    'sccl pareto --json' printed, or folders of --out) share one chart.
    """
    if output:
        charts.check_picture(output)
    found = _wanted([x for path in paths_of(sources) for x in load(str(path), what)], what)
    wanted = what or _natural(found)
    if wanted is not What.TIME and (alpha_us, gb_per_s) != (None, None):
        raise ParameterError("--alpha-us and --gb-per-s go with --what time")
    chart, name = _draw(found, wanted, alpha_us, gb_per_s)
    path = output or Path(f"{name}.svg")
    charts.save(chart, path, title=f"sccl: {name}")
    if json:
        inputs = _digests(sources)
        print_output(PlotOutput(inputs=inputs, what=wanted.value, file=str(path)))
    else:
        out().print(f"{wanted.value}: {escape(named(path))}", soft_wrap=True)


def _digests(words: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in paths_of(words):
        if is_folder(path):
            found |= {str(x): digest_of(x) for x in files_of([path], ALGORITHM_OR_FRONTIER)}
        elif path.suffix == ".json":
            found[str(path)] = digest_of(path)
        else:
            found[str(path)] = question_digests(resolve_topology(str(path)))["topology"]
    return found


def picture(frontier: Frontier, path: Path, *, quiet: bool) -> None:
    """Draw what a sweep has found, as a frontier and as times by buffer size, and say where."""
    console = err()
    frontiers = lines_of([frontier])
    if not any(one.points for one in frontiers):
        console.print(f"{named(path)} is not written: no point was found", markup=False)
        return
    drawn = [charts.frontier_chart(frontiers)]
    if sum(len(one.points) for one in frontiers) <= charts.MOST_TIMES:
        drawn.append(charts.time_chart(frontiers))
    charts.save(charts.stacked(drawn), path, title=f"sccl: {frontier.name}")
    if not quiet:
        console.print(f"picture: {named(path)}", markup=False, soft_wrap=True)


def load(text: str, what: What | None = None) -> list[Source]:
    """Return what a file, a folder or a name holds.

    Args:
        what: the chart that it is for: of a folder, those of algorithms want each of them.

    Raises:
        InputError: it cannot be read, or is nothing that can be drawn.
    """
    path = Path(text)
    if is_folder(path):
        return list(_of_folder(path, what))
    if path.suffix != ".json":
        return [resolve_topology(text)]
    kind = kind_among(path, (*ALGORITHMS, FRONTIER, CERTIFICATE, TOPOLOGY))
    if kind == FRONTIER:
        return list(read_frontiers(path))
    if kind == CERTIFICATE:
        return []  # beside the algorithms of a certificate's folder
    if kind in ALGORITHMS:
        return [expand(load_algorithm(path)[0])]
    return [resolve_topology(text)]


def _of_folder(path: Path, what: What | None) -> Sequence[Source]:
    found = files_of([path], ALGORITHM_OR_FRONTIER)
    frontiers = frontier_files(found)
    algorithms = [expand(load_algorithm(file)[0]) for file in found if file not in frontiers]
    return algorithms if algorithms and what in _OF_ALGORITHM else of_folder(frontiers, algorithms)


def _wanted(sources: Sequence[Source], what: What | None) -> list[Source]:
    """Return what is drawn: where it is algorithms, frontiers beside them are passed over."""
    if not sources:
        raise InputError("only claims are given, and nothing that can be drawn: give other files")
    others: list[Source] = [one for one in sources if not isinstance(one, Frontier)]
    return others if others and what in _OF_ALGORITHM else list(sources)


def _natural(sources: Sequence[Source]) -> What:
    if any(isinstance(source, Frontier) for source in sources):
        return What.FRONTIER
    return What.TOPOLOGY if isinstance(sources[0], Topology) else What.UTILISATION


def _draw(
    sources: Sequence[Source], what: What, alpha_us: float | None, gb_per_s: float | None
) -> tuple[ChartType, str]:
    """Return the chart, and a name for its file."""
    if what in {What.FRONTIER, What.TIME}:
        frontiers = _frontiers(sources, what)
        alone = frontiers[0].name if len(frontiers) == 1 else "frontiers"
        name = classes_of(frontiers) or alone
        chart = (
            charts.frontier_chart(frontiers)
            if what is What.FRONTIER
            else charts.time_chart(frontiers, alpha_us, gb_per_s)
        )
        return chart, slug(f"{name} {what.value}")
    drawn = [_single(source, what) for source in sources]
    name = slug(f"{drawn[0][1]} {what.value}")
    return charts.stacked([chart for chart, _ in drawn]) if len(drawn) > 1 else drawn[0][0], name


def _frontiers(sources: Sequence[Source], what: What) -> list[FrontierData]:
    if any(isinstance(source, Topology) for source in sources):
        raise ParameterError(
            f"--what {what.value} draws frontiers and algorithms, and a topology is neither; leave "
            "it out"
        )
    read = [source for source in sources if isinstance(source, Frontier)]
    loose = of_algorithms([source for source in sources if isinstance(source, Algorithm)])
    questions = parts_of(read)
    return lines_of([*read, *(one for one in loose if one.name not in questions)])


_OF_ALGORITHM: dict[What, Callable[[Algorithm], Any]] = {
    What.UTILISATION: charts.utilisation_chart,
    What.ARRIVAL: charts.arrival_chart,
    What.TOPOLOGY: lambda algorithm: charts.topology_chart(algorithm.topology),
}


def _single(source: Source, what: What) -> tuple[ChartType, str]:
    if isinstance(source, Topology) and what is What.TOPOLOGY:
        return charts.topology_chart(source), source.name
    if not isinstance(source, Algorithm):
        kind = "a topology" if isinstance(source, Topology) else "a frontier"
        raise ParameterError(
            f"--what {what.value} draws algorithms, and {source.name!r} is {kind}; give the file "
            "of an algorithm ('sccl pareto --out')"
        )
    a = source
    name = f"{a.collective.name} {a.topology.name} c{a.collective.chunks} s{a.steps} r{a.rounds}"
    return _OF_ALGORITHM[what](a), name
