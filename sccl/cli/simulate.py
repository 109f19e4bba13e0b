"""``sccl simulate``: times of algorithms and schedules on their machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import err, out, print_output, print_text, report_errors
from sccl.core.clock import AlphaModel, StepAlignment
from sccl.core.cost import format_bytes, format_us
from sccl.core.formatting import format_count, single_line
from sccl.core.sizes import parse_sizes
from sccl.errors import ParameterError
from sccl.view import charts
from sccl.view.text.progress_notes import share_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from sccl.comparison.simulation_output import PathPart, RunPart, SimulatedPart

_ENDS = 8
"""Number of printed transfers at each end of a critical path. JSON has all."""

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Algorithm and schedule files, folders of them, patterns such as "
        "'found/*.json', or projects of 'sccl project new'.",
        show_default=False,
    ),
]
Topo = Annotated[
    str | None,
    "Machine of programs: a name or a .json file.",
    "the one that they name",
    options.complete_topology,
]
Size = Annotated[
    str | None,
    "Buffer of C chunks in bytes: 64KiB (binary), 1GB (decimal), or sizes and ranges in factors of "
    "4, 64KB,1MB..1GB.",
    "1MiB; for a schedule, its own size",
]
Alpha = Annotated[
    AlphaModel | None,
    "Alpha model: travels (chunk arrives alpha later) or occupies (link is busy during alpha).",
    "travels; of schedules their own",
]
Steps = Annotated[
    StepAlignment | None,
    typer.Option(
        "--stepping",
        help="Start of a send: pipelined (data have arrived and the link is free) or "
        "barrier (previous step has ended everywhere).",
        show_default="pipelined; schedules and programs have their own times",
    ),
]
AlphaUs = Annotated[float | None, "Latency of every link in microseconds.", "the machine's"]
GbPerS = Annotated[float | None, "Bandwidth of every lane in 10^9 bytes/s.", "the machine's"]
Together = Annotated[bool, "Run all FILEs at the same time on the machine that they share."]

Plot = Annotated[
    Path | None,
    "Picture: .html, .svg, .png, or .pdf. One simulation: load of links over time; several files: "
    "utilization; several sizes: times.",
]


@report_errors
def simulate(
    files: Files,
    size: Size = None,
    topo: Topo = None,
    alpha: Alpha = None,
    stepping: Steps = None,
    alpha_us: AlphaUs = None,
    gb_per_s: GbPerS = None,
    together: Together = False,
    plot: Plot = None,
    json: options.Json = False,
) -> None:
    """Simulate the completion time of algorithms, schedules, and programs link by link.

    A link carries one transfer at a time, in the order of the algorithm's steps. All times are
    whole ticks, so the result is the same on every computer. The output has a lower bound for
    every schedule.
    """
    from sccl.comparison.plan_simulation import load_sources, run_simulations  # noqa: PLC0415 - loads NumPy
    from sccl.comparison.simulation_charts import chart_run, check_lines, simulation_chart  # noqa: PLC0415 - likewise
    from sccl.comparison.simulation_output import build_run_part, simulate_output  # noqa: PLC0415 - likewise
    from sccl.sim.settings import SimulationSettings  # noqa: PLC0415 - likewise

    if plot:
        charts.check_picture(plot)

    sizes = [None] if size is None else parse_sizes(size)
    settings = SimulationSettings(alpha, stepping, alpha_us, gb_per_s)
    sources = load_sources(files, topo)
    if together and len(sources) < 2:
        raise ParameterError(
            "--together runs several files at once, and one is given: leave it out"
        )
    if plot and not together:
        check_lines(len(sources))
    is_single = len(sizes) == 1 and (together or len(sources) == 1)
    runs, charted_runs = [], []
    with share_bar(err(), "simulating") as bar:
        for run in run_simulations(sources, sizes, settings, at_once=together, on_progress=bar):
            runs.append(build_run_part(run))
            if plot:
                charted_runs.append(chart_run(run, is_single=is_single))
    if plot:
        charts.save_chart(simulation_chart(charted_runs, runs), plot, title="sccl: simulation")
    if json:
        print_output(simulate_output(sources, runs, settings, plot))
    elif len(runs) == 1:
        _print(out(), runs[0])
    else:
        _print_table(out(), runs)
    if plot and not json:
        print_text(f"picture: {single_line(plot)}")


def _print(console: Console, run: RunPart) -> None:
    for part in run.collectives:
        _print_collective(console, part)
    if len(run.collectives) > 1:
        console.print(f"all together: [bold]{format_us(run.finish_us)}[/]")
    console.print(f"{_steps_text(run)}, alpha {run.alpha}")
    if run.busiest:
        link = "->".join(map(str, run.busiest.link))
        console.print(
            f"busiest link {link}: {run.busiest.busy:.1%} of the time, "
            f"{format_bytes(run.busiest.bytes)}; all links {run.utilisation:.1%} on average"
        )
    if run.critical_path:
        _print_path(console, run)


def _print_collective(console: Console, part: SimulatedPart) -> None:
    title = escape(f"{_part_name(part)}: {part.collective} on {single_line(part.topology)}")
    chunk_size = f" of {format_bytes(part.chunk_bytes)}" if part.chunk_bytes else ""
    console.print(
        f"{title}, {format_bytes(part.size_bytes)} in C={part.chunks}{chunk_size}: "
        f"[bold]{format_us(part.finish_us)}[/], {part.algorithm_gb_per_s:.4g} GB/s (size / time)",
        soft_wrap=True,
    )
    if part.bound_us is None:
        print_text(f"no bound is known: {part.bound}", console)
        return
    above = "" if part.gap is None else f", gap {_gap_text(part)}"
    met = "[green], met[/]" if part.gap == 0 else above
    console.print(
        f"lower bound {format_us(part.bound_us)}{met} ({escape(part.bound)})",
        soft_wrap=True,
    )


def _steps_text(run: RunPart) -> str:
    if run.stepping:
        return run.stepping
    programs = any(part.program for part in run.collectives)
    return "by the instructions" if programs else "at the times of the schedule"


def _part_name(part: SimulatedPart) -> str:
    return single_line(f"{part.file}: {part.program}" if part.program else part.file)


def _gap_text(part: SimulatedPart) -> str:
    return "" if part.gap is None else f"{part.gap:.2%}"


def _print_path(console: Console, run: RunPart) -> None:
    path = run.critical_path
    several = len(run.collectives) > 1
    console.print(f"critical path, {format_count(len(path), 'transfer')}:")
    steps = [*enumerate(path)]
    cut = len(path) > 2 * _ENDS + 1
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("from (us)", "to (us)"):
        table.add_column(name, justify="right")
    table.add_column("chunk", justify="right")
    for name in ("link", "reason", *(("file",) if several else ())):
        table.add_column(name)
    for i, step in steps[:_ENDS] + steps[-_ENDS:] if cut else steps:
        if cut and i == len(path) - _ENDS:
            table.add_row("...", "...", "", "", f"{len(path) - 2 * _ENDS} more (--json has all)")
        times = f"{step.start_us:.6g}", f"{step.until_us:.6g}"
        chunks = ", ".join(map(str, (step.chunk, *step.with_chunks)))
        words = [*times, chunks, "->".join(map(str, step.link)), _wait_text(step)]
        table.add_row(*words, *((escape(single_line(step.file)),) if several else ()))
    console.print(table)


def _wait_text(step: PathPart) -> str:
    """Return the reason for a transfer's wait as text."""
    waits = step.start_us - step.ready_us
    waited = f"waited {waits:.4g} us for" if waits else "after the previous transfer on"
    return {
        "release": "at the start" if step.start_us == 0 else "at its scheduled time",
        "arrival": "its data arrived",
        "barrier": "the previous step ended",
        "start": "the previous send started",
        "onward": "from the previous link",
        "link": f"{waited} the link",
        "limit": f"{waited} a budget or a switch",
        "order": f"waited {waits:.4g} us for a send of an earlier step",
    }[step.waited_for]


