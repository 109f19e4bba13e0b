"""``sccl check``: the judge on files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_output, report_errors
from sccl.core.algorithm import KSynchronousPlan
from sccl.core.files.claims import CLAIMS
from sccl.core.formatting import format_count, single_line
from sccl.errors import InputError
from sccl.tasks.check import (
    CheckedForeign,
    CheckedOptions,
    CheckedPlan,
    CheckedTraining,
    are_several_files,
    check_output,
    verify_files,
    verify_foreign,
    verify_training,
)
from sccl.training.plan_files import claim_text, training_notes
from sccl.view.text.progress_notes import share_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sccl.core.outcome import Plan
    from sccl.training.validate.plan_faults import PlanFault


@report_errors
def check(
    files: options.Plans,
    *,
    costs: Annotated[
        Path | None,
        typer.Option(
            help="Table of costs of training plans ('sccl plan --costs'); times are "
            "derived from it.",
            show_default="times are not verified",
            autocompletion=options.complete_file,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Verify that algorithms, schedules, plans, and programs are correct (not: optimal).

    For a program it names each data race, deadlock, and wrong result by thread block, step, and
    chunk, for any relative speed of the thread blocks, and each rule of its runtime that it
    breaks. A training plan is executed event by event, and its options are derived again. Exit
    code 1: a violation, or a file that no runtime would run.
    """
    unread: dict[Path, InputError] = {}
    broken = unread if are_several_files(files) else None
    training, offers, rest = verify_training(files, costs, broken)
    foreign, ours = verify_foreign(rest, broken)
    judged: list[CheckedPlan] = []
    if ours:
        with share_bar(err(), "reading") as bar:
            judged = verify_files(ours, bar, lambda done, of: bar(done, of, "judging"), broken)
    if json:
        print_output(check_output(judged, foreign, training, offers))
    else:
        for result in judged:
            _print(out(), result)
        for theirs in foreign:
            _print_foreign(out(), theirs)
        for step in training:
            _print_training(out(), step)
        for offer in offers:
            _print_options(out(), offer)
        _warn_certificates(files)
    if unread:
        first, *others = unread.values()
        more = f" (and {format_count(len(others), 'file')} more cannot be read)" if others else ""
        raise type(first)(f"{first}{more}")
    wrong = any(result.violations for result in judged) or not all(
        result.is_valid for result in foreign
    )
    wrong = (
        wrong
        or any(result.faults for result in training)
        or any(result.faults for result in offers)
    )
    raise typer.Exit(ExitCode.NO if wrong else ExitCode.OK)


def _warn_certificates(places: Sequence[Path]) -> None:
    """Say of folders with certificates that their plans are executed here, and no claim is."""
    for place in places:
        if (place / CLAIMS).is_file():
            err().print(
                f"{place / CLAIMS}: claims are not looked at here; check them with: "
                f"sccl verify-certificate {place}",
                markup=False,
                soft_wrap=True,
            )


def _print_foreign(console: Console, judged: CheckedForeign) -> None:
    foreign, wrong = judged.source.content, judged.faults
    verdict = f"[red]{format_count(len(wrong), 'violation')}[/]" if wrong else "[green]valid[/]"
    if foreign.refused:
        before = f"{verdict}, and " if wrong else ""
        verdict = f"{before}[red]no runtime takes it[/]"
    title = escape(single_line(f"{judged.source.file}: {foreign.about}"))
    console.print(f"{title}: {verdict}", soft_wrap=True)
    for fault in wrong:
        console.print(f"  {fault.kind}: {single_line(fault.message)}", markup=False)
    for text in foreign.refused:
        console.print(f"  refused: {single_line(text)}", markup=False)
    for text in foreign.notes:
        console.print(f"  note: {single_line(text)}", markup=False)


def _print(console: Console, judged: CheckedPlan) -> None:
    plan, wrong = judged.loaded.plan, judged.violations
    verdict = f"[red]{format_count(len(wrong), 'violation')}[/]" if wrong else "[green]valid[/]"
    title = escape(
        single_line(f"{judged.loaded.file}: {plan.collective.name} on {plan.topology.name}")
    )
    line = f"{title}, C={plan.collective.chunks} {_costs_text(plan)}: {verdict}"
    console.print(line, soft_wrap=True)  # names of files may be long
    if not judged.loaded.intact:
        console.print("  note: edited since sccl wrote it (its digest does not match)")
    for violation in wrong:
        console.print(f"  {violation.kind}: {violation.message}", markup=False)


def _print_training(console: Console, judged: CheckedTraining) -> None:
    loaded = judged.loaded
    notes = list(training_notes(loaded))
    _print_step(
        console,
        f"{loaded.file}: {claim_text(loaded, wrong=bool(judged.faults))}",
        judged.faults,
        notes,
        intact=loaded.intact,
    )


def _print_options(console: Console, judged: CheckedOptions) -> None:
    title = f"{judged.loaded.file}: {judged.about}"
    _print_step(console, title, judged.faults, judged.notes, intact=True)


def _print_step(
    console: Console,
    title: str,
    faults: Sequence[PlanFault],
    notes: Sequence[str],
    *,
    intact: bool,
) -> None:
    verdict = f"[red]{format_count(len(faults), 'violation')}[/]" if faults else "[green]valid[/]"
    console.print(f"{escape(single_line(title))}: {verdict}", soft_wrap=True)
    if not intact:
        console.print("  note: edited since sccl wrote it (its digest does not match)")
    for fault in faults:
        console.print(f"  {fault.kind}: {single_line(fault.message)}", markup=False)
    for note in notes:
        console.print(f"  note: {single_line(note)}", markup=False)


def _costs_text(plan: Plan) -> str:
    if isinstance(plan, KSynchronousPlan):
        return f"S={plan.steps} R={plan.rounds}"
    from sccl.view.text.plan_text import cost_text  # noqa: PLC0415 - NumPy is slow to load

    return cost_text(plan)
