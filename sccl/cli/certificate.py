"""``sccl certificate verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sccl.api.certificates import (
    LoadedCertificate,
    certificate_output,
    load_certificates,
)
from sccl.cli import options
from sccl.cli.report import ExitCode, out, print_output, report_errors
from sccl.core.formatting import format_count, single_line
from sccl.prove.check.case import printable
from sccl.prove.check.certificate import Verdict, check_case
from sccl.prove.check.messages import class_texts

_COLORS = {"ok": "green", "failed": "red", "searched": "yellow", "unchecked": "yellow"}
_NO_CLAIMS = ("no claim of optimality",)


@report_errors
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
    """Verify the proofs of a certificate, such as proofs of optimality, without a solver.

    It first prints the machine, collective, and classes of the claims. Exit code 0: all claims
    hold, 1: one does not, 2: bad input, 3: some rest on the agreement of two solvers or take too
    long to check.
    """
    certificates = load_certificates(folders)  # all are read before any verdict
    verdicts: list[tuple[Path, Verdict]] = []
    console = out()
    for certificate in certificates:
        if not json:
            _print_question(console, certificate, is_only=len(certificates) == 1)
        for verdict in check_case(certificate.case):
            verdicts.append((certificate.folder, verdict))
            if not json:
                _print(console, verdict)
    states = [verdict.state for _, verdict in verdicts]
    if json:
        print_output(certificate_output(certificates, verdicts))
    else:
        counts = ", ".join(f"{states.count(s)} {s}" for s in _COLORS if s in states)
        console.print(f"{format_count(len(verdicts), 'claim')}: {counts}")
    if "failed" in states:
        raise typer.Exit(ExitCode.NO)
    raise typer.Exit(ExitCode.OK if set(states) == {"ok"} else ExitCode.UNKNOWN)


def _print_question(console: Console, certificate: LoadedCertificate, *, is_only: bool) -> None:
    title = [] if is_only else [f"# {single_line(certificate.folder)}"]
    about = [f"class       {text}" for text in class_texts(certificate.case) or _NO_CLAIMS]
    for line in (*title, *certificate.case.description_lines(), *about):
        console.print(line, markup=False, soft_wrap=True)


def _print(console: Console, verdict: Verdict) -> None:
    color = _COLORS[verdict.state]
    line = f"[{color}]{verdict.state:9}[/] {escape(verdict.claim)}: "
    console.print(line + escape(printable(verdict.detail)), soft_wrap=True)
