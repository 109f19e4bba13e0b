"""``sccl export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl import formats
from sccl.cli import complete, options
from sccl.cli.report import on_a_line, out, print_output, reported
from sccl.core.cost import bytes_text
from sccl.core.words import counted
from sccl.tasks.exporting import export as export_plans
from sccl.tasks.exporting import export_output
from sccl.tasks.sizes import size_in_bytes

Name = Annotated[
    str,
    typer.Option(
        "--format",
        help=f"Format: {', '.join(formats.written())}.",
        autocompletion=complete.words(formats.written(), "a format"),
        show_default=False,
    ),
]


@reported
def export(
    files: options.Plans,
    format_name: Name,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="The file; a folder of several, and for runtimes where it has no suffix.",
        ),
    ],
    size: Annotated[
        str | None,
        typer.Option(
            help="Buffer of C chunks in bytes, for formats that contain bytes: 1MB, 64KiB."
        ),
    ] = None,
    told: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Option of the format, NAME=VALUE. Repeatable."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Export algorithms and schedules to other runtimes, simulators, and viewers.

    The cost model assigns sizes to several algorithms of one collective. Limits of the format or
    its runtime are printed, with a remedy.
    """
    size_bytes = None if size is None else size_in_bytes(size)
    found = export_plans(files, format_name, output, size_bytes, told or [])
    if json:
        print_output(export_output(found))
        return
    console = out()
    written = found.written.files
    total = bytes_text(float(sum(map(len, written.values()))))
    what = f"{counted(len(written), 'file')} in " if found.is_folder else ""
    console.print(
        f"{counted(len(found.entries), 'plan')} written: {what}{on_a_line(output)} ({total})",
        markup=False,
    )
    if len(found.entries) > 1:
        for entry in found.entries:
            to = "on" if entry.max_bytes is None else f"to {bytes_text(float(entry.max_bytes))}"
            console.print(
                f"  {entry.name}: from {bytes_text(float(entry.min_bytes))} {to}", markup=False
            )
    for note in found.notes:
        console.print(f"note: {on_a_line(note)}", markup=False)
    console.print(f"to run it: {on_a_line(found.command)}", markup=False, soft_wrap=True)
