"""``sccl explore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sccl.api import explorer
from sccl.cli import options
from sccl.cli.report import err, out, print_output, report_errors
from sccl.core.formatting import format_count, single_line

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
    with err().status("bounds and pictures"):
        page = explorer.explore(*files, path=output)
    if json:
        print_output(page)
        return
    kinds = {
        "algorithm": page.algorithms,
        "schedule": page.schedules,
        "training plan": page.training,
    }
    summary = " and ".join(format_count(n, kind) for kind, n in kinds.items() if n)
    out().print(f"{summary} in {escape(single_line(output))}", soft_wrap=True)
