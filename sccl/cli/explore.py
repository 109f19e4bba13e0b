"""``sccl explore``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import err, out, print_output, report_errors
from sccl.core.algorithm import KSynchronousPlan
from sccl.core.files.disk import check_can_write, is_folder, write_atomically
from sccl.core.files.frontier_folders import read_frontiers
from sccl.core.files.json_text import file_digest
from sccl.core.files.outputs import plan_digests
from sccl.core.formatting import format_count, single_line
from sccl.errors import InputError, ParameterError
from sccl.formats.files.plans import expand_paths, frontier_files, load_plans
from sccl.training.plan_files import LoadedTraining, load_training_files, training_digests
from sccl.view.explorer.explorer_plans import ExploreOutput, explorer_algorithms, explorer_schedules
from sccl.view.explorer.page_html import render_page
from sccl.view.explorer.training_page import training_page

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Algorithm and schedule files, the folder of 'sccl pareto --output', patterns "
        "such as 'found/*.json', or the output of 'sccl pareto --json'.",
        show_default=False,
    ),
]
Page = Annotated[Path, typer.Option("-o", "--output", help="File for the page (.html).")]


@report_errors
def explore(files: Files, output: Page, json: options.Json = False) -> None:
    """Write a page that plays algorithms step by step in any browser.

    A folder of 'sccl pareto --output' opens with its frontiers; click a point to open it. Schedules
    play on a time axis. A training plan shows its streams, channels, and dependencies.
    """
    if output.suffix.lower() not in {".html", ".htm"}:
        raise ParameterError(f"{output} is not the name of a page: give one that ends in .html")
    check_can_write(output)
    training, rest = load_training_files(files)
    if training:
        _write_training_page(training, rest, output, json=json)
        return
    loaded = load_plans(files)
    frontiers = frontier_files(files)
    many = any(is_folder(path) for path in expand_paths(files))
    with err().status("bounds and pictures"):
        items = explorer_algorithms(
            (
                (str(x.file), x.plan, x.intact)
                for x in loaded
                if isinstance(x.plan, KSynchronousPlan)
            ),
            by_cost=many,
        )
        timed = explorer_schedules(
            (str(x.file), x.plan) for x in loaded if not isinstance(x.plan, KSynchronousPlan)
        )
        loaded_frontiers = [entry for file in frontiers for entry in read_frontiers(file)]
        text = render_page(items, loaded_frontiers, timed, frontier=many)
    write_atomically(output, text)
    if json:
        inputs = plan_digests({str(x.file): x.plan for x in loaded})
        inputs |= {str(file): file_digest(file) for file in frontiers}
        print_output(
            ExploreOutput(
                inputs=inputs,
                file=str(output),
                algorithms=len(items),
                schedules=len(timed),
                frontiers=len(frontiers),
            )
        )
        return
    counts = [(len(items), "algorithm"), (len(timed), "schedule")]
    summary = " and ".join(format_count(*entry) for entry in counts if entry[0])
    out().print(f"{summary} in {escape(single_line(output))}", soft_wrap=True)


def _write_training_page(
    training: Sequence[LoadedTraining], rest: Sequence[str | Path], output: Path, *, json: bool
) -> None:
    """Write the page of a training plan.

    Raises:
        InputError: Other files are given too, or the plan fails verification.
    """
    loaded = training[0]
    if len(training) > 1 or rest:
        raise InputError(
            f"{loaded.file}: it is a training plan, and a page shows one: give it alone"
        )
    write_atomically(output, training_page(loaded))
    if json:
        digests = training_digests(training)
        print_output(
            ExploreOutput(
                inputs=digests,
                file=str(output),
                algorithms=0,
                schedules=0,
                frontiers=0,
                training=1,
            )
        )
        return
    out().print(f"1 training plan in {escape(single_line(output))}", soft_wrap=True)
