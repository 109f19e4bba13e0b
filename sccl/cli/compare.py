"""``sccl compare``: the fastest method at each size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_json, report_errors
from sccl.cli.subject import ProblemOptions
from sccl.core.clock import AlphaModel
from sccl.core.cost import format_bytes
from sccl.core.formatting import format_count, single_line
from sccl.core.sizes import parse_sizes
from sccl.errors import ParameterError
from sccl.view import charts
from sccl.view.charts import TimeMeasure
from sccl.view.text.progress_notes import progress_bar

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.api.comparison import Comparison

Size = Annotated[
    str,
    "Buffer of a rank: sizes and ranges in factors of 4, 64KB,1MB..1GB (1MB is 10^6 bytes, 1MiB or "
    "1M is 2^20).",
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
    "Methods to include: pareto, limits, limits-time ('synth fastest'), taccl, tacos, teccl, "
    "gathered, or classical algorithms ('sccl synth list'). Repeatable.",
]
Without = Annotated[list[str] | None, "Methods to exclude. Repeatable."]
Alpha = Annotated[
    AlphaModel,
    "Alpha model: travels or occupies. With travels a chunk arrives alpha later, with occupies the "
    "link is busy during alpha.",
]
Timeout = Annotated[
    float | None,
    "Seconds for each synthesizer, for all sizes together.",
    "none: a fixed budget of deterministic work",
]
Seed = Annotated[int, "Seed of the synthesizers."]
Plot = Annotated[Path | None, "Picture: .html, .svg, .png, or .pdf."]
Measure = Annotated[
    TimeMeasure,
    "Vertical axis of --plot: completion time / lower bound (ratio), gap in percent, time in "
    "microseconds, or buffer size / time (bandwidth).",
]
Tuner = Annotated[Path | None, "File for NCCL's tuner plugin: NCCL's best algorithm by size."]
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
    from sccl.api.comparison import compare as compare_methods  # noqa: PLC0415 - loads NumPy and the solvers

    if plot is not None:
        charts.check_picture(plot)
    elif what is not TimeMeasure.RATIO:
        raise ParameterError("--what sets the vertical axis of --plot: give --plot FILE as well")
    with _progress(size) as (on_progress, show_times):
        comparison = compare_methods(
            **problem_options.arguments(),
            size=size,
            files=file or [],
            only=_split_names(only),
            without=_split_names(without),
            alpha=alpha.value,
            timeout_s=timeout,
            seed=seed,
            folder=directory,
            tuner=tuner,
            progress=on_progress,
            on_method=show_times,
        )
    if comparison.value.end_reason and err().is_terminal:
        err().print(f"{comparison.value.end_reason}: partial results follow")
    picture = plot if comparison.times_us else None
    if picture is not None:
        chart = comparison.plot(what.value).value
        charts.save_chart(chart, picture, title=f"sccl: {comparison.name}")
    if json:
        print_json(comparison.to_json(picture))
    else:
        _print(out(), comparison, picture)
    if comparison.value.end_reason:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _split_names(words: Sequence[str] | None) -> list[str]:
    """Return the names in words, which may contain several, separated by commas."""
    parts = (part.strip() for word in words or () for part in word.split(","))
    return [part for part in parts if part]


@contextmanager
def _progress(
    size: str,
) -> Iterator[tuple[Callable[[str], None], Callable[[str, Mapping[int, float]], None]]]:
    """Show a status on a terminal, and the times of each finished contender.

    Yields:
        The functions that receive the status, and a contender.
    """
    if not err().is_terminal:
        yield lambda _: None, lambda *_: None
        return
    sizes = parse_sizes(size)
    heads = [f"{'time in us':20}{''.join(f'{format_bytes(size):>10}' for size in sizes)}"]

    def show_times(name: str, times: Mapping[int, float]) -> None:
        """Print the times of a contender in one line, and before the first a head."""
        cells = [f"{times[size]:10.4g}" if size in times else " " * 10 for size in sizes]
        for line in (*heads, f"{single_line(name)[:20]:20}{''.join(cells)}"):
            err().print(line, markup=False, no_wrap=True, crop=True)
        heads.clear()

    with progress_bar(err()) as on_progress:
        yield on_progress, show_times


def _print(console: Console, comparison: Comparison, picture: Path | None) -> None:
    value, unreached = comparison.value, comparison.unreached
    title = f"{single_line(comparison.name)}, alpha {value.problem.model.text}"
    console.print(title, markup=False)
    console.print(_winners_table(comparison))
    console.print(_systems_table(comparison))
    missing = {n: why for n, why in comparison.missing.items() if n not in unreached}
    collective = value.problem.spec.name
    undefined = [n for n, why in missing.items() if f" does not define {collective}: " in why]
    if missing:
        console.print("without results at some sizes:")
    lines = [f"  {single_line(n)}: {why}" for n, why in missing.items() if n not in undefined]
    if undefined:
        names = ", ".join(map(single_line, undefined))
        lines.append(f"  not defined for {collective}: {names}")
    lines += [f"{name}: {text}" for name, text in _METHODS.items() if name in comparison.times_us]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    if value.end_reason:
        console.print(f"[yellow]{value.end_reason}: these are partial results.[/]")
    lines = []
    if unreached:
        lines.append(f"not reached: {', '.join(map(single_line, unreached))}")
    if files := comparison.plan_files:
        folder = single_line(next(iter(files.values())).parent)
        lines.append(f"{format_count(len(files), 'plan')} written to {folder}")
    if tuner := comparison.tuner:
        lines += [f"  {single_line(note)}" for note in tuner.notes]
        prefix = f"rules written to {single_line(tuner.file)}; to use them: "
        lines.append(f"{prefix}{single_line(tuner.command)}")
    if picture:
        lines.append(f"picture: {single_line(picture)}")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


_METHODS = {
    "limits-time": "the method of 'sccl synth fastest'",
    "gathered": "an allgather of all inputs, which each rank then reduces",
}
"""Descriptions of methods whose names are no verbs."""


def _winners_table(comparison: Comparison) -> Table:
    table = Table("size")
    table.add_column("fastest")
    for name in ("time (us)", "GB/s", "bound (us)", "above"):
        table.add_column(name, justify="right")
    table.add_column("plan")
    for size, fastest, *numbers, plan in comparison.rows:
        name = f"[bold]{escape(single_line(fastest))}[/]" if plan else fastest
        table.add_row(size, name, *numbers, escape(plan))
    return table


def _systems_table(comparison: Comparison) -> Table:
    """Return a table of completion times divided by the fastest, with the best methods first."""
    table = Table("method", title="completion time / fastest", title_justify="left")
    table.add_column("search", justify="right")
    for size in comparison.sizes:
        table.add_column(format_bytes(size), justify="right")
    best = {size: comparison.times_us[name][size] for size, name in comparison.winners.items()}
    rows = []
    for name, times in comparison.times_us.items():
        ratios = [time / us for size, time in times.items() if (us := best[size])]
        cells = [_ratio_text(times.get(size), best.get(size)) for size in comparison.sizes]
        row = (escape(single_line(name)), f"{comparison.seconds[name]:.2f} s", *cells)
        rows.append((sum(ratios) / max(1, len(ratios)), row))
    for _, row in sorted(rows, key=itemgetter(0)):
        table.add_row(*row)
    return table


def _ratio_text(us: float | None, best: float | None) -> str:
    if us is None or best is None:
        return "-"
    ratio = us / best if best else 1.0
    return "[bold]1[/]" if ratio == 1 else f"{ratio:.3g}"
