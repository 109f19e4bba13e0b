"""Print frontiers: points, their proofs, and open candidates."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sccl.collectives import Spec, dual_of
from sccl.core.bound import PriceProof
from sccl.core.cost import fastest_by_size, format_bytes
from sccl.core.formatting import format_count, single_line
from sccl.core.frontier import Frontier, LimitPoint, Point, SweepFrontier, format_optimal
from sccl.core.step_limit import StepLimit
from sccl.core.stop import StopKind
from sccl.view.completeness import (
    ABOVE_ALL_TEXT,
    above_all_text,
    class_summary,
    completeness,
    origin_notes,
    unswept_text,
)
from sccl.view.text.reasons import explain_bandwidth, explain_steps

_MAX_OPEN = 10

_TOO_LARGE = "too large to write down"

_NOT_SOUGHT = {
    StopKind.TIMEOUT: "not sought: time ran out, see --timeout",
    StopKind.INTERRUPTED: "not sought: interrupted",
}


def print_frontier(console: Console, frontier: Frontier, spec: Spec) -> None:
    """Print a frontier, and how far it is proved."""
    root = "" if frontier.root is None else f" (root {frontier.root})"
    more = "" if isinstance(frontier, SweepFrontier) else ", limits over all k and C"
    title = f"\n{frontier.collective}{root} on {frontier.topology}{more}"
    console.print(title, style="bold", markup=False)
    if frontier.is_multiclass:
        _print_classes(console, frontier, spec)
    elif isinstance(frontier, SweepFrontier):
        _print_sweep(console, frontier, spec)
    else:
        _print_limits(console, frontier, spec)


def _print_sweep(console: Console, frontier: SweepFrontier, spec: Spec) -> None:
    _print_bounds(console, frontier, spec)
    if frontier.points:
        console.print(_points_table(frontier.points))
        _print_fastest(console, frontier)
    refuted = format_count(len(frontier.refuted), "candidate")
    by = _refuting_methods(frontier)
    console.print(
        f"{refuted} refuted{by}, {len(frontier.open)} open, {frontier.seconds:.1f} s. "
        f"Searched: {frontier.scope} (R <= S + {frontier.covered.k})"
    )
    state = completeness(frontier.classes[0].within)
    _print_state(console, frontier, f"[green]{state.head}:[/] {state.rest}.")


def _print_state(console: Console, frontier: Frontier, complete: str) -> None:
    """Print whether a frontier of one class is complete, and its open candidates."""
    if frontier.is_interrupted:
        console.print("[yellow]Interrupted: these are partial results.[/]")
    elif frontier.is_complete:
        console.print(complete)
    elif frontier.stop_reason.kind is StopKind.MAX_STEPS:
        console.print("Not the end: more steps may give a smaller R/C (--max-steps).")
    _print_open(console, frontier)


def _refuting_methods(frontier: Frontier) -> str:
    """Return the methods that refuted candidates, the most frequent first, as text."""
    methods = Counter(entry.refuted_by for entry in frontier.refuted if entry.refuted_by)
    named = ", ".join(f"{count} by {method}" for method, count in methods.most_common())
    return f" ({named})" if named else ""


def _print_bounds(console: Console, frontier: Frontier, spec: Spec) -> None:
    bounds = frontier.bounds
    assert bounds is not None
    why = explain_bandwidth(bounds, spec)
    console.print(f"bounds: S >= {bounds.steps}; R/C >= {bounds.bandwidth}: {why}")
    swept, proof = isinstance(frontier, SweepFrontier), bounds.evidence
    if swept and isinstance(proof, PriceProof) and not dual_of(spec).is_identity:
        console.print(f"bounds and proofs were computed for the dual collective: {proof.problem}")


def _points_table(points: tuple[Point, ...]) -> Table:
    table = Table("C", "S", "R", "R/C", "Optimal in", "State", "Found by", "Seconds", "File")
    for p in points:
        table.add_row(
            str(p.chunks),
            str(p.steps),
            str(p.rounds),
            str(p.cost),
            format_optimal(p.optimal) or "-",
            f"[{'green' if p.is_proved else 'yellow'}]{p.state_text}[/]",
            escape(p.found_by or "-"),
            _seconds_text(p),
            _file_text(p),
        )
    return table


def _print_limits(console: Console, frontier: Frontier, spec: Spec) -> None:
    _print_bounds(console, frontier, spec)
    console.print(_limits_table(frontier))
    _print_fastest(console, frontier)
    console.print(f"{frontier.seconds:.1f} s. Searched: {frontier.scope}, any k, any C")
    complete = "[green]Complete:[/] no other S gives a smaller R/C, with any k and any C."
    _print_state(console, frontier, complete)


def _limits_table(frontier: Frontier) -> Table:
    table = Table(
        "S", "Limit of R/C", "State", "Attained by", "Optimal in", "Found by", "Seconds", "File"
    )
    limits = {limit.steps: limit for limit in frontier.classes[0].limits}
    for point in frontier.points:
        table.add_row(
            str(point.steps),
            _limit_text(limits[point.steps]),
            "[green]proved[/]" if point.is_proved else "[yellow]best found[/]",
            _attained_text(point),
            format_optimal(point.optimal) or "-",
            escape(point.found_by or "-"),
            _seconds_text(point),
            _file_text(point),
        )
    return table


def _limit_text(limit: StepLimit) -> str:
    if limit.is_exact:
        is_integral = limit.lower.denominator == 1
        return str(limit.lower) if is_integral else f"{limit.lower} = {float(limit.lower):.4g}"
    return f"{float(limit.lower):.5g} to {float(limit.required_upper):.5g}"


def _attained_text(point: Point) -> str:
    a = point.algorithm
    if a is None:
        return _missing_text(point)
    costs = f"C={a.collective.chunks} R={a.rounds}"
    return (
        costs if point.is_attained else f"none; near it {costs} (R/C {float(a.bandwidth_cost):.5g})"
    )


def _print_classes(console: Console, frontier: Frontier, spec: Spec) -> None:
    bounds = frontier.bounds
    assert bounds is not None
    console.print(
        f"bounds of every algorithm: S >= {bounds.steps}: {explain_steps(bounds, spec)}; "
        f"R/C >= {bounds.bandwidth}: {explain_bandwidth(bounds, spec)}"
    )
    if frontier.non_dominated:
        console.print(_classes_table(frontier))
        console.print("proved: no algorithm of its family dominates the point")
        if frontier.any_class_limits:
            console.print(ABOVE_ALL_TEXT, soft_wrap=True)
        _print_fastest(console, frontier)
    for part in frontier.classes:
        console.print(class_summary(part), markup=False)
    if text := unswept_text(frontier.skipped):
        console.print(text, markup=False)
    seconds = f"{frontier.seconds:.1f} s"
    if isinstance(frontier, SweepFrontier):
        refuted = format_count(sum(len(half.refuted) for half in frontier.halves), "candidate")
        seconds = f"{refuted} of halves refuted, {len(frontier.open)} open, {seconds}"
    console.print(seconds)
    if frontier.is_interrupted:
        console.print("[yellow]Interrupted: these are partial results.[/]")
    _print_open(console, frontier)


def _classes_table(frontier: Frontier) -> Table:
    table = Table(
        *("C", "S", "R", "R/C", "Family", "Above all", "Optimal in", "State", "Found by"),
        *("Seconds", "File"),
    )
    for name, point in frontier.non_dominated:
        table.add_row(
            str(point.chunks or "-"),
            str(point.steps),
            str(point.rounds or "-"),
            _cost_text(point),
            name,
            above_all_text(frontier.gap_to_any_class(point)),
            format_optimal(point.optimal) or "-",
            f"[{'green' if point.is_proved else 'yellow'}]{_state_text(point, frontier)}[/]",
            escape(point.found_by or "-"),
            _seconds_text(point),
            _file_text(point),
        )
    return table


def _state_text(point: Point, frontier: Frontier) -> str:
    """Return the state of a point's proof. For a limit, whether it is attained."""
    if isinstance(frontier, SweepFrontier):
        return point.state_text
    return "proved" if point.is_proved else "best found"


