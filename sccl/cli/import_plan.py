"""``sccl import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl.cli import options
from sccl.cli.report import out, print_output, report_errors
from sccl.core.formatting import single_line
from sccl.formats.files.import_plan import import_output, import_plan


@report_errors
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Algorithm or program of another tool.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="File for the algorithm.")],
    topo: Annotated[str | None, "Machine of the algorithm.", "of the links that it uses"] = None,
    json: options.Json = False,
) -> None:
    """Convert another tool's algorithm or program into one of sccl's own.

    The program is executed first, and faults are reported. The result can be verified, compared,
    simulated, and run like any other algorithm.
    """
    options.check_writable(output)
    imported = import_plan(file, output, topo)
    if json:
        print_output(import_output(imported, output))
        return
    console, algorithm = out(), imported.algorithm
    console.print(f"{single_line(str(file))}: {imported.source.content.about}", markup=False)
    for note in imported.source.content.notes:
        console.print(f"  note: {single_line(note)}", markup=False)
    console.print(
        f"written to {single_line(output)}: {algorithm.collective.name} on "
        f"{algorithm.topology.name}, C={algorithm.collective.chunks} S={algorithm.steps} "
        f"R={algorithm.rounds}",
        markup=False,
    )
