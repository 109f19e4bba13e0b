"""``sccl train plan``: a whole training step, its collectives split, ordered and overlapped."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.planning import FabricName, File
from sccl.cli.report import (
    ExitCode,
    err,
    notify_first_compile,
    out,
    print_file,
    print_output,
    report_errors,
)
from sccl.core.cost import format_duration
from sccl.core.files.json_text import to_text
from sccl.core.formatting import format_count, format_gap, single_line
from sccl.errors import ParameterError
from sccl.training.fabric_names import resolve_fabric
from sccl.training.files.training_plans import offered_options_to_wire
from sccl.training.files.workloads import load_workload
from sccl.training.offered_options import enumerate_options, write_options
from sccl.training.plan_files import name_file_in_errors
from sccl.training.plan_step import (
    PlanOptions,
    TrainingPlanOutput,
    build_plan_settings,
    plan_training,
    planning_output,
    write_training_plan,
)
from sccl.view.text.training_text import print_training_options

if TYPE_CHECKING:
    from sccl.training.types.training_plan import OfferedOptions


@report_errors
def plan(
    file: File,
    *,
    fabric: FabricName,
    chosen: PlanOptions,
    options_only: Annotated[
        bool,
        typer.Option(
            "--options-only",
            help="Write the options of each collective and the refused recipes, without a plan ("
            "'sccl doctor schema option').",
        ),
    ] = False,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Plan a training step: how its collectives are split, routed, and ordered (SYNDICATE).

    The plan is verified and printed with a lower bound on the period over all plans with the same
    options.

    Exit code 0: found, 2: bad input, 130: interrupted. The best plan so far is kept.
    """
    if options_only and chosen.merge is not None:
        raise ParameterError(
            "--merge is for plans, and --options-only makes none: leave out one of them"
        )
    workload, on = load_workload(file), resolve_fabric(fabric)
    settings = build_plan_settings(chosen)
    options.check_writable(output)
    about = escape(single_line(f"{workload.name} on {on.name}"))
    with err().status(about) as status:

        def tell(doing: str, period_us: float | None, bound_us: float | None) -> None:
            status.update(
                f"{about}, {escape(single_line(doing))}{_progress_text(period_us, bound_us)}"
            )

        quiet = (lambda *_: None) if json else tell
        with name_file_in_errors(file):
            if options_only:
                offered = enumerate_options(workload, on, settings, quiet, notify_first_compile)
            else:
                planned = plan_training(workload, on, settings, quiet, notify_first_compile)
    if options_only:
        _print_offered(offered, output, json=json)
        return
    if output is not None:
        write_training_plan(output, planned.plan)
    shown = planning_output(planned, output)
    if json:
        print_output(shown)
    else:
        _print(shown, merging=chosen.merge is not None)
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
        line = f"written to {single_line(output)}; look at it with: sccl show {name}"
        out().print(line, markup=False, soft_wrap=True)


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


def _print(shown: TrainingPlanOutput, *, merging: bool) -> None:
    console = out()
    title = escape(single_line(f"{shown.workload} on {shown.fabric}"))
    console.print(
        f"{title}: [bold]{format_duration(shown.period_us)}[/] per iteration "
        f"({format_count(shown.collectives, 'collective')}, {format_count(shown.motifs, 'motif')}, "
        f"{shown.seconds:.2f} s, seed {shown.seed})"
    )
    if shown.compilation_seconds:
        console.print(
            f"of these, {shown.compilation_seconds:.2f} s went into compilation at the first use, "
            "which --budget does not count"
        )
    if shown.merged:
        console.print(f"{format_count(shown.merged, 'collective')} are sent as one with others")
    if shown.gap is None:
        console.print("no lower bound is known, so the gap is unknown")
    else:
        met = "[green]lower bound attained[/]" if shown.proved else f"gap {format_gap(shown.gap)}"
        console.print(
            f"lower bound {format_duration(shown.bound_us)} for plans of these options "
            f"({escape(shown.binding)}): {met}"
        )
        if merging and not shown.proved:
            console.print(
                "with --merge the bound counts each collective by its smallest share of a merge, "
                "so it is lower than without"
            )
    gain = 1 - shown.period_us / shown.baseline_us if shown.baseline_us else 0.0
    console.print(
        f"gain {gain:.1%}: {format_duration(shown.baseline_us)} as submitted, each collective by "
        "its fastest option"
    )
    if shown.ended:
        console.print(f"{shown.ended}: this is the best plan so far", markup=False)
    if shown.file:
        name = single_line(quote(shown.file))
        where = f"written to {single_line(shown.file)}; look at it with: sccl plot {name}"
    else:
        where = "not written: add -o FILE"
    console.print(where, markup=False, soft_wrap=True)
