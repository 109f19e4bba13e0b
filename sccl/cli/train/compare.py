"""``sccl train compare``: every search on one step of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import ExitCode, err, notify_first_compile, out, print_output, report_errors
from sccl.cli.train.plan_options import FabricName, File
from sccl.core.cost import format_duration
from sccl.core.formatting import format_count, format_gap, single_line
from sccl.training import plan_step as comparing_plans
from sccl.training.fabric_names import resolve_fabric
from sccl.training.files.workloads import load_workload
from sccl.training.plan_files import name_file_in_errors
from sccl.training.plan_step import ComparePlansOutput, PlanOptions, build_plan_settings
from sccl.view import charts


@report_errors
def compare_plans(
    file: File,
    *,
    fabric: FabricName,
    budget: Annotated[
        float, typer.Option(min=0, help="Budget of each search, in approximate seconds.")
    ] = 5.0,
    plan_options: Annotated[
        dict[str, Any], options.DerivedOptions.of(PlanOptions, "seed", "memory")
    ],
    picture: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Picture: .html, .svg, .png, or .pdf."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Compare plans of all search methods and of common frameworks for a training step.

    Exit code 0: done, 2: bad input, 130: interrupted. The results so far are printed.
    """
    workload, resolved_fabric = load_workload(file), resolve_fabric(fabric)
    if picture is not None:
        charts.check_picture(picture)
    settings = build_plan_settings(PlanOptions(budget=budget, **plan_options))
    about = escape(single_line(f"{workload.name} on {resolved_fabric.name}"))
    with err().status(about) as status:

        def show_status(activity: str) -> None:
            status.update(f"{about}: {escape(single_line(activity))}")

        with name_file_in_errors(file):
            result = comparing_plans.compare_plans(
                workload, resolved_fabric, settings, picture, show_status, notify_first_compile
            )
    if picture is not None:
        periods = [(search.search, search.period_us) for search in result.searches]
        title = f"{result.workload} on {result.fabric}"
        chart = charts.searches_chart(title, periods, result.bound_us)
        charts.save_chart(chart, picture, title=f"sccl: {result.workload}")
    if json:
        print_output(result)
    else:
        _print(result)
    if result.ended:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _print(result: ComparePlansOutput) -> None:
    console = out()
    title = escape(single_line(f"{result.workload} on {result.fabric}"))
    table = Table("Search", title=title, title_justify="left")
    for name in ("Period", "Gap", "Seconds"):
        table.add_column(name, justify="right")
    table.add_column("Description")
    for search in result.searches:
        above = "-" if search.gap is None else format_gap(search.gap) if search.gap > 0 else "0"
        row = (search.search, format_duration(search.period_us), above, f"{search.seconds:.2f}")
        table.add_row(*row, escape(search.about))
    console.print(table)
    lower_bound = format_duration(result.bound_us)
    console.print(
        f"{format_count(result.collectives, 'collective')}; lower bound {lower_bound} for plans of "
        "these "
        f"options ({escape(result.binding)})"
    )
    if result.ended:
        console.print(f"{result.ended}: the others were not tried", markup=False)
    if result.file:
        console.print(f"picture: {single_line(result.file)}", markup=False, soft_wrap=True)
