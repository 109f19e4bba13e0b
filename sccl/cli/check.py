"""``sccl check``: verification of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sccl.api import check as api
from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_json, print_text, report_errors
from sccl.core.files.claims import CLAIMS
from sccl.core.formatting import format_count, single_line
from sccl.view.text.progress_notes import share_bar

if TYPE_CHECKING:
    from collections.abc import Sequence


@report_errors
def check(
    files: options.Plans,
    *,
    costs: Annotated[
        Path | None,
        "Table of costs of training plans ('sccl train plan --costs'); times are derived from it.",
        "times are not verified",
        options.complete_file,
    ] = None,
    json: options.Json = False,
) -> None:
    """Verify the correctness (not the optimality) of algorithms, schedules, and programs.

    For a program it names each data race, deadlock, and wrong result by thread block, step, and
    chunk, for any relative speed of the thread blocks, and each rule of its runtime that it
    breaks. A training plan is executed event by event, and its options are derived again. Exit
    code 1: a violation, or a file that no runtime would run.
    """
    with share_bar(err(), "reading") as bar:
        report = api.check(*files, costs=costs, on_progress=bar)
    if json:
        print_json(report.to_json())
    else:
        for file in report.files:
            _print(out(), file)
        _warn_certificates(files)
    if report.unread:
        first, *others = report.unread.values()
        more = f" (and {format_count(len(others), 'file')} more cannot be read)" if others else ""
        raise type(first)(f"{first}{more}")
    raise typer.Exit(ExitCode.OK if report.valid else ExitCode.NO)


def _warn_certificates(places: Sequence[Path]) -> None:
    """Print for each certificate that its claims are not verified, only its plans."""
    for place in places:
        if (place / CLAIMS).is_file():
            print_text(
                f"{place / CLAIMS}: claims are not verified here; verify them with: "
                f"sccl certificate verify {place}",
                err(),
            )


def _print(console: Console, checked: api.CheckedFile) -> None:
    part, wrong = checked.part, checked.part.violations
    verdict = f"[red]{format_count(len(wrong), 'violation')}[/]" if wrong else "[green]valid[/]"
    if part.refused:
        before = f"{verdict}, and " if wrong else ""
        verdict = f"{before}[red]no runtime takes it[/]"
    console.print(f"{escape(single_line(checked.title))}: {verdict}", soft_wrap=True)
    if not part.digest_matches and part.format is None:
        console.print("  note: edited since sccl wrote it (its digest does not match)")
    lines = [f"{fault.kind}: {fault.message}" for fault in wrong]
    lines += [f"refused: {text}" for text in part.refused]
    lines += [f"note: {text}" for text in part.notes]
    for line in lines:
        console.print(f"  {single_line(line)}", markup=False)
