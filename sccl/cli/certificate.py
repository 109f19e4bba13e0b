"""``sccl verify-certificate``, and the writing of certificates for ``sccl pareto --certify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sccl.certify.wire import CLAIMS
from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_json, reported
from sccl.pareto import Frontier, LimitFrontier, TreeFrontier
from sccl.tasks.files import is_folder, paths_of

_COLOURS = {"ok": "green", "failed": "red", "searched": "yellow"}


@reported
def verify_certificate(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER",
            help="Folders that 'sccl pareto --certify' wrote, or patterns such as 'proofs*'.",
            show_default=False,
        ),
    ],
    json: options.Json = False,
) -> None:
    """Check every claim of a certificate, without trusting any solver.

    Exit code 0: all claims hold, 1: one does not, 2: bad input, 3: some rest on two solvers' word.
    """
    from sccl.certify.check import check_folder  # noqa: PLC0415 - loads much

    chosen = _folders(folders)
    rows = []
    console = out()
    for folder, verdict in ((one, x) for one in chosen for x in check_folder(one)):
        rows.append((folder, verdict))
        if not json:
            if len(chosen) > 1 and (len(rows) == 1 or folder != rows[-2][0]):
                console.print(f"# {folder}", markup=False, soft_wrap=True)
            colour = _COLOURS[verdict.state]
            line = f"[{colour}]{verdict.state:8}[/] {escape(verdict.claim)}: "
            console.print(line + escape(verdict.detail), soft_wrap=True)
    states = [row.state for _, row in rows]
    if json:
        claims = [
            {"folder": str(folder), "claim": r.claim, "state": r.state, "detail": r.detail}
            for folder, r in rows
        ]
        print_json({"schema": 1, "folder": ", ".join(map(str, chosen)), "claims": claims})
    else:
        counts = ", ".join(f"{states.count(s)} {s}" for s in _COLOURS if s in states)
        console.print(f"{len(rows)} claims: {counts}")
    if "failed" in states:
        raise typer.Exit(ExitCode.NO)
    raise typer.Exit(ExitCode.UNKNOWN if "searched" in states else ExitCode.OK)


def _folders(words: list[Path]) -> list[Path]:
    """Return the folders that are meant, each once: a list of claims stands for its folder."""
    named = paths_of(words)
    listed = {path.parent for path in named if path.name == CLAIMS}
    beside = [path for path in named if path.parent in listed and not is_folder(path)]
    chosen = [path.parent if path.name == CLAIMS else path for path in named]
    return list(dict.fromkeys(path for path in chosen if path not in beside))


def certify(frontier: Frontier, folder: Path, seconds: float, *, quiet: bool) -> None:
    """Write the certificate of a frontier and say where."""
    from sccl.certify.write import write_certificate  # noqa: PLC0415 - loads much

    console = err()
    with console.status("certificate") as status:
        path = write_certificate(
            frontier, folder, seconds, lambda text: status.update(f"certificate: {escape(text)}")
        )
    _say(path, folder, quiet=quiet)


def certify_limits(
    frontier: LimitFrontier, trees: TreeFrontier | None, folder: Path, *, quiet: bool
) -> None:
    """Write the certificate of a limit frontier and say where."""
    from sccl.certify.limits import write_limit_certificate  # noqa: PLC0415 - loads much

    _say(write_limit_certificate(frontier, trees, folder), folder, quiet=quiet)


def no_certificate(folder: Path) -> None:
    """Say that an interrupted sweep has none, and leave no empty folder."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    err().print("interrupted: no certificate is written", markup=False)


def _say(path: Path, folder: Path, *, quiet: bool) -> None:
    if not quiet:
        err().print(f"certificate: {path}; check it with: sccl verify-certificate {folder}",
                    markup=False, soft_wrap=True)  # fmt: skip
