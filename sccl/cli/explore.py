"""``sccl explore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import err, on_a_line, out, print_output, reported
from sccl.core.files.disk import check_can_write, is_folder, write_atomically
from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.tasks.explore import ExploreOutput, shown
from sccl.tasks.files import frontier_files, load_algorithms, paths_of
from sccl.tasks.frontiers import read_frontiers
from sccl.tasks.outputs import file_digest, plan_digests
from sccl.view.explorer.html import page

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Algorithm files, a sweep's --out folder, patterns such as 'found/*.json', and what "
        "'sccl pareto --json' printed.",
        show_default=False,
    ),
]
Page = Annotated[Path, typer.Option("-o", "--output", help="The page to write (.html).")]


@reported
def explore(files: Files, output: Page, json: options.Json = False) -> None:
    """Write a page that shows algorithms step by step: one file, to be opened in any browser.

    A folder of 'sccl pareto --out' starts with its frontiers; a click on a point opens it.
    """
    if output.suffix.lower() not in {".html", ".htm"}:
        raise ParameterError(
            f"{output} is to be a page, so its name has to end in .html; rename it"
        )
    check_can_write(output)
    loaded = load_algorithms(files)
    frontiers = frontier_files(files)
    many = any(is_folder(path) for path in paths_of(files))
    with err().status("bounds and pictures"):
        items = shown(((str(x.file), x.algorithm, x.intact) for x in loaded), by_cost=many)
        known = [one for file in frontiers for one in read_frontiers(file)]
        text = page(items, known, frontier=many)
    write_atomically(output, text)
    if json:
        inputs = plan_digests({str(x.file): x.algorithm for x in loaded})
        inputs |= {str(file): file_digest(file) for file in frontiers}
        print_output(
            ExploreOutput(
                inputs=inputs,
                file=str(output),
                algorithms=len(items),
                frontiers=len(frontiers),
            )
        )
        return
    out().print(
        f"{counted(len(items), 'algorithm')} in {escape(on_a_line(output))}", soft_wrap=True
    )
