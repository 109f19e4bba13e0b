"""``sccl synth sketch``: check, explain, and draw a communication sketch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import out, print_file, print_output, report_errors
from sccl.cli.subject import Root, TacclTopology, TopoOrProfile
from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import to_text
from sccl.core.formatting import format_count, single_line
from sccl.errors import ParameterError
from sccl.synth.sketches.sketch_files import sketch_to_wire
from sccl.synth.taccl.fitted_sketch import FittedSketch, SketchedChunks
from sccl.synth.taccl.sketch_output import (
    load_fit,
    sketch_output,
    sketched_chunks_for,
)
from sccl.synth.taccl.sketch_sentences import drawing_notes, sketch_rows
from sccl.view import charts

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Sketch file of TACCL or of sccl ('sccl doctor schema sketch').",
        autocompletion=options.complete_file,
    ),
]
Collective = Annotated[
    str | None,
    "Collective that the sketch must suit, such as allgather.",
    options.complete_collective,
]


@report_errors
def sketch(
    file: File,
    topo: TopoOrProfile = None,
    profile: TacclTopology = None,
    collective: Collective = None,
    root: Root = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File for the sketch in sccl's format; - is stdout."),
    ] = None,
    plot: Annotated[
        Path | None, "Picture of the links that it leaves: .html, .svg, .png, or .pdf."
    ] = None,
    json: options.Json = False,
) -> None:
    """Check a communication sketch, and show its rules, links, and symmetries.

    With --topo it must fit the machine: contradictions are named by their entry (missing ranks,
    relays without a link, symmetries that the machine does not have), and sentences explain the
    transfers that the sketch allows and forbids. With --collective it must also suit a collective.
    """
    if output is not None and str(output) != "-":
        options.check_writable(output)
    if plot is not None:
        charts.check_picture(plot)
    if output is not None and output == plot:
        raise ParameterError("--output and --plot name the same file: give them a file each")
    loaded_sketch, fit = load_fit(file, topo, profile)
    chunks = sketched_chunks_for(fit, collective, root)
    if plot is not None:
        _draw(_require_fit(fit), plot)
    if output is not None:
        text = to_text(sketch_to_wire(loaded_sketch))
        if str(output) == "-":
            print_file(text)
            return
        write_atomically(output, text)
    result = sketch_output(loaded_sketch, fit, chunks, output, plot)
    if json:
        print_output(result)
        return
    console = out()
    line = f"{single_line(file)}: a sketch for {format_count(loaded_sketch.nodes, 'node')}"
    console.print(f"{line}{_fit_text(fit, chunks)}", markup=False, soft_wrap=True)
    table = Table("Entry", "Value")
    for entry, description in sketch_rows(loaded_sketch, fit):
        table.add_row(entry, escape(description))
    console.print(table)
    lines = list(result.sentences)
    lines += [f"sketch: {single_line(output)}"] if output is not None else []
    lines += [f"picture: {single_line(plot)}"] if plot is not None else []
    for text in lines:
        console.print(text, markup=False, soft_wrap=True)


def _fit_text(fit: FittedSketch | None, chunks: SketchedChunks | None) -> str:
    if fit is None:
        return "; --topo MACHINE checks whether it fits one"
    permitted = sum(route.factor > 0 for route in fit.routes)
    text = (
        f"; it fits {fit.topology.name}: it permits {permitted} of {len(fit.routes)} routes, "
        f"{format_count(fit.symmetries, 'symmetry').replace('symmetrys', 'symmetries')}"
    )
    if chunks is None:
        return text
    planned = (
        f"{chunks.planned} of {format_count(chunks.chunks, 'chunk')} are planned, and the others "
        "follow by symmetry"
    )
    return f"{text}; for {chunks.collective}, {planned}"


def _draw(fit: FittedSketch, file: Path) -> None:
    """Draw the links that a sketch leaves, over those of the machine.

    Links between nodes and their end ranks have a color each, as have links through switches, by
    policy. Unused links are faint. An arrow marks a link that is used in one direction.
    """
    chart = charts.logical_chart(fit.topology, charts.logical_topology(fit, drawing_notes(fit)))
    title = f"sccl: {fit.sketch.name} on {fit.topology.name}"
    charts.save_chart(chart, file, title=title)


def _require_fit(fit: FittedSketch | None) -> FittedSketch:
    if fit is None:
        raise ParameterError(
            "no machine: give --topo NAME ('sccl topo list'), or --taccl-topology FILE"
        )
    return fit
