"""``sccl show``: an algorithm as SCCL's artifact prints it (appendix A.5.1), or a schedule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sccl.cli import options
from sccl.cli.report import err, out, print_output, print_text, report_errors
from sccl.core.algorithm import KSynchronousPlan
from sccl.core.formatting import format_count, single_line
from sccl.errors import ParameterError
from sccl.formats.files.partial_schedule import extract_part, part_output
from sccl.formats.files.plans import load_plans
from sccl.training.offered_options import load_option_files
from sccl.training.plan_files import load_training_files, write_timeline
from sccl.training.plan_summary import training_part
from sccl.training.workload_outputs import is_workload_file, workload_show_output
from sccl.view.text.plan_text import print_algorithm
from sccl.view.text.progress_notes import share_bar
from sccl.view.text.shown_plans import check_can_list, check_can_show, show_output
from sccl.view.text.training_text import print_training_options, print_training_plan, print_workload

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.formats.files.plans import LoadedPlan


@report_errors
def show(
    files: options.Plans,
    timeline: Annotated[
        Path | None,
        "File for the start and end of each part of a training plan ('sccl doctor schema "
        "timeline').",
        "not written",
    ] = None,
    chunk: Annotated[int | None, "Extract the transfers of this chunk.", "all"] = None,
    rank: Annotated[int | None, "Extract the transfers of this rank.", "all"] = None,
    from_us: Annotated[
        float | None, typer.Option(min=0, help="Start of the extracted interval in microseconds.")
    ] = None,
    until_us: Annotated[
        float | None, typer.Option(min=0, help="End of the extracted interval in microseconds.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File for the extracted transfers.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Print the sends, the topology matrix, and the link utilization of algorithms.

    For a schedule it prints the first 40 transfers with their times, and the busiest links. For a
    training plan or a timeline it prints the options of collectives and the utilization of streams
    and channels. For options ('sccl train plan --options-only') it prints their times and the
    refused recipes. A workload is shown as by 'sccl train show'.

    With --chunk, --rank, or an interval it extracts these transfers of a schedule. The result is
    not verified, because a part does not complete the collective.
    """
    span = (from_us or 0.0, until_us)
    if output is not None or {chunk, rank, from_us, until_us} != {None}:
        if len(files) != 1 or timeline is not None:
            raise ParameterError("transfers are extracted from one schedule: give one file alone")
        _show_extract(files[0], chunk, rank, span, output, json=json)
        return
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
        print_text(f"written to {single_line(timeline)}", console)
    for step in training:
        print_training_plan(console, training_part(step))
    for offer in offers:
        print_training_options(console, offer.offered)
    for i, entry in enumerate(loaded):
        if len(loaded) > 1:
            print_text(f"{chr(10) if i else ''}# {single_line(entry.file)}", console)
        _print(console, entry)


def _show_extract(
    file: Path,
    chunk: int | None,
    rank: int | None,
    span_us: tuple[float, float | None],
    output: Path | None,
    *,
    json: bool,
) -> None:
    """Extract transfers of a schedule, and write or list them."""
    options.check_writable(output)
    with share_bar(err(), single_line(file)) as bar:
        part, schedule = extract_part(file, chunk, rank, span_us, bar)
    result = part_output(file, part, schedule, output)
    if json:
        print_output(result)
        return
    sends = format_count(result.sends, "transfer")
    file_note = f"written to {single_line(output)}" if output else "not written: add -o FILE"
    topology = single_line(result.topology)
    print_text(f"{result.collective} on {topology}: {sends} of {result.of}, {file_note}")


def _show_workload(file: Path, *, json: bool) -> None:
    result = workload_show_output(file)
    if json:
        print_output(result)
        return
    print_workload(out(), result.workload)


def _print(console: Console, entry: LoadedPlan) -> None:
    if isinstance(entry.plan, KSynchronousPlan):
        check_can_show(str(entry.file), entry.plan)
        print_algorithm(console, entry.plan, intact=entry.intact)
        return
    check_can_list(str(entry.file), entry.plan)
    from sccl.view.text.plan_text import print_schedule  # noqa: PLC0415 - NumPy is slow to load

    print_schedule(console, entry.plan, intact=entry.intact)
