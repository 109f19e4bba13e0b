"""``sccl plan``: a whole training step, its collectives split, ordered and overlapped."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.offers import print_offered
from sccl.cli.planning import (
    FabricName,
    File,
    OptionsOnly,
    PlanChoices,
    PlanSearch,
    plan_settings,
)
from sccl.cli.report import (
    ExitCode,
    err,
    on_a_line,
    out,
    print_file,
    print_output,
    reported,
    tell_first_use,
)
from sccl.core.cost import duration_text
from sccl.core.files.offered_options import offered_options_to_wire
from sccl.core.files.text import text_of
from sccl.core.files.workloads import load_workload
from sccl.core.words import counted, gap_text
from sccl.errors import ParameterError
from sccl.tasks.offering import offer_options, write_options
from sccl.tasks.planning import (
    TrainingPlanOutput,
    plan_training,
    planning_output,
    write_training_plan,
)
from sccl.tasks.training_files import naming
from sccl.topo import fabric_of

if TYPE_CHECKING:
    from sccl.core.training_plan import OfferedOptions


@reported
def plan(
    file: File,
    *,
    fabric: FabricName,
    searched: PlanSearch,
    choices: PlanChoices,
    options_only: OptionsOnly = False,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Plan a training step: split, carrier, and order of all its collectives (SYNDICATE).

    The plan is verified and printed with a lower bound on the period over all plans with the same
    options.

    Exit code 0: found, 2: bad input, 130: interrupted. The best plan so far is kept.
    """
    if options_only and choices.merge is not None:
        raise ParameterError(
            "--merge is for plans, and --options-only makes none: leave out one of them"
        )
    workload, on = load_workload(file), fabric_of(fabric)
    settings = plan_settings(searched, choices)
    options.writable(output)
    about = escape(on_a_line(f"{workload.name} on {on.name}"))
    with err().status(about) as status:

        def tell(doing: str, period_us: float | None, bound_us: float | None) -> None:
            status.update(f"{about}, {escape(on_a_line(doing))}{_known(period_us, bound_us)}")

        quiet = (lambda *_: None) if json else tell
        with naming(file):
            if options_only:
                offered = offer_options(workload, on, settings, quiet, tell_first_use)
            else:
                found = plan_training(workload, on, settings, quiet, tell_first_use)
    if options_only:
        _tell_offered(offered, output, json=json)
        return
    if output is not None:
        write_training_plan(output, found.plan)
    shown = planning_output(found, output)
    if json:
        print_output(shown)
    else:
        _print(shown, merging=choices.merge is not None)
    if found.ended:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _tell_offered(offered: OfferedOptions, output: Path | None, *, json: bool) -> None:
    if output is not None:
        write_options(output, offered)
    if json:
        print_file(text_of(offered_options_to_wire(offered)))
        return
    print_offered(out(), offered)
    if output is not None:
        name = on_a_line(quote(str(output)))
        line = f"written to {on_a_line(output)}; look at it with: sccl show {name}"
        out().print(line, markup=False, soft_wrap=True)


def _known(period_us: float | None, bound_us: float | None) -> str:
    """Return the known values so far as text."""
    if period_us is None:
        return ""
    known = f": {duration_text(period_us)}"
    if bound_us:
        gap = period_us / bound_us - 1
        above = f"{gap_text(gap)} above" if gap > 0 else "met"
        known += f", at least {duration_text(bound_us)} ({above})"
    return known


def _print(shown: TrainingPlanOutput, *, merging: bool) -> None:
    console = out()
    title = escape(on_a_line(f"{shown.workload} on {shown.fabric}"))
    console.print(
        f"{title}: [bold]{duration_text(shown.period_us)}[/] an iteration "
        f"({counted(shown.collectives, 'collective')}, {counted(shown.motifs, 'motif')}, "
        f"{shown.seconds:.2f} s, seed {shown.seed})"
    )
    if shown.compilation_seconds:
        console.print(
            f"of these, {shown.compilation_seconds:.2f} s went into compilation at the first use, "
            "which --seconds does not count"
        )
    if shown.merged:
        console.print(f"{counted(shown.merged, 'collective')} are sent as one with others")
    if shown.gap is None:
        console.print("no lower bound is known, so the gap is unknown")
    else:
        met = "[green]the bound is met[/]" if shown.proved else f"gap {gap_text(shown.gap)}"
        console.print(
            f"lower bound {duration_text(shown.bound_us)} for plans of these options "
            f"({escape(shown.binding)}): {met}"
        )
        if merging and not shown.proved:
            console.print(
                "with --merge the bound counts each collective by its smallest share of a merge, "
                "so it is lower than without"
            )
    faster = shown.baseline_us / shown.period_us if shown.period_us else 1.0
    console.print(
        f"as submitted, each collective by its fastest option: {duration_text(shown.baseline_us)}, "
        f"{faster:.2f} times as long"
    )
    if shown.ended:
        console.print(f"{shown.ended}: this is the best by then", markup=False)
    if shown.file:
        name = on_a_line(quote(shown.file))
        where = f"written to {on_a_line(shown.file)}; look at it with: sccl plot {name}"
    else:
        where = "not kept: add -o FILE to write it"
    console.print(where, markup=False, soft_wrap=True)
