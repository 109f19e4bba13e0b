"""The output of ``sccl pareto`` and ``sccl limits``: points, their proofs, and open candidates."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sccl.cli.report import on_a_line
from sccl.collectives import Spec, dual_of
from sccl.core.bounds import Priced
from sccl.core.frontier import Frontier, Point
from sccl.core.limit import StepLimit
from sccl.core.words import counted
from sccl.view.text.reasons import explain, explain_steps
from sccl.view.text.tables import print_winners
from sccl.view.words import (
    EVERY_WORDS,
    above_words,
    class_summary,
    completeness,
    origin_notes,
    unswept_words,
)

_MOST_OPEN = 10
_MISSING = {
    "": "too large to write down",
    "timeout": "not sought: time ran out, see --timeout",
    "interrupted": "not sought: interrupted",
}


def print_frontier(console: Console, frontier: Frontier, spec: Spec) -> None:
    """Print a frontier, and the state of its proof.

    Args:
        frontier: with the costs by which points are compared.
        spec: its collective.
    """
    root = "" if frontier.root is None else f" (root {frontier.root})"
    more = ", limits over all k and C" if frontier.covered is None else ""
    title = f"\n{frontier.collective}{root} on {frontier.topology}{more}"
    console.print(title, style="bold", markup=False)
    if frontier.several:
        _print_classes(console, frontier, spec)
    elif frontier.covered is None:
        _print_limits(console, frontier, spec)
    else:
        _print_sweep(console, frontier, spec)


# --- one class, as a sweep or as its limits ------------------------------------------------------


def _print_sweep(console: Console, frontier: Frontier, spec: Spec) -> None:
    _print_bounds(console, frontier, spec)
    if frontier.points:
        console.print(_points_table(frontier.points))
        _print_fastest(console, frontier)
    refuted = counted(len(frontier.refuted), "candidate")
    console.print(
        f"{refuted} refuted, {len(frontier.open)} open, {frontier.seconds:.1f} s. "
        f"Class: {frontier.scope}"
    )
    if frontier.stopped == "interrupted":
        console.print("[yellow]Interrupted: these are partial results.[/]")
    elif frontier.complete:
        state = completeness(frontier.classes[0].within)
        console.print(f"[green]{state.head}:[/] {state.rest}.")
    elif frontier.stopped == "max-steps":
        console.print("Not the end: more steps may give a smaller R/C (--max-steps).")
    _print_open(console, frontier)


def _print_bounds(console: Console, frontier: Frontier, spec: Spec) -> None:
    bounds = frontier.bounds
    assert bounds is not None
    why = explain(bounds, spec)
    console.print(f"bounds: S >= {bounds.steps}; R/C >= {bounds.bandwidth}: {why}")
    swept, proof = frontier.covered is not None, bounds.evidence
    if swept and isinstance(proof, Priced) and not dual_of(spec).is_identity:
        console.print(f"bounds and proofs are those of its dual: {proof.problem}")


def _points_table(points: tuple[Point, ...]) -> Table:
    table = Table("C", "S", "R", "R/C", "Optimal in", "State", "Seconds", "File")
    for p in points:
        table.add_row(
            str(p.chunks),
            str(p.steps),
            str(p.rounds),
            str(p.cost),
            " and ".join(p.optimal) or "-",
            f"[{'green' if p.proved else 'yellow'}]{p.state_words}[/]",
            _seconds(p),
            _file(p),
        )
    return table


def _print_limits(console: Console, frontier: Frontier, spec: Spec) -> None:
    _print_bounds(console, frontier, spec)
    console.print(_limits_table(frontier))
    _print_fastest(console, frontier)
    console.print(f"{frontier.seconds:.1f} s. Class: {frontier.scope}, any k, any C")
    if frontier.stopped == "interrupted":
        console.print("[yellow]Interrupted: these are partial results.[/]")
    elif frontier.complete:
        console.print("[green]Complete:[/] no other S gives a smaller R/C, with any k and any C.")
    elif frontier.stopped == "max-steps":
        console.print("Not the end: more steps may give a smaller R/C (--max-steps).")
    _print_open(console, frontier)


def _limits_table(frontier: Frontier) -> Table:
    table = Table("S", "Limit of R/C", "State", "Attained by", "Optimal in", "Seconds", "File")
    limits = {limit.steps: limit for limit in frontier.classes[0].limits}
    for point in frontier.points:
        table.add_row(
            str(point.steps),
            _value(limits[point.steps]),
            "[green]proved[/]" if point.proved else "[yellow]open[/]",
            _attained(point),
            " and ".join(point.optimal) or "-",
            _seconds(point),
            _file(point),
        )
    return table


def _value(limit: StepLimit) -> str:
    if limit.known:
        whole = limit.lower.denominator == 1
        return str(limit.lower) if whole else f"{limit.lower} = {float(limit.lower):.4g}"
    return f"{float(limit.lower):.5g} to {float(limit.best):.5g}"


def _attained(point: Point) -> str:
    a = point.algorithm
    if a is None:
        return _MISSING[point.missing]
    costs = f"C={a.collective.chunks} R={a.rounds}"
    return costs if point.attained else f"none; near it {costs} (R/C {float(a.bandwidth_cost):.5g})"


# --- several classes -----------------------------------------------------------------------------


def _print_classes(console: Console, frontier: Frontier, spec: Spec) -> None:
    bounds = frontier.bounds
    assert bounds is not None
    console.print(
        f"bounds of every algorithm: S >= {bounds.steps}: {explain_steps(bounds, spec)}; "
        f"R/C >= {bounds.bandwidth}: {explain(bounds, spec)}"
    )
    if frontier.stairs:
        console.print(_classes_table(frontier))
        console.print("proved: no algorithm of its class dominates the point")
        if frontier.every:
            console.print(EVERY_WORDS, soft_wrap=True)
        _print_fastest(console, frontier)
    for one in frontier.classes:
        console.print(class_summary(one), markup=False)
    if text := unswept_words(frontier.unswept):
        console.print(text, markup=False)
    seconds = f"{frontier.seconds:.1f} s"
    if frontier.covered is not None:
        refuted = counted(sum(len(half.refuted) for half in frontier.halves), "candidate")
        seconds = f"{refuted} of halves refuted, {len(frontier.open)} open, {seconds}"
    console.print(seconds)
    if frontier.stopped == "interrupted":
        console.print("[yellow]Interrupted: these are partial results.[/]")
    _print_open(console, frontier)


def _classes_table(frontier: Frontier) -> Table:
    table = Table(
        "C", "S", "R", "R/C", "Class", "Above all", "Optimal in", "State", "Seconds", "File"
    )
    for name, point in frontier.stairs:
        table.add_row(
            str(point.chunks or "-"),
            str(point.steps),
            str(point.rounds or "-"),
            _cost(point),
            name,
            above_words(frontier.above_every(point)),
            " and ".join(point.optimal) or "-",
            f"[{'green' if point.proved else 'yellow'}]{_state(point, frontier)}[/]",
            _seconds(point),
            _file(point),
        )
    return table


def _state(point: Point, frontier: Frontier) -> str:
    """Return the state of a point's proof. For a limit, whether it is attained."""
    if frontier.covered is None:
        return "proved" if point.proved else "open"
    return point.state_words


