"""``sccl limits``: the frontier over all k and all C."""

from __future__ import annotations

from functools import partial
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from sccl.cli import options
from sccl.cli.frontiers import OutputOptions, OutputTargets, write_outputs
from sccl.cli.report import ExitCode, err, report_errors
from sccl.cli.subject import ProblemOptions, load_problem
from sccl.core.frontier import Point
from sccl.core.step_limit import StepLimit
from sccl.errors import ParameterError
from sccl.synth.allreduce.certify import certify_limits
from sccl.synth.allreduce.limit_search import find_limits
from sccl.synth.common.settings import Settings
from sccl.synth.syncoll.search_options import SearchOptions, build_settings
from sccl.view.text.progress_notes import limit_note

InTime = Annotated[
    bool,
    typer.Option(
        "--time",
        help="Lower bound on the completion time for any chunking and any schedule, with a "
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


@report_errors
def limits(
    about: ProblemOptions,
    *,
    max_steps: options.MaxSteps = None,
    in_time: InTime = False,
    size: Size = None,
    gap: Gap = None,
    search: SearchOptions,
    timeout: options.LimitTimeout = None,
    delivery: OutputOptions,
    json: options.Json = False,
) -> None:
    """Compute the lowest R/C for each number of steps, and algorithms that reach it.

    An allreduce has limits for each family of algorithms. With --time the command prints a lower
    bound on the completion time that holds for every schedule, and a schedule close to it. -o names
    the file or folder of schedules, --certify the folder of their certificates.

    Exit code 0: done, 2: bad input, 3: some limit is known only between bounds, or some gap is
    larger than --gap, 130: interrupted.
    """
    if in_time:
        from sccl.cli.time_limit import run_time_limits  # noqa: PLC0415 - few ask for it

        _reject_options(
            "--time",
            {
                "--max-steps": max_steps,
                "--plot": delivery.plot,
                "--alpha-us": delivery.alpha_us,
                "--gb-per-s": delivery.gb_per_s,
            },
        )
        to = (delivery.out_dir, delivery.certify_dir)
        run_time_limits(about, size or "1KB..1GB", gap, timeout, to, json=json)
    _reject_options("limits of R/C (add --time)", {"--size": size, "--gap": gap})
    run_limits(about, max_steps, build_settings(search, timeout), delivery, json=json)


def _reject_options(subject: str, arguments: dict[str, object]) -> None:
    """Reject options that do not apply to the request.

    Raises:
        ParameterError: one is given.
    """
    for name, value in arguments.items():
        if value is not None:
            raise ParameterError(f"{name} has no part in {subject}: leave it out")


def run_limits(
    about: ProblemOptions,
    max_steps: int | None,
    settings: Settings,
    delivery: OutputOptions,
    *,
    json: bool,
) -> NoReturn:
    """Compute, print and write the limit frontier, and exit."""
    subject = load_problem(about)
    topology, spec = subject.topology, subject.spec
    outputs = OutputTargets.from_options(delivery, subject, max_steps, json=json)
    console = err()
    with console.status(escape(f"limits of {spec.name} on {topology.name}")):
        notify = (lambda _: None) if json else partial(_print_note, console)
        frontier = find_limits(
            topology, spec, max_steps, settings, folder=outputs.folder, notify=notify
        )
    certify = partial(certify_limits, subject, frontier, max_steps, settings)
    write_outputs(frontier, outputs, write=lambda path, _: certify(path))
    is_settled = all(limit.is_exact for part in frontier.classes for limit in part.limits)
    raise typer.Exit(ExitCode.OK if is_settled else ExitCode.UNKNOWN)


def _print_note(console: Console, event: StepLimit | Point) -> None:
    if text := limit_note(event):
        console.print(text)
