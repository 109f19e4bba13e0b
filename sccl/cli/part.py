"""``sccl part``: some transfers of a schedule, as a schedule of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl.cli import options
from sccl.cli.report import err, out, print_output, report_errors
from sccl.core.formatting import format_count, single_line
from sccl.formats.files.partial_schedule import extract_part, part_output
from sccl.view.text.progress_notes import share_bar

Us = Annotated[float | None, typer.Option(min=0, help="Microseconds.")]


@report_errors
def part(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Schedule file.")],
    *,
    chunk: Annotated[int | None, typer.Option(help="Keep only transfers of this chunk.")] = None,
    rank: Annotated[int | None, typer.Option(help="Keep only transfers of this rank.")] = None,
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
    options.check_writable(output)
    with share_bar(err(), single_line(file)) as bar:
        taken = extract_part(file, chunk, rank, (from_us, until_us), bar)
    shown = part_output(file, taken, output)
    if json:
        print_output(shown)
        return
    console = out()
    line = (
        f"{shown.collective} on {single_line(shown.topology)}: "
        f"{format_count(shown.sends, 'transfer')}"
    )
    kept = f"written to {single_line(output)}" if output else "not written: add -o FILE"
    console.print(f"{line} of {shown.of}, {kept}", markup=False, soft_wrap=True)
