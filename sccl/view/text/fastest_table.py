"""Tables that several verbs print."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from sccl.core.candidate import Candidate
from sccl.core.cost import Costs, fastest_by_size, format_bytes


def print_fastest(
    console: Console,
    costs: Costs,
    candidates: Sequence[Candidate],
    classes: Sequence[str] = (),
) -> None:
    """Print at which buffer sizes which candidate's algorithm is the fastest.

    Args:
        classes: the class of each, where there are several.
    """
    console.print(
        f"Fastest by buffer size (alpha {costs.alpha_us:g} us per step, {costs.gb_per_s:g} GB/s "
        "per lane; buffer = C chunks):"
    )
    if costs.note:
        console.print(f"  {costs.note}", soft_wrap=True)
    for won in fastest_by_size([(each.steps, each.cost) for each in candidates], costs):
        until = "and more" if won.to_bytes is None else f"to {format_bytes(won.to_bytes)}"
        which = str(candidates[won.index])
        which += f", {classes[won.index]}" if classes else ""
        console.print(f"  {format_bytes(won.from_bytes)} {until}: {which}")
