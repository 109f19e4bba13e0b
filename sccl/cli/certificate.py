"""``sccl verify-certificate``, and the writing of certificates for ``sccl pareto --certify``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, err, named, out, print_json, reported
from sccl.core.files.claims import CLAIMS
from sccl.core.words import counted
from sccl.tasks.files import is_folder, paths_of
from sccl.tasks.outputs import file_digest, head

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.core.algorithm import Algorithm
    from sccl.prove.check.folder import Verdict
    from sccl.synth.frontier import Frontier
    from sccl.synth.limit.allreduce import TreeFrontier
    from sccl.synth.limit.frontier import LimitFrontier

_COLOURS = {"ok": "green", "failed": "red", "searched": "yellow", "unchecked": "yellow"}
_NOTHING = ("nothing is claimed to be optimal",)


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

    It first says what they are about. Exit code 0: all claims hold, 1: one does not, 2: bad input,
    3: some rest on two solvers' word, or would take too much work to check.
    """
    # loaded here, so that the writing of certificates loads no checker, and this no writer
    from sccl.prove.check.folder import check  # noqa: PLC0415
    from sccl.prove.check.question import read_case  # noqa: PLC0415
    from sccl.prove.check.words import classes  # noqa: PLC0415

    cases = [(folder, read_case(folder)) for folder in _folders(folders)]  # all before any verdict
    rows: list[tuple[Path, Verdict]] = []
    console = out()
    for folder, case in cases:
        if not json:
            title = [f"# {named(folder)}"] if len(cases) > 1 else []
            about = [f"class       {text}" for text in classes(case) or _NOTHING]
            for line in (*title, *case.lines(), *about):
                console.print(line, markup=False, soft_wrap=True)
        for verdict in check(case):
            rows.append((folder, verdict))
            if not json:
                _print(console, verdict)
    states = [row.state for _, row in rows]
    if json:
        questions = [
            {"folder": str(folder), **case.as_json(), "classes": classes(case)}
            for folder, case in cases
        ]
        claims = [
            {"folder": str(folder), "claim": r.claim, "state": r.state, "detail": r.detail}
            for folder, r in rows
        ]
        start = head("verify-certificate", {str(x): file_digest(x / CLAIMS) for x, _ in cases})
        every = ", ".join(str(folder) for folder, _ in cases)
        print_json(start | {"folder": every, "questions": questions, "claims": claims})
    else:
        counts = ", ".join(f"{states.count(s)} {s}" for s in _COLOURS if s in states)
        console.print(f"{counted(len(rows), 'claim')}: {counts}")
    if "failed" in states:
        raise typer.Exit(ExitCode.NO)
    raise typer.Exit(ExitCode.OK if set(states) == {"ok"} else ExitCode.UNKNOWN)


def _print(console: Console, verdict: Verdict) -> None:
    from sccl.prove.check.question import plain  # noqa: PLC0415

    colour = _COLOURS[verdict.state]
    line = f"[{colour}]{verdict.state:9}[/] {escape(verdict.claim)}: "
    console.print(line + escape(plain(verdict.detail)), soft_wrap=True)


def _folders(words: list[Path]) -> list[Path]:
    """Return the folders that are meant, each once: a list of claims stands for its folder."""
    named = paths_of(words)
    listed = {path.parent for path in named if path.name == CLAIMS}
    beside = [path for path in named if path.parent in listed and not is_folder(path)]
    chosen = [path.parent if path.name == CLAIMS else path for path in named]
    return list(dict.fromkeys(path for path in chosen if path not in beside))


def certify(
    frontier: Frontier,
    folder: Path,
    seconds: float,
    composed: Sequence[Algorithm] = (),
    *,
    quiet: bool,
) -> None:
    """Write the certificate of a frontier and say where.

    Args:
        seconds: for each proof.
        composed: of allreduce, compositions of any two halves.
    """
    from sccl.synth.ksync.certify import write_certificate  # noqa: PLC0415 - loads much

    console = err()
    with console.status("certificate") as status:
        path = write_certificate(
            frontier,
            folder,
            seconds,
            lambda text: status.update(f"certificate: {escape(text)}"),
            composed,
        )
    _say(path, folder, quiet=quiet)


def certify_limits(
    frontier: LimitFrontier,
    trees: TreeFrontier | None,
    folder: Path,
    composed: Sequence[Algorithm] = (),
    *,
    quiet: bool,
) -> None:
    """Write the certificate of a limit frontier and say where."""
    from sccl.synth.limit.certify import write_limit_certificate  # noqa: PLC0415 - loads much

    _say(write_limit_certificate(frontier, trees, folder, composed), folder, quiet=quiet)


def no_certificate(folder: Path) -> None:
    """Say that an interrupted sweep has none, and leave no empty folder."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    err().print("interrupted: no certificate is written", markup=False)


def _say(path: Path, folder: Path, *, quiet: bool) -> None:
    if not quiet:
        check = f"sccl verify-certificate {quote(str(folder))}"
        text = f"certificate: {named(path)}; check it with: {named(check)}"
        err().print(text, markup=False, soft_wrap=True)
