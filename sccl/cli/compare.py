"""``sccl compare``: the fastest method at each size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_output, report_errors
from sccl.cli.subject import ProblemOptions
from sccl.core.clock import AlphaModel
from sccl.core.cost import format_bytes
from sccl.core.files.disk import check_can_write
from sccl.core.formatting import format_count, single_line
from sccl.core.sizes import parse_sizes
from sccl.errors import ParameterError
from sccl.synth.common.settings import build_effort
from sccl.view import charts
from sccl.view.charts import TimeMeasure
from sccl.view.text.progress_notes import progress_bar

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.comparison.comparison import ContenderResult
    from sccl.comparison.comparison_output import CompareOutput

Size = Annotated[
    str,
    typer.Option(
        help="Buffer of a rank: sizes and ranges in factors of 4, 64KB,1MB..1GB (1MB is 10^6 "
        "bytes, 1MiB or 1M is 2^20)."
    ),
]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        help="Algorithm or schedule file of another tool, for the same machine and "
        "collective. Repeatable.",
        show_default=False,
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        help="Methods to include: pareto, limits, limits-time ('synth fastest'), taccl, tacos, "
        "teccl, gathered, or classical algorithms ('sccl synth list'). Repeatable."
    ),
]
Without = Annotated[list[str] | None, typer.Option(help="Methods to exclude. Repeatable.")]
Alpha = Annotated[
    AlphaModel,
    typer.Option(
        help="Alpha model: travels or occupies. With travels a chunk arrives "
        "alpha later, with occupies the link is busy during alpha."
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        help="Seconds for each synthesizer, for all sizes together.",
        show_default="none: a fixed budget of deterministic work",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the synthesizers.")]
Plot = Annotated[
    Path | None, typer.Option(help="Picture: .html, .svg, .png, or .pdf.", show_default=False)
]
Measure = Annotated[
    TimeMeasure,
    typer.Option(
        "--what",
        help="Vertical axis of --plot: completion time / lower bound (ratio), gap in percent, "
        "time in microseconds, or buffer size / time (bandwidth).",
    ),
]
Tuner = Annotated[
    Path | None,
    typer.Option(
        help="File for NCCL's tuner plugin: NCCL's best algorithm by size.",
        show_default=False,
    ),
]
Directory = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", help="Folder for the fastest plan of each size.", show_default=False
    ),
]


@report_errors
def compare(
    problem_options: ProblemOptions,
    *,
    size: Size = "1KB..1GB",
    file: Files = None,
    only: Only = None,
    without: Without = None,
    alpha: Alpha = AlphaModel.TRAVELS,
    timeout: Timeout = None,
    seed: Seed = 0,
    plot: Plot = None,
    what: Measure = TimeMeasure.RATIO,
    directory: Directory = None,
    tuner: Tuner = None,
    json: options.Json = False,
) -> None:
    """Compare schedules of all synthesizers and classical algorithms by buffer size.

    Every plan is verified, simulated link by link, and compared with a lower bound that holds for
    every schedule. Contenders that do not support the machine or the collective are listed with the
    reason.

    Exit code 0: done, 2: bad input, 130: interrupted. The results so far are printed.
    """
    from sccl.comparison.comparison import (  # noqa: PLC0415 - loads NumPy and the solvers
        compare,
        comparison_subject,
        prepare_folder,
        write_fastest,
    )
    from sccl.comparison.comparison_output import chart_data, compare_output  # noqa: PLC0415 - likewise
    from sccl.comparison.contender_selection import build_contenders, load_file_plans, select_names  # noqa: PLC0415 - likewise
    from sccl.comparison.contenders import ComparisonProblem  # noqa: PLC0415 - likewise
    from sccl.comparison.tuner_rules import check_tunable, write_tuner  # noqa: PLC0415 - likewise

    sizes, names = parse_sizes(size), select_names(_split_names(only), _split_names(without))
    build_effort(timeout, seed)
    if plot is not None:
        charts.check_picture(plot)
    elif what is not TimeMeasure.RATIO:
        raise ParameterError("--what sets the vertical axis of --plot: give --plot FILE as well")
    machine = problem_options.machine()
    subject = comparison_subject(machine, *problem_options.collective_and_root(machine))
    for note in subject.notes:
        err().print(f"{subject.topology.name}: {note}", markup=False, soft_wrap=True)
    if tuner is not None:
        check_tunable(subject.spec.name)
        check_can_write(tuner)
    problem = ComparisonProblem(subject.topology, subject.spec, alpha, seed, timeout)
    file_plans = load_file_plans(problem, file or [])
    if directory is not None:
        prepare_folder(directory)
    with _progress(sizes) as (on_progress, show_times):
        contenders = build_contenders(problem, names, file_plans, on_progress)
        comparison = compare(problem, contenders, sizes, on_progress, on_system=show_times)
    if comparison.end_reason and err().is_terminal:
        err().print(f"{comparison.end_reason}: partial results follow")
    plan_files = write_fastest(directory, comparison) if directory is not None else {}
    picture = plot if any(system.measurements for system in comparison.systems) else None
    rules = (
        write_tuner(comparison, tuner) if tuner is not None and not comparison.end_reason else None
    )
    output = compare_output(comparison, file_plans, plan_files, picture, rules)
    if picture is not None:
        systems, bound = chart_data(output)
        words = f"{output.collective} on {output.topology}"
        chart = charts.comparison_chart(systems, bound, words, f"alpha {output.alpha}", what)
        charts.save_chart(chart, picture, title=f"sccl: {words}")
    if json:
        print_output(output)
    else:
        _print(out(), output)
    if comparison.end_reason:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _split_names(words: Sequence[str] | None) -> list[str]:
    """Return the names in words, which may contain several, separated by commas."""
    parts = (part.strip() for word in words or () for part in word.split(","))
    return [part for part in parts if part]


@contextmanager
def _progress(
    sizes: Sequence[int],
) -> Iterator[tuple[Callable[[str], None], Callable[[ContenderResult], None]]]:
    """Show a status on a terminal, and the times of each finished contender.

    Yields:
        The functions that receive the status, and a contender.
    """
    if not err().is_terminal:
        yield lambda _: None, lambda _: None
        return

    def show_times(system: ContenderResult) -> None:
        """Print the times of a contender in one line."""
        times = system.measurements
        cells = [f"{float(times[size].us):10.4g}" if size in times else " " * 10 for size in sizes]
        line = f"{single_line(system.name)[:20]:20}{''.join(cells)}"
        err().print(line, markup=False, no_wrap=True, crop=True)

    head = "".join(f"{format_bytes(size):>10}" for size in sizes)
    with progress_bar(err()) as on_progress:
        err().print(f"{'time in us':20}{head}", markup=False, no_wrap=True, crop=True)
        yield on_progress, show_times


def _print(console: Console, output: CompareOutput) -> None:
    from sccl.comparison.comparison import NOT_REACHED  # noqa: PLC0415 - loads NumPy and the solvers

    title = f"{output.collective} on {single_line(output.topology)}, alpha {output.alpha}"
    console.print(title, markup=False)
    console.print(_winners_table(output))
    console.print(_systems_table(output))
    unreached = [single_line(system.name) for system in output.systems if system.why == NOT_REACHED]
    missing = [system for system in output.systems if system.why and system.why != NOT_REACHED]
    undefined = [s for s in missing if f" does not define {output.collective}: " in str(s.why)]
    if missing:
        console.print("without results at some sizes:")
    for system in missing:
        if system not in undefined:
            text = f"  {single_line(system.name)}: {system.why}"
            console.print(text, markup=False, soft_wrap=True)
    if undefined:
        names = ", ".join(single_line(system.name) for system in undefined)
        text = f"  not defined for {output.collective}: {names}"
        console.print(text, markup=False, soft_wrap=True)
    measured = {system.name for system in output.systems if system.times}
    for name, text in _METHODS.items():
        if name in measured:
            console.print(f"{name}: {text}", markup=False, soft_wrap=True)
    if output.ended:
        console.print(f"[yellow]{output.ended}: these are partial results.[/]")
    if unreached:
        console.print(f"not reached: {', '.join(unreached)}", markup=False, soft_wrap=True)
    files = [size.file for size in output.sizes if size.file]
    if files:
        folder = single_line(Path(files[0]).parent)
        console.print(f"{format_count(len(files), 'plan')} written to {folder}", markup=False)
    if output.tuner:
        for note in output.tuner.notes:
            console.print(f"  {single_line(note)}", markup=False, soft_wrap=True)
        prefix = f"rules written to {single_line(output.tuner.file)}; to use them: "
        console.print(f"{prefix}{single_line(output.tuner.command)}", markup=False, soft_wrap=True)
    if output.plot:
        console.print(f"picture: {single_line(output.plot)}", markup=False, soft_wrap=True)


_METHODS = {
    "limits-time": "the method of 'sccl synth fastest'",
    "gathered": "an allgather of all inputs, which each rank then reduces",
}
"""Descriptions of methods whose names are no verbs."""


def _winners_table(output: CompareOutput) -> Table:
    table = Table("size")
    table.add_column("fastest")
    for name in ("time (us)", "GB/s", "bound (us)", "above"):
        table.add_column(name, justify="right")
    table.add_column("plan")
    for size in output.sizes:
        if size.winner is None or size.time_us is None:
            table.add_row(format_bytes(size.size_bytes), "-", "-", "-", f"{size.bound_us:.6g}")
            continue
        table.add_row(
            format_bytes(size.size_bytes),
            f"[bold]{escape(single_line(size.winner))}[/]",
            f"{size.time_us:.6g}",
            f"{size.algorithm_gb_per_s:.4g}",
            f"{size.bound_us:.6g}",
            "-" if size.gap is None else f"{size.gap:.1%}",
            escape(size.plan),
        )
    return table


def _systems_table(output: CompareOutput) -> Table:
    """Return a table of completion times divided by the fastest, with the best methods first."""
    best = {size.size_bytes: size.time_us for size in output.sizes}
    table = Table("method", title="completion time / fastest", title_justify="left")
    table.add_column("search", justify="right")
    for size in output.sizes:
        table.add_column(format_bytes(size.size_bytes), justify="right")
    rows = []
    for system in output.systems:
        times = {row.size_bytes: row.time_us for row in system.times}
        if not times:
            continue
        ratios = [time / us for size, time in times.items() if (us := best[size])]
        cells = [
            _ratio_text(times.get(size.size_bytes), best[size.size_bytes]) for size in output.sizes
        ]
        row = (escape(single_line(system.name)), f"{system.seconds:.2f} s", *cells)
        rows.append((sum(ratios) / max(1, len(ratios)), row))
    for _, row in sorted(rows, key=itemgetter(0)):
        table.add_row(*row)
    return table


def _ratio_text(us: float | None, best: float | None) -> str:
    if us is None or best is None:
        return "-"
    ratio = us / best if best else 1.0
    return "[bold]1[/]" if ratio == 1 else f"{ratio:.3g}"
