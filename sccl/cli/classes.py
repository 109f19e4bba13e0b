"""What ``sccl pareto`` prints of allreduce: the points of all classes, and what is proved."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sccl.core.cost import Costs
from sccl.core.frontier import Frontier, Point
from sccl.core.words import counted
from sccl.synth.allreduce.frontier import AllreduceFrontier
from sccl.synth.allreduce.nouns import noun_of
from sccl.view.text.reasons import explain, explain_steps
from sccl.view.text.tables import print_winners
from sccl.view.words import class_summary, unswept_words


def print_allreduce(console: Console, found: AllreduceFrontier, costs: Costs) -> None:
    """Print the frontier over all classes."""
    bounds, frontier = found.bounds, noun_of(found)
    more = ", limits over all k and C" if frontier.covered is None else ""
    console.print(f"\n{frontier.name}{more}", style="bold", markup=False)
    console.print(
        f"bounds of every algorithm: S >= {bounds.steps}: {explain_steps(bounds, found.spec)}; "
        f"R/C >= {bounds.bandwidth}: {explain(bounds, found.spec)}"
    )
    if frontier.stairs:
        console.print(_table(frontier))
        console.print("proved: nothing of its class dominates the point")
        if any(point.from_store for point in frontier.points):
            console.print(
                "* what it once took: the answer is from the store (--no-store asks anew)"
            )
        written = [(name, p.algorithm) for name, p in frontier.stairs if p.algorithm is not None]
        print_winners(console, costs, [a for _, a in written], [name for name, _ in written])
    for one in frontier.classes:
        console.print(class_summary(one), markup=False)
    if text := unswept_words(frontier.unswept):
        console.print(text, markup=False)
    _print_open(console, frontier)


def _table(frontier: Frontier) -> Table:
    table = Table("C", "S", "R", "R/C", "Class", "Optimal in", "State", "Seconds", "File")
    for name, point in frontier.stairs:
        table.add_row(
            str(point.chunks or "-"),
            str(point.steps),
            str(point.rounds or "-"),
            _cost(point),
            name,
            " and ".join(point.optimal) or "-",
            f"[{'green' if point.proved else 'yellow'}]{_state(point, frontier)}[/]",
            f"{point.seconds or 0:.2f}{'*' if point.from_store else ''}",
            escape(str(point.file)) if point.file else "-",
        )
    return table


def _state(point: Point, frontier: Frontier) -> str:
    """Return what is known of a point; of a limit, whether it is."""
    if frontier.covered is None:
        return "proved" if point.proved else "open"
    return point.state_words


def _cost(point: Point) -> str:
    """Return R/C; of a limit also what is near it, if it is not attained."""
    if point.attained:
        return str(point.cost)
    near = point.missing or "too large to write down"
    if point.chunks is not None and point.rounds is not None:
        near = f"near it {point.rounds / point.chunks:.5g}"
    return f"{float(point.cost):.5g} ({near})"


def _print_open(console: Console, frontier: Frontier) -> None:
    seconds = f"{frontier.seconds or 0:.1f} s"
    if frontier.covered is not None:
        refuted = counted(sum(len(half.refuted) for half in frontier.halves), "candidate")
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
