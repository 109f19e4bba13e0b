"""``sccl import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl.cli import options
from sccl.cli.report import on_a_line, out, print_output, reported
from sccl.tasks.bringing import bring, import_output


@reported
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="An algorithm or a program of somebody else.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The file to write the algorithm to.")
    ],
    topo: Annotated[
        str | None,
        typer.Option(help="The machine it is for.", show_default="of the links that it uses"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Read an algorithm or a program of somebody else, and write it as an algorithm of sccl's own.

    It is executed first, and what is wrong is said; then it can be judged, compared, simulated and
    run like any other.
    """
    options.writable(output)
    brought = bring(file, output, topo)
    if json:
        print_output(import_output(brought, output))
        return
    console, algorithm = out(), brought.algorithm
    console.print(f"{on_a_line(str(file))}: {brought.strange.foreign.about}", markup=False)
    for note in brought.strange.foreign.notes:
        console.print(f"  note: {on_a_line(note)}", markup=False)
    console.print(
        f"written to {on_a_line(output)}: {algorithm.collective.name} on "
        f"{algorithm.topology.name}, C={algorithm.collective.chunks} S={algorithm.steps} "
        f"R={algorithm.rounds}",
        markup=False,
    )
