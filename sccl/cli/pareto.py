"""``sccl pareto``: the main job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import typer

from sccl.cli import options
from sccl.cli.delivery import DeliveryOptions, Outputs, deliver
from sccl.cli.limits import limits_of
from sccl.cli.report import ExitCode, err, reported
from sccl.cli.searching import KeptOptions, SearchOptions, WorkersOptions, settings_of
from sccl.cli.subject import SubjectOptions, subject_from
from sccl.core.candidate import Range
from sccl.errors import ParameterError
from sccl.synth.settings import DEFAULT_TIMEOUT_S
from sccl.tasks.certify import certify_frontier
from sccl.tasks.pareto import find_frontier
from sccl.view.text.notes import Notes, progress_bar


@reported
def pareto(
    about: SubjectOptions,
    *,
    k: Annotated[
        int | None,
        typer.Option(
            help="Largest number of extra rounds: R <= S + k.",
            show_default="5, or more if the bandwidth bound needs more",
        ),
    ] = None,
    max_steps: options.MaxSteps = None,
    max_chunks: Annotated[
        int | None,
        typer.Option(
            help="Largest C; for allreduce, restricts the sweep to compositions.",
            show_default="all that R and the bound allow",
        ),
    ] = None,
    search: SearchOptions,
    timeout: options.SweepTimeout = None,
    workers: WorkersOptions,
    kept: KeptOptions,
    delivery: DeliveryOptions,
    limit: Annotated[bool, typer.Option("--limit", help="Alias of 'sccl limits'.")] = False,
    json: options.Json = False,
) -> None:
    """Sweep the Pareto frontier of k-synchronous algorithms and prove its points.

    For reductions, k applies to the S and R of the dual collective that is solved.

    Exit code 0: done, 2: bad input, 3: some candidate stayed undecided, 130: interrupted.
    """
    covered = Range(k, max_steps, max_chunks)
    if limit:
        _check_limits(covered, workers, kept)
        settings = settings_of(search, timeout, workers=workers)
        limits_of(about, max_steps, settings, delivery, json=json)
    seconds = DEFAULT_TIMEOUT_S if timeout is None else timeout
    settings = settings_of(search, seconds, kept, workers)
    subject = subject_from(about)
    outputs = Outputs.checked(delivery, subject, max_steps, json=json)
    with _progress(quiet=json) as notify:
        frontier = find_frontier(
            subject.topology, subject.spec, covered, settings, folder=outputs.folder, notify=notify
        )
    deliver(frontier, outputs, write=partial(certify_frontier, subject, frontier, settings))
    raise typer.Exit(ExitCode.UNKNOWN if frontier.open else ExitCode.OK)


def _check_limits(covered: Range, workers: WorkersOptions, kept: KeptOptions) -> None:
    """Check that nothing is given that plays no part in limits."""
    given = {
        "--k": covered.k is not None,
        "--max-chunks": covered.max_chunks is not None,
        "--jobs": workers.jobs != 1,
        "--cluster": workers.cluster is not None,
        "--trust-cluster": workers.trust_cluster,
        "--store": kept.store is not None,
        "--trust-store": kept.trust_store,
    }
    if any(given.values()):
        raise ParameterError(
            "--limit is about all k and all C, in this process: leave "
            f"{', '.join(name for name, there in given.items() if there)} out"
        )


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Notes]:
    console = err()

    def line(text: str) -> None:
        """Print a line, unless none are wanted."""
        if not quiet:
            console.print(text, markup=False)

    if not console.is_terminal:
        yield Notes(line)
        return
    with progress_bar(console) as status:
        yield Notes(line, status)
