"""``sccl synth sketch``: check, show, explain, and draw communication sketches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import out, print_file, print_output, report_errors
from sccl.cli.subject import Root, TacclTopology, TopoOrProfile
from sccl.core.files.json_text import to_text
from sccl.core.formatting import format_count, single_line
from sccl.errors import ParameterError
from sccl.synth.sketches.sketch_files import sketch_to_wire
from sccl.synth.taccl.fitted_sketch import FittedSketch, SketchedChunks
from sccl.synth.taccl.sketch_output import (
    SketchDrawOutput,
    check_output,
    explain_output,
    input_digests,
    load_fit,
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
    typer.Option(
        help="Collective that the sketch must suit, such as allgather.",
        show_default=False,
        autocompletion=options.complete_collective,
    ),
]


@report_errors
def check(
    file: File,
    topo: TopoOrProfile = None,
    profile: TacclTopology = None,
    collective: Collective = None,
    root: Root = None,
    json: options.Json = False,
) -> None:
    """Check that a file is a sketch, that it fits a machine, and suits a collective.

    Contradictions with the machine are named by their entry: missing ranks, relays without a link,
    and symmetries that the machine does not have, with the link or path that breaks.
    """
    loaded_sketch, fit = load_fit(file, topo, profile)
    chunks = sketched_chunks_for(fit, collective, root)
    if json:
        print_output(check_output(loaded_sketch, fit, chunks))
        return
    line = f"{single_line(file)}: a sketch for {format_count(loaded_sketch.nodes, 'node')}"
    out().print(f"{line}{_fit_text(fit, chunks)}", markup=False, soft_wrap=True)


def _fit_text(fit: FittedSketch | None, chunks: SketchedChunks | None) -> str:
    if fit is None:
        return "; --topo MACHINE checks whether it fits one"
    left = sum(route.factor > 0 for route in fit.routes)
    text = (
        f"; it fits {fit.topology.name}: it permits {left} of {len(fit.routes)} routes, "
        f"{format_count(fit.symmetries, 'symmetry').replace('symmetrys', 'symmetries')}"
    )
    if chunks is None:
        return text
    planned = (
        f"{chunks.planned} of {format_count(chunks.chunks, 'chunk')} are planned, and the others "
        "follow by symmetry"
    )
    return f"{text}; for {chunks.collective}, {planned}"


@report_errors
def show(
    file: File,
    topo: TopoOrProfile = None,
    profile: TacclTopology = None,
    json: options.Json = False,
) -> None:
    """Show a sketch as a table. With --json, as a file in sccl's format."""
    loaded_sketch, fit = load_fit(file, topo, profile)
    if json:
        print_file(to_text(sketch_to_wire(loaded_sketch)))
        return
    table = Table(
        "Entry", "Value", title=escape(single_line(loaded_sketch.name)), title_justify="left"
    )
    for of, description in sketch_rows(loaded_sketch, fit):
        table.add_row(of, escape(description))
    out().print(table)


@report_errors
def explain(
    file: File,
    topo: TopoOrProfile = None,
    profile: TacclTopology = None,
    collective: Collective = None,
    root: Root = None,
    json: options.Json = False,
) -> None:
    """Explain in sentences the transfers that a sketch allows and forbids."""
    fit = _require_fit(load_fit(file, topo, profile)[1])
    explanation = explain_output(fit, sketched_chunks_for(fit, collective, root))
    if json:
        print_output(explanation)
        return
    for sentence in explanation.sentences:
        out().print(sentence, markup=False, soft_wrap=True)


@report_errors
def draw(
    file: File,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="File for the picture: .html, .svg, .png, or .pdf."),
    ],
    topo: TopoOrProfile = None,
    profile: TacclTopology = None,
    json: options.Json = False,
) -> None:
    """Draw the links that a sketch leaves, over those of the machine.

    Links between nodes and their end ranks have a color each, as have links through switches, by
    policy. Unused links are faint. An arrow marks a link that is used in one direction.
    """
    charts.check_picture(output)
    fit = _require_fit(load_fit(file, topo, profile)[1])
    chart = charts.logical_chart(fit.topology, charts.logical_topology(fit, drawing_notes(fit)))
    name, machine = fit.sketch.name, fit.topology.name
    charts.save_chart(chart, output, title=f"sccl: {name} on {machine}")
    if json:
        digests = input_digests(fit.sketch, fit)
        print_output(
            SketchDrawOutput(inputs=digests, name=name, topology=machine, file=str(output))
        )
    else:
        out().print(f"sketch: {single_line(output)}", markup=False, soft_wrap=True)


def _require_fit(fit: FittedSketch | None) -> FittedSketch:
    if fit is None:
        raise ParameterError(
            "no machine: give --topo NAME ('sccl topo list'), or --taccl-topology FILE"
        )
    return fit
