"""``sccl project new``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import next_command, out, print_output, report_errors
from sccl.codegen.project_writer import targets
from sccl.codegen.projects import codegen_output, write_project_of
from sccl.codegen.targets.codegen_options import MAX_PER_LINK, CodegenOptions
from sccl.core.formatting import format_count, single_line
from sccl.errors import ParameterError
from sccl.formats.files.plans import load_plans
from sccl.topo import resolve_topology

Target = Annotated[
    str,
    typer.Option(
        help=f"{', '.join(targets())}.",
        autocompletion=options.complete_words(targets(), "a target"),
    ),
]
Folder = Annotated[
    Path,
    typer.Option(
        "-o", "--output", help="Folder of the project: a new one, or one of the same algorithms."
    ),
]
Force = Annotated[bool, "Overwrite the folder even if it has other contents."]
PerLink = Annotated[int | None, "Thread blocks per link (cuda, hip; default: by its lanes)."]
Transport = Annotated[
    str,
    "Transport: kernel, or dma with one copy per transfer (cuda, hip).",
    options.complete_words(("kernel", "dma"), "how chunks travel"),
]
Select = Annotated[
    str | None, "Switch points, such as 'allgather:0=0e,65536=1d' (default: the cost model's)."
]

CostsOf = Annotated[
    str | None,
    "Machine for the costs that set the switch points (default: each algorithm's own).",
    options.complete_topology,
]

_KERNEL = "kernel"


@report_errors
def codegen(
    files: options.Plans,
    output: Folder,
    target: Target = "host",
    blocks_per_link: PerLink = None,
    transport: Transport = _KERNEL,
    select: Select = None,
    topo: CostsOf = None,
    force: Force = False,
    json: options.Json = False,
) -> None:
    """Generate a C++, CUDA, or HIP project that runs algorithms.

    Several algorithms of one collective become one entry that selects by buffer size. Several
    collectives become an entry each. A schedule is run by its dependencies.
    """
    if blocks_per_link is not None and not 1 <= blocks_per_link <= MAX_PER_LINK:
        raise ParameterError(f"blocks-per-link is {blocks_per_link}, expected 1 to {MAX_PER_LINK}")
    if target == "host" and (blocks_per_link, transport) != (None, _KERNEL):
        raise ParameterError("--blocks-per-link and --transport are for GPUs: leave them out")
    if select is not None and topo is not None:
        raise ParameterError(
            "--select and --topo both set the sizes for which each algorithm is used: give one"
        )
    machine = resolve_topology(topo) if topo else None
    plans = {str(loaded.file): loaded.plan for loaded in load_plans(files)}
    codegen_options = CodegenOptions(blocks_per_link, transport)
    written = write_project_of(plans, output, target, codegen_options, select, machine, force=force)
    if json:
        print_output(codegen_output(written))
        return
    out().print(
        f"{format_count(len(written.algorithms), 'algorithm')} of "
        f"{escape(single_line(', '.join(written.collectives)))} for {written.ranks} ranks, target "
        f"{target}, in {escape(single_line(output))}; next: {next_command(output, target)}",
        soft_wrap=True,
    )
