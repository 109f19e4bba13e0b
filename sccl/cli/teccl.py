"""``sccl teccl``: the best schedule of chunks of one size."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import (
    ExitCode,
    err,
    exit_if_stopped,
    notify_first_compile,
    out,
    print_output,
    report_errors,
    single_line,
)
from sccl.cli.subject import SketchedProblemOptions
from sccl.core.clock import AlphaModel
from sccl.core.cost import format_bytes, format_us
from sccl.core.files.bandwidths import bandwidth_to_wire, load_bandwidth
from sccl.core.formatting import format_count
from sccl.core.outcome import best_plan
from sccl.synth.common.contract import Request
from sccl.synth.common.settings import build_effort
from sccl.tasks.files import write_plan
from sccl.tasks.planned import (
    load_sketch_chunks,
    no_result_reason,
    parse_options,
    sketch_notes,
    unmodified_problem,
)
from sccl.tasks.sizes import check_divides, parse_size
from sccl.tasks.teccl import (
    EFFORT_UNITS,
    NAME,
    Combine,
    Model,
    Solver,
    Switching,
    TecclOutput,
    parse_priorities,
    run_teccl,
    teccl_output,
    with_switching,
)
from sccl.view.text.progress_notes import share_bar

Size = Annotated[
    str,
    typer.Option(help="Buffer of a rank in bytes: 64KiB (binary), 62.5MB (decimal), or a number."),
]
ByModel = Annotated[
    Model,
    Solver,
    typer.Option(
        help="Model: auto (intervals in continuous time), milp or astar (epochs), or lp "
        "(collectives that copy nothing)."
    ),
]
Switches = Annotated[
    Switching,
    typer.Option(
        help="Switch behavior: as in the machine, copy, nocopy, or hyperedge (each link at "
        "a switch takes one chunk per epoch)."
    ),
]
Epoch = Annotated[
    str,
    typer.Option(
        help="Epoch length: time of a chunk on the fastest or slowest link, or "
        "microseconds; lp with auto shortens it while that helps."
    ),
]
Multiplier = Annotated[
    int, typer.Option(help="Epoch length as a multiple of the base epoch (TE-CCL's EM).")
]
Horizon = Annotated[
    int,
    typer.Option(
        "--epochs",
        help="Number of epochs of the horizon or of a round; 0: the smallest feasible number.",
    ),
]
Buffers = Annotated[
    int | None,
    typer.Option(help="Chunks of other ranks that a rank can buffer, in model milp."),
]
BySolver = Annotated[
    Solver,
    typer.Option(
        help="Solver of the model: auto (GLOP for lp, otherwise CP-SAT), HiGHS, Gurobi if "
        "installed, SCIP (milp, astar), PDLP (lp)."
    ),
]
Gap = Annotated[
    float,
    typer.Option(help="Relative optimality gap at which the search stops (0.01 = 1 %)."),
]
Priorities = Annotated[
    str,
    typer.Option(
        help="Weights of concurrent collectives (e.g. 3,1): minimizes the weighted mean "
        "completion time.",
        show_default="the last finish",
    ),
]
Bandwidth = Annotated[
    Path | None,
    typer.Option(
        help="File of reduced link bandwidths over time ('sccl schema bandwidth'), for "
        "models auto, milp, and astar.",
        show_default="all, always",
    ),
]
ByCombining = Annotated[
    Combine,
    typer.Option(
        help="Reductions: reversal (chunk by chunk into a root), direct (each contribution "
        "separately), auto (the faster one)."
    ),
]
Alpha = Annotated[
    AlphaModel,
    typer.Option(
        help="Alpha model: travels (chunk arrives alpha later) or occupies (link "
        "is busy during alpha)."
    ),
]
Units = Annotated[
    float,
    typer.Option("--effort", min=0, help="Budget for improving the schedule; 1 is some seconds."),
]
Seed = Annotated[
    int, typer.Option(min=0, help="Seed; the same seed and budget give the same schedule.")
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        "--time-limit",
        help="Seconds after which the best schedule so far is returned.",
    ),
]


@report_errors
def teccl(
    about: SketchedProblemOptions,
    *,
    size: Size,
    chunks: options.SketchedChunks = None,
    sketch: options.BySketch = None,
    model: ByModel = Model.AUTO,
    switch: Switches = Switching.MACHINE,
    epoch: Epoch = "auto",
    multiplier: Multiplier = 1,
    epochs: Horizon = 0,
    buffers: Buffers = None,
    combine: ByCombining = Combine.AUTO,
    alpha: Alpha = AlphaModel.TRAVELS,
    solver: BySolver = Solver.AUTO,
    priorities: Priorities = "",
    bandwidth: Bandwidth = None,
    gap: Gap = 0.0,
    effort: Units = EFFORT_UNITS,
    seed: Seed = 0,
    timeout: TimeLimit = None,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Find a schedule of few equal chunks for up to some tens of ranks (TE-CCL).

    Starts from a list schedule and improves it with CP-SAT interval models, which prove optimality
    on small instances, or uses TE-CCL's epoch models. The schedule is verified and printed with a
    lower bound for schedules of such chunks.

    Exit code 0: found, 2: bad input, 3: time or budget ran out, 130: interrupted. The best
    schedule so far is kept.
    """
    weighed = parse_priorities(priorities)
    kept, cut = load_sketch_chunks(sketch, chunks)
    machine = with_switching(about.machine(kept), switch)
    subject = unmodified_problem(machine, *about.collective_and_root(machine))
    request = Request(subject.topology, subject.spec, parse_size(size))
    chosen = parse_options(
        NAME,
        chunks=cut,
        gap=gap,
        alpha=alpha.value,
        model=model.value,
        solver=solver.value,
        ports=switch is Switching.HYPEREDGE,
        epoch=epoch,
        multiplier=multiplier,
        epochs=epochs,
        buffers=buffers,
        priorities=weighed,
        bandwidth=None if bandwidth is None else bandwidth_to_wire(load_bandwidth(bandwidth)),
        combine=combine.value,
    )
    if model is not Model.LP and not request.spec.counts:  # its chunks have sizes of their own
        check_divides(request.size_bytes, request.spec.unit * cut)
    options.check_writable(output)
    for note in sketch_notes(kept):
        err().print(note, markup=False, soft_wrap=True)
    within = build_effort(timeout, seed, effort)
    doing = escape(f"{request.spec.name} on {single_line(request.topology.name)}")
    with err().status(doing) as status:

        def tell(us: float, least_us: float) -> None:
            above = us / least_us - 1 if least_us else 0.0
            progress = (
                f"schedule {format_us(us)}, lower bound {format_us(least_us)} (gap {above:.2%})"
            )
            status.update(f"{doing}: {progress}")

        by = run_teccl(
            request,
            chosen,
            within,
            (lambda *_: None) if json else tell,
            notify_first_compile,
            sketch=kept,
        )
    best, ended = best_plan(by.outcome)
    if best is None:
        err().print(f"unknown: {no_result_reason(ended)}", markup=False)
        raise typer.Exit(ExitCode.UNKNOWN)
    shown = teccl_output(
        request,
        best,
        by,
        model=model,
        switch=switch,
        seed=seed,
        ended=ended,
        file=output,
        priorities=weighed,
        bandwidth=bandwidth,
        sketch=kept,
    )
    if output is not None:
        with share_bar(err(), f"writing {single_line(output)}") as bar:
            write_plan(output, best.plan, bar)
    if json:
        print_output(shown)
    else:
        _print(shown, "per element" if request.spec.counts else "per rank")
    exit_if_stopped(ended)


