"""``sccl plan``: a whole training step, its collectives split, ordered and overlapped."""

from __future__ import annotations

from shlex import quote

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.planning import FabricName, File, PlanChoices, PlanSearch, plan_settings
from sccl.cli.report import ExitCode, err, on_a_line, out, print_output, reported, tell_first_use
from sccl.core.cost import duration_text
from sccl.core.files.workloads import load_workload
from sccl.core.words import counted
from sccl.tasks.planning import (
    TrainingPlanOutput,
    plan_training,
    planning_output,
    write_training_plan,
)
from sccl.topo import fabric_of


@reported
def plan(
    file: File,
    *,
    fabric: FabricName,
    searched: PlanSearch,
    choices: PlanChoices,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Plan a training step: how collectives are split, what carries them, and in which order.

    The plan is judged, and beside it stands a time that no plan of the same options takes less
    than.

    Exit code 0: found, 2: bad input, 130: interrupted; what was found by then is kept.
    """
    workload, on = choices.merged(load_workload(file)), fabric_of(fabric)
    settings = plan_settings(searched, choices)
    options.writable(output)
    about = escape(on_a_line(f"{workload.name} on {on.name}"))
    with err().status(about) as status:

        def tell(doing: str, period_us: float | None, bound_us: float | None) -> None:
            status.update(f"{about}, {escape(on_a_line(doing))}{_known(period_us, bound_us)}")

        quiet = (lambda *_: None) if json else tell
        found = plan_training(workload, on, settings, quiet, tell_first_use)
    if output is not None:
        write_training_plan(output, found.plan)
    shown = planning_output(found, output)
    if json:
        print_output(shown)
    else:
        _print(shown)
    if found.ended:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _known(period_us: float | None, bound_us: float | None) -> str:
    """Return what is known by then, in words."""
    if period_us is None:
        return ""
    known = f": {duration_text(period_us)}"
    if bound_us:
        known += f", at least {duration_text(bound_us)} ({period_us / bound_us - 1:.2%} above)"
    return known


def _print(shown: TrainingPlanOutput) -> None:
    console = out()
    title = escape(on_a_line(f"{shown.workload} on {shown.fabric}"))
    console.print(
        f"{title}: [bold]{duration_text(shown.period_us)}[/] an iteration "
        f"({counted(shown.collectives, 'collective')}, {counted(shown.motifs, 'motif')}, "
        f"{shown.seconds:.2f} s, seed {shown.seed})"
    )
    if shown.gap is None:
        console.print("no bound is known: how far this is from the best, is not either")
    else:
        met = "[green]the bound is met[/]" if shown.proved else f"{shown.gap:.2%} above it"
        console.print(
            f"no plan of these options takes less than {duration_text(shown.bound_us)} "
            f"({escape(shown.binding)}): {met}"
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
