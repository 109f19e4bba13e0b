"""``sccl pareto``: the main job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.asking import asked_for
from sccl.cli.certificate import certify, no_certificate
from sccl.cli.classes import print_allreduce
from sccl.cli.limits import Outputs, limits_of
from sccl.cli.plot import picture
from sccl.cli.report import ExitCode, err, named, out, print_json, reported
from sccl.cli.signals import exit_code
from sccl.core.candidate import Range
from sccl.core.cost import Costs
from sccl.core.files.disk import check_can_create
from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.synth.allreduce.every_class import AllreduceFrontier
from sccl.synth.allreduce.plain import plain_of
from sccl.synth.claims import open_folder
from sccl.synth.cluster import Cluster
from sccl.synth.folder import Folder
from sccl.synth.frontier import Frontier, Point, completeness
from sccl.synth.ksync import backends
from sccl.synth.settings import DEFAULT_TIMEOUT_S, Settings, checked_effort
from sccl.tasks.find import equal_halves, find_frontier, require_certifiable
from sccl.tasks.outputs import head, question_digests
from sccl.view import check_picture
from sccl.view.text.notes import Notes, progress_bar
from sccl.view.text.reasons import explain
from sccl.view.text.tables import print_winners


@reported
def pareto(
    collective: options.Collective,
    topo: options.Topo,
    root: options.Root = None,
    k: Annotated[
        int | None,
        typer.Option(
            help="Search R <= S + k.",
            show_default="5, or what the bandwidth bound takes in the fewest steps",
        ),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option(
            help="Last S to try.",
            show_default="3 above the latency bound; of allreduce, 3 above that of each half",
        ),
    ] = None,
    max_chunks: Annotated[
        int | None,
        typer.Option(
            help="Largest C to try; of allreduce only compositions are then looked at.",
            show_default="all that R and the bound allow",
        ),
    ] = None,
    solver: options.Solver = backends.DEFAULT,
    timeout: options.LimitTimeout = None,
    seed: options.Seed = 0,
    symmetry: options.Symmetry = "auto",
    limit: Annotated[
        bool,
        typer.Option(
            "--limit",
            help="The frontier over all k and all C: for every S the infimum of R/C, and an "
            "algorithm that attains it. --timeout is then the time for each S, without end if it "
            "is not given.",
        ),
    ] = False,
    jobs: options.Jobs = 1,
    cluster: options.ClusterAddress = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    store: options.Store = None,
    no_store: options.NoStore = False,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Folder for the algorithms found.")
    ] = None,
    certify_dir: Annotated[
        Path | None,
        typer.Option(
            "--certify",
            help="Folder for proofs of all claims, for 'sccl verify-certificate'; of allreduce, of "
            "those about compositions, and with --limit about trees.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Picture of the frontier and of the times by buffer size: .html, .svg, .png, .pdf "
            "(more charts: 'sccl plot').",
        ),
    ] = None,
    alpha_us: options.AlphaUs = None,
    gb_per_s: options.GbPerS = None,
    json: options.Json = False,
) -> None:
    """Sweep the Pareto frontier of k-synchronous algorithms and prove its points.

    For combining collectives k applies to the S and R of the dual that is solved.
    Exit code 0: done, 2: bad input, 3: some candidate stayed undecided, 130: interrupted.
    """
    if plot:
        check_picture(plot)
    backends.check_name(solver)
    if timeout is None and not limit:
        timeout = DEFAULT_TIMEOUT_S
    effort = checked_effort(timeout, seed)
    if limit:
        _fits_limits(k=k, max_chunks=max_chunks, jobs=jobs - 1, cluster=cluster, store=store)
    covered = Range(k, max_steps, max_chunks)
    topology, spec = asked_for(collective, topo, root)
    costs = Costs.of(topology, alpha_us, gb_per_s)
    folder = Folder(out_dir) if out_dir else None
    if out_dir:
        check_can_create(out_dir)
    where = _cluster(cluster, tls_ca, tls_cert, tls_key)
    if certify_dir:
        require_certifiable(topology, spec, max_steps)
        open_folder(certify_dir, topology, spec)
    settings = Settings(solver, effort, symmetry, jobs, where, store, no_store)
    outputs = Outputs(folder, plot, certify_dir, costs, json)
    if limit:
        limits_of(topology, spec, max_steps, settings, outputs)
    with _progress(quiet=json) as notify:
        frontier = find_frontier(topology, spec, covered, settings, folder=folder, notify=notify)
    _deliver(frontier, settings, outputs)


def _deliver(
    frontier: Frontier | AllreduceFrontier, settings: Settings, outputs: Outputs
) -> NoReturn:
    """Write and print what was found, and exit."""
    interrupted, json = frontier.stopped == "interrupted", outputs.json
    if outputs.certificate and not interrupted:
        _certify(frontier, settings, outputs.certificate, quiet=json)
    start = head("frontier", question_digests(frontier.topology, frontier.spec))
    plain = start | plain_of(frontier) | asdict(outputs.costs)
    if outputs.folder:
        outputs.folder.save_frontier(plain, "frontier")
    if json:
        print_json(plain)
    elif isinstance(frontier, AllreduceFrontier):
        print_allreduce(out(), frontier, outputs.costs)
    else:
        _print(out(), frontier, outputs.costs)
    if outputs.plot:
        picture(plain, outputs.plot, quiet=json)
    if interrupted:
        if outputs.certificate:
            no_certificate(outputs.certificate)
        raise typer.Exit(exit_code())
    raise typer.Exit(ExitCode.UNKNOWN if frontier.open else ExitCode.OK)


def _certify(
    frontier: Frontier | AllreduceFrontier, settings: Settings, folder: Path, *, quiet: bool
) -> None:
    """Certify a frontier; of allreduce, that of compositions of equal halves."""
    equal = frontier
    if isinstance(frontier, AllreduceFrontier):
        equal = equal_halves(frontier, settings)
    assert isinstance(equal, Frontier)
    composed = frontier.compositions if isinstance(frontier, AllreduceFrontier) else ()
    seconds = settings.effort.timeout_s or DEFAULT_TIMEOUT_S
    certify(equal, folder, seconds, composed, quiet=quiet)
    if equal is not frontier and not quiet:
        any_two = "; of any two halves what their limits prove; no other class"
        err().print(f"certified: {equal.scope}{any_two}", soft_wrap=True)


def _fits_limits(**given: object) -> None:
    named = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if given["k"] == 0:
        named.insert(0, "--k")
    if named:
        raise ParameterError(
            f"--limit is about all k and all C, in this process: leave {', '.join(named)} out"
        )


def _cluster(address: str | None, *tls: Path | None) -> Cluster | None:
    if any(tls) and not address:
        raise ParameterError("TLS files are given, but no --cluster that they are for")
    return Cluster(address, *tls) if address else None


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


def _print(console: Console, frontier: Frontier, costs: Costs) -> None:
    bounds = frontier.bounds
    root = "" if frontier.spec.root is None else f" (root {frontier.spec.root})"
    title = f"\n{frontier.spec.name}{root} on {frontier.topology.name}"
    console.print(title, style="bold", markup=False)
    console.print(f"bounds: S >= {bounds.steps}; R/C >= {bounds.bandwidth}: {explain(bounds)}")
    if not bounds.dual.is_identity:
        console.print(f"bounds and proofs are those of its dual: {bounds.problem}")
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
        head, why = completeness("" if frontier.every_k else frontier.covered.words).split(":")
        console.print(f"[green]{head}:[/]{why}")
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