_COMBINATION_TEXT = {
    "reversal": "reversal: the dual reversed in time; for allreduce, one phase after the other",
    "overlap": "reversal: each chunk is sent as soon as it is reduced",
    "chains": "chains: each chunk is reduced along its path to a root, then broadcast from it",
    "direct": "direct demands: each contribution is sent separately to the rank that reduces it",
    "gathered": "gathering: each contribution is sent separately to all ranks, and every rank "
    "reduces",
}


def _print(shown: TecclOutput, each: str) -> None:
    console = out()
    us, bound = shown.finish_us, shown.bound_us
    if shown.weighted_us is not None and shown.weighted_bound_us is not None:
        us, bound = shown.weighted_us, shown.weighted_bound_us
    above = us / bound - 1 if bound else 0.0
    met = "[green]lower bound attained[/]" if shown.proved else f"gap {above:.2%}"
    title = escape(f"{shown.collective} on {single_line(shown.topology)}")
    console.print(
        f"{title}, {format_bytes(shown.size_bytes)} {each} in C={shown.chunks}: "
        f"[bold]{format_us(shown.finish_us)}[/] ({format_count(shown.sends, 'transfer')}, "
        f"{shown.seconds:.2f} s, seed {shown.seed}), alpha {shown.alpha}"
    )
    bound_text = f"lower bound {format_us(bound)}"
    if shown.tenants:
        bound_text = f"weighted mean completion time {format_us(us)}; {bound_text}"
    console.print(f"{bound_text} ({escape(shown.bound_of)}): {met}")
    for part in shown.tenants:
        console.print(
            f"  {escape(single_line(part.collective))}, priority {part.priority}: finished after "
            f"{format_us(part.finish_us)}, lower bound alone {format_us(part.bound_us)}"
        )
    if shown.epochs is not None:
        console.print(
            f"scheduled in {format_count(shown.epochs, 'epoch')} of {shown.epoch_us:g} us"
        )
    elif shown.by and shown.model in {Model.MILP, Model.ASTAR} and shown.by != shown.model:
        ended = "its rounds did not end" if shown.model == Model.ASTAR else "it improved nothing"
        console.print(f"scheduled by {shown.by}, not by model {shown.model}: {ended}")
    if shown.bandwidth:
        console.print(
            f"bandwidth varies by {single_line(shown.bandwidth)}: 'sccl check' and 'sccl simulate' "
            "use these times unchanged",
            markup=False,
            soft_wrap=True,
        )
    if shown.combined is not None:
        console.print(f"combined by {_COMBINATION_TEXT[shown.combined]}")
    if shown.ended:
        console.print(f"{shown.ended}: this is the best plan so far", markup=False)
    if shown.file:
        judge = f"sccl check {single_line(quote(shown.file))}"
        where = f"written to {single_line(shown.file)}; verify it with: {judge}"
    else:
        where = "not written: add -o FILE"
    console.print(where, markup=False, soft_wrap=True)
