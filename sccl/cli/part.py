"""``sccl part``: some transfers of a schedule, as a schedule of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl.cli import options
from sccl.cli.report import err, on_a_line, out, print_output, reported
from sccl.core.words import counted
from sccl.tasks.part import part_of, part_output
from sccl.view.text.notes import share_bar

Us = Annotated[float | None, typer.Option(min=0, help="Microseconds.")]


@reported
def part(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Schedule file.")],
    *,
    chunk: Annotated[int | None, typer.Option(help="Chunk whose transfers are kept.")] = None,
    rank: Annotated[int | None, typer.Option(help="Rank whose transfers are kept.")] = None,
    from_us: Annotated[
        float, typer.Option(min=0, help="Start of the interval in microseconds.")
    ] = 0.0,
    until_us: Annotated[
        float | None, typer.Option(min=0, help="End of the interval in microseconds.")
    ] = None,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Extract the transfers of one chunk, one rank, or one time interval from a schedule.

    The output is JSON and lists the load of links over time. It is not verified, because a part
    does not complete the collective.
    """
    options.writable(output)
    with share_bar(err(), on_a_line(file)) as bar:
        taken = part_of(file, chunk, rank, (from_us, until_us), bar)
    shown = part_output(file, taken, output)
    if json:
        print_output(shown)
        return
    console = out()
    line = f"{shown.collective} on {on_a_line(shown.topology)}: {counted(shown.sends, 'transfer')}"
    kept = f"written to {on_a_line(output)}" if output else "not kept: add -o FILE to write it"
    console.print(f"{line} of {shown.of}, {kept}", markup=False, soft_wrap=True)