def _missing_text(point: Point) -> str:
    """Return the reason why a point has no algorithm."""
    kind = point.missing_reason.kind if isinstance(point, LimitPoint) else StopKind.TOO_LARGE
    return _NOT_SOUGHT.get(kind, _TOO_LARGE)


def _cost_text(point: Point) -> str:
    """Return R/C. For a limit that is not attained, add the nearest attained value."""
    if point.is_attained:
        return str(point.cost)
    near = _missing_text(point)
    if point.chunks is not None:
        near = f"near it {float(point.candidate.cost):.5g}"
    return f"{float(point.cost):.5g} ({near})"


def _seconds_text(point: Point) -> str:
    return f"{point.seconds:.2f}{'*' if point.from_store else ''}"


def _file_text(point: Point) -> str:
    if point.is_attained and point.algorithm is None:
        return _TOO_LARGE
    return escape(single_line(point.file)) if point.file else "-"


def _print_fastest(console: Console, frontier: Frontier) -> None:
    """Print a note on the store, and the fastest algorithm for each range of buffer sizes."""
    if any(point.from_store for point in frontier.points):
        console.print(
            "* seconds of the first run; from the store (set SCCL_NO_STORE=1 to solve it again)"
        )
    candidates = [(name, p.candidate) for name, p in frontier.non_dominated if p.chunks is not None]
    if not candidates:
        return
    costs = frontier.costs
    assert costs is not None
    console.print(
        f"Fastest by buffer size (alpha {costs.alpha_us:g} us per step, {costs.gb_per_s:g} GB/s "
        "per lane; buffer = C chunks):"
    )
    if costs.note:
        console.print(f"  {costs.note}", soft_wrap=True)
    for won in fastest_by_size([(each.steps, each.cost) for _, each in candidates], costs):
        until = "and more" if won.to_bytes is None else f"to {format_bytes(won.to_bytes)}"
        name, candidate = candidates[won.index]
        which = f"{candidate}, {name}" if frontier.is_multiclass else str(candidate)
        console.print(f"  {format_bytes(won.from_bytes)} {until}: {which}")


def _print_open(console: Console, frontier: Frontier) -> None:
    """Print the open candidates, notes on origins, and a hint if algorithms were not written."""
    for entry in frontier.open[:_MAX_OPEN]:
        console.print(
            f"  open: {entry.candidate} (R/C {entry.candidate.cost}): {entry.reason}", markup=False
        )
    if len(frontier.open) > _MAX_OPEN:
        more = len(frontier.open) - _MAX_OPEN
        console.print(f"  ... and {more} more (all of them with --json)")
    for note in origin_notes(frontier):
        console.print(note, markup=False, soft_wrap=True)
    if any(entry.origin is None for entry in frontier.open):
        console.print(
            "An open candidate may hide a better algorithm: try a larger --timeout, or "
            "another --solver."
        )
    if any(point.algorithm and not point.file for point in frontier.points):
        console.print("Algorithms were not written: add --output DIR.")
