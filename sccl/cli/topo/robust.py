"""``sccl topo robust``: the performance of a machine after a failure of any one of its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import (
    ExitCode,
    out,
    print_output,
    print_text,
    report_errors,
    show_activity,
)
from sccl.cli.signals import exit_code
from sccl.cli.subject import StepProblemOptions, load_problem
from sccl.comparison.robustness import (
    FailingPart,
    RobustnessProblem,
    RobustOutput,
    SurvivedPart,
    analyze_robustness,
)
from sccl.core.formatting import format_count, single_line
from sccl.core.instance import SweepRange
from sccl.synth.common.settings import DEFAULT_TIMEOUT_S
from sccl.synth.syncoll.search_options import (
    SearchOptions,
    StoreOptions,
    WorkerOptions,
    build_settings,
)
from sccl.view import charts


@report_errors
def robust(
    problem_options: StepProblemOptions,
    *,
    part: Annotated[
        list[FailingPart] | None,
        "Parts that fail: links (both directions), single lanes, or ranks. Repeatable.",
        "links and ranks",
    ] = None,
    max_steps: options.MaxSteps = None,
    search: SearchOptions,
    timeout: options.SweepTimeout = None,
    workers: WorkerOptions,
    storage: StoreOptions,
    plot: Annotated[Path | None, "Picture: .html, .svg, .png, or .pdf."] = None,
    json: options.Json = False,
) -> None:
    """Compute how much each failed link or rank slows a collective down.

    Failures that a symmetry maps to one another share a row. Each row is a sweep, like that of
    'sccl topo edit' and 'sccl pareto'.

    Exit code 0: done, 2: bad input, 3: some candidate stayed open, 130: interrupted.
    """
    seconds = DEFAULT_TIMEOUT_S if timeout is None else timeout
    settings = build_settings(search, seconds, storage, workers)
    if plot is not None:
        charts.check_picture(plot)
    machine, collective, root = problem_options.inputs()
    problem = RobustnessProblem(
        machine=machine,
        subject=load_problem(problem_options),
        collective=collective,
        root=root,
        parts=tuple(part or (FailingPart.LINKS, FailingPart.RANKS)),
        covered=SweepRange(None, max_steps, None),
        settings=settings,
    )
    with show_activity(f"{problem.subject.spec.name} on {machine.name}") as on_progress:
        result = analyze_robustness(problem, on_progress)
    if plot is not None:
        result = msgspec.structs.replace(result, file=str(plot))
        _draw(result, plot)
    if json:
        print_output(result)
    else:
        _print(result)
    if result.ended:
        raise typer.Exit(exit_code() or ExitCode.INTERRUPTED)
    undecided = any(case.undecided for case in result.cases)
    raise typer.Exit(ExitCode.UNKNOWN if undecided else ExitCode.OK)


def _draw(result: RobustOutput, file: Path) -> None:
    intact, *failures = result.cases
    bars = [
        charts.FailureBar(
            _case_label(case), case.slowdown, case.points[0].steps if case.points else None
        )
        for case in failures
    ]
    title = f"{result.collective} on {result.topology} without a part"
    fewest_steps = intact.points[0].steps if intact.points else 0
    charts.save_chart(
        charts.failures_chart(title, bars, fewest_steps), file, title=f"sccl: {title}"
    )


def _case_label(case: SurvivedPart) -> str:
    more = f" (+{len(case.alike)} alike)" if case.alike else ""
    return f"{case.failed}{more}"


def _print(result: RobustOutput) -> None:
    console = out()
    title = escape(single_line(f"{result.collective} on {result.topology}, without a part of it"))
    table = Table("Failed", "Fewest steps", "Lowest R/C", title=title, title_justify="left")
    for name in ("Time per byte", "Seconds"):
        table.add_column(name, justify="right")
    for case in result.cases:
        name = escape(single_line(_case_label(case))) if case.failed else "[bold]nothing[/]"
        if not case.points:
            table.add_row(name, f"[red]{escape(case.why)}[/]", "", "", f"{case.seconds:.2f}")
            continue
        first, last = case.points[0], case.points[-1]
        slower = "1" if case.slowdown is None else f"{case.slowdown:.3g}"
        open_ = "" if last.proved and not case.undecided else " [yellow]best found[/]"
        first_text = f"S={first.steps} R/C={first.bandwidth}"
        last_text = f"S={last.steps} R/C={last.bandwidth}{open_}"
        table.add_row(name, first_text, last_text, slower, f"{case.seconds:.2f}")
    console.print(table)
    failures = sum(1 + len(case.alike) for case in result.cases[1:])
    console.print(
        f"{format_count(failures, 'failure')} in {format_count(len(result.cases) - 1, 'sweep')}"
    )
    if result.ended:
        console.print(f"[yellow]{result.ended}: the others were not tried[/]")
    if result.file:
        print_text(f"picture: {single_line(result.file)}")