def _print_table(console: Console, runs: Sequence[RunPart]) -> None:
    """Print a row for each collective of each simulation."""
    files = {_part_name(part) for run in runs for part in run.collectives}
    table = Table(*(("file",) if len(files) > 1 else ()))
    names = ("size", "time (us)", "GB/s", "bound (us)", "gap", "links busy", "busiest link")
    for name in names:
        table.add_column(name, justify="right")
    for run in runs:
        busiest = run.busiest
        link = f"{'->'.join(map(str, busiest.link))} {busiest.busy:.1%}" if busiest else ""
        for part in run.collectives:
            lower_bound = "" if part.bound_us is None else f"{part.bound_us:.6g}"
            table.add_row(
                *((escape(_part_name(part)),) if len(files) > 1 else ()),
                *(format_bytes(part.size_bytes), f"{part.finish_us:.6g}"),
                *(f"{part.algorithm_gb_per_s:.4g}", lower_bound, _gap_text(part)),
                *(f"{run.utilisation:.1%}", link),
            )
    titles = {f"{p.collective} on {p.topology}" for run in runs for p in run.collectives}
    for title in sorted(titles):
        console.print(f"{single_line(title)}", markup=False)
    console.print(
        f"{_steps_text(runs[0])}, alpha {runs[0].alpha}; GB/s is size / time; the lower bound "
        "holds "
        "for every schedule of these chunks",
        soft_wrap=True,
    )
    console.print(table)
