"""``sccl taccl``: the best schedule of chunks within a communication sketch."""

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
from sccl.core.files.sketches import sketch_from_wire
from sccl.core.formatting import format_count
from sccl.core.outcome import best_plan
from sccl.errors import ParameterError
from sccl.synth.common.contract import Request
from sccl.synth.common.settings import build_effort
from sccl.tasks.files import write_plan
from sccl.tasks.planned import no_result_reason, parse_options, unmodified_problem
from sccl.tasks.sizes import check_divides, parse_size
from sccl.tasks.taccl import (
    AUTO,
    EFFORT_UNITS,
    NAME,
    Ordering,
    RoutePaths,
    Steps,
    TacclOutput,
    optional_sketch_wire,
    run_taccl,
    taccl_output,
    write_sketch,
)
from sccl.view.text.progress_notes import share_bar

BySketch = Annotated[
    str,
    typer.Option(
        "--sketch",
        help="Sketch file ('sccl schema sketch', or one of TACCL's); auto: the best of the "
        "machine's suggestions.",
    ),
]
Size = Annotated[
    str | None,
    typer.Option(
        help="Buffer of a rank in bytes: 64KiB (binary), 62.5MB (decimal), or a number.",
        show_default="the sketch's",
    ),
]
Chunks = Annotated[
    int,
    typer.Option(
        help="Chunks per part that a rank sends or receives; 0: the sketch's number, or "
        "with auto the best number."
    ),
]
ByPaths = Annotated[
    RoutePaths,
    typer.Option(
        help="Routes: shortest paths only, any path, or auto (shortest for chunks with one "
        "destination)."
    ),
]
ByOrder = Annotated[
    Ordering,
    typer.Option(
        "--order",
        help="Order on a link: longest remaining path or earliest arrival first, filled "
        "from the start or from the end.",
    ),
]
BySteps = Annotated[
    Steps,
    typer.Option(
        help="three (routes, orders, exact times), joined (improves all of them together), "
        "or auto (joined if small)."
    ),
]
Together = Annotated[
    bool,
    typer.Option(help="Send chunks together with one alpha, with --alpha occupies."),
]
Gap = Annotated[
    float,
    typer.Option(help="Relative optimality gap at which the search stops (0.01 = 1 %)."),
]
Alpha = Annotated[
    AlphaModel,
    typer.Option(
        help="Alpha model: travels (chunk arrives alpha later) or occupies (link "
        "is busy during alpha)."
    ),
]
Units = Annotated[
    float, typer.Option("--effort", min=0, help="Budget of all steps; 1 is some seconds.")
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
SketchFile = Annotated[
    Path | None,
    typer.Option("--keep-sketch", help="File for the sketch of the schedule."),
]


@report_errors
def taccl(
    about: SketchedProblemOptions,
    *,
    sketch: BySketch = AUTO,
    size: Size = None,
    chunks: Chunks = 0,
    paths: ByPaths = RoutePaths.AUTO,
    order: ByOrder = Ordering.BEST,
    steps: BySteps = Steps.AUTO,
    together: Together = True,
    alpha: Alpha = AlphaModel.TRAVELS,
    gap: Gap = 0.0,
    effort: Units = EFFORT_UNITS,
    seed: Seed = 0,
    timeout: TimeLimit = None,
    output: options.Output = None,
    keep_sketch: SketchFile = None,
    json: options.Json = False,
) -> None:
    """Find a schedule within a communication sketch, which restricts links and chunks (TACCL).

    A sketch restricts links, senders of a node, symmetries, and the number of chunks, so that
    clusters are planned in seconds. The schedule is verified and printed with a lower bound for
    schedules of such chunks in any sketch.

    Exit code 0: found, 2: bad input, 3: time or budget ran out, 130: interrupted. The best
    schedule so far is kept.
    """
    wire = optional_sketch_wire(sketch)
    machine = about.machine(None if wire is None else sketch_from_wire(wire))
    subject = unmodified_problem(machine, *about.collective_and_root(machine))
    told_size = None if wire is None else wire.hyperparameters.input_size
    if size is None and told_size is None:
        raise ParameterError(
            "no size is given, and the sketch has no input_size: give --size, such as 1MB"
        )
    request = Request(
        subject.topology, subject.spec, parse_size(str(told_size) if size is None else size)
    )
    chosen = parse_options(
        NAME,
        sketch=wire,
        chunks=chunks,
        paths=paths.value,
        order=order.value,
        steps=steps.value,
        together=together,
        gap=gap,
        alpha=alpha.value,
    )
    cut = chunks or (wire.hyperparameters.input_chunkup if wire else 1)
    check_divides(request.size_bytes, request.spec.unit * cut)
    options.check_writable(output)
    options.check_writable(keep_sketch)
    if output is not None and keep_sketch is not None and output.resolve() == keep_sketch.resolve():
        raise ParameterError(
            f"-o and --keep-sketch both name {output}: a schedule and a sketch need a file each"
        )
    within = build_effort(timeout, seed, effort)
    doing = escape(f"{request.spec.name} on {single_line(request.topology.name)}")
    with err().status(doing) as status:

        def tell(us: float, least_us: float, name: str) -> None:
            """Tell of a better schedule of a phase."""
            above = us / least_us - 1 if least_us else 0.0
            progress = f"{format_us(us)}, lower bound {format_us(least_us)} (gap {above:.2%})"
            status.update(f"{doing}, {escape(single_line(name))}: {progress}")

        by = run_taccl(
            request, chosen, within, (lambda *_: None) if json else tell, notify_first_compile
        )
    best, ended = best_plan(by.outcome)
    if best is None:
        err().print(f"unknown: {no_result_reason(ended)}", markup=False)
        raise typer.Exit(ExitCode.UNKNOWN)
    shown = taccl_output(
        request,
        best,
        by,
        sketch=sketch,
        seed=seed,
        ended=ended,
        file=output,
        sketch_file=keep_sketch,
    )
    if output is not None:
        with share_bar(err(), f"writing {single_line(output)}") as bar:
            write_plan(output, best.plan, bar)
    if keep_sketch is not None and by.sketch is not None:
        write_sketch(keep_sketch, by.sketch)
    if json:
        print_output(shown)
    else:
        _print(shown)
    exit_if_stopped(ended)


def _print(shown: TacclOutput) -> None:
    console = out()
    us, bound = shown.finish_us, shown.bound_us
    above = us / bound - 1 if bound else 0.0
    met = "[green]lower bound attained[/]" if shown.proved else f"gap {above:.2%}"
    title = escape(f"{shown.collective} on {single_line(shown.topology)}")
    console.print(
        f"{title}, {format_bytes(shown.size_bytes)} per rank in C={shown.chunks}: "
        f"[bold]{format_us(us)}[/] ({format_count(shown.sends, 'transfer')}, {shown.seconds:.2f} "
        "s, "
        f"seed {shown.seed}), alpha {shown.alpha}"
    )
    console.print(
        f"lower bound {format_us(bound)} for schedules in any sketch ({escape(shown.bound_of)}): "
        f"{met}"
    )
    console.print(f"sketch {escape(single_line(shown.sketch))}", highlight=False)
    for number, phase in enumerate(shown.phases, 1):
        which = f"phase {number}: " if len(shown.phases) > 1 else ""
        console.print(
            f"  {which}routes alone {format_us(phase.relaxed_us)}; by {escape(phase.by)} "
            f"{format_us(phase.tried[phase.by])}"
        )
    if shown.ended:
        console.print(f"{shown.ended}: this is the best plan so far", markup=False)
    if shown.sketch_file:
        console.print(
            f"sketch written to {single_line(shown.sketch_file)}", markup=False, soft_wrap=True
        )
    if shown.file:
        judge = f"sccl check {single_line(quote(shown.file))}"
        where = f"written to {single_line(shown.file)}; verify it with: {judge}"
    else:
        where = "not written: add -o FILE"
    console.print(where, markup=False, soft_wrap=True)
