"""``sccl sketch``: whether sketches fit a machine, their content, and the machine within them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import complete, options
from sccl.cli.report import on_a_line, out, print_file, print_output, reported
from sccl.cli.subject import Root, TacclTopology, TopoOrProfile
from sccl.core.files.sketches import sketch_to_wire
from sccl.core.files.text import text_of
from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.tasks.fitted_sketch import FittedSketch, SketchedChunks, logical_topology
from sccl.tasks.sketch import (
    SketchDrawOutput,
    check_output,
    chunks_for,
    explain_output,
    fit_of,
    inputs_of,
)
from sccl.tasks.sketch_words import notes_of, rows_of
from sccl.view import charts

sketch = typer.Typer(
    name="sketch",
    no_args_is_help=True,
    add_completion=False,
    help="Check, show, explain, and draw communication sketches.",
)

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Sketch file of TACCL or of sccl ('sccl schema sketch').",
        autocompletion=complete.file,
    ),
]
Collective = Annotated[
    str | None,
    typer.Option(
        help="Collective that the sketch must suit, such as allgather.",
        show_default=False,
        autocompletion=complete.collective,
    ),
]


@sketch.command(epilog="Example: sccl sketch check sk.json --topo ndv2x2 --collective allgather")
@reported
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
    found, fit = fit_of(file, topo, profile)
    chunks = chunks_for(fit, collective, root)
    if json:
        print_output(check_output(found, fit, chunks))
        return
    line = f"{on_a_line(file)}: a sketch for {counted(found.nodes, 'node')}"
    out().print(f"{line}{_fits(fit, chunks)}", markup=False, soft_wrap=True)


def _fits(fit: FittedSketch | None, chunks: SketchedChunks | None) -> str:
    if fit is None:
        return "; --topo MACHINE checks whether it fits one"
    left = sum(way.factor > 0 for way in fit.ways)
    text = (
        f"; it fits {fit.topology.name}: {left} of {len(fit.ways)} ways are left, "
        f"{counted(fit.symmetries, 'symmetry').replace('symmetrys', 'symmetries')}"
    )
    if chunks is None:
        return text
    planned = f"{chunks.planned} of {counted(chunks.chunks, 'chunk')} are to be planned"
    return f"{text}; of {chunks.collective} {planned}"


@sketch.command(epilog="Example: sccl sketch show sk.json")
@reported
def show(
    file: File,
    topo: TopoOrProfile = None,
    profile: TacclTopology = None,
    json: options.Json = False,
) -> None:
    """Show a sketch as a table. With --json, as a file in sccl's format."""
    found, fit = fit_of(file, topo, profile)
    if json:
        print_file(text_of(sketch_to_wire(found)))
        return
    table = Table("Of", "What", title=escape(on_a_line(found.name)), title_justify="left")
    for of, what in rows_of(found, fit):
        table.add_row(of, escape(what))
    out().print(table)


@sketch.command(epilog="Example: sccl sketch explain sk.json --topo ndv2x2")
@reported
def explain(
    file: File,
    topo: TopoOrProfile = None,
    profile: TacclTopology = None,
    collective: Collective = None,
    root: Root = None,
    json: options.Json = False,
) -> None:
    """Explain in sentences the transfers that a sketch allows and forbids."""
    fit = _needed(fit_of(file, topo, profile)[1])
    found = explain_output(fit, chunks_for(fit, collective, root))
    if json:
        print_output(found)
        return
    for sentence in found.sentences:
        out().print(sentence, markup=False, soft_wrap=True)


@sketch.command(epilog="Example: sccl sketch draw sk.json --topo ndv2x2 -o sk.svg")
@reported
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
    fit = _needed(fit_of(file, topo, profile)[1])
    chart = charts.logical_chart(fit.topology, logical_topology(fit, notes_of(fit)))
    name, machine = fit.sketch.name, fit.topology.name
    charts.save(chart, output, title=f"sccl: {name} on {machine}")
    if json:
        digests = inputs_of(fit.sketch, fit)
        print_output(
            SketchDrawOutput(inputs=digests, name=name, topology=machine, file=str(output))
        )
    else:
        out().print(f"sketch: {on_a_line(output)}", markup=False, soft_wrap=True)


def _needed(fit: FittedSketch | None) -> FittedSketch:
    if fit is None:
        raise ParameterError(
            "no machine: give --topo NAME ('sccl topo list'), or --taccl-topology FILE"
        )
    return fit
