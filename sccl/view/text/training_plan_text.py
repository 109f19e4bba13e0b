"""Print training plans in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from sccl.core.cost import format_bytes, format_duration
from sccl.core.formatting import format_gap, single_line
from sccl.training.plan_summary import ShownTrainingPart, model_notes

if TYPE_CHECKING:
    from rich.console import Console


_MAX_OPS_AHEAD = 12
"""Names in a line."""


def print_training_plan(console: Console, shown: ShownTrainingPart) -> None:
    """Print a training plan in numbers."""
    title = f"{shown.workload} on {shown.fabric}, by {shown.search} (seed {shown.seed})"
    console.print(single_line(title), markup=False, soft_wrap=True)
    if not shown.digest_matches:
        console.print("edited since sccl wrote it (its digest does not match)")
    bound_text = "no bound is known"
    if shown.proved and shown.bound_us:
        bound_text = "proved optimal for these options"
    elif shown.gap is not None:
        gap = f"gap {format_gap(shown.gap)}" if shown.gap else "met"
        bound_text = f"lower bound {format_duration(shown.bound_us)} ({shown.binding}), {gap}"
    if shown.costs:
        bound_text += "; not verified: times come from a table of costs ('sccl check --costs')"
    first = f"the first two in {format_duration(shown.two_iterations_us)}"
    line = f"{format_duration(shown.period_us)} per iteration, {first}; {bound_text}"
    console.print(single_line(line), markup=False, soft_wrap=True)
    if shown.prologue_us:
        more = "more" if shown.prologue_us > 0 else "less"
        longer = f"{format_duration(abs(shown.prologue_us))} {more} than as many that repeat"
        console.print(f"until iterations repeat, they take {longer} in all", markup=False)
    for line in model_notes(shown):
        console.print(single_line(line), markup=False, soft_wrap=True)
    table = Table("Collective", "Recipe", title="Options", title_justify="left")
    for name in ("ranks", "bytes", "operations", "motifs", "alone"):
        table.add_column(name, justify="right")
    table.add_column("carried by")
    for option in shown.options:
        counts = map(str, (option.operations, option.motifs))
        by = f"{', '.join(option.channels)}: {', '.join(option.carriers)}"
        table.add_row(
            *(escape(single_line(text)) for text in (option.collective, option.recipe)),
            *(
                str(option.group_ranks),
                format_bytes(option.bytes),
                *counts,
                format_duration(option.us),
            ),
            escape(single_line(by)),
        )
    console.print(table)
    lanes = Table("Stream or channel", title="In an iteration", title_justify="left")
    lanes.add_column("busy", justify="right")
    lanes.add_column("of the period", justify="right")
    for lane in shown.lanes:
        lanes.add_row(
            escape(single_line(lane.name)), format_duration(lane.busy_us), f"{lane.share:.0%}"
        )
    console.print(lanes)
    if shown.ahead:
        names = ", ".join(shown.ahead[:_MAX_OPS_AHEAD]) + (
            ", ..." if len(shown.ahead) > _MAX_OPS_AHEAD else ""
        )
        console.print(single_line(f"done ahead of their iteration: {names}"), markup=False)
