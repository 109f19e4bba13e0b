"""``sccl limits``: the frontier over all k and all C."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from sccl.cli import options
from sccl.cli.delivery import DeliveryOptions, Outputs, deliver
from sccl.cli.report import ExitCode, err, reported
from sccl.cli.searching import SearchOptions, settings_of
from sccl.cli.subject import SubjectOptions, subject_from
from sccl.core.frontier import Point
from sccl.core.limit import StepLimit
from sccl.synth.settings import Settings
from sccl.tasks.certify import certify_limits
from sccl.tasks.limits import find_limits
from sccl.view.text.notes import limit_note


@reported
def limits(
    about: SubjectOptions,
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
    limits_of(about, max_steps, settings_of(search, timeout), delivery, json=json)


def limits_of(
    about: SubjectOptions,
    max_steps: int | None,
    settings: Settings,
    delivery: DeliveryOptions,
    *,
    json: bool,
) -> NoReturn:
    """Compute, print and write the limit frontier, and exit."""
    subject = subject_from(about)
    topology, spec = subject.topology, subject.spec
    outputs = Outputs.checked(delivery, subject, max_steps, json=json)
    console = err()
    with console.status(escape(f"limits of {spec.name} on {topology.name}")):
        notify = (lambda _: None) if json else partial(_note, console)
        found = find_limits(
            topology, spec, max_steps, settings, folder=outputs.folder, notify=notify
        )
    certify = partial(certify_limits, subject, found, max_steps, settings)
    deliver(found, outputs, write=lambda path, _: certify(path))
    known = all(limit.known for one in found.classes for limit in one.limits)
    raise typer.Exit(ExitCode.OK if known else ExitCode.UNKNOWN)


def _note(console: Console, event: StepLimit | Point) -> None:
    if text := limit_note(event):
        console.print(text)
