"""``sccl topo``: the machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import out, print_file, print_json, print_output, report_errors
from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import to_text
from sccl.core.files.kinds import SHAPE_NAMES, json_schema, published_shapes
from sccl.core.files.topologies import topology_to_wire
from sccl.core.formatting import single_line
from sccl.core.topology import Topology
from sccl.errors import ParameterError, unknown_name
from sccl.topo import catalogue_names, degrade, importers, resolve_topology, topology_makers
from sccl.topo.measures import (
    TopoWithoutOutput,
    TopoWithOutput,
    changed_output,
    list_output,
    unreachable_pair,
)
from sccl.topo.node_names import parse_added_lanes, parse_links, parse_rank
from sccl.topo.wiring import COST_EXAMPLE
from sccl.view.text.plan_text import print_topology, size_text

if TYPE_CHECKING:
    from sccl.formats.files.machines import ImportedMachine

topo = typer.Typer(
    name="topo",
    no_args_is_help=True,
    add_completion=False,
    help="Import, list, show, and change machines.",
)


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A name of 'sccl topo list' or a .json file.",
        autocompletion=options.complete_topology,
    ),
]


@topo.command("list", epilog="Example: sccl topo list")
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


@topo.command(epilog="Example: sccl topo show dgx1")
@report_errors
def show(name: Name, json: options.Json = False) -> None:
    """Show a machine: its links with their lanes, diameter, degrees, budgets, and costs."""
    topology = resolve_topology(name)
    if json:
        print_file(to_text(topology_to_wire(topology)))
        return
    print_topology(out(), topology)


Output = Annotated[Path, typer.Option("-o", "--output", help="File for the machine.")]


@topo.command(epilog="Example: sccl topo without dgx1 --link 0-4 --rank 3 -o degraded.json")
@report_errors
def without(
    name: Name,
    output: Output,
    link: Annotated[
        list[str] | None,
        typer.Option(
            help="Failed link: 0-4 both directions, '0>4' one direction, 0-3:1 one lane. "
            "Repeatable."
        ),
    ] = None,
    rank: Annotated[
        list[str] | None,
        typer.Option(metavar="RANK", help="Failed rank, by number or label. Repeatable."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Write a machine without some links, lanes, or ranks, such as after a failure."""
    if not link and not rank:
        raise ParameterError("nothing to remove: give --link A-B or --rank N")
    topology = resolve_topology(name)
    gone = parse_links(topology, link or [])
    lost = [parse_rank(topology, text) for text in rank or []]
    degraded = degrade.remove_parts(topology, gone.complete_links, lost, gone.lanes)
    _write_machine(degraded, output)
    if json:
        print_output(changed_output(TopoWithoutOutput, topology, degraded, output))
        return
    _print_written(degraded, output)
    moved = [r for r in range(degraded.ranks) if degraded.label(r) != str(r)] if lost else []
    if moved:
        pairs = ", ".join(f"{degraded.label(r)} is now {r}" for r in moved)
        out().print(f"ranks are renumbered: {pairs}", markup=False)


@topo.command("with", epilog="Example: sccl topo with dgx1 --link 0-5:2 -o more.json")
@report_errors
def with_links(
    name: Name,
    output: Output,
    link: Annotated[
        list[str],
        typer.Option(
            help="Link to add: 0-5 both directions, '0>5' one direction, 0-5:2 two lanes; "
            "an existing link gets more lanes. Repeatable."
        ),
    ],
    json: options.Json = False,
) -> None:
    """Write a machine with more links or lanes, to compare it with the original."""
    topology = resolve_topology(name)
    changed = degrade.add_links(topology, parse_added_lanes(topology, link))
    _write_machine(changed, output)
    if json:
        print_output(changed_output(TopoWithOutput, topology, changed, output))
    else:
        _print_written(changed, output)


def _write_machine(changed: Topology, output: Path) -> None:
    options.check_writable(output)
    write_atomically(output, to_text(topology_to_wire(changed)))


def _print_written(changed: Topology, output: Path) -> None:
    console = out()
    console.print(
        f"written to {single_line(output)}: {single_line(size_text(changed))}", markup=False
    )
    if pair := unreachable_pair(changed):
        console.print(f"[yellow]disconnected:[/] no path leads from rank {pair[0]} to {pair[1]}")


