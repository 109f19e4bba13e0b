"""``sccl design``: networks of a size, compared by the times of collectives on them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_output, reported
from sccl.core.files.disk import write_atomically
from sccl.core.files.text import text_of
from sccl.core.files.topologies import topology_to_wire
from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.tasks import design as task
from sccl.tasks.design import ALLREDUCE, IN_WORDS, DesignOutput, DesignPart
from sccl.topo import resolve
from sccl.view import charts

_SHOWN = 25


@reported
def design(
    *,
    ranks: Annotated[int, typer.Option(help="Number of ranks.", show_default=False)],
    degree: Annotated[
        int, typer.Option(help="Number of links out of each rank, and into it.", show_default=False)
    ],
    collective: Annotated[str, typer.Option(help=f"Collective: {IN_WORDS}.")] = "allgather",
    steps: Annotated[
        int | None, typer.Option(help="Largest number of steps.", show_default="of any number")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of random Cayley graphs.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="File for the first network of the table.", show_default=False
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Picture: .html, .svg, .png, or .pdf.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """Find networks on which a collective is fast, for a number of ranks and links per rank.

    It compares families of graphs and products of smaller graphs, each with the best algorithm that
    needs no search, and prints lower bounds for any network: Moore's bound on steps, and R/C.

    Exit code 0: done, 2: bad input, 130: interrupted. The results so far are printed.
    """
    if plot is not None:
        charts.check_picture(plot)
    options.writable(output)
    title = f"{collective}, {counted(ranks, 'rank')} of degree {degree}"
    with err().status(title) as status:
        found = task.design(
            collective,
            ranks,
            degree,
            steps=steps,
            seed=seed,
            told=lambda name: status.update(f"{title}: {name}"),
        )
    if not found.networks:
        raise ParameterError(
            f"no network of {counted(ranks, 'rank')} and degree {degree} exists among the "
            "candidates"
            + ("" if steps is None else f" that takes {counted(steps, 'step')} at the most")
        )
    if output is not None:
        write_atomically(output, text_of(topology_to_wire(resolve(found.networks[0].name))))
        found = msgspec.structs.replace(found, file=str(output))
    if plot is not None:
        _draw(title, found, plot)
        found = msgspec.structs.replace(found, picture=str(plot))
    if json:
        print_output(found)
    else:
        _print(title, found)
    if found.ended:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _draw(title: str, found: DesignOutput, file: Path) -> None:
    least = Fraction(found.bandwidth)
    marks = [
        charts.DesignMark(_named(n, found), n.steps, float(Fraction(n.bandwidth) / least), n.best)
        for n in found.networks
    ]
    charts.save(charts.designs_chart(title, marks, found.moore_steps), file, title=f"sccl: {title}")


def _named(network: DesignPart, found: DesignOutput) -> str:
    """Return the name of a network; of allreduce with the way to do it there."""
    return f"{network.name}, {network.by}" if found.collective == ALLREDUCE else network.name


def _print(title: str, found: DesignOutput) -> None:
    console = out()
    table = Table("Network", title=title, title_justify="left")
    for name in ("S", "R/C", "relative"):
        table.add_column(name, justify="right")
    table.add_column("")
    least = Fraction(found.bandwidth)
    shown = [n for n in found.networks if n.best]
    shown += [n for n in found.networks if not n.best][: max(_SHOWN - len(shown), 0)]
    for n in sorted(shown, key=lambda n: (n.steps, Fraction(n.bandwidth))):
        ratio = f"{float(Fraction(n.bandwidth) / least):.4g}"
        table.add_row(
            _named(n, found), str(n.steps), n.bandwidth, ratio, "[green]best[/]" if n.best else ""
        )
    console.print(table)
    console.print(
        f"no network of this size takes fewer than {counted(found.moore_steps, 'step')} (Moore), "
        f"or less R/C than {found.bandwidth}; {counted(found.tried, 'network')} looked at, those "
        "that smaller ones are made of included"
    )
    console.print(
        "best: no listed network is as good in both costs; describe one with 'sccl topo show'"
    )
    if found.ended:
        console.print(f"[yellow]{found.ended}: others were not tried[/]")
    for what, file in (("written to", found.file), ("picture:", found.picture)):
        if file:
            console.print(f"{what} {file}", markup=False, soft_wrap=True)
