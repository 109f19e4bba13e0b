"""Write interactive pages of files."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from sccl.api.arguments import check_arguments
from sccl.core.algorithm import KSynchronousPlan
from sccl.core.files.disk import check_can_write, is_folder, write_atomically
from sccl.core.files.frontier_folders import read_frontiers
from sccl.core.files.json_text import file_digest
from sccl.core.files.outputs import plan_digests
from sccl.errors import InputError, ParameterError
from sccl.formats.files.plans import expand_paths, frontier_files, load_plans
from sccl.training.plan_files import load_training_files, training_digests
from sccl.view.explorer.explorer_plans import ExploreOutput, explorer_algorithms, explorer_schedules
from sccl.view.explorer.page_html import render_page
from sccl.view.explorer.training_page import training_page


@check_arguments
def explore(*files: str | PathLike[str], path: str | PathLike[str]) -> ExploreOutput:
    """Write a page that plays algorithms and schedules, or shows a training plan, in a browser.

    Args:
        files: Files, folders, or patterns such as ``"found/*.json"``. The page of a folder begins
            with its frontiers.
        path: File for the page, which ends in .html.

    Returns:
        The numbers of ``algorithms``, ``schedules``, ``frontiers``, and ``training`` plans.

    Raises:
        InputError: A file cannot be read or fails verification, the plans are too large for a page,
            or the page cannot be written.

    Examples:
        >>> import sccl
        >>> ring = sccl.baseline("ring", "allgather", "ring:4").save("ring.json")
        >>> sccl.explore(ring, path="ring.html").algorithms
        1
    """
    if not files:
        raise ParameterError("sccl.explore is given no file")
    page = Path(path)
    if page.suffix.lower() not in {".html", ".htm"}:
        raise ParameterError(f"{page} is not the name of a page: give one that ends in .html")
    check_can_write(page)
    words = [Path(file) for file in files]
    training, rest = load_training_files(words)
    if not training:
        return _write_plans(words, page)
    loaded = training[0]
    if len(training) > 1 or rest:
        raise InputError(
            f"{loaded.file}: it is a training plan, and a page shows one: give it alone"
        )
    write_atomically(page, training_page(loaded))
    digests = training_digests(training)
    return ExploreOutput(
        inputs=digests, file=str(page), algorithms=0, schedules=0, frontiers=0, training=1
    )


def _write_plans(words: Sequence[Path], page: Path) -> ExploreOutput:
    loaded = load_plans(words)
    files = frontier_files(words)
    many = any(is_folder(path) for path in expand_paths(words))
    algorithms = explorer_algorithms(
        ((str(x.file), x.plan, x.intact) for x in loaded if isinstance(x.plan, KSynchronousPlan)),
        by_cost=many,
    )
    schedules = explorer_schedules(
        (str(x.file), x.plan) for x in loaded if not isinstance(x.plan, KSynchronousPlan)
    )
    frontiers = [frontier for file in files for frontier in read_frontiers(file)]
    write_atomically(page, render_page(algorithms, frontiers, schedules, frontier=many))
    return ExploreOutput(
        inputs=plan_digests({str(x.file): x.plan for x in loaded})
        | {str(file): file_digest(file) for file in files},
        file=str(page),
        algorithms=len(algorithms),
        schedules=len(schedules),
        frontiers=len(files),
    )
