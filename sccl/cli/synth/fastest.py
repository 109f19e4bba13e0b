"""``sccl synth fastest``: a fast schedule and a lower bound, over all chunk counts."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.certify import write_and_report
from sccl.cli.report import (
    ExitCode,
    err,
    notify_first_compile,
    out,
    print_output,
    print_text,
    report_errors,
)
from sccl.cli.subject import ProblemOptions
from sccl.core.cost import format_bytes, format_us
from sccl.core.files.disk import check_can_create, check_can_write
from sccl.core.formatting import single_line
from sccl.core.outcome import Solution
from sccl.core.sizes import parse_sizes
from sccl.core.stop import StopKind
from sccl.formats.files.plans import write_plan
from sccl.synth.allreduce.certify import certify_times
from sccl.synth.common.claims import check_can_certify
from sccl.synth.common.settings import build_effort
from sccl.synth.common.synthesis import unmodified_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sccl.synth.packing.by_time.time_limits import TimePoint

Size = Annotated[str, "Buffer of a rank: sizes and ranges in factors of 4, 64KB,1MB..1GB."]
Gap = Annotated[
    float,
    "Relative optimality gap at which the search stops (0.01 = 1 %); exit code 3 if it stays "
    "larger.",
]
Certify = Annotated[
    Path | None, typer.Option("--certify", help="Folder for a certificate of the lower bounds.")
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="File for the schedule; a folder for several.")
]


@report_errors
def fastest(
    problem_options: ProblemOptions,
    *,
    size: Size = "1KB..1GB",
    gap: Gap = 0.01,
    timeout: options.SizeTimeout = None,
    output: Output = None,
    certify_dir: Certify = None,
    json: options.Json = False,
) -> None:
    """Find the fastest schedule with any chunks, and a lower bound for every schedule.

    The lower bound on the completion time holds for every schedule with any chunking. The schedule
    is the fastest of a packing of trees, TACOS, TE-CCL, and constructions, and is verified.

    Exit code 0: done, 2: bad input, 3: some gap is larger than --gap, 130: interrupted.
    """
    from sccl.synth.packing.by_time import time_limits as task  # noqa: PLC0415 - loads NumPy

    sizes, certificate = parse_sizes(size), certify_dir
    build_effort(timeout, 0)
    subject = unmodified_problem(*problem_options.inputs())
    _check_output(output, sizes)
    if certificate:
        check_can_certify(certificate, subject.topology, subject.spec)
    best_by_size: dict[int, Solution] = {}
    with err().status("") as status:
        title = escape(f"{subject.spec.name} on {single_line(subject.topology.name)}")
        status.update(title)
        on_progress = (lambda _: None) if json else (lambda now: status.update(f"{title}, {now}"))
        points, interrupted = [], False
        for point in task.compute_time_limits(
            subject, sizes, gap, timeout, on_progress, notify_first_compile
        ):
            points.append(task.point_part(point, _write_point(output, sizes, point)))
            interrupted |= point.end_reason.kind is StopKind.INTERRUPTED
            if point.plan:
                best_by_size[point.size_bytes] = point.plan
    result = task.time_limit_output(subject, gap, points)
    if json:
        print_output(result)
    else:
        _print(out(), result)
    if certificate and best_by_size and not interrupted:
        write_and_report(
            lambda path, _: certify_times(subject, best_by_size, path), certificate, quiet=json
        )
    elif certificate:
        why = "interrupted" if interrupted else "no schedule"
        err().print(f"{why}: no certificate is written")
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    is_within_gap = all(point.gap is not None and point.gap <= gap for point in result.points)
    if not is_within_gap:
        err().print(
            f"exit code 3: a gap is above {gap:.2%} or unknown; --gap sets the limit",
            markup=False,
        )
    raise typer.Exit(ExitCode.OK if is_within_gap else ExitCode.UNKNOWN)


def _check_output(path: Path | None, sizes: Sequence[int]) -> None:
    """Check that schedules can be written: one into a file, several into a folder.

    Raises:
        InputError: they cannot.
    """
    if path is None:
        return
    if len(sizes) == 1:
        check_can_write(path)
    else:
        check_can_create(path)


def _write_point(path: Path | None, sizes: Sequence[int], point: TimePoint) -> Path | None:
    """Write a schedule and return its file. None: no schedule, or no output requested.

    Raises:
        InputError: it cannot be written.
    """
    if path is None or point.plan is None:
        return None
    if len(sizes) > 1:
        path.mkdir(parents=True, exist_ok=True)
        path /= f"{point.size_bytes}.json"
    write_plan(path, point.plan.plan, lambda *_: None)
    return path


def _print(console: Console, result: object) -> None:
    from sccl.synth.packing.by_time.time_limits import TimeLimitOutput  # noqa: PLC0415 - loads NumPy

    assert isinstance(result, TimeLimitOutput)
    console.print(
        f"{result.collective} on {single_line(result.topology)}, any chunking, alpha travels",
        markup=False,
    )
    table = Table()
    for name in ("Size", "Lower bound", "Schedule", "Gap", "C", "Transfers", "Found by", "Seconds"):
        table.add_column(name, justify="right")
    for point in result.points:
        is_found = point.finish_us is not None
        table.add_row(
            format_bytes(point.size_bytes),
            format_us(point.bound_us) if point.bound_us is not None else "-",
            format_us(point.finish_us) if point.finish_us is not None else "-",
            f"{point.gap:.2%}" if point.gap is not None else "-",
            str(point.chunks) if is_found else "-",
            str(point.sends) if is_found else "-",
            escape(point.found_by or "-"),
            f"{point.seconds:.2f}",
        )
    console.print(table)
    for point in result.points:
        if point.ended:
            console.print(f"[yellow]{format_bytes(point.size_bytes)}: {escape(point.ended)}[/]")
    files = [point.file for point in result.points if point.file]
    if files:
        where = single_line(files[0] if len(files) == 1 else Path(files[0]).parent)
        check_command = f"sccl check {single_line(quote(str(where)))}"
        print_text(f"written to {where}; verify it with: {check_command}", console)
    else:
        console.print("not written: add -o FILE", markup=False)
