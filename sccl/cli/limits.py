"""``sccl limits``: the frontier over all k and all C."""

from __future__ import annotations

from functools import partial

import typer
from rich.console import Console
from rich.markup import escape

from sccl.cli import options
from sccl.cli.frontiers import OutputOptions, OutputTargets, write_outputs
from sccl.cli.report import ExitCode, err, report_errors
from sccl.cli.subject import StepProblemOptions, load_problem
from sccl.core.frontier import Point
from sccl.core.step_limit import StepLimit
from sccl.synth.allreduce.certify import certify_limits
from sccl.synth.allreduce.limit_search import find_limits
from sccl.synth.syncoll.search_options import SearchOptions, build_settings
from sccl.view.text.progress_notes import limit_note


@report_errors
def limits(
    problem_options: StepProblemOptions,
    *,
    max_steps: options.MaxSteps = None,
    search: SearchOptions,
    timeout: options.LimitTimeout = None,
    output_options: OutputOptions,
    json: options.Json = False,
) -> None:
    """Compute the lowest R/C for each number of steps, and algorithms that reach it.

    An allreduce has limits for each family of algorithms.

    Exit code 0: done, 2: bad input, 3: some limit is known only between bounds, 130: interrupted.
    """
    settings = build_settings(search, timeout)
    subject = load_problem(problem_options)
    topology, spec = subject.topology, subject.spec
    outputs = OutputTargets.from_options(output_options, subject, max_steps, json=json)
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