@topo.command("import", epilog="Example: sccl topo import topo.txt -o my.json")
@report_errors
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="File that describes the machine; '-': standard input."
        ),
    ],
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
    name: Annotated[
        str | None,
        typer.Option(help="Name of the machine, if the file has none.", show_default="the file's"),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            help="GPU model that sets link speeds if the file has none, such as a100.",
            show_default="from the file",
        ),
    ] = None,
    alpha_us: Annotated[
        float | None,
        typer.Option(
            help="Latency of links in microseconds, if the file has none.",
            show_default="by kind of link, and printed",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes",
            "--chassis",
            metavar="N",
            help="Number of nodes like this machine, joined by --network.",
            show_default="one",
        ),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Network between the nodes: switch, rails, or full, and the NICs ('sccl "
            "schema network').",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Read a machine from the output of its vendor's tools, or from other tools' files.

    The output lists the contents of the file line by line, then the assumptions.
    """
    from sccl.formats.files.machines import join_by_network, read_machine  # noqa: PLC0415 - loads formats

    options.check_writable(output)
    read = join_by_network(read_machine(file, format_name, name, gpu, alpha_us), nodes, network)
    _write_and_print(read, output, json=json)


@topo.command(epilog="Example: sccl topo probe -o my.json")
@report_errors
def probe(
    output: options.Output = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the machine.", show_default="its host's")
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            help="GPU model that sets link speeds, such as a100.",
            show_default="as the tool calls them",
        ),
    ] = None,
    alpha_us: Annotated[
        float | None,
        typer.Option(
            help="Latency of links in microseconds.",
            show_default="by kind of link, and printed",
        ),
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of nvidia-smi, rocm-smi, or amd-smi.",
            show_default="on the PATH",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Read this machine from its vendor's tool: nvidia-smi, rocm-smi, or amd-smi.

    Like 'sccl topo import' of the tool's output, with PCI bus id and kind of each GPU.
    """
    from sccl.runtime.machine_probe import probe_machine  # noqa: PLC0415 - loads the targets of code

    options.check_writable(output)
    _write_and_print(probe_machine(tools, name, gpu, alpha_us), output, json=json)


@topo.command(epilog="Example: sccl topo infer pcie.json --topo dgx1")
@report_errors
def infer(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Measurements of copies and loopbacks ('sccl schema pcie-measurement').",
        ),
    ],
    machine: Annotated[
        str | None,
        typer.Option(
            "--topo",
            help="Machine of these GPUs; also prints the GPU of each rank, with rank 0 "
            "next to the NIC.",
            autocompletion=options.complete_topology,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Deduce from measurements which GPUs share a PCIe switch, and where the NIC is."""
    from sccl.topo.profiles.pcie import infer_output, infer_pcie  # noqa: PLC0415 - rarely used

    topology = resolve_topology(machine) if machine else None
    inferred = infer_pcie(file, topology)
    if json:
        print_output(infer_output(file, topology, inferred))
        return
    console, hierarchy = out(), inferred.hierarchy
    console.print(f"nearest to the NIC: CPU {hierarchy.near_cpu}")
    for gpus in hierarchy.switches:
        also = " and the NIC" if gpus == hierarchy.near_gpus else ""
        console.print(f"a PCIe switch: GPU {', '.join(map(str, gpus))}{also}")
    if not hierarchy.near_gpus:
        console.print("the NIC shares a switch with no GPU")
    if inferred.visible_devices is not None:
        console.print(f"CUDA_VISIBLE_DEVICES={','.join(map(str, inferred.visible_devices))}")


def _write_and_print(read: ImportedMachine, output: Path | None, *, json: bool) -> None:
    """Write the imported machine if requested, and print the import report."""
    from sccl.formats.files.machines import import_output, write_machine  # noqa: PLC0415 - loads formats

    if output is not None:
        write_machine(read, output)
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


@topo.command(epilog="Example: sccl topo schema --of algorithm")
@report_errors
def schema(
    of: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help=f"Kind of file: {', '.join(SHAPE_NAMES)}.",
            autocompletion=options.complete_words(SHAPE_NAMES, "a kind of file"),
        ),
    ] = "topology",
    json: options.Json = False,  # noqa: ARG001 - for its errors
) -> None:
    """Print the JSON Schema of machine files, or of another kind of file, always as JSON."""
    older = {kind.replace("-", ""): kind for kind in SHAPE_NAMES}
    kind = older.get(of, of)
    if kind not in SHAPE_NAMES:
        raise unknown_name("kind", of, SHAPE_NAMES, f"expected one of {', '.join(SHAPE_NAMES)}")
    print_json(json_schema(published_shapes()[kind]))
