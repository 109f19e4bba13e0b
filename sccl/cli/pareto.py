"""``sccl pareto``: the Pareto frontier of latency and bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sccl.cli import options
from sccl.cli.frontiers import OutputOptions, OutputTargets, write_outputs
from sccl.cli.report import ExitCode, err, report_errors
from sccl.cli.subject import StepProblemOptions, load_problem
from sccl.core.instance import SweepRange
from sccl.synth.allreduce.pareto_search import find_frontier
from sccl.synth.common.settings import DEFAULT_TIMEOUT_S
from sccl.synth.syncoll.search_options import (
    SearchOptions,
    StoreOptions,
    WorkerOptions,
    build_settings,
)
from sccl.view.text.progress_notes import ProgressNotes, progress_bar

if TYPE_CHECKING:
    from sccl.synth.allreduce.certify import WrittenCertificate


@report_errors
def pareto(
    problem_options: StepProblemOptions,
    *,
    covered: SweepRange,
    search: SearchOptions,
    timeout: options.SweepTimeout = None,
    workers: WorkerOptions,
    storage: StoreOptions,
    output_options: OutputOptions,
    json: options.Json = False,
) -> None:
    """Find the Pareto frontier of steps (latency) and R/C (bandwidth), with proofs.

    An algorithm sends C chunks per rank in S steps and R rounds. In a round each lane carries one
    chunk, so R/C is the bandwidth cost. The sweep covers algorithms with R <= S + k. A point that
    attains a lower bound is proved for every k. A reduce is the reversal of a broadcast, a
    reducescatter that of an allgather, and an allreduce has two halves: k applies to each of these.

    Exit code 0: done, 2: bad input, 3: some candidate stayed open, 130: interrupted.
    """
    seconds = DEFAULT_TIMEOUT_S if timeout is None else timeout
    settings = build_settings(search, seconds, storage, workers)
    subject = load_problem(problem_options)
    outputs = OutputTargets.from_options(output_options, subject, covered.max_steps, json=json)
    with _progress(quiet=json) as notify:
        frontier = find_frontier(
            subject.topology, subject.spec, covered, settings, folder=outputs.folder, notify=notify
        )

    def certify(folder: Path, report: Callable[[str], None]) -> WrittenCertificate:
        from sccl.synth.allreduce.certify import certify_frontier  # noqa: PLC0415 - few ask for a certificate

        return certify_frontier(subject, frontier, settings, folder, report)

    write_outputs(frontier, outputs, write=certify)
    raise typer.Exit(ExitCode.UNKNOWN if frontier.open else ExitCode.OK)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[ProgressNotes]:
    console = err()

    def line(text: str) -> None:
        """Print a line, unless only JSON is printed."""
        if not quiet:
            console.print(text, markup=False)

    if not console.is_terminal:
        yield ProgressNotes(line)
        return
    with progress_bar(console) as status:
        yield ProgressNotes(line, status)
