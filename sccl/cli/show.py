"""``sccl show``: an algorithm as SCCL's artifact prints it (appendix A.5.1), or a schedule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.offers import print_training_options
from sccl.cli.report import out, print_output, report_errors, single_line
from sccl.cli.workload import print_workload
from sccl.core.algorithm import KSynchronousPlan
from sccl.core.cost import format_bytes, format_duration
from sccl.core.formatting import format_gap
from sccl.errors import ParameterError
from sccl.formats.files.plans import load_plans
from sccl.tasks.show import check_can_list, check_can_show, show_output
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.training.offered_options import load_option_files
from sccl.training.plan_files import load_training_files, write_timeline
from sccl.training.plan_summary import ShownTrainingPart, model_notes, training_part
from sccl.training.workload_outputs import is_workload_file, workload_show_output
from sccl.view.text.algorithm_text import print_algorithm

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.formats.files.plans import LoadedPlan

_MAX_SHOWN = 12
"""Names in a line."""


@report_errors
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
    if len(files) == 1 and is_workload_file(files[0]) and timeline is None:
        _show_workload(files[0], json=json)
        return
    offers, others = load_option_files(files)
    training, rest = load_training_files(others)
    if timeline is not None and (len(training) != 1 or rest or offers):
        raise ParameterError(f"--timeline {timeline} needs a single training plan: give one file")
    options.check_writable(timeline)
    loaded = load_plans(rest) if rest else []
    if timeline is not None:
        write_timeline(timeline, training[0])
    if json:
        print_output(show_output(loaded, training, offers))
        return
    console = out()
    if timeline is not None:
        console.print(f"written to {single_line(timeline)}", markup=False, soft_wrap=True)
    for step in training:
        _print_training(console, training_part(step))
    for offer in offers:
        print_training_options(console, offer.offered)
    for i, entry in enumerate(loaded):
        if len(loaded) > 1:
            console.print(
                f"{chr(10) if i else ''}# {single_line(entry.file)}", markup=False, soft_wrap=True
            )
        _print(console, entry)


def _show_workload(file: Path, *, json: bool) -> None:
    result = workload_show_output(file)
    if json:
        print_output(result)
        return
    print_workload(out(), result.workload)


def _print_training(console: Console, shown: ShownTrainingPart) -> None:
    title = f"{shown.workload} on {shown.fabric}, by {shown.search} (seed {shown.seed})"
    console.print(single_line(title), markup=False, soft_wrap=True)
    if not shown.digest_matches:
        console.print("edited since sccl wrote it (its digest does not match)")
    bound_text = "no bound is known"
    if shown.proved and shown.bound_us:
        bound_text = "proved optimal for these options"
    elif shown.gap is not None:
        gap = f"gap {format_gap(shown.gap)}" if shown.gap else "met"
        bound_text = f"lower bound {format_duration(shown.bound_us)} ({shown.binding}), {gap}"
    if shown.costs:
        bound_text += "; not verified: times come from a table of costs ('sccl check --costs')"
    first = f"the first two in {format_duration(shown.two_iterations_us)}"
    line = f"{format_duration(shown.period_us)} per iteration, {first}; {bound_text}"
    console.print(single_line(line), markup=False, soft_wrap=True)
    if shown.prologue_us:
        more = "more" if shown.prologue_us > 0 else "less"
        longer = f"{format_duration(abs(shown.prologue_us))} {more} than as many that repeat"
        console.print(f"until iterations repeat, they take {longer} in all", markup=False)
    for line in model_notes(shown):
        console.print(single_line(line), markup=False, soft_wrap=True)
    table = Table("Collective", "Recipe", title="Options", title_justify="left")
    for name in ("ranks", "bytes", "operations", "motifs", "alone"):
        table.add_column(name, justify="right")
    table.add_column("carried by")
    for option in shown.options:
        counts = map(str, (option.operations, option.motifs))
        by = f"{', '.join(option.channels)}: {', '.join(option.carriers)}"
        table.add_row(
            *(escape(single_line(text)) for text in (option.collective, option.recipe)),
            *(
                str(option.group_ranks),
                format_bytes(option.bytes),
                *counts,
                format_duration(option.us),
            ),
            escape(single_line(by)),
        )
    console.print(table)
    lanes = Table("Stream or channel", title="In an iteration", title_justify="left")
    lanes.add_column("busy", justify="right")
    lanes.add_column("of the period", justify="right")
    for lane in shown.lanes:
        lanes.add_row(
            escape(single_line(lane.name)), format_duration(lane.busy_us), f"{lane.share:.0%}"
        )
    console.print(lanes)
    if shown.ahead:
        names = ", ".join(shown.ahead[:_MAX_SHOWN]) + (
            ", ..." if len(shown.ahead) > _MAX_SHOWN else ""
        )
        console.print(single_line(f"done ahead of their iteration: {names}"), markup=False)


def _print(console: Console, entry: LoadedPlan) -> None:
    if isinstance(entry.plan, KSynchronousPlan):
        check_can_show(str(entry.file), entry.plan)
        print_algorithm(console, expand_algorithm(entry.plan), intact=entry.intact)
        return
    check_can_list(str(entry.file), entry.plan)
    from sccl.view.text.schedule_text import print_schedule  # noqa: PLC0415 - NumPy is slow to load

    print_schedule(console, entry.plan, intact=entry.intact)
