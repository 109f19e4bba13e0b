"""``sccl train compare``: every search on one step of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.planning import FabricName, File
from sccl.cli.report import ExitCode, err, notify_first_compile, out, print_output, report_errors
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
    chosen: Annotated[dict[str, Any], options.DerivedOptions.of(PlanOptions, "seed", "memory")],
    picture: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Picture: .html, .svg, .png, or .pdf."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Compare plans of all search methods and of common frameworks for a training step.

    Exit code 0: done, 2: bad input, 130: interrupted. The results so far are printed.
    """
    workload, on = load_workload(file), resolve_fabric(fabric)
    if picture is not None:
        charts.check_picture(picture)
    settings = build_plan_settings(PlanOptions(budget=budget, **chosen))
    about = escape(single_line(f"{workload.name} on {on.name}"))
    with err().status(about) as status:

        def tell(doing: str) -> None:
            status.update(f"{about}: {escape(single_line(doing))}")

        with name_file_in_errors(file):
            shown = comparing_plans.compare_plans(
                workload, on, settings, picture, tell, notify_first_compile
            )
    if picture is not None:
        periods = [(search.search, search.period_us) for search in shown.searches]
        title = f"{shown.workload} on {shown.fabric}"
        chart = charts.searches_chart(title, periods, shown.bound_us)
        charts.save_chart(chart, picture, title=f"sccl: {shown.workload}")
    if json:
        print_output(shown)
    else:
        _print(shown)
    if shown.ended:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _print(shown: ComparePlansOutput) -> None:
    console = out()
    title = escape(single_line(f"{shown.workload} on {shown.fabric}"))
    table = Table("Search", title=title, title_justify="left")
    for name in ("Period", "Gap", "Seconds"):
        table.add_column(name, justify="right")
    table.add_column("Description")
    for search in shown.searches:
        above = "-" if search.gap is None else format_gap(search.gap) if search.gap > 0 else "0"
        row = (search.search, format_duration(search.period_us), above, f"{search.seconds:.2f}")
        table.add_row(*row, escape(search.about))
    console.print(table)
    lower_bound = format_duration(shown.bound_us)
    console.print(
        f"{format_count(shown.collectives, 'collective')}; lower bound {lower_bound} for plans of "
        "these "
        f"options ({escape(shown.binding)})"
    )
    if shown.ended:
        console.print(f"{shown.ended}: the others were not tried", markup=False)
    if shown.file:
        console.print(f"picture: {single_line(shown.file)}", markup=False, soft_wrap=True)
