"""``sccl train import``, ``make``, and ``show``: workloads and fabrics of training jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import out, print_file, print_output, print_text, report_errors
from sccl.cli.train.model_options import MODEL_OPTIONS, WORK_PANEL, given_parameters
from sccl.core.files.json_text import file_kind, to_text
from sccl.core.formatting import format_count, single_line
from sccl.training.fabric_names import FABRIC_NAMES, list_output, resolve_fabric
from sccl.training.files.fabrics import fabric_to_wire
from sccl.training.models import FAMILIES, PRESETS
from sccl.training.traces import TraceHints, format_names
from sccl.training.workload_outputs import (
    ImportedWorkload,
    import_workload,
    make_workload,
    workload_import_output,
    workload_make_output,
    workload_part,
    workload_show_output,
)
from sccl.view.text.training_text import MAX_SHOWN, budget_text, channels_table, print_workload

_MAX_BUDGETS = 8
"""Maximum number of shared budgets that are printed."""

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.training.workload_outputs import WorkloadPart


@report_errors
def import_(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE",
            help="Traces of a job's ranks: .json, .gz, archives (.tar.gz), or folders.",
            show_default=False,
            autocompletion=options.complete_file,
        ),
    ],
    output: options.Output = None,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            help=f"Format of the traces: auto, {', '.join(format_names())}.",
            autocompletion=options.complete_words(("auto", *format_names()), "a format"),
        ),
    ] = "auto",
    rank: Annotated[
        int | None,
        "Rank to read from the traces; for a single trace, its rank if the trace does not contain "
        "it.",
        "all; 0",
    ] = None,
    ranks: Annotated[
        int | None, "Number of ranks of the job, if no trace contains it.", "from the traces"
    ] = None,
    step: Annotated[
        int | None,
        "Number of the step (ProfilerStep#N; default: one in the middle).",
        "one in the middle; without step markers the whole trace",
    ] = None,
    alike: Annotated[
        bool, "Assume that ranks without a trace behave like traced ranks, in separate groups."
    ] = False,
    host_time: Annotated[
        bool, "Keep the host's time between calls as a stream (default: leave idle time out)."
    ] = False,
    name: Annotated[str | None, "Name of the workload.", "the first file's"] = None,
    json: options.Json = False,
) -> None:
    """Make a workload of one step of a training job, from traces of its ranks.

    A profiler's trace and an execution trace of the same rank are paired. Ranks are compared with
    one another. The output lists the contents of the traces, assumptions, and unused fields.
    """
    options.check_writable(output)
    hints = TraceHints(format_name, rank, ranks, step, alike, host_time)
    imported = import_workload(traces, hints, name, output)
    if json:
        print_output(workload_import_output(imported, output))
        return
    _print_imported(out(), imported, output)


def _print_imported(console: Console, imported: ImportedWorkload, output: Path | None) -> None:
    read = imported.read
    parts = (("", read.understood), ("assumed: ", read.assumed), ("not used: ", read.unread))
    for prefix, lines in parts:
        for line in lines[:MAX_SHOWN]:
            print_text(f"{prefix}{single_line(line)}", console)
        if len(lines) > MAX_SHOWN:
            console.print(f"{prefix}{len(lines) - MAX_SHOWN} more lines (--json has all)")
    _print_written(console, workload_part(read.workload), output)


def _print_written(console: Console, part: WorkloadPart, output: Path | None) -> None:
    if output is None:
        print_workload(console, part)
        return
    number = sum(collective.operations for collective in part.collectives)
    print_text(
        f"written to {single_line(output)}: {format_count(number, 'collective')} of "
        f"{format_count(part.ranks, 'rank')}, {part.dependencies} dependencies, {len(part.across)} "
        "of them across iterations"
    )


@report_errors
def make(
    family: Annotated[
        str,
        typer.Argument(
            metavar="FAMILY",
            help=f"Model family: {', '.join(FAMILIES)}.",
            show_default=False,
            autocompletion=options.complete_words(FAMILIES, "a family of models"),
        ),
    ],
    parameters: Annotated[dict[str, Any], MODEL_OPTIONS],
    ranks: Annotated[
        int | None,
        typer.Option(
            help="Number of ranks of the job.",
            show_default="tp * pp * dp; required for a dlrm",
            rich_help_panel=WORK_PANEL,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"Parameters of a known job, which others may change: {', '.join(PRESETS)}.",
            show_default="none",
            autocompletion=options.complete_words(PRESETS, "a preset"),
        ),
    ] = None,
    output: options.Output = None,
    name: Annotated[str | None, "Name of the workload.", "the preset's, or family's"] = None,
    json: options.Json = False,
) -> None:
    """Make a workload of one training step from the formulas of a model.

    The documents contain the formula of each number. Presets name their sources and assumptions.
    """
    options.check_writable(output)
    generated = make_workload(
        family, given_parameters({**parameters, "ranks": ranks}), preset, name, output
    )
    if json:
        print_output(workload_make_output(generated, output))
        return
    console = out()
    if generated.about:
        print_text(single_line(generated.about), console)
    _print_written(console, workload_part(generated.workload), output)


@report_errors
def show(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|NAME",
            help="Workload or fabric file, or a fabric's name. Without it: the list of fabrics.",
            autocompletion=options.complete_file,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show a workload (its collectives, computation, and dependencies), or fabrics.

    A fabric is the channels over which the ranks of a job move data. With --json it is printed as
    a file.
    """
    if name is None:
        _list_fabrics(json=json)
        return
    path = Path(name)
    kind = file_kind(path) if path.is_file() else None
    if not path.is_file() or (kind is not None and kind.name == "fabric"):
        _show_fabric(name, json=json)
        return
    result = workload_show_output(Path(name))
    if json:
        print_output(result)
        return
    print_workload(out(), result.workload)


def _list_fabrics(*, json: bool) -> None:
    """Print the known fabrics: the channels over which the ranks of a job move data."""
    if json:
        print_output(list_output())
        return
    table = Table("Name", "Ranks", "Channels", "Source", title="Fabrics", title_justify="left")
    for name in FABRIC_NAMES:
        loaded_fabric = resolve_fabric(name)
        channels = ", ".join(channel.name for channel in loaded_fabric.channels)
        table.add_row(name, str(loaded_fabric.ranks), channels, loaded_fabric.source.split(": ")[0])
    console = out()
    console.print(table)
    console.print("hgx2xN has N nodes; 'sccl doctor schema fabric' describes custom files.")


def _show_fabric(name: str, *, json: bool) -> None:
    """Print the channels of a fabric and their shared budgets. As JSON it is a file."""
    loaded_fabric = resolve_fabric(name)
    if json:
        print_file(to_text(fabric_to_wire(loaded_fabric)))
        return
    console = out()
    console.print(channels_table(loaded_fabric))
    for budget in loaded_fabric.shared[:_MAX_BUDGETS]:
        print_text(budget_text(budget), console)
    if (more := len(loaded_fabric.shared) - _MAX_BUDGETS) > 0:
        console.print(f"and {format_count(more, 'shared budget')} more")
    if loaded_fabric.source:
        console.print(loaded_fabric.source, markup=False)
