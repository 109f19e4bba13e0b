"""``sccl taccl``: the best schedule of chunks within a communication sketch."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, err, on_a_line, out, print_output, reported, tell_first_use
from sccl.cli.subject import SketchedSubjectOptions
from sccl.core.clock import AlphaModel
from sccl.core.cost import bytes_text, us_text
from sccl.core.files.sketches import sketch_of_wire
from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.synth.contract import Request
from sccl.synth.settings import checked_effort
from sccl.tasks.files import write_plan
from sccl.tasks.planned import best_of, nothing_by_then, options_of, plain_subject
from sccl.tasks.sizes import check_divides, size_in_bytes
from sccl.tasks.taccl import (
    AUTO,
    NAME,
    UNITS,
    Ordering,
    RoutePaths,
    Steps,
    TacclOutput,
    sketched,
    taccl_output,
    wire_of_sketch,
    write_sketch,
)
from sccl.view.text.notes import share_bar

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
Kept = Annotated[
    Path | None,
    typer.Option("--keep-sketch", help="File for the sketch of the schedule."),
]


@reported
def taccl(
    about: SketchedSubjectOptions,
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
    effort: Units = UNITS,
    seed: Seed = 0,
    timeout: TimeLimit = None,
    output: options.Output = None,
    keep_sketch: Kept = None,
    json: options.Json = False,
) -> None:
    """Find a schedule within a communication sketch: routes, order on links, exact times (TACCL).

    A sketch restricts links, senders of a node, symmetries, and the number of chunks, so that
    clusters are planned in seconds. The schedule is verified and printed with a lower bound for
    schedules of such chunks in any sketch.

    Exit code 0: found, 2: bad input, 3: time or budget ran out, 130: interrupted. The best
    schedule so far is kept.
    """
    wire = wire_of_sketch(sketch)
    machine = about.machine(None if wire is None else sketch_of_wire(wire))
    subject = plain_subject(machine, *about.asked(machine))
    told_size = None if wire is None else wire.hyperparameters.input_size
    if size is None and told_size is None:
        raise ParameterError(
            "no size is given, and the sketch has no input_size: give --size, as 1MB"
        )
    request = Request(
        subject.topology, subject.spec, size_in_bytes(str(told_size) if size is None else size)
    )
    chosen = options_of(
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
    options.writable(output)
    options.writable(keep_sketch)
    if output is not None and keep_sketch is not None and output.resolve() == keep_sketch.resolve():
        raise ParameterError(
            f"-o and --keep-sketch both name {output}: a schedule and a sketch need a file each"
        )
    within = checked_effort(timeout, seed, effort)
    doing = escape(f"{request.spec.name} on {on_a_line(request.topology.name)}")
    with err().status(doing) as status:

        def tell(us: float, least_us: float, name: str) -> None:
            """Tell of a better schedule of a phase."""
            above = us / least_us - 1 if least_us else 0.0
            known = f"{us_text(us)}, at least {us_text(least_us)} ({above:.2%} above)"
            status.update(f"{doing}, {escape(on_a_line(name))}: {known}")

        by = sketched(request, chosen, within, (lambda *_: None) if json else tell, tell_first_use)
    found, ended = best_of(by.outcome)
    if found is None:
        err().print(f"unknown: {nothing_by_then(ended)}", markup=False)
        raise typer.Exit(ExitCode.UNKNOWN)
    shown = taccl_output(
        request,
        found,
        by,
        sketch=sketch,
        seed=seed,
        ended=ended,
        file=output,
        sketch_file=keep_sketch,
    )
    if output is not None:
        with share_bar(err(), f"writing {on_a_line(output)}") as bar:
            write_plan(output, found.plan, bar)
    if keep_sketch is not None and by.sketch is not None:
        write_sketch(keep_sketch, by.sketch)
    if json:
        print_output(shown)
    else:
        _print(shown)
    if ended:
        raise typer.Exit(ExitCode.INTERRUPTED if ended == "interrupted" else ExitCode.UNKNOWN)


def _print(shown: TacclOutput) -> None:
    console = out()
    us, least = shown.finish_us, shown.bound_us
    above = us / least - 1 if least else 0.0
    met = "[green]the bound is met[/]" if shown.proved else f"gap {above:.2%}"
    title = escape(f"{shown.collective} on {on_a_line(shown.topology)}")
    console.print(
        f"{title}, {bytes_text(shown.size_bytes)} a rank in C={shown.chunks}: "
        f"[bold]{us_text(us)}[/] ({counted(shown.sends, 'transfer')}, {shown.seconds:.2f} s, "
        f"seed {shown.seed}), alpha {shown.alpha}"
    )
    console.print(
        f"lower bound {us_text(least)} for schedules in any sketch ({escape(shown.bound_of)}): "
        f"{met}"
    )
    console.print(f"sketch {escape(on_a_line(shown.sketch))}", highlight=False)
    for number, phase in enumerate(shown.phases, 1):
        which = f"phase {number}: " if len(shown.phases) > 1 else ""
        console.print(
            f"  {which}routes alone {us_text(phase.relaxed_us)}; by {escape(phase.by)} "
            f"{us_text(phase.tried[phase.by])}"
        )
    if shown.ended:
        console.print(f"{shown.ended}: this is the best by then", markup=False)
    if shown.sketch_file:
        console.print(
            f"sketch written to {on_a_line(shown.sketch_file)}", markup=False, soft_wrap=True
        )
    if shown.file:
        judge = f"sccl check {on_a_line(quote(shown.file))}"
        where = f"written to {on_a_line(shown.file)}; verify it with: {judge}"
    else:
        where = "not kept: add -o FILE to write it"
    console.print(where, markup=False, soft_wrap=True)
