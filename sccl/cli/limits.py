"""``sccl limits``: the frontier over all k and all C."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.asking import QuestionOptions, asked_for
from sccl.cli.classes import print_allreduce
from sccl.cli.delivery import DeliveryOptions, Outputs, deliver
from sccl.cli.report import ExitCode, err, reported
from sccl.cli.searching import SearchOptions, settings_of
from sccl.core.cost import Costs
from sccl.core.limit import StepLimit
from sccl.synth.allreduce.frontier import AllreduceFrontier
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint
from sccl.synth.settings import Settings
from sccl.tasks.certify import certify_limits
from sccl.tasks.limits import find_limits
from sccl.view.text.notes import limit_note
from sccl.view.text.reasons import explain
from sccl.view.text.tables import print_winners

_MISSING = {
    "": "too large to write down",
    "timeout": "not sought: time ran out (--timeout)",
    "interrupted": "not sought: interrupted",
}


@reported
def limits(
    question: QuestionOptions,
    *,
    max_steps: options.MaxSteps = None,
    search: SearchOptions,
    timeout: options.LimitTimeout = None,
    delivery: DeliveryOptions,
    json: options.Json = False,
) -> None:
    """The frontier over all k and all C: for every S the infimum of R/C, and what attains it.

    Of allreduce, for every class of algorithms.
    Exit code 0: done, 2: bad input, 3: some limit is known only between bounds, 130: interrupted.
    """
    limits_of(question, max_steps, settings_of(search, timeout), delivery, json=json)


def limits_of(
    question: QuestionOptions,
    max_steps: int | None,
    settings: Settings,
    delivery: DeliveryOptions,
    *,
    json: bool,
) -> NoReturn:
    """Compute, print and write the limit frontier, and exit."""
    topology, spec = asked_for(question)
    outputs = Outputs.checked(delivery, topology, spec, max_steps, json=json)
    console = err()
    with console.status(escape(f"limits of {spec.name} on {topology.name}")):
        notify = (lambda _: None) if json else partial(_note, console)
        found = find_limits(
            topology, spec, max_steps, settings, folder=outputs.folder, notify=notify
        )
    deliver(
        found,
        "limits",
        outputs,
        show=_print,
        write=lambda folder, _: certify_limits(found, max_steps, settings, folder),
    )
    parts = found.classes if isinstance(found, AllreduceFrontier) else (found,)
    known = all(limit.known for one in parts for limit in one.limits)
    raise typer.Exit(ExitCode.OK if known else ExitCode.UNKNOWN)


def _note(console: Console, event: StepLimit | LimitPoint) -> None:
    if text := limit_note(event):
        console.print(text)


def _print(console: Console, frontier: LimitFrontier | AllreduceFrontier, costs: Costs) -> None:
    if isinstance(frontier, AllreduceFrontier):
        print_allreduce(console, frontier, costs)
        return
    bounds = frontier.bounds
    root = "" if frontier.spec.root is None else f" (root {frontier.spec.root})"
    title = f"\n{frontier.spec.name}{root} on {frontier.topology.name}, limits over all k and C"
    console.print(title, style="bold", markup=False)
    console.print(
        f"bounds: S >= {bounds.steps}; R/C >= {bounds.bandwidth}: {explain(bounds, frontier.spec)}"
    )
    _print_points(console, costs, frontier.points)
    console.print(f"{frontier.seconds:.1f} s. Class: {frontier.scope}, any k, any C")
    if frontier.stopped == "interrupted":
        console.print("[yellow]Interrupted: this is the part that was found.[/]")
    elif frontier.complete:
        console.print("[green]Complete:[/] no other S gives a smaller R/C, with any k and any C.")
    elif frontier.stopped == "max-steps":
        console.print("Not the end: more steps may give a smaller R/C (--max-steps).")


def _print_points(console: Console, costs: Costs, points: tuple[LimitPoint, ...]) -> None:
    table = Table("S", "Limit of R/C", "State", "Attained by", "Optimal in", "Seconds", "File")
    for point in points:
        table.add_row(
            str(point.limit.steps),
            _value(point.limit),
            "[green]proved[/]" if point.proved else "[yellow]open[/]",
            _attained(point),
            " and ".join(point.optimal) or "-",
            f"{point.seconds:.2f}",
            escape(point.file) if point.file else "-",
        )
    console.print(table)
    found = [p.algorithm for p in points if p.algorithm is not None]
    if found:
        print_winners(console, costs, found)


def _value(limit: StepLimit) -> str:
    if limit.lower == limit.upper:
        whole = limit.lower.denominator == 1
        return str(limit.lower) if whole else f"{limit.lower} = {float(limit.lower):.4g}"
    return f"{float(limit.lower):.5g} to {float(limit.upper):.5g}"


def _attained(point: LimitPoint) -> str:
    a = point.algorithm
    if a is None:
        return _MISSING[point.stopped]
    costs = f"C={a.collective.chunks} R={a.rounds}"
    if point.attains:
        return costs
    return f"none; near it {costs} (R/C {float(a.bandwidth_cost):.5g})"
