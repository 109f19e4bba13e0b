"""``sccl explore``."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sccl.cli.report import err, out, reported
from sccl.collectives import Spec
from sccl.core.codec import load_algorithm
from sccl.core.files import check_can_write, write_atomically
from sccl.core.topology import Topology
from sccl.core.words import counted
from sccl.errors import InputError, ParameterError
from sccl.tasks.frontiers import algorithms_of, kind_of, read_frontier
from sccl.tasks.pages import shown
from sccl.view.explore import check_fits, page
from sccl.view.shown import Bounds, Shown

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Algorithm files, or a sweep's --out folder, and what 'sccl pareto --json' printed.",
        show_default=False,
    ),
]
Page = Annotated[Path, typer.Option("-o", "--output", help="The page to write (.html).")]


@reported
def explore(files: Files, output: Page) -> None:
    """Write a page that shows algorithms step by step: one file, to be opened in any browser.

    A folder of 'sccl pareto --out' starts with its frontiers; a click on a point opens it.
    """
    if output.suffix.lower() not in {".html", ".htm"}:
        raise ParameterError(
            f"{output} is to be a page, so its name has to end in .html; rename it"
        )
    check_can_write(output)
    found = [file for path in files for file in _in_folder(path)]
    frontiers = [file for file in found if kind_of(file) == "frontier"]
    algorithms = [file for file in found if file not in frontiers]
    if not algorithms:
        raise InputError("only frontiers are given, and no algorithm: give those files too")
    bounds: dict[tuple[Topology, Spec], Bounds] = {}
    with err().status("bounds and pictures"):
        loaded = [(file, *load_algorithm(file)) for file in algorithms]
        check_fits((str(file), algorithm) for file, algorithm, _ in loaded)
        items = [shown(str(file), a, intact, bounds) for file, a, intact in loaded]
        if any(path.is_dir() for path in files):  # by file name C=10 is before C=2
            items.sort(key=_place)
        sweeps = [sweep for file in frontiers for sweep in read_frontier(file).sweeps]
        text = page(items, sweeps, frontier=any(path.is_dir() for path in files))
    write_atomically(output, text)
    out().print(f"{counted(len(items), 'algorithm')} in {escape(str(output))}", soft_wrap=True)


def _place(item: Shown) -> tuple[str, str, int, Fraction]:
    a = item.algorithm
    return a.topology.name, a.collective.name, a.steps, a.bandwidth_cost


def _in_folder(path: Path) -> list[Path]:
    """Return the algorithms and frontiers in a folder; of a file, itself.

    Raises:
        InputError: there is no algorithm in the folder.
    """
    if not path.is_dir():
        return [path]
    frontiers = [file for file in sorted(path.glob("*.json")) if kind_of(file) == "frontier"]
    return [*algorithms_of(path), *frontiers]
