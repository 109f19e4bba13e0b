"""``sccl compare-plans``: every search on one step of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.planning import (
    FabricName,
    File,
    Memory,
    PlanChoices,
    PlanSearch,
    Seed,
    plan_settings,
)
from sccl.cli.report import ExitCode, err, on_a_line, out, print_output, reported, tell_first_use
from sccl.core.cost import duration_text
from sccl.core.files.workloads import load_workload
from sccl.core.words import counted, gap_text
from sccl.tasks import comparing_plans
from sccl.tasks.comparing_plans import ComparePlansOutput
from sccl.tasks.training_files import naming
from sccl.topo import fabric_of
from sccl.view import charts


@reported
def compare_plans(
    file: File,
    *,
    fabric: FabricName,
    seconds: Annotated[
        float, typer.Option(min=0, help="Budget of each search, in approximate seconds.")
    ] = 5.0,
    seed: Seed = 0,
    memory: Memory = None,
    picture: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Picture: .html, .svg, .png, or .pdf."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Compare plans of a training step by all searches and by frameworks' strategies.

    Exit code 0: done, 2: bad input, 130: interrupted. The results so far are printed.
    """
    workload, on = load_workload(file), fabric_of(fabric)
    if picture is not None:
        charts.check_picture(picture)
    settings = plan_settings(PlanSearch(seconds=seconds, seed=seed), PlanChoices(memory=memory))
    about = escape(on_a_line(f"{workload.name} on {on.name}"))
    with err().status(about) as status:

        def tell(doing: str) -> None:
            status.update(f"{about}: {escape(on_a_line(doing))}")

        with naming(file):
            shown = comparing_plans.compare_plans(
                workload, on, settings, picture, tell, tell_first_use
            )
    if picture is not None:
        periods = [(one.search, one.period_us) for one in shown.searches]
        title = f"{shown.workload} on {shown.fabric}"
        chart = charts.searches_chart(title, periods, shown.bound_us)
        charts.save(chart, picture, title=f"sccl: {shown.workload}")
    if json:
        print_output(shown)
    else:
        _print(shown)
    if shown.ended:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _print(shown: ComparePlansOutput) -> None:
    console = out()
    title = escape(on_a_line(f"{shown.workload} on {shown.fabric}"))
    table = Table("Search", title=title, title_justify="left")
    for name in ("an iteration", "above the bound", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("description")
    for one in shown.searches:
        above = "-" if one.gap is None else gap_text(one.gap) if one.gap > 0 else "met"
        row = (one.search, duration_text(one.period_us), above, f"{one.seconds:.2f}")
        table.add_row(*row, escape(one.about))
    console.print(table)
    least = duration_text(shown.bound_us)
    console.print(
        f"{counted(shown.collectives, 'collective')}; lower bound {least} for plans of these "
        f"options ({escape(shown.binding)})"
    )
    if shown.ended:
        console.print(f"{shown.ended}: the others were not tried", markup=False)
    if shown.file:
        console.print(f"picture: {on_a_line(shown.file)}", markup=False, soft_wrap=True)
