"""``sccl robust``: the performance of a machine after a failure of any one of its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import ExitCode, err, on_a_line, out, print_output, reported
from sccl.cli.searching import KeptOptions, SearchOptions, WorkersOptions, settings_of
from sccl.cli.signals import exit_code
from sccl.cli.subject import SubjectOptions, subject_from
from sccl.core.candidate import Range
from sccl.core.words import counted
from sccl.synth.settings import DEFAULT_TIMEOUT_S
from sccl.tasks.robust import FailingPart, RobustOutput, RobustQuestion, SurvivedPart, survive
from sccl.view import charts


@reported
def robust(
    about: SubjectOptions,
    *,
    part: Annotated[
        list[FailingPart] | None,
        typer.Option(
            help="Parts that fail: links (both directions), single lanes, or ranks. Repeatable.",
            show_default="links and ranks",
        ),
    ] = None,
    max_steps: options.MaxSteps = None,
    search: SearchOptions,
    timeout: options.SweepTimeout = None,
    workers: WorkersOptions,
    kept: KeptOptions,
    plot: Annotated[
        Path | None, typer.Option(help="Picture: .html, .svg, .png, or .pdf.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """Compute how much each failed link or rank slows a collective down.

    Failures that a symmetry maps to one another share a row. Each row is a sweep, like that of
    'sccl topo without' and 'sccl pareto'.

    Exit code 0: done, 2: bad input, 3: some candidate stayed undecided, 130: interrupted.
    """
    seconds = DEFAULT_TIMEOUT_S if timeout is None else timeout
    settings = settings_of(search, seconds, kept, workers)
    if plot is not None:
        charts.check_picture(plot)
    machine = about.machine()
    collective, root = about.asked(machine)
    question = RobustQuestion(
        machine=machine,
        subject=subject_from(about),
        collective=collective,
        root=root,
        parts=tuple(part or (FailingPart.LINKS, FailingPart.RANKS)),
        covered=Range(None, max_steps, None),
        settings=settings,
    )
    title = escape(on_a_line(f"{question.subject.spec.name} on {machine.name}"))
    with err().status(title) as status:

        def tell(doing: str) -> None:
            status.update(f"{title}: {escape(on_a_line(doing))}")

        found = survive(question, tell)
    if plot is not None:
        found = msgspec.structs.replace(found, file=str(plot))
        _draw(found, plot)
    if json:
        print_output(found)
    else:
        _print(found)
    if found.ended:
        raise typer.Exit(exit_code())
    undecided = any(case.undecided for case in found.cases)
    raise typer.Exit(ExitCode.UNKNOWN if undecided else ExitCode.OK)


def _draw(found: RobustOutput, file: Path) -> None:
    whole, *failures = found.cases
    bars = [
        charts.FailureBar(
            _named(case), case.slowdown, case.points[0].steps if case.points else None
        )
        for case in failures
    ]
    title = f"{found.collective} on {found.topology} without a part"
    least = whole.points[0].steps if whole.points else 0
    charts.save(charts.failures_chart(title, bars, least), file, title=f"sccl: {title}")


def _named(case: SurvivedPart) -> str:
    more = f" (+{len(case.alike)} alike)" if case.alike else ""
    return f"{case.failed}{more}"


def _print(found: RobustOutput) -> None:
    console = out()
    title = escape(on_a_line(f"{found.collective} on {found.topology}, without a part of it"))
    table = Table("Failed", "Fewest steps", "Lowest R/C", title=title, title_justify="left")
    for name in ("Time per byte", "Seconds"):
        table.add_column(name, justify="right")
    for case in found.cases:
        name = escape(on_a_line(_named(case))) if case.failed else "[bold]nothing[/]"
        if not case.points:
            table.add_row(name, f"[red]{escape(case.why)}[/]", "", "", f"{case.seconds:.2f}")
            continue
        first, last = case.points[0], case.points[-1]
        slower = "1" if case.slowdown is None else f"{case.slowdown:.3g}"
        open_ = "" if last.proved and not case.undecided else " [yellow]best found[/]"
        least = f"S={first.steps} R/C={first.bandwidth}"
        most = f"S={last.steps} R/C={last.bandwidth}{open_}"
        table.add_row(name, least, most, slower, f"{case.seconds:.2f}")
    console.print(table)
    failures = sum(1 + len(case.alike) for case in found.cases[1:])
    console.print(f"{counted(failures, 'failure')} in {counted(len(found.cases) - 1, 'sweep')}")
    if found.ended:
        console.print(f"[yellow]{found.ended}: the others were not tried[/]")
    if found.file:
        console.print(f"picture: {on_a_line(found.file)}", markup=False, soft_wrap=True)
