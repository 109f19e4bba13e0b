"""``sccl export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sccl import formats
from sccl.api import export as api
from sccl.cli import options
from sccl.cli.report import out, print_output, print_text, report_errors
from sccl.core.cost import format_bytes
from sccl.core.formatting import format_count, single_line
from sccl.formats.files.export_plans import export_output

Name = Annotated[
    str,
    typer.Option(
        "--format",
        help=f"Format: {', '.join(formats.writable_names())}.",
        autocompletion=options.complete_words(formats.writable_names(), "a format"),
        show_default=False,
    ),
]


@report_errors
def export(
    files: options.Plans,
    format_name: Name,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Output file; or a folder, for several plans, and for runtimes if the name has "
            "no suffix.",
        ),
    ],
    size: Annotated[
        str | None,
        "Buffer of a rank's C chunks in bytes, for formats that contain bytes: 1MB (10^6), 1MiB "
        "(2^20).",
    ] = None,
    option_texts: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Option of the format, NAME=VALUE. An unknown name lists all. Repeatable.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Export algorithms and schedules to other runtimes, simulators, and viewers.

    The cost model assigns sizes to several algorithms of one collective. Limits of the format or
    its runtime are printed, with a remedy.
    """
    exported = api.export(
        *files, format=format_name, path=output, size=size, options=option_texts or ()
    )
    if json:
        print_output(export_output(exported))
        return
    console = out()
    written = exported.written.files
    total = format_bytes(float(sum(map(len, written.values()))))
    prefix = f"{format_count(len(written), 'file')} in " if exported.is_folder else ""
    console.print(
        f"{format_count(len(exported.entries), 'plan')} written: {prefix}{single_line(output)} "
        f"({total})",
        markup=False,
    )
    if len(exported.entries) > 1:
        for entry in exported.entries:
            to = "on" if entry.max_bytes is None else f"to {format_bytes(float(entry.max_bytes))}"
            console.print(
                f"  {entry.name}: from {format_bytes(float(entry.min_bytes))} {to}", markup=False
            )
    for note in exported.notes:
        console.print(f"note: {single_line(note)}", markup=False)
    print_text(f"to run it: {single_line(exported.command)}")
