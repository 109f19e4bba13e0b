"""``sccl tacos``: a schedule for a machine of any size."""

from __future__ import annotations

from dataclasses import fields
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
from sccl.core.formatting import format_count
from sccl.core.outcome import Solution, best_plan
from sccl.synth.common.contract import Request
from sccl.tasks.files import write_plan
from sccl.tasks.planned import (
    load_sketch_chunks,
    no_result_reason,
    parse_options,
    sketch_notes,
    unmodified_problem,
)
from sccl.tasks.sizes import check_divides, parse_size
from sccl.tasks.tacos import (
    NAME,
    TacosOutput,
    reproduce_command,
    run_tacos,
    tacos_output,
    write_output,
)
from sccl.view.text.progress_notes import share_bar

Size = Annotated[
    str,
    typer.Option(help="Buffer of a rank in bytes: 64KiB (binary), 62.5MB (decimal), or a number."),
]
Restarts = Annotated[
    int, typer.Option(help="Number of seeds; stops early when the lower bound is met.")
]
Improve = Annotated[
    float,
    typer.Option(help="Budget for improving each schedule; 1 is some seconds."),
]
Jobs = Annotated[int, typer.Option(help="Number of seeds at a time; does not change the result.")]
SwitchDegree = Annotated[
    int,
    typer.Option(
        help="Links that replace a rank's switch port (the paper's unwinding); 0: keep switches."
    ),
]
Alpha = Annotated[
    AlphaModel,
    typer.Option(
        help="Alpha model: travels (chunk arrives alpha later) or occupies (link "
        "is busy during alpha)."
    ),
]
Seed = Annotated[
    int, typer.Option(min=0, help="First seed; the same seed gives the same schedule.")
]


@report_errors
def tacos(
    about: SketchedProblemOptions,
    *,
    size: Size,
    chunks: options.SketchedChunks = None,
    sketch: options.BySketch = None,
    alpha: Alpha = AlphaModel.OCCUPIES,
    seed: Seed = 0,
    restarts: Restarts = 1,
    improve: Improve = 0.2,
    jobs: Jobs = 1,
    switch_degree: SwitchDegree = 0,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which the best schedule so far is returned.")
    ] = None,
    record: Annotated[
        bool,
        typer.Option(
            help="Write the schedule with -o, or only the seed, settings, and result that "
            "regenerate it."
        ),
    ] = True,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Schedule thousands of ranks in seconds: match free links with chunks greedily (TACOS).

    The schedule is verified and printed with a lower bound for schedules of such chunks. With
    links of equal cost and millions of transfers the file is packed instead of JSON, with little
    more than two bytes per transfer. 'sccl check' verifies it, 'sccl part' extracts parts of it.

    Exit code 0: found, 2: bad input, 3: time ran out, 130: interrupted. The best schedule so far
    is kept.
    """
    kept, cut = load_sketch_chunks(sketch, chunks)
    machine = about.machine(kept)
    subject = unmodified_problem(machine, *about.collective_and_root(machine))
    for note in subject.notes:
        err().print(f"{subject.topology.name}: {note}", markup=False, soft_wrap=True)
    request = Request(subject.topology, subject.spec, parse_size(size))
    chosen = parse_options(
        NAME,
        chunks=cut,
        restarts=restarts,
        alpha=alpha.value,
        improve=improve,
        jobs=jobs,
        switch_degree=switch_degree,
    )
    check_divides(request.size_bytes, request.spec.unit * cut)
    options.check_writable(output)
    for note in sketch_notes(kept):
        err().print(note, markup=False, soft_wrap=True)
    doing = f"{request.spec.name} on {single_line(request.topology.name)}"
    with share_bar(err(), doing) as bar:
        outcome, seconds = run_tacos(
            request,
            chosen,
            bar,
            judging=lambda done, of: bar(done, of, f"judging {doing}"),
            first=notify_first_compile,
            timeout_s=timeout,
            seed=seed,
            sketch=kept,
        )
    best, ended = best_plan(outcome)
    if best is None:
        err().print(f"unknown: {no_result_reason(ended)}", markup=False)
        raise typer.Exit(ExitCode.UNKNOWN)
    asked = {field.name: getattr(about, field.name) for field in fields(about)}
    again = reproduce_command(asked | {"sketch": sketch}, chosen, request.size_bytes, seed)
    shown = tacos_output(
        request,
        best,
        seconds=seconds,
        seed=seed,
        ended=ended,
        file=output,
        again="" if timeout and ended else again,
        recorded=record and output is not None,
        sketch=kept,
    )
    if output is not None and record:
        with share_bar(err(), f"writing {single_line(output)}") as bar:
            write_plan(output, best.plan, bar)
    elif output is not None:
        write_output(output, shown)
    if json:
        print_output(shown)
    else:
        _print(shown, best)
    exit_if_stopped(ended)


def _print(shown: TacosOutput, best: Solution) -> None:
    console = out()
    above = best.gap
    met = "[green]lower bound attained[/]" if shown.proved else f"gap {float(above or 0):.2%}"
    title = escape(f"{shown.collective} on {single_line(shown.topology)}")
    console.print(
        f"{title}, {format_bytes(shown.size_bytes)} per rank in C={shown.chunks}: "
        f"[bold]{format_us(shown.finish_us)}[/] ({format_count(shown.sends, 'transfer')}, "
        f"{shown.seconds:.2f} s, seed {shown.seed}), alpha {shown.alpha}"
    )
    each = " (each sent separately)" if shown.alpha == "occupies" else ""
    each += f" within sketch {escape(single_line(shown.sketch))}" if shown.sketch else ""
    bound = format_us(shown.bound_us)
    console.print(f"lower bound {bound} for such chunks{each}: {met}")
    if shown.ended:
        console.print(f"{shown.ended}: this is the best plan so far", markup=False)
    console.print(_location_text(shown), markup=False, soft_wrap=True)


def _location_text(shown: TacosOutput) -> str:
    """Return where the schedule is, in words."""
    if not shown.file:
        return "not written: add -o FILE"
    written = f"written to {single_line(shown.file)}"
    if not shown.recorded:
        return f"{written}: the inputs that reproduce the schedule, not the schedule itself"
    return f"{written}; verify it with: sccl check {single_line(quote(shown.file))}"
