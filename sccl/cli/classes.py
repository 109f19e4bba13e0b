"""What ``sccl pareto`` prints of allreduce: the points of all classes, and what is proved."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sccl.core.cost import Costs
from sccl.core.words import counted
from sccl.synth.allreduce.classes import cost_of
from sccl.synth.allreduce.every_class import AllreduceFrontier
from sccl.synth.frontier import Point
from sccl.synth.limit.frontier import LimitPoint
from sccl.view.text.classes import class_summary, unswept_words
from sccl.view.text.reasons import explain_any, explain_any_steps
from sccl.view.text.tables import print_winners


def print_allreduce(console: Console, frontier: AllreduceFrontier, costs: Costs) -> None:
    """Print the frontier over all classes."""
    bounds, limits = frontier.bounds, frontier.covered is None
    more = ", limits over all k and C" if limits else ""
    title = f"\n{frontier.spec.name} on {frontier.topology.name}{more}"
    console.print(title, style="bold", markup=False)
    console.print(
        f"bounds of every algorithm: S >= {bounds.steps}: {explain_any_steps(bounds)}; "
        f"R/C >= {bounds.bandwidth}: {explain_any(bounds)}"
    )
    if frontier.stairs:
        console.print(_table(frontier))
        console.print("proved: nothing of its class dominates the point")
        found = [(name, p.algorithm) for name, p in frontier.stairs if p.algorithm is not None]
        if any(isinstance(p, Point) and p.from_store for p in frontier.points):
            console.print(
                "* what it once took: the answer is from the store (--no-store asks anew)"
            )
        print_winners(console, costs, [a for _, a in found], [name for name, _ in found])
    for one in frontier.classes:
        console.print(class_summary(one), markup=False)
    if text := unswept_words(frontier.unswept):
        console.print(text, markup=False)
    _print_open(console, frontier)


def _table(frontier: AllreduceFrontier) -> Table:
    table = Table("C", "S", "R", "R/C", "Class", "Optimal in", "State", "Seconds", "File")
    for name, point in frontier.stairs:
        a = point.algorithm
        kept = isinstance(point, Point) and point.from_store
        table.add_row(
            str(a.collective.chunks) if a else "-",
            str(cost_of(point)[0]),
            str(a.rounds) if a else "-",
            _cost(point),
            name,
            " and ".join(point.optimal) or "-",
            f"[{'green' if point.proved else 'yellow'}]{_state(point)}[/]",
            f"{point.seconds:.2f}{'*' if kept else ''}",
            escape(str(point.file)) if point.file else "-",
        )
    return table


def _state(point: Point | LimitPoint) -> str:
    if isinstance(point, Point):
        return point.state
    return "proved" if point.proved else "open"


def _cost(point: Point | LimitPoint) -> str:
    """Return R/C; of a limit also what is near it, if it is not attained."""
    _, cost = cost_of(point)
    if isinstance(point, Point) or point.attains:
        return str(cost)
    a = point.algorithm
    near = (
        f"near it {float(a.bandwidth_cost):.5g}"
        if a
        else (point.stopped or "too large to write down")
    )
    return f"{float(cost):.5g} ({near})"


def _print_open(console: Console, frontier: AllreduceFrontier) -> None:
    seconds = f"{frontier.seconds:.1f} s"
    if frontier.covered is not None:
        refuted = counted(frontier.refuted, "candidate")
        seconds = f"{refuted} of halves refuted, {len(frontier.open)} open, {seconds}"
    console.print(seconds)
    if frontier.stopped == "interrupted":
        console.print("[yellow]Interrupted: this is the part that was found.[/]")
    for one in frontier.open[:10]:
        console.print(
            f"  open: {one.candidate} (R/C {one.candidate.cost}): {one.reason}", markup=False
        )
    if len(frontier.open) > 10:
        console.print(f"  ... and {len(frontier.open) - 10} more (all of them with --json)")
    if frontier.open:
        console.print(
            "An open candidate may hide a better algorithm: try a larger --timeout, or "
            "another --solver."
        )
    if frontier.points and not any(point.file for point in frontier.points):
        console.print("Algorithms were not kept: add --out DIR to write them.")
