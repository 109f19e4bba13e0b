"""``sccl show``: an algorithm as SCCL's artifact prints it (appendix A.5.1), or a schedule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.offers import print_offered
from sccl.cli.report import on_a_line, out, print_output, reported
from sccl.cli.workload import print_workload
from sccl.core.algorithm import KSynchronous
from sccl.core.cost import bytes_text, duration_text
from sccl.core.words import gap_text
from sccl.errors import ParameterError
from sccl.tasks.files import load_plans
from sccl.tasks.offering import option_files
from sccl.tasks.show import check_can_list, check_can_show, show_output
from sccl.tasks.show_training import ShownTrainingPart, models_told, shown_training
from sccl.tasks.training_files import training_files, write_timeline
from sccl.tasks.workload import holds_workload, workload_show_output
from sccl.topo.symmetry.expand import expand
from sccl.view.text.show import print_algorithm

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.tasks.files import LoadedPlan

_SHOWN = 12
"""Names in a line."""


@reported
def show(
    files: options.Plans,
    timeline: Annotated[
        Path | None,
        typer.Option(
            help="File for the start and end of each part of a training plan ('sccl schema "
            "timeline').",
            show_default="not written",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Print the sends, the topology matrix, and the link utilization of algorithms.

    For a schedule it prints the first 40 transfers with their times, and the busiest links. For a
    training plan or a timeline it prints the options of collectives and the utilization of streams
    and channels. For options ('sccl plan --options-only') it prints their times and the refused
    recipes. A workload is shown as by 'sccl workload show'.
    """
    if len(files) == 1 and holds_workload(files[0]) and timeline is None:
        _show_workload(files[0], json=json)
        return
    offers, others = option_files(files)
    training, rest = training_files(others)
    if timeline is not None and (len(training) != 1 or rest or offers):
        raise ParameterError(f"--timeline {timeline} is of one training plan: give it alone")
    options.writable(timeline)
    loaded = load_plans(rest) if rest else []
    if timeline is not None:
        write_timeline(timeline, training[0])
    if json:
        print_output(show_output(loaded, training, offers))
        return
    console = out()
    if timeline is not None:
        console.print(f"written to {on_a_line(timeline)}", markup=False, soft_wrap=True)
    for step in training:
        _print_training(console, shown_training(step))
    for given in offers:
        print_offered(console, given.offered)
    for i, one in enumerate(loaded):
        if len(loaded) > 1:
            console.print(
                f"{chr(10) if i else ''}# {on_a_line(one.file)}", markup=False, soft_wrap=True
            )
        _print(console, one)


def _show_workload(file: Path, *, json: bool) -> None:
    found = workload_show_output(file)
    if json:
        print_output(found)
        return
    print_workload(out(), found.workload)


def _print_training(console: Console, shown: ShownTrainingPart) -> None:
    title = f"{shown.workload} on {shown.fabric}, by {shown.search} (seed {shown.seed})"
    console.print(on_a_line(title), markup=False, soft_wrap=True)
    if not shown.digest_matches:
        console.print("edited since sccl wrote it (its digest does not match)")
    told = "no bound is known"
    if shown.proved and shown.bound_us:
        told = "proved optimal for these options"
    elif shown.gap is not None:
        gap = f"gap {gap_text(shown.gap)}" if shown.gap else "met"
        told = f"lower bound {duration_text(shown.bound_us)} ({shown.binding}), {gap}"
    if shown.costs:
        told += "; not verified: times come from a table of costs ('sccl check --costs')"
    first = f"the first two in {duration_text(shown.two_iterations_us)}"
    line = f"{duration_text(shown.period_us)} an iteration, {first}; {told}"
    console.print(on_a_line(line), markup=False, soft_wrap=True)
    if shown.prologue_us:
        more = "more" if shown.prologue_us > 0 else "less"
        longer = f"{duration_text(abs(shown.prologue_us))} {more} than as many that repeat"
        console.print(f"until iterations repeat, they take {longer} in all", markup=False)
    for line in models_told(shown):
        console.print(on_a_line(line), markup=False, soft_wrap=True)
    table = Table("Collective", "Recipe", title="Options", title_justify="left")
    for name in ("ranks", "bytes", "operations", "motifs", "alone"):
        table.add_column(name, justify="right")
    table.add_column("carried by")
    for one in shown.options:
        counts = map(str, (one.operations, one.motifs))
        by = f"{', '.join(one.channels)}: {', '.join(one.carriers)}"
        table.add_row(
            *(escape(on_a_line(text)) for text in (one.collective, one.recipe)),
            *(str(one.group_ranks), bytes_text(one.bytes), *counts, duration_text(one.us)),
            escape(on_a_line(by)),
        )
    console.print(table)
    lanes = Table("Stream or channel", title="In an iteration", title_justify="left")
    lanes.add_column("busy", justify="right")
    lanes.add_column("of the period", justify="right")
    for lane in shown.lanes:
        lanes.add_row(
            escape(on_a_line(lane.name)), duration_text(lane.busy_us), f"{lane.share:.0%}"
        )
    console.print(lanes)
    if shown.ahead:
        names = ", ".join(shown.ahead[:_SHOWN]) + (", ..." if len(shown.ahead) > _SHOWN else "")
        console.print(on_a_line(f"done ahead of their iteration: {names}"), markup=False)


def _print(console: Console, one: LoadedPlan) -> None:
    if isinstance(one.plan, KSynchronous):
        check_can_show(str(one.file), one.plan)
        print_algorithm(console, expand(one.plan), intact=one.intact)
        return
    check_can_list(str(one.file), one.plan)
    from sccl.view.text.schedule import print_schedule  # noqa: PLC0415 - NumPy is slow to load

    print_schedule(console, one.plan, intact=one.intact)
