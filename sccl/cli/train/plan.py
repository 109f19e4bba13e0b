"""``sccl train plan`` and ``compare``: a training step, its collectives split and ordered."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import (
    ExitCode,
    err,
    notify_first_compile,
    out,
    print_file,
    print_output,
    print_text,
    report_errors,
    show_activity,
)
from sccl.core.cost import format_duration
from sccl.core.files.json_text import to_text
from sccl.core.formatting import format_count, format_gap, single_line
from sccl.errors import ParameterError
from sccl.training import plan_step
from sccl.training.fabric_names import resolve_fabric
from sccl.training.files.training_plans import offered_options_to_wire
from sccl.training.files.workloads import load_workload
from sccl.training.offered_options import enumerate_options, write_options
from sccl.training.plan_files import name_file_in_errors
from sccl.training.plan_step import (
    ComparePlansOutput,
    PlanOptions,
    TrainingPlanOutput,
    build_plan_settings,
    plan_training,
    planning_output,
    write_training_plan,
)
from sccl.view import charts
from sccl.view.text.training_text import print_training_options

if TYPE_CHECKING:
    from sccl.training.types.training_plan import OfferedOptions


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Workload of 'sccl train import' or 'sccl train make'.",
        show_default=False,
        autocompletion=options.complete_file,
    ),
]
FabricName = Annotated[
    str,
    "Fabric: a name of 'sccl train show', a machine ('sccl topo list'), or the .json file of "
    "either.",
]


@report_errors
def plan(
    file: File,
    *,
    fabric: FabricName,
    plan_options: PlanOptions,
    options_only: Annotated[
        bool,
        "Write the options of each collective and the refused recipes, without a plan ('sccl "
        "doctor schema option').",
    ] = False,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Plan a training step: how its collectives are split, routed, and ordered (SYNDICATE).

    The plan is verified and printed with a lower bound on the period over all plans with the same
    options.

    Exit code 0: found, 2: bad input, 130: interrupted. The best plan so far is kept.
    """
    if options_only and plan_options.merge is not None:
        raise ParameterError(
            "--merge is for plans, and --options-only makes none: leave out one of them"
        )
    workload, resolved_fabric = load_workload(file), resolve_fabric(fabric)
    settings = build_plan_settings(plan_options)
    options.check_writable(output)
    about = escape(single_line(f"{workload.name} on {resolved_fabric.name}"))
    with err().status(about) as status:

        def show_status(activity: str, period_us: float | None, bound_us: float | None) -> None:
            status.update(
                f"{about}, {escape(single_line(activity))}{_progress_text(period_us, bound_us)}"
            )

        quiet = (lambda *_: None) if json else show_status
        with name_file_in_errors(file):
            if options_only:
                offered = enumerate_options(
                    workload, resolved_fabric, settings, quiet, notify_first_compile
                )
            else:
                planned = plan_training(
                    workload, resolved_fabric, settings, quiet, notify_first_compile
                )
    if options_only:
        _print_offered(offered, output, json=json)
        return
    if output is not None:
        write_training_plan(output, planned.plan)
    result = planning_output(planned, output)
    if json:
        print_output(result)
    else:
        _print(result, merging=plan_options.merge is not None)
    if planned.end_reason:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _print_offered(offered: OfferedOptions, output: Path | None, *, json: bool) -> None:
    if output is not None:
        write_options(output, offered)
    if json:
        print_file(to_text(offered_options_to_wire(offered)))
        return
    print_training_options(out(), offered)
    if output is not None:
        name = single_line(quote(str(output)))
        print_text(f"written to {single_line(output)}; look at it with: sccl show {name}")


def _progress_text(period_us: float | None, bound_us: float | None) -> str:
    """Return the known values so far as text."""
    if period_us is None:
        return ""
    text = f": {format_duration(period_us)}"
    if bound_us:
        gap = period_us / bound_us - 1
        gap_text = f"gap {format_gap(gap)}" if gap > 0 else "attained"
        text += f", lower bound {format_duration(bound_us)} ({gap_text})"
    return text


def _print(result: TrainingPlanOutput, *, merging: bool) -> None:
    console = out()
    title = escape(single_line(f"{result.workload} on {result.fabric}"))
    console.print(
        f"{title}: [bold]{format_duration(result.period_us)}[/] per iteration "
        f"({format_count(result.collectives, 'collective')}, "
        f"{format_count(result.motifs, 'motif')}, "
        f"{result.seconds:.2f} s, seed {result.seed})"
    )
    if result.compilation_seconds:
        console.print(
            f"of these, {result.compilation_seconds:.2f} s went into compilation at the first use, "
            "which --budget does not count"
        )
    if result.merged:
        console.print(f"{format_count(result.merged, 'collective')} are sent as one with others")
    if result.gap is None:
        console.print("no lower bound is known, so the gap is unknown")
    else:
        met = "[green]lower bound attained[/]" if result.proved else f"gap {format_gap(result.gap)}"
        console.print(
            f"lower bound {format_duration(result.bound_us)} for plans of these options "
            f"({escape(result.binding)}): {met}"
        )
        if merging and not result.proved:
            console.print(
                "with --merge the bound counts each collective by its smallest share of a merge, "
                "so it is lower than without"
            )
    gain = 1 - result.period_us / result.baseline_us if result.baseline_us else 0.0
    console.print(
        f"gain {gain:.1%}: {format_duration(result.baseline_us)} as submitted, each collective by "
        "its fastest option"
    )
    if result.ended:
        console.print(f"{result.ended}: this is the best plan so far", markup=False)
    if result.file:
        name = single_line(quote(result.file))
        print_text(f"written to {single_line(result.file)}; look at it with: sccl plot {name}")
    else:
        print_text("not written: add -o FILE")


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
    title = f"{workload.name} on {resolved_fabric.name}"
    with show_activity(title) as on_progress, name_file_in_errors(file):
        result = plan_step.compare_plans(
            workload, resolved_fabric, settings, picture, on_progress, notify_first_compile
        )
    if picture is not None:
        periods = [(search.search, search.period_us) for search in result.searches]
        chart = charts.searches_chart(title, periods, result.bound_us)
        charts.save_chart(chart, picture, title=f"sccl: {result.workload}")
    if json:
        print_output(result)
    else:
        _print_comparison(result)
    if result.ended:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _print_comparison(result: ComparePlansOutput) -> None:
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
        print_text(f"picture: {single_line(result.file)}")
