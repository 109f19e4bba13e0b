"""``sccl certificate verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sccl.api.certificates import Certificate, certificates_to_json, load_certificates
from sccl.cli import options
from sccl.cli.report import ExitCode, out, print_json, report_errors
from sccl.core.formatting import format_count, printable, single_line

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
    sources = load_certificates(folders)  # all are read before any verdict
    certificates, console = list[Certificate](), out()
    for source in sources:
        if not json:
            title = [f"# {single_line(source.folder)}"] if len(sources) > 1 else []
            about = [f"class       {text}" for text in source.classes or _NO_CLAIMS]
            for line in (*title, *source.question, *about):
                console.print(line, markup=False, soft_wrap=True)
        claims = []
        for verdict in source.verdicts():
            claims.append(verdict)
            if not json:
                line = f"[{_COLORS[verdict.state]}]{verdict.state:9}[/] {escape(verdict.claim)}: "
                console.print(line + escape(printable(verdict.detail)), soft_wrap=True)
        certificates.append(Certificate(source, tuple(claims)))
    states = [claim.state for certificate in certificates for claim in certificate.claims]
    if json:
        print_json(certificates_to_json(certificates))
    else:
        counts = ", ".join(f"{states.count(s)} {s}" for s in _COLORS if s in states)
        console.print(f"{format_count(len(states), 'claim')}: {counts}")
    if "failed" in states:
        raise typer.Exit(ExitCode.NO)
    raise typer.Exit(ExitCode.OK if set(states) == {"ok"} else ExitCode.UNKNOWN)