def _cost(point: Point) -> str:
    """Return R/C. For a limit that is not attained also the nearest attained value."""
    if point.attained:
        return str(point.cost)
    near = _MISSING[point.missing]
    if point.chunks is not None:
        near = f"near it {float(point.candidate.cost):.5g}"
    return f"{float(point.cost):.5g} ({near})"


# --- of all --------------------------------------------------------------------------------------


def _seconds(point: Point) -> str:
    return f"{point.seconds:.2f}{'*' if point.from_store else ''}"


def _file(point: Point) -> str:
    if point.attained and point.algorithm is None:
        return _MISSING[""]
    return escape(on_a_line(point.file)) if point.file else "-"


def _print_fastest(console: Console, frontier: Frontier) -> None:
    """Print which points' algorithms are the fastest at which sizes, after a word on the store."""
    if any(point.from_store for point in frontier.points):
        console.print("* seconds of the first run; from the store (--no-store solves it again)")
    found = [(name, p.candidate) for name, p in frontier.stairs if p.chunks is not None]
    if found:
        assert frontier.costs is not None
        names = [name for name, _ in found] if frontier.several else ()
        print_winners(console, frontier.costs, [each for _, each in found], names)


def _print_open(console: Console, frontier: Frontier) -> None:
    """Print the undecided candidates, and where algorithms are if they were not saved."""
    for one in frontier.open[:_MOST_OPEN]:
        console.print(
            f"  open: {one.candidate} (R/C {one.candidate.cost}): {one.reason}", markup=False
        )
    if len(frontier.open) > _MOST_OPEN:
        more = len(frontier.open) - _MOST_OPEN
        console.print(f"  ... and {more} more (all of them with --json)")
    for note in origin_notes(frontier):
        console.print(note, markup=False, soft_wrap=True)
    if any(one.origin is None for one in frontier.open):
        console.print(
            "An open candidate may hide a better algorithm: try a larger --timeout, or "
            "another --solver."
        )
    if any(point.algorithm and not point.file for point in frontier.points):
        console.print("Algorithms were not kept: add --out DIR to write them.")
