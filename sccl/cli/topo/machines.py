"""``sccl topo``: the machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import out, print_file, print_output, report_errors
from sccl.core.files.json_text import to_text
from sccl.core.files.topologies import topology_to_wire, write_topology
from sccl.core.formatting import single_line
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.topo import catalogue_names, importers, resolve_topology, topology_makers
from sccl.topo.measures import (
    TopoWithoutOutput,
    TopoWithOutput,
    changed_output,
    list_output,
    unreachable_pair,
)
from sccl.topo.wiring import COST_EXAMPLE
from sccl.view.text.plan_text import print_topology, size_text

if TYPE_CHECKING:
    from sccl.formats.files.machines import ImportedMachine

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A name of 'sccl topo list' or a .json file.",
        autocompletion=options.complete_topology,
    ),
]


@report_errors
def list_topologies(json: options.Json = False) -> None:
    """List the machines of the catalogue and the generators."""
    machines = [resolve_topology(name) for name in catalogue_names()]
    if json:
        print_output(list_output(machines))
        return
    table = Table("Name", "Ranks", "Links", "Source", title="Machines", title_justify="left")
    for m in machines:
        table.add_row(m.name, str(m.ranks), str(len(m.links)), m.source.split(". ")[0])
    console = out()
    console.print(table)
    table = Table("Example", "Form", "What", title="Generators", title_justify="left")
    for g in topology_makers():
        table.add_row(g.example, escape(f"{g.name}:{g.arguments}"), g.description)
    console.print(table)
    console.print(f"Costs follow '@', as in torus:4x4{COST_EXAMPLE}, torus:4x4@50,25GB+0.5,1us.")


@report_errors
def show(name: Name, json: options.Json = False) -> None:
    """Show a machine: its links with their lanes, diameter, degrees, budgets, and costs."""
    topology = resolve_topology(name)
    if json:
        print_file(to_text(topology_to_wire(topology)))
        return
    print_topology(out(), topology)


Output = Annotated[Path, typer.Option("-o", "--output", help="File for the machine.")]


@report_errors
def edit(
    name: Name,
    output: Output,
    remove_link: Annotated[
        list[str] | None,
        "Link to remove: 0-4 both directions, '0>4' one direction, 0-3:1 one lane. Repeatable.",
    ] = None,
    remove_rank: Annotated[
        list[str] | None,
        typer.Option(metavar="RANK", help="Rank to remove, by number or label. Repeatable."),
    ] = None,
    add_link: Annotated[
        list[str] | None,
        "Link to add: 0-5 both directions, '0>5' one direction, 0-5:2 two lanes; an existing link "
        "gets more lanes. Repeatable.",
    ] = None,
    json: options.Json = False,
) -> None:
    """Write a machine with links, lanes, or ranks removed or added.

    Links are added first. Ranks are renumbered if some are removed.
    """
    if not (remove_link or remove_rank or add_link):
        raise ParameterError(
            "nothing to change: give --remove-link A-B, --remove-rank N, or --add-link A-B"
        )
    from sccl.api.inputs import topology  # noqa: PLC0415 - loads charts

    machine = topology(name)
    changed = machine.with_links(add_link) if add_link else machine
    if remove_link or remove_rank:
        changed = changed.without(remove_link or (), remove_rank or ())
    options.check_writable(output)
    changed.save(output)
    if json:
        kind = TopoWithoutOutput if remove_link or remove_rank else TopoWithOutput
        print_output(changed_output(kind, machine.value, changed.value, output))
        return
    _print_written(changed.value, output)
    labels = enumerate(map(changed.value.label, range(changed.ranks)))
    moved = [f"{label} is now {r}" for r, label in labels if label != str(r)] if remove_rank else []
    if moved:
        out().print(f"ranks are renumbered: {', '.join(moved)}", markup=False)


def _print_written(changed: Topology, output: Path) -> None:
    console = out()
    console.print(
        f"written to {single_line(output)}: {single_line(size_text(changed))}", markup=False
    )
    if pair := unreachable_pair(changed):
        console.print(f"[yellow]disconnected:[/] no path leads from rank {pair[0]} to {pair[1]}")


@report_errors
def import_(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="File that describes the machine; '-': standard input.",
            show_default="ask nvidia-smi, rocm-smi, or amd-smi of this machine",
        ),
    ] = None,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            help=f"Format of the file: auto, {', '.join(importers.importer_names())}.",
            autocompletion=options.complete_words(
                ("auto", *importers.importer_names()), "a format"
            ),
        ),
    ] = "auto",
    output: options.Output = None,
    name: Annotated[str | None, "Name of the machine, if the file has none.", "the file's"] = None,
    gpu: Annotated[
        str | None,
        "GPU model that sets link speeds if the file has none, such as a100.",
        "from the file",
    ] = None,
    alpha_us: Annotated[
        float | None,
        "Latency of links in microseconds, if the file has none.",
        "by kind of link, and printed",
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of nodes like this machine, joined by --network.",
            show_default="one",
        ),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='Network between the nodes, such as {"joining": "rails", "gb_per_s": 50} '
            "('sccl doctor schema network').",
        ),
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of nvidia-smi, rocm-smi, or amd-smi, if no FILE is given.",
            show_default="on the PATH",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Read a machine from its vendor's tools, or from the files of other tools.

    The output lists the contents of the file line by line, then the assumptions. Without FILE the
    vendor's tool of this machine is run, which adds the PCI bus id and kind of each GPU.
    """
    from sccl.formats.files.machines import join_by_network  # noqa: PLC0415 - loads formats

    options.check_writable(output)
    read = _read(file, format_name, tools, (name, gpu, alpha_us))
    _write_and_print(join_by_network(read, nodes, network), output, json=json)


def _read(
    file: Path | None,
    format_name: str,
    tools: Path | None,
    hints: tuple[str | None, str | None, float | None],
) -> ImportedMachine:
    """Read a machine from a file, or from the tool of its vendor."""
    if file is None:
        from sccl.runtime.machine_probe import probe_machine  # noqa: PLC0415 - loads the targets of code

        if format_name != "auto":
            raise ParameterError(f"--format {format_name} describes a file: give FILE as well")
        return probe_machine(tools, *hints)
    from sccl.formats.files.machines import read_machine  # noqa: PLC0415 - loads formats

    if tools is not None:
        raise ParameterError(f"--tools {tools} has no effect on {file}: leave one of the two out")
    return read_machine(file, format_name, *hints)


def _write_and_print(read: ImportedMachine, output: Path | None, *, json: bool) -> None:
    """Write the imported machine if requested, and print the import report."""
    from sccl.formats.files.machines import import_output  # noqa: PLC0415 - loads formats

    if output is not None:
        write_topology(output, read.imported.topology)
    if json:
        print_output(import_output(read, output))
        return
    console, topology = out(), read.imported.topology
    console.print(f"{read.format}: {read.about}", markup=False)
    for title, lines in (
        ("understood", read.imported.understood),
        ("assumed", read.imported.assumed),
    ):
        console.print(title, style="bold")
        for line in lines:
            console.print(f"  {single_line(line)}", markup=False)
    if output is None:
        console.print(f"{single_line(size_text(topology))}; -o FILE writes it", markup=False)
    else:
        _print_written(topology, output)
