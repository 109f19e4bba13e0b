"""``sccl plan``: a whole training step, its collectives split, ordered and overlapped."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.markup import escape

from sccl.cli import complete, options
from sccl.cli.report import ExitCode, err, on_a_line, out, print_output, reported, tell_first_use
from sccl.core.cost import duration_text
from sccl.core.files.workloads import load_workload
from sccl.core.words import counted, gap_text
from sccl.tasks.planning import (
    TrainingPlanOutput,
    plan_training,
    planning_output,
    write_training_plan,
)
from sccl.tasks.sizes import size_in_bytes
from sccl.tasks.training_files import load_cost_table, naming
from sccl.topo import fabric_of

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A workload, as 'sccl workload import' or 'sccl workload make' writes it.",
        show_default=False,
        autocompletion=complete.file,
    ),
]
FabricName = Annotated[
    str,
    typer.Option(
        "--fabric",
        help="What it runs on ('sccl fabric list'), or a .json file ('sccl schema fabric').",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed, the same plan.")]
Memory = Annotated[
    str | None,
    typer.Option(help="What gathered results may take at once, such as 3GB.", show_default="any"),
]


@reported
def plan(
    file: File,
    *,
    fabric: FabricName,
    search: Annotated[
        str,
        typer.Option(
            help="sgs (options and order together), exact (small steps), mcmc (as published), or "
            "what frameworks do: fifo, lifo, p3, tictac, ho, s-exec, s-sched."
        ),
    ] = "sgs",
    seconds: Annotated[
        float,
        typer.Option(
            min=0,
            help="How much is searched: about so many seconds; the same on any machine, however "
            "busy.",
        ),
    ] = 10.0,
    seed: Seed = 0,
    max_motifs: Annotated[
        int, typer.Option(min=1, help="Into how many motifs a collective is split at the most.")
    ] = 16,
    memory: Memory = None,
    bitwise: Annotated[
        bool,
        typer.Option("--bitwise", help="Keep the order in which collectives reduce as they are."),
    ] = False,
    merge: Annotated[
        str | None,
        typer.Option(
            help="Collectives that are alike may be one, up to so many bytes, such as 25MB: those "
            "for which a step is faster with it are.",
            show_default="none are",
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            help="Times that were measured, as CSV: collective,option,ranks,bytes,us; an option is "
            "a channel and what carries it, such as 'gpu ring'.",
            show_default="reckoned",
            autocompletion=complete.file,
        ),
    ] = None,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Plan a training step: how collectives are split, what carries them, and in which order.

    The plan is judged, and beside it stands a time that no plan of the same options takes less
    than.

    Exit code 0: found, 2: bad input, 130: interrupted; what was found by then is kept.
    """
    from sccl.tasks.motif_planning import motif_planner  # noqa: PLC0415 - loads NumPy and Numba
    from sccl.train.planner import PlanSettings  # noqa: PLC0415

    workload, on = load_workload(file), fabric_of(fabric)
    settings = PlanSettings(
        search=search,
        seconds=seconds,
        seed=seed,
        max_motifs=max_motifs,
        memory_bytes=0 if memory is None else size_in_bytes(memory),
        bitwise=bitwise,
        measured=None if costs is None else load_cost_table(costs),
        planner=motif_planner(seed=seed),
        merge_bytes=0 if merge is None else size_in_bytes(merge),
    )
    options.writable(output)
    about = escape(on_a_line(f"{workload.name} on {on.name}"))
    with err().status(about) as status:

        def tell(doing: str, period_us: float | None, bound_us: float | None) -> None:
            known = "" if period_us is None else f": {duration_text(period_us)}"
            if period_us is not None and bound_us:
                known += (
                    f", at least {duration_text(bound_us)} ({_above(period_us / bound_us - 1)})"
                )
            status.update(f"{about}, {escape(on_a_line(doing))}{known}")

        quiet = (lambda *_: None) if json else tell
        with naming(file):
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


def _above(gap: float) -> str:
    return f"{gap_text(gap)} above" if gap > 0 else "met"


def _print(shown: TrainingPlanOutput) -> None:
    console = out()
    title = escape(on_a_line(f"{shown.workload} on {shown.fabric}"))
    console.print(
        f"{title}: [bold]{duration_text(shown.period_us)}[/] an iteration "
        f"({counted(shown.collectives, 'collective')}, {counted(shown.motifs, 'motif')}, "
        f"{shown.seconds:.2f} s, seed {shown.seed})"
    )
    if shown.merged:
        console.print(f"{counted(shown.merged, 'collective')} are sent as one with others")
    if shown.gap is None:
        console.print("no bound is known: how far this is from the best, is not either")
    else:
        met = "[green]the bound is met[/]" if shown.proved else f"{gap_text(shown.gap)} above it"
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
