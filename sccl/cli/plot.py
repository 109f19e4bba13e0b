"""``sccl plot``: pictures of frontiers, algorithms and machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sccl.cli import complete, options
from sccl.cli.report import err, on_a_line, out, print_output, reported
from sccl.core.algorithm import Algorithm
from sccl.core.files.disk import slug
from sccl.core.frontier import Frontier
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.tasks.plot import (
    PlotOutput,
    Source,
    What,
    digests_of,
    frontiers_of,
    sources_of,
    suited,
)
from sccl.tasks.training_files import LoadedTraining, right_timeline
from sccl.view import charts
from sccl.view.charts import FrontierData, lines_of
from sccl.view.charts.values import classes_of

_KINDS: dict[type, str] = {Topology: "a topology", LoadedTraining: "a training plan"}

if TYPE_CHECKING:
    from sccl.core.schedule import Schedule
    from sccl.view.charts import ChartType


@reported
def plot(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Algorithm and schedule files, the folder of 'sccl pareto --out', the "
            "output of 'sccl pareto --json', or machines.",
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
            show_default="an .svg in this folder, named after its content",
        ),
    ] = None,
    what: Annotated[
        What | None,
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
    pareto --json', or folders of --out) share one chart. Training plans share a time scale: put a
    plan of 'sccl plan --search fifo' first to compare with the order of submission.
    """
    if output:
        charts.check_picture(output)
    found = sources_of(sources, what)
    wanted = what or suited(found)
    if wanted is not What.TIME and (alpha_us, gb_per_s) != (None, None):
        raise ParameterError("--alpha-us and --gb-per-s go with --what time")
    chart, name = _draw(found, wanted, alpha_us, gb_per_s)
    path = output or Path(f"{name}.svg")
    charts.save(chart, path, title=f"sccl: {name}")
    if json:
        digests = digests_of(sources)
        print_output(PlotOutput(inputs=digests, what=wanted.value, file=str(path)))
    else:
        out().print(f"{wanted.value}: {escape(on_a_line(path))}", soft_wrap=True)


def picture(
    frontier: Frontier, path: Path, least: Callable[[float], float] | None, *, quiet: bool
) -> None:
    """Draw a frontier, with times by buffer size, to a file, and print its path.

    Args:
        least: lower bound in microseconds, by bytes of a buffer.
    """
    console = err()
    frontiers = lines_of([frontier])
    if not any(one.points for one in frontiers):
        console.print(f"{on_a_line(path)} is not written: there is no point", markup=False)
        return
    drawn = [charts.frontier_chart(frontiers)]
    if sum(len(one.points) for one in frontiers) <= charts.MOST_TIMES:
        drawn.append(charts.time_chart(frontiers, least_us=least))
    charts.save(charts.stacked(drawn), path, title=f"sccl: {frontier.name}")
    if not quiet:
        console.print(f"picture: {on_a_line(path)}", markup=False, soft_wrap=True)


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
    trained = [source for source in sources if isinstance(source, LoadedTraining)]
    if len(trained) == len(sources):  # their panels share scales
        chart, name = _stepped(trained, what)
        return chart, slug(f"{name} {what.value}")
    drawn = [_single(source, what) for source in sources]
    name = slug(f"{drawn[0][1]} {what.value}")
    return charts.stacked([chart for chart, _ in drawn]) if len(drawn) > 1 else drawn[0][0], name


def _frontiers(sources: Sequence[Source], what: What) -> list[FrontierData]:
    for source in sources:
        if not isinstance(source, Algorithm | Frontier):
            kind = _KINDS.get(type(source), "a schedule")
            raise ParameterError(
                f"--what {what.value} draws frontiers and algorithms, and {kind} is neither; leave "
                "it out"
            )
    return lines_of(frontiers_of(sources))


def _single(source: Source, what: What) -> tuple[ChartType, str]:
    if isinstance(source, LoadedTraining):
        return _stepped([source], what)
    if isinstance(source, Topology) and what is What.TOPOLOGY:
        return charts.topology_chart(source), source.name
    if not isinstance(source, Algorithm | Topology | Frontier):
        return _timed(source, what)
    if not isinstance(source, Algorithm):
        kind = "a topology" if isinstance(source, Topology) else "a frontier"
        raise ParameterError(
            f"--what {what.value} draws algorithms, and {source.name!r} is {kind}; give the file "
            "of an algorithm ('sccl pareto --out')"
        )
    a = source
    name = f"{a.collective.name} {a.topology.name} c{a.collective.chunks} s{a.steps} r{a.rounds}"
    return charts.OF_ALGORITHMS[what](a), name


def _stepped(plans: Sequence[LoadedTraining], what: What) -> tuple[ChartType, str]:
    """Return the chart of training plans, and a name for its file."""
    if what is not What.TIMELINE:
        raise ParameterError(
            f"--what {what.value} does not draw training plans, and {plans[0].name!r} is one: "
            "leave --what out to draw its timeline"
        )
    from sccl.tasks.step_pictures import RunningPlan, step_panels  # noqa: PLC0415 - drawn rarely

    running = [RunningPlan(one.plan, right_timeline(one), one.name) for one in plans]
    return charts.steps_chart(step_panels(running)), plans[0].name


def _timed(schedule: Schedule, what: What) -> tuple[ChartType, str]:
    """Return the chart of a schedule, and a name for its file."""
    name = f"{schedule.collective.name} {schedule.topology.name} schedule"
    if what is What.TOPOLOGY:
        return charts.topology_chart(schedule.topology), name
    if what is What.UTILISATION:
        from sccl.tasks.simulated_charts import schedule_chart  # noqa: PLC0415 - loads NumPy

        return schedule_chart(schedule), name
    raise ParameterError(
        f"--what {what.value} draws algorithms, and {name!r} is none: leave --what out to draw "
        "the load of links over time"
    )
