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
        Path, typer.Argument(metavar="FILE", help="Algorithm or program of another tool.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="File for the algorithm.")],
    topo: Annotated[
        str | None,
        typer.Option(help="Machine of the algorithm.", show_default="of the links that it uses"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Convert another tool's algorithm or program into one of sccl's own.

    The program is executed first, and faults are reported. The result can be verified, compared,
    simulated, and run like any other algorithm.
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
