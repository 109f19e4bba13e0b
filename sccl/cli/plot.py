"""``sccl plot``: pictures of frontiers, algorithms and machines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sccl.api import plotting
from sccl.cli import options
from sccl.cli.report import err, out, print_output, report_errors
from sccl.core.files.outputs import build_output
from sccl.core.formatting import single_line
from sccl.view import charts
from sccl.view.charts import frontier_lines
from sccl.view.charts.chart_sources import ChartKind, PlotOutput, source_digests

if TYPE_CHECKING:
    from sccl.core.frontier import Frontier


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
        "Kind of chart.",
        "frontier, utilisation, topology, or timeline, by the kind of FILE",
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
    chart = plotting.plot(*sources, what=what, alpha_us=alpha_us, gb_per_s=gb_per_s)
    path = chart.save(output or f"{chart.title}.svg")
    if json:
        digests = source_digests(sources)
        print_output(build_output(PlotOutput, inputs=digests, what=chart.kind, file=path))
    else:
        out().print(f"{chart.kind}: {escape(single_line(path))}", soft_wrap=True)


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
        parts.append(charts.time_chart(frontiers, lower_bound_us=lower_bound))
    charts.save_chart(charts.stack_charts(parts), path, title=f"sccl: {frontier.name}")
    if not quiet:
        console.print(f"picture: {single_line(path)}", markup=False, soft_wrap=True)
