"""Print training plans, options of their collectives, workloads, and fabrics as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from sccl.core.cost import format_bytes, format_duration, format_us
from sccl.core.formatting import format_count, format_gap, join_first, single_line
from sccl.core.topology import link_name
from sccl.training.offered_options import OptionGroup, group_options
from sccl.training.plan_summary import ShownTrainingPart, model_notes
from sccl.training.types.fabric import Channel, Fabric, SharedBudget
from sccl.training.types.training_plan import FULL_LOAD

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.training.types.training_plan import OfferedOptions, Option
    from sccl.training.workload_outputs import WorkloadPart

_MAX_OPS_AHEAD = 12
"""Maximum number of operation names in a line."""


def print_training_plan(console: Console, shown: ShownTrainingPart) -> None:
    """Print the period of a training plan, its lower bound, its options, and the busy times."""
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
        names = join_first(shown.ahead, _MAX_OPS_AHEAD)
        console.print(single_line(f"done ahead of their iteration: {names}"), markup=False)


_MAX_OPTION_NAMES = 3
"""Maximum number of names, or of links, in a line. The option --json prints all."""


def print_training_options(console: Console, offered: OfferedOptions) -> None:
    """Print a table of options, and the rejected options, for each kind of collective."""
    title = f"{offered.workload.name} on {offered.fabric.name}: options of collectives"
    console.print(single_line(title), markup=False, soft_wrap=True)
    if offered.costs:
        console.print("not verified: times come from a table of costs", markup=False)
    for kind in group_options(offered):
        console.print(_options_table(kind))
        for refusal in kind.refused:
            line = f"refused: {refusal.recipe}: {refusal.why}"
            console.print(single_line(line), markup=False, soft_wrap=True)


def _options_table(kind: OptionGroup) -> Table:
    names = join_first(kind.names, _MAX_OPTION_NAMES)
    title = (
        f"{kind.collective} of {format_bytes(kind.bytes)} among {kind.group_ranks} ranks: "
        f"{format_count(len(kind.names), 'operation')} ({names})"
    )
    table = Table("Recipe", title=escape(single_line(title)), title_justify="left")
    for name in ("motifs", "alone"):
        table.add_column(name, justify="right")
    for name in ("carried by", "takes of links meanwhile", "order of sums"):
        table.add_column(name)
    for option in kind.options:
        channels = ", ".join(dict.fromkeys(motif.channel for motif in option.motifs))
        carriers = ", ".join(dict.fromkeys(motif.carrier for motif in option.motifs))
        table.add_row(
            escape(single_line(option.recipe)),
            *(str(len(option.motifs)), format_duration(option.isolated_ns / 1000)),
            escape(single_line(f"{channels}: {carriers}")),
            escape(single_line(_load_text(option))),
            "as it is" if option.bitwise else "another",
        )
    return table


def _load_text(option: Option) -> str:
    """Return the average load of links by an option while it runs, highest first, as text."""
    total = FULL_LOAD * max(1, option.isolated_ns)
    rows = sorted(option.work.items(), key=lambda row: (-row[1], row[0]))
    texts = [f"{work / total:.0%} of {name}" for name, work in rows]
    return join_first(texts, _MAX_OPTION_NAMES)


MAX_SHOWN = 16
"""Maximum number of lines of each kind. The option --json prints all."""


def print_workload(console: Console, part: WorkloadPart) -> None:
    """Print the collectives, computation, roles and dependencies of a workload."""
    traced = "" if part.iteration_us is None else f", {format_us(part.iteration_us)} per iteration"
    if part.left_out_us:
        traced += f", {format_us(part.left_out_us)} of which devices were idle and is left out"
    of = f" ({part.source})" if part.source else ""
    line = f"{part.name}: {format_count(part.ranks, 'rank')}{traced}{of}"
    console.print(single_line(line), markup=False, soft_wrap=True)
    console.print(_collectives_table(part))
    if part.computation:
        console.print(_computation_table(part))
    for role in part.roles[:MAX_SHOWN]:
        activity = f"{role.submits} submits, {role.waits} waits"
        if role.waits_across:
            activity += f", {role.waits_across} of them for the iteration before"
        line = f"role {role.name}: {format_count(role.ranks, 'rank')}, {activity}"
        if not role.submits and not role.waits:
            line = f"role {role.name}: {format_count(role.ranks, 'rank')}, calls unknown"
        console.print(single_line(line), markup=False, soft_wrap=True)
    console.print(f"{part.dependencies} dependencies, {len(part.across)} across iterations")
    for dep in part.across[:MAX_SHOWN]:
        line = (
            f"  {dep.after} waits for {dep.before} of {format_count(dep.lag, 'iteration')} before"
        )
        console.print(single_line(line), markup=False, soft_wrap=True)
    if max(len(part.across), len(part.roles)) > MAX_SHOWN:
        console.print("and more (--json has all)")


def _collectives_table(part: WorkloadPart) -> Table:
    table = Table("Collective", title="Collectives", title_justify="left")
    for name in ("operations", "ranks", "groups", "bytes of all", "least", "most", "uneven"):
        table.add_column(name, justify="right")
    for collective in part.collectives:
        counts = collective.operations, collective.group_ranks, collective.groups
        sizes = map(format_bytes, (collective.bytes, collective.least_bytes, collective.most_bytes))
        table.add_row(
            collective.collective, *map(str, counts), *sizes, str(collective.uneven or "")
        )
    return table


def _computation_table(part: WorkloadPart) -> Table:
    table = Table("Role", "Stream", title="Computation", title_justify="left")
    for name in ("operations", "time"):
        table.add_column(name, justify="right")
    for row in part.computation[:MAX_SHOWN]:
        names = escape(single_line(row.role)), escape(single_line(row.stream))
        table.add_row(*names, str(row.operations), format_us(row.us))
    if len(part.computation) > MAX_SHOWN:
        table.add_row("...", f"{len(part.computation) - MAX_SHOWN} more (--json has all)", "", "")
    return table


_MAX_BUDGET_LINKS = 8


def channels_table(loaded_fabric: Fabric) -> Table:
    """Return the channels of a fabric as a table."""
    title = escape(
        f"{single_line(loaded_fabric.name)}: {format_count(loaded_fabric.ranks, 'rank')}"
    )
    table = Table("Channel", "Links", "us", "GB/s", title=title, title_justify="left")
    for column in ("Streams", "Launch, us", "Slows computing by"):
        table.add_column(column)
    for c in loaded_fabric.channels:
        slower = f"{c.slowdown:.1%}" if c.slowdown else "-"
        row = (str(c.streams), f"{c.launch_us:g}", slower)
        table.add_row(escape(single_line(c.name)), *_link_cells(c), *row)
    return table


def _link_cells(channel: Channel) -> tuple[str, str, str]:
    """Return the number of links, and the ranges of their latencies and bandwidths."""
    links = channel.topology.links
    ranges = [
        sorted({link.alpha_us for link in links}),
        sorted({link.lanes * link.gb_per_s for link in links}),
    ]
    spans = [f"{r[0]:g}" if len(r) == 1 else f"{r[0]:g} to {r[-1]:g}" for r in ranges]
    return str(len(links)), spans[0], spans[1]


def budget_text(budget: SharedBudget) -> str:
    """Return the name, bandwidth, and links of a budget that channels share, as text."""
    links = ", ".join(
        f"{name} {link_name(edge)}" for name, edge in budget.links[:_MAX_BUDGET_LINKS]
    )
    more = ", .." if len(budget.links) > _MAX_BUDGET_LINKS else ""
    return single_line(f"{budget.name}: {budget.gb_per_s:g} GB/s for {links}{more}")
