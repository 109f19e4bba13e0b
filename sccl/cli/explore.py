"""``sccl explore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sccl.bounds import lower_bounds
from sccl.cli.bounds import explain, explain_steps
from sccl.cli.report import err, out, reported
from sccl.cli.sweeps import kind_of, read_sweep
from sccl.collectives import Spec, misnamed, named, names
from sccl.core.codec import load_algorithm
from sccl.core.collective import Collective
from sccl.core.files import check_can_write, write_atomically
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.transform import expand
from sccl.verify import violations
from sccl.view.explore import check_fits, page
from sccl.view.shown import Bounds, Shown

Files = Annotated[
    list[Path],
    typer.Argument(
        help="Algorithm files, or a sweep's --out folder, and what 'sccl pareto --json' printed.",
        show_default=False,
    ),
]
Page = Annotated[Path, typer.Option("-o", "--output", help="HTML file to write.")]


@reported
def explore(files: Files, output: Page) -> None:
    """Write a page that shows algorithms step by step: one file, to be opened in any browser.

    A folder of 'sccl pareto --out' starts with its frontiers; a click on a point opens it.
    """
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
        shown = [_shown(*one, bounds) for one in loaded]
        sweeps = [read_sweep(file) for file in frontiers]
        text = page(shown, sweeps, frontier=any(path.is_dir() for path in files))
    write_atomically(output, text)
    out().print(f"{len(shown)} algorithm(s) in {escape(str(output))}", soft_wrap=True)


def _in_folder(path: Path) -> list[Path]:
    """Return the algorithms and frontiers in a folder; of a file, itself.

    Raises:
        InputError: there is no algorithm in the folder.
    """
    if not path.is_dir():
        return [path]
    found = [file for file in sorted(path.glob("*.json")) if kind_of(file)]
    if not any(kind_of(file) == "algorithm" for file in found):
        raise InputError(
            f"{path} holds no algorithm, expected the --out folder of 'sccl pareto'; give another"
        )
    return found


def _shown(
    file: Path,
    loaded: AnyAlgorithm,
    intact: bool,
    known: dict[tuple[Topology, Spec], Bounds],
) -> Shown:
    """Return what the page shows of a file.

    Args:
        known: bounds by question; what is missing is added.

    Raises:
        InputError: the judge rejects the algorithm; what is wrong moves nowhere on a page.
    """
    algorithm = expand(loaded)
    if found := violations(algorithm):
        raise InputError(
            f"{file}: the judge rejects this algorithm ({len(found)} violation(s), the first: "
            f"{found[0].message}); see all with 'sccl check'"
        )
    question = (algorithm.topology, _spec(algorithm.collective))
    if question not in known:
        known[question] = _bounds(*question)
    return Shown(algorithm, file.name, intact, known[question])


def _spec(collective: Collective) -> Spec:
    """Return what was asked for, at any number of chunks."""
    c = collective
    if c.name in names() and not misnamed(c):
        return named(c.name, c.ranks, c.root)
    per_unit = c.num_chunks // c.chunks
    return Spec(c.name, c.ranks, 1, per_unit, c.pre, c.post, c.combining, c.root)


def _bounds(topology: Topology, spec: Spec) -> Bounds:
    found = lower_bounds(topology, spec)
    reasons = [f"S ≥ {found.steps}: {explain_steps(found)}."]
    reasons += [f"R/C ≥ {found.bandwidth}: {explain(found)}."]
    if not found.dual.is_identity:
        reasons.append(f"Both are bounds of its dual, {found.problem}.")
    if found.scope:
        reasons.append(f"They hold for {found.scope}.")
    return Bounds(found.steps, found.bandwidth, tuple(reasons), found.scope)
