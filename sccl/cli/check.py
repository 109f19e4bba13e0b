"""``sccl check``: the judge on files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sccl.cli import complete, options
from sccl.cli.report import ExitCode, err, on_a_line, out, print_output, reported
from sccl.core.algorithm import KSynchronous
from sccl.core.files.claims import CLAIMS
from sccl.core.words import counted
from sccl.errors import InputError
from sccl.tasks.check import (
    Judged,
    JudgedOptions,
    JudgedStrange,
    JudgedTraining,
    check_output,
    judge_files,
    judge_steps,
    judge_strange,
    names_several,
)
from sccl.tasks.training_files import notes_on_training, told_training
from sccl.view.text.notes import share_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sccl.core.outcome import Plan
    from sccl.train.verdict import PlanFault


@reported
def check(
    files: options.Plans,
    *,
    costs: Annotated[
        Path | None,
        typer.Option(
            help="Table of costs of training plans ('sccl plan --costs'); times are "
            "derived from it.",
            show_default="times are not verified",
            autocompletion=complete.file,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Verify algorithms, schedules, plans, and other tools' programs, and list each violation.

    For a program it names each data race, deadlock, and wrong result by thread block, step, and
    chunk, for any relative speed of the thread blocks, and each rule of its runtime that it
    breaks. A training plan is executed event by event, and its options are derived again. Exit
    code 1: a violation, or a file that no runtime would run.
    """
    unread: dict[Path, InputError] = {}
    broken = unread if names_several(files) else None
    training, offers, rest = judge_steps(files, costs, broken)
    strange, ours = judge_strange(rest, broken)
    judged: list[Judged] = []
    if ours:
        with share_bar(err(), "reading") as bar:
            judged = judge_files(ours, bar, lambda done, of: bar(done, of, "judging"), broken)
    if json:
        print_output(check_output(judged, strange, training, offers))
    else:
        for one in judged:
            _print(out(), one)
        for theirs in strange:
            _print_strange(out(), theirs)
        for step in training:
            _print_training(out(), step)
        for given in offers:
            _print_options(out(), given)
        _tell_certificates(files)
    if unread:
        first, *others = unread.values()
        more = f" (and {counted(len(others), 'file')} more cannot be read)" if others else ""
        raise type(first)(f"{first}{more}")
    wrong = any(one.violations for one in judged) or not all(one.passes for one in strange)
    wrong = wrong or any(one.faults for one in training) or any(one.faults for one in offers)
    raise typer.Exit(ExitCode.NO if wrong else ExitCode.OK)


def _tell_certificates(places: Sequence[Path]) -> None:
    """Say of folders with certificates that their plans are executed here, and no claim is."""
    for place in places:
        if (place / CLAIMS).is_file():
            err().print(
                f"{place / CLAIMS}: claims are not looked at here; check them with: "
                f"sccl verify-certificate {place}",
                markup=False,
                soft_wrap=True,
            )


def _print_strange(console: Console, judged: JudgedStrange) -> None:
    foreign, wrong = judged.strange.foreign, judged.faults
    verdict = f"[red]{counted(len(wrong), 'violation')}[/]" if wrong else "[green]valid[/]"
    if foreign.refused:
        before = f"{verdict}, and " if wrong else ""
        verdict = f"{before}[red]no runtime takes it[/]"
    title = escape(on_a_line(f"{judged.strange.file}: {foreign.about}"))
    console.print(f"{title}: {verdict}", soft_wrap=True)
    for fault in wrong:
        console.print(f"  {fault.kind}: {on_a_line(fault.message)}", markup=False)
    for text in foreign.refused:
        console.print(f"  refused: {on_a_line(text)}", markup=False)
    for text in foreign.notes:
        console.print(f"  note: {on_a_line(text)}", markup=False)


def _print(console: Console, judged: Judged) -> None:
    plan, wrong = judged.loaded.plan, judged.violations
    verdict = f"[red]{counted(len(wrong), 'violation')}[/]" if wrong else "[green]valid[/]"
    title = escape(
        on_a_line(f"{judged.loaded.file}: {plan.collective.name} on {plan.topology.name}")
    )
    line = f"{title}, C={plan.collective.chunks} {_costs(plan)}: {verdict}"
    console.print(line, soft_wrap=True)  # names of files may be long
    if not judged.loaded.intact:
        console.print("  note: edited since sccl wrote it (its digest does not match)")
    for violation in wrong:
        console.print(f"  {violation.kind}: {violation.message}", markup=False)


def _print_training(console: Console, judged: JudgedTraining) -> None:
    one = judged.loaded
    notes = list(notes_on_training(one))
    _print_step(
        console,
        f"{one.file}: {told_training(one, wrong=bool(judged.faults))}",
        judged.faults,
        notes,
        intact=one.intact,
    )


def _print_options(console: Console, judged: JudgedOptions) -> None:
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
    verdict = f"[red]{counted(len(faults), 'violation')}[/]" if faults else "[green]valid[/]"
    console.print(f"{escape(on_a_line(title))}: {verdict}", soft_wrap=True)
    if not intact:
        console.print("  note: edited since sccl wrote it (its digest does not match)")
    for fault in faults:
        console.print(f"  {fault.kind}: {on_a_line(fault.message)}", markup=False)
    for note in notes:
        console.print(f"  note: {on_a_line(note)}", markup=False)


def _costs(plan: Plan) -> str:
    """Return the costs of a plan as text."""
    if isinstance(plan, KSynchronous):
        return f"S={plan.steps} R={plan.rounds}"
    from sccl.view.text.schedule import costs_of  # noqa: PLC0415 - NumPy is slow to load

    return costs_of(plan)
