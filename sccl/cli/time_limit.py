"""``sccl limits --time``: the least time over all chunkings."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sccl.cli.report import ExitCode, err, on_a_line, out, print_output, tell_first_use
from sccl.cli.subject import SubjectOptions
from sccl.core.cost import bytes_text, us_text
from sccl.synth.settings import checked_effort
from sccl.tasks.planned import plain_subject
from sccl.tasks.sizes import sizes_of
from sccl.topo import resolve

_WITHIN = 0.01


def time_limits(
    about: SubjectOptions,
    size: str,
    gap: float | None,
    timeout: float | None,
    output: Path | None,
    *,
    json: bool,
) -> NoReturn:
    """Work out, print and write the least times of some sizes, and exit."""
    from sccl.tasks import time_limit as task  # noqa: PLC0415 - loads NumPy

    sizes, within = sizes_of(size), _WITHIN if gap is None else gap
    checked_effort(timeout, 0)
    subject = plain_subject(resolve(about.topo), about.collective, about.root)
    task.check_output(output, sizes)
    with err().status("") as status:
        words = escape(f"{subject.spec.name} on {on_a_line(subject.topology.name)}")
        status.update(words)
        told = (lambda _: None) if json else (lambda now: status.update(f"{words}, {now}"))
        points = [
            task.point_part(point, task.write_point(output, sizes, point))
            for point in task.least_times(subject, sizes, within, timeout, told, tell_first_use)
        ]
    shown = task.time_limit_output(subject, within, points)
    if json:
        print_output(shown)
    else:
        _print(out(), shown)
    if any(point.ended == "interrupted" for point in shown.points):
        raise typer.Exit(ExitCode.INTERRUPTED)
    near = all(point.gap is not None and point.gap <= within for point in shown.points)
    raise typer.Exit(ExitCode.OK if near else ExitCode.UNKNOWN)


def _print(console: Console, shown: object) -> None:
    from sccl.tasks.time_limit import TimeLimitOutput  # noqa: PLC0415 - loads NumPy

    assert isinstance(shown, TimeLimitOutput)
    console.print(
        f"{shown.collective} on {on_a_line(shown.topology)}, over all chunkings, alpha travels",
        markup=False,
    )
    table = Table()
    for name in ("Size", "No plan takes less", "Found", "Above", "C", "Transfers", "Seconds"):
        table.add_column(name, justify="right")
    for point in shown.points:
        found = point.finish_us is not None
        table.add_row(
            bytes_text(point.size_bytes),
            us_text(point.bound_us) if point.bound_us is not None else "-",
            us_text(point.finish_us) if point.finish_us is not None else "-",
            f"{point.gap:.2%}" if point.gap is not None else "-",
            str(point.chunks) if found else "-",
            str(point.sends) if found else "-",
            f"{point.seconds:.2f}",
        )
    console.print(table)
    for point in shown.points:
        if point.ended:
            console.print(f"[yellow]{bytes_text(point.size_bytes)}: {escape(point.ended)}[/]")
    files = [point.file for point in shown.points if point.file]
    if files:
        where = on_a_line(files[0] if len(files) == 1 else Path(files[0]).parent)
        judge = f"sccl check {on_a_line(quote(str(where)))}"
        console.print(f"written to {where}; judge it with: {judge}", markup=False, soft_wrap=True)
    else:
        console.print("not kept: add -o FILE to write it", markup=False)
