"""``sccl check``: the judge on files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, err, on_a_line, out, print_output, reported
from sccl.core.algorithm import KSynchronous
from sccl.core.cost import bytes_text, us_text
from sccl.core.words import counted
from sccl.tasks.check import Judged, check_output, judge_files
from sccl.view.text.notes import share_bar

if TYPE_CHECKING:
    from sccl.core.outcome import Plan
    from sccl.core.packed import AnySchedule


@reported
def check(
    files: options.Plans,
    json: options.Json = False,
) -> None:
    """Re-execute algorithms and schedules, list every violation. Exit code 1 if there is one."""
    with share_bar(err(), "reading") as bar:
        judged = judge_files(files, bar, lambda done, of: bar(done, of, "judging"))
    if json:
        print_output(check_output(judged))
    else:
        for one in judged:
            _print(out(), one)
    raise typer.Exit(ExitCode.NO if any(one.violations for one in judged) else ExitCode.OK)


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


def _costs(plan: Plan) -> str:
    """Return what a plan takes, in words."""
    if isinstance(plan, KSynchronous):
        return f"S={plan.steps} R={plan.rounds}"
    return (
        f"of {_bytes(plan)}, {counted(plan.num_sends, 'transfer')}, "
        f"{us_text(plan.clock.us(plan.finish))} (alpha {plan.model})"
    )


def _bytes(schedule: AnySchedule) -> str:
    """Return how large chunks are."""
    sizes = schedule.clock.sizes
    return " to ".join(map(bytes_text, sorted({sizes[0], sizes[-1]})))
