"""``sccl topo design``: networks of a size, compared by the times of collectives on them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from sccl.api.inputs import topology
from sccl.cli import options
from sccl.cli.report import ExitCode, out, print_output, print_text, report_errors, show_activity
from sccl.comparison import network_design as task
from sccl.comparison.network_design import ALLREDUCE, COLLECTIVES_TEXT, DesignOutput, DesignPart
from sccl.core.formatting import format_count
from sccl.errors import ParameterError
from sccl.view import charts

_MAX_SHOWN = 25


@report_errors
def design(
    *,
    ranks: Annotated[int, "Number of ranks."],
    degree: Annotated[int, "Number of links out of each rank, and into it."],
    collective: Annotated[str, typer.Option(help=f"Collective: {COLLECTIVES_TEXT}.")] = "allgather",
    steps: Annotated[int | None, "Largest number of steps.", "of any number"] = None,
    seed: Annotated[int, "Seed of random Cayley graphs."] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="File for the first network of the table.", show_default=False
        ),
    ] = None,
    plot: Annotated[Path | None, "Picture: .html, .svg, .png, or .pdf."] = None,
    json: options.Json = False,
) -> None:
    """Find networks on which a collective is fast, for a number of ranks and links per rank.

    It compares families of graphs and products of smaller graphs, each with the best algorithm that
    needs no search, and prints lower bounds for any network: Moore's bound on steps, and R/C.

    Exit code 0: done, 2: bad input, 130: interrupted. The results so far are printed.
    """
    if plot is not None:
        charts.check_picture(plot)
    options.check_writable(output)
    title = f"{collective}, {format_count(ranks, 'rank')} of degree {degree}"
    with show_activity(title) as on_progress:
        result = task.search_designs(
            collective, ranks, degree, steps=steps, seed=seed, on_progress=on_progress
        )
    if not result.networks:
        raise ParameterError(
            f"no network of {format_count(ranks, 'rank')} and degree {degree} exists among the "
            "candidates"
            + ("" if steps is None else f" that takes {format_count(steps, 'step')} at the most")
        )
    if output is not None:
        topology(result.networks[0].name).save(output)
        result = msgspec.structs.replace(result, file=str(output))
    if plot is not None:
        _draw(title, result, plot)
        result = msgspec.structs.replace(result, picture=str(plot))
    if json:
        print_output(result)
    else:
        _print(title, result)
    if result.ended:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _draw(title: str, result: DesignOutput, file: Path) -> None:
    lower_bound = Fraction(result.bandwidth)
    marks = [
        charts.DesignMark(
            _network_label(n, result), n.steps, float(Fraction(n.bandwidth) / lower_bound), n.best
        )
        for n in result.networks
    ]
    charts.save_chart(
        charts.designs_chart(title, marks, result.moore_steps), file, title=f"sccl: {title}"
    )


def _network_label(network: DesignPart, result: DesignOutput) -> str:
    """Return the name of a network, for an allreduce with its algorithm."""
    return f"{network.name}, {network.by}" if result.collective == ALLREDUCE else network.name


def _print(title: str, result: DesignOutput) -> None:
    console = out()
    table = Table("Network", title=title, title_justify="left")
    for name in ("S", "R/C", "relative"):
        table.add_column(name, justify="right")
    table.add_column("")
    lower_bound = Fraction(result.bandwidth)
    shown = [n for n in result.networks if n.best]
    shown += [n for n in result.networks if not n.best][: max(_MAX_SHOWN - len(shown), 0)]
    for n in sorted(shown, key=lambda n: (n.steps, Fraction(n.bandwidth))):
        ratio = f"{float(Fraction(n.bandwidth) / lower_bound):.4g}"
        table.add_row(
            _network_label(n, result),
            str(n.steps),
            n.bandwidth,
            ratio,
            "[green]best[/]" if n.best else "",
        )
    console.print(table)
    console.print(
        f"lower bounds for networks of this size: {format_count(result.moore_steps, 'step')} "
        f"(Moore), R/C {result.bandwidth}; {format_count(result.tried, 'network')} evaluated, "
        "including components of larger ones"
    )
    console.print(
        "best: no listed network is as good in both costs; describe one with 'sccl topo show'"
    )
    if result.ended:
        console.print(f"[yellow]{result.ended}: others were not tried[/]")
    for label, file in (("written to", result.file), ("picture:", result.picture)):
        if file:
            print_text(f"{label} {file}")
