"""``sccl plot``: pictures of frontiers, algorithms and machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import err, out, print_output, report_errors
from sccl.core.algorithm import Algorithm
from sccl.core.files.disk import slugify
from sccl.core.formatting import single_line
from sccl.core.frontier import Frontier
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.training.plan_files import LoadedTraining, valid_timeline
from sccl.view import charts
from sccl.view.charts import FrontierData, frontier_lines
from sccl.view.charts.chart_sources import (
    ChartKind,
    PlotOutput,
    Source,
    default_chart,
    load_sources,
    source_digests,
    source_frontiers,
)
from sccl.view.charts.frontier_data import common_question

_KINDS: dict[type, str] = {Topology: "a topology", LoadedTraining: "a training plan"}

if TYPE_CHECKING:
    from sccl.core.schedule import Schedule
    from sccl.view.charts import ChartType


@report_errors
def plot(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Algorithm and schedule files, the folder of 'sccl pareto --output', the "
            "output of 'sccl pareto --json', or machines.",
            show_default=False,
            autocompletion=options.complete_topology,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help=".html, .svg, .png or .pdf.",
            show_default="an .svg in this folder, named after its content",
        ),
    ] = None,
    what: Annotated[
        ChartKind | None,
        typer.Option(
            help="Kind of chart.",
            show_default="frontier, utilisation, topology, or timeline, by the kind of FILE",
        ),
    ] = None,
    alpha_us: options.AlphaUs = None,
    gb_per_s: options.GbPerS = None,
    json: options.Json = False,
) -> None:
    """Draw a frontier, times by buffer size, an algorithm, a machine, or a training plan.

    A page (.html) needs no network. A .png has twice the resolution. Frontiers (output of 'sccl
    pareto --json', or folders of --output) share one chart. Training plans share a time scale: put
    a plan of 'sccl train plan --search fifo' first to compare with the order of submission.
    """
    if output:
        charts.check_picture(output)
    loaded = load_sources(sources, what)
    chart_kind = what or default_chart(loaded)
    if chart_kind is not ChartKind.TIME and (alpha_us, gb_per_s) != (None, None):
        raise ParameterError(
            "--alpha-us and --gb-per-s apply to --what time only: add --what time, or leave them "
            "out"
        )
    chart, name = _build_chart(loaded, chart_kind, alpha_us, gb_per_s)
    path = output or Path(f"{name}.svg")
    charts.save_chart(chart, path, title=f"sccl: {name}")
    if json:
        digests = source_digests(sources)
        print_output(PlotOutput(inputs=digests, what=chart_kind.value, file=str(path)))
    else:
        out().print(f"{chart_kind.value}: {escape(single_line(path))}", soft_wrap=True)


def draw_frontier(
    frontier: Frontier, path: Path, lower_bound: Callable[[float], float] | None, *, quiet: bool
) -> None:
    """Draw a frontier, with times by buffer size, to a file, and print its path.

    Args:
        lower_bound: lower bound in microseconds, by bytes of a buffer.
    """
    console = err()
    frontiers = frontier_lines([frontier])
    if not any(curve.points for curve in frontiers):
        console.print(f"{single_line(path)} is not written: there is no point", markup=False)
        return
    parts = [charts.frontier_chart(frontiers)]
    if sum(len(curve.points) for curve in frontiers) <= charts.MAX_TIMES:
        parts.append(charts.time_chart(frontiers, least_us=lower_bound))
    charts.save_chart(charts.stack_charts(parts), path, title=f"sccl: {frontier.name}")
    if not quiet:
        console.print(f"picture: {single_line(path)}", markup=False, soft_wrap=True)


def _build_chart(
    sources: Sequence[Source], view: ChartKind, alpha_us: float | None, gb_per_s: float | None
) -> tuple[ChartType, str]:
    if view in {ChartKind.FRONTIER, ChartKind.TIME}:
        frontiers = _frontier_data(sources, view)
        single_name = frontiers[0].name if len(frontiers) == 1 else "frontiers"
        name = common_question(frontiers) or single_name
        chart = (
            charts.frontier_chart(frontiers)
            if view is ChartKind.FRONTIER
            else charts.time_chart(frontiers, alpha_us, gb_per_s)
        )
        return chart, slugify(f"{name} {view.value}")
    trained = [source for source in sources if isinstance(source, LoadedTraining)]
    if len(trained) == len(sources):  # their panels share scales
        chart, name = _training_chart(trained, view)
        return chart, slugify(f"{name} {view.value}")
    parts = [_single_chart(source, view) for source in sources]
    name = slugify(f"{parts[0][1]} {view.value}")
    return charts.stack_charts([chart for chart, _ in parts]) if len(parts) > 1 else parts[0][
        0
    ], name


def _frontier_data(sources: Sequence[Source], view: ChartKind) -> list[FrontierData]:
    for source in sources:
        if not isinstance(source, Algorithm | Frontier):
            kind = _KINDS.get(type(source), "a schedule")
            raise ParameterError(
                f"--what {view.value} draws frontiers and algorithms, and {kind} is neither; leave "
                "it out"
            )
    return frontier_lines(source_frontiers(sources))


def _single_chart(source: Source, view: ChartKind) -> tuple[ChartType, str]:
    if isinstance(source, LoadedTraining):
        return _training_chart([source], view)
    if isinstance(source, Topology) and view is ChartKind.TOPOLOGY:
        return charts.topology_chart(source), source.name
    if not isinstance(source, Algorithm | Topology | Frontier):
        return _schedule_chart(source, view)
    if not isinstance(source, Algorithm):
        kind = "a topology" if isinstance(source, Topology) else "a frontier"
        raise ParameterError(
            f"--what {view.value} draws algorithms, and {source.name!r} is {kind}; give the file "
            "of an algorithm ('sccl pareto --output')"
        )
    a = source
    name = f"{a.collective.name} {a.topology.name} c{a.collective.chunks} s{a.steps} r{a.rounds}"
    return charts.ALGORITHM_CHARTS[view](a), name


def _training_chart(plans: Sequence[LoadedTraining], view: ChartKind) -> tuple[ChartType, str]:
    """Return the chart of training plans, and a name for its file."""
    if view is not ChartKind.TIMELINE:
        raise ParameterError(
            f"--what {view.value} cannot draw {plans[0].name!r}, a training plan: leave --what "
            "out to draw its timeline"
        )
    from sccl.view.charts.step_pictures import RunningPlan, step_panels  # noqa: PLC0415 - drawn rarely

    running = [RunningPlan(loaded.plan, valid_timeline(loaded), loaded.name) for loaded in plans]
    return charts.step_gantt_chart(step_panels(running)), plans[0].name


def _schedule_chart(schedule: Schedule, view: ChartKind) -> tuple[ChartType, str]:
    """Return the chart of a schedule, and a name for its file."""
    name = f"{schedule.collective.name} {schedule.topology.name} schedule"
    if view is ChartKind.TOPOLOGY:
        return charts.topology_chart(schedule.topology), name
    if view is ChartKind.UTILIZATION:
        from sccl.comparison.simulation_charts import schedule_chart  # noqa: PLC0415 - loads NumPy

        return schedule_chart(schedule), name
    raise ParameterError(
        f"--what {view.value} draws algorithms, and {name!r} is a schedule: leave --what out to "
        "draw the load of links over time"
    )
