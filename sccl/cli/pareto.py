"""``sccl pareto``: the main job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.asking import QuestionOptions, asked_for
from sccl.cli.classes import print_allreduce
from sccl.cli.delivery import DeliveryOptions, Outputs, deliver
from sccl.cli.limits import limits_of
from sccl.cli.report import ExitCode, err, named, reported
from sccl.cli.searching import KeptOptions, SearchOptions, WorkersOptions, settings_of
from sccl.collectives import dual_of
from sccl.core.bounds import Priced
from sccl.core.candidate import Range
from sccl.core.cost import Costs
from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.synth.allreduce.frontier import AllreduceFrontier
from sccl.synth.frontier import Frontier, Point
from sccl.synth.settings import DEFAULT_TIMEOUT_S
from sccl.tasks.certify import certify_frontier
from sccl.tasks.pareto import find_frontier
from sccl.view.text.notes import Notes, progress_bar
from sccl.view.text.reasons import explain
from sccl.view.text.tables import print_winners
from sccl.view.words import completeness


@reported
def pareto(
    question: QuestionOptions,
    *,
    k: Annotated[
        int | None,
        typer.Option(
            help="Search R <= S + k.",
            show_default="5, or what the bandwidth bound takes in the fewest steps",
        ),
    ] = None,
    max_steps: options.MaxSteps = None,
    max_chunks: Annotated[
        int | None,
        typer.Option(
            help="Largest C to try; of allreduce only compositions are then looked at.",
            show_default="all that R and the bound allow",
        ),
    ] = None,
    search: SearchOptions,
    timeout: options.SweepTimeout = None,
    workers: WorkersOptions,
    kept: KeptOptions,
    delivery: DeliveryOptions,
    limit: Annotated[
        bool, typer.Option("--limit", help="Another name of 'sccl limits', which see.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Sweep the Pareto frontier of k-synchronous algorithms and prove its points.

    For combining collectives k applies to the S and R of the dual that is solved.
    Exit code 0: done, 2: bad input, 3: some candidate stayed undecided, 130: interrupted.
    """
    covered = Range(k, max_steps, max_chunks)
    if limit:
        _check_limits(covered, workers, kept)
        limits_of(question, max_steps, settings_of(search, timeout), delivery, json=json)
    seconds = DEFAULT_TIMEOUT_S if timeout is None else timeout
    settings = settings_of(search, seconds, kept, workers)
    topology, spec = asked_for(question)
    outputs = Outputs.checked(delivery, topology, spec, max_steps, json=json)
    with _progress(quiet=json) as notify:
        frontier = find_frontier(
            topology, spec, covered, settings, folder=outputs.folder, notify=notify
        )
    deliver(
        frontier,
        "frontier",
        outputs,
        show=_print,
        write=partial(certify_frontier, frontier, settings),
    )
    raise typer.Exit(ExitCode.UNKNOWN if frontier.open else ExitCode.OK)


def _check_limits(covered: Range, workers: WorkersOptions, kept: KeptOptions) -> None:
    """Check that nothing is given that plays no part in limits."""
    given = {
        "--k": covered.k is not None,
        "--max-chunks": covered.max_chunks is not None,
        "--jobs": workers.jobs != 1,
        "--cluster": workers.cluster is not None,
        "--store": kept.store is not None,
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
        if not quiet:
            console.print(text, markup=False)

    if not console.is_terminal:
        yield Notes(line)
        return
    with progress_bar(console) as status:
        yield Notes(line, status)


def _print(console: Console, frontier: Frontier | AllreduceFrontier, costs: Costs) -> None:
    if isinstance(frontier, AllreduceFrontier):
        print_allreduce(console, frontier, costs)
        return
    bounds = frontier.bounds
    root = "" if frontier.spec.root is None else f" (root {frontier.spec.root})"
    title = f"\n{frontier.spec.name}{root} on {frontier.topology.name}"
    console.print(title, style="bold", markup=False)
    why = explain(bounds, frontier.spec)
    console.print(f"bounds: S >= {bounds.steps}; R/C >= {bounds.bandwidth}: {why}")
    if isinstance(bounds.evidence, Priced) and not dual_of(frontier.spec).is_identity:
        console.print(f"bounds and proofs are those of its dual: {bounds.evidence.problem}")
    if frontier.points:
        console.print(_points_table(frontier.points))
        if any(point.from_store for point in frontier.points):
            console.print(
                "* what it once took: the answer is from the store (--no-store asks anew)"
            )
        print_winners(console, costs, [p.algorithm for p in frontier.points])
    _print_state(console, frontier)


def _points_table(points: tuple[Point, ...]) -> Table:
    table = Table("C", "S", "R", "R/C", "Optimal in", "State", "Seconds", "File")
    for p in points:
        c = p.candidate
        table.add_row(
            str(c.chunks),
            str(c.steps),
            str(c.rounds),
            str(c.cost),
            " and ".join(p.optimal) or "-",
            f"[{'green' if p.proved else 'yellow'}]{p.state}[/]",
            f"{p.seconds:.2f}{'*' if p.from_store else ''}",
            escape(named(p.file)) if p.file else "-",
        )
    return table


def _print_state(console: Console, frontier: Frontier) -> None:
    refuted = len(frontier.refuted)
    console.print(
        f"{counted(refuted, 'candidate')} refuted, {len(frontier.open)} open, "
        f"{frontier.seconds:.1f} s. Class: {frontier.scope}"
    )
    if frontier.stopped == "interrupted":
        console.print("[yellow]Interrupted: this is the part that was found.[/]")
    elif frontier.complete:
        state = completeness(None if frontier.every_k else frontier.covered)
        console.print(f"[green]{state.head}:[/] {state.rest}.")
    elif frontier.stopped == "max-steps":
        console.print("Not the end: more steps may give a smaller R/C (--max-steps).")
    for o in frontier.open[:10]:
        console.print(f"  open: {o.candidate} (R/C {o.candidate.cost}): {o.reason}", markup=False)
    if len(frontier.open) > 10:
        console.print(f"  ... and {len(frontier.open) - 10} more (all of them with --json)")
    if frontier.open:
        console.print(
            "An open candidate may hide a better algorithm: try a larger --timeout, or "
            "another --solver."
        )
    if frontier.points and not frontier.points[0].file:
        console.print("Algorithms were not kept: add --out DIR to write them.")
