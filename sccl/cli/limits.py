"""``sccl limits``: the frontier over all k and all C."""

from __future__ import annotations

from functools import partial
from typing import Annotated, NoReturn

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
from sccl.errors import ParameterError
from sccl.synth.settings import Settings
from sccl.tasks.certify import certify_limits
from sccl.tasks.limits import find_limits
from sccl.view.text.notes import limit_note

InTime = Annotated[
    bool,
    typer.Option(
        "--time",
        help="Lower bound on the completion time over all chunkings and schedules, with a "
        "schedule close to it.",
    ),
]
Size = Annotated[
    str | None,
    typer.Option(
        help="Buffer of a rank with --time: sizes and ranges in factors of 4, 64KB,1MB..1GB.",
        show_default="1KB..1GB",
    ),
]
Gap = Annotated[
    float | None,
    typer.Option(
        help="Relative optimality gap at which --time stops (0.01 = 1 %); exit code 3 if "
        "it stays larger.",
        show_default="0.01",
    ),
]


@reported
def limits(
    about: SubjectOptions,
    *,
    max_steps: options.MaxSteps = None,
    in_time: InTime = False,
    size: Size = None,
    gap: Gap = None,
    search: SearchOptions,
    timeout: options.LimitTimeout = None,
    delivery: DeliveryOptions,
    json: options.Json = False,
) -> None:
    """Compute the limit of R/C for each S, over all k and C, and algorithms that attain it.

    An allreduce has limits for each family of algorithms. With --time the command prints a lower
    bound on the completion time that holds for every schedule, and a schedule close to it. -o names
    the file or folder of schedules, --certify the folder of their certificates.

    Exit code 0: done, 2: bad input, 3: some limit is known only between bounds, or some gap is
    larger than --gap, 130: interrupted.
    """
    if in_time:
        from sccl.cli.time_limit import time_limits  # noqa: PLC0415 - few ask for it

        _refuse(
            "--time",
            {
                "--max-steps": max_steps,
                "--plot": delivery.plot,
                "--alpha-us": delivery.alpha_us,
                "--gb-per-s": delivery.gb_per_s,
            },
        )
        to = (delivery.out_dir, delivery.certify_dir)
        time_limits(about, size or "1KB..1GB", gap, timeout, to, json=json)
    _refuse("limits of R/C (add --time)", {"--size": size, "--gap": gap})
    limits_of(about, max_steps, settings_of(search, timeout), delivery, json=json)


def _refuse(what: str, given: dict[str, object]) -> None:
    """Reject options that do not apply to the request.

    Raises:
        ParameterError: one is given.
    """
    for name, value in given.items():
        if value is not None:
            raise ParameterError(f"{name} has no part in {what}: leave it out")


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
