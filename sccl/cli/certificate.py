"""``sccl verify-certificate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, on_a_line, out, print_output, reported
from sccl.core.words import counted
from sccl.prove.check.folder import Verdict, check
from sccl.prove.check.question import printable
from sccl.prove.check.words import classes
from sccl.tasks.certificates import Certified, certificate_output, certified

_COLOURS = {"ok": "green", "failed": "red", "searched": "yellow", "unchecked": "yellow"}
_NOTHING = ("nothing is claimed to be optimal",)


@reported
def verify_certificate(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER",
            help="Folders of 'sccl pareto --certify', or patterns such as 'proofs*'.",
            show_default=False,
        ),
    ],
    json: options.Json = False,
) -> None:
    """Check every claim of a certificate without a solver.

    It first prints the machine, collective, and classes of the claims. Exit code 0: all claims
    hold, 1: one does not, 2: bad input, 3: some rest on the word of two solvers or take too long
    to check.
    """
    given = certified(folders)  # all are read before any verdict
    verdicts: list[tuple[Path, Verdict]] = []
    console = out()
    for one in given:
        if not json:
            _print_question(console, one, alone=len(given) == 1)
        for verdict in check(one.case):
            verdicts.append((one.folder, verdict))
            if not json:
                _print(console, verdict)
    states = [verdict.state for _, verdict in verdicts]
    if json:
        print_output(certificate_output(given, verdicts))
    else:
        counts = ", ".join(f"{states.count(s)} {s}" for s in _COLOURS if s in states)
        console.print(f"{counted(len(verdicts), 'claim')}: {counts}")
    if "failed" in states:
        raise typer.Exit(ExitCode.NO)
    raise typer.Exit(ExitCode.OK if set(states) == {"ok"} else ExitCode.UNKNOWN)


def _print_question(console: Console, one: Certified, *, alone: bool) -> None:
    title = [] if alone else [f"# {on_a_line(one.folder)}"]
    about = [f"class       {text}" for text in classes(one.case) or _NOTHING]
    for line in (*title, *one.case.lines(), *about):
        console.print(line, markup=False, soft_wrap=True)


def _print(console: Console, verdict: Verdict) -> None:
    colour = _COLOURS[verdict.state]
    line = f"[{colour}]{verdict.state:9}[/] {escape(verdict.claim)}: "
    console.print(line + escape(printable(verdict.detail)), soft_wrap=True)
