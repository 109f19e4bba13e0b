"""Print algorithms, machines, and schedules as text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from sccl.core.algorithm import Algorithm
from sccl.core.cost import format_bytes, format_us
from sccl.core.formatting import format_count, single_line
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import ASCENDING, BusIds, Switch, Topology
from sccl.errors import InputError
from sccl.judge import describe_send, violations
from sccl.topo.machine_model import machine_model
from sccl.topo.measures import measure_topology
from sccl.topo.symmetry.expansion import expand_algorithm

if TYPE_CHECKING:
    from sccl.core.packed_schedule import AnySchedule


def print_algorithm(console: Console, algorithm: AnyAlgorithm, *, intact: bool) -> None:
    """Print the sends, the topology matrix and the link utilization of an algorithm.

    Args:
        intact: whether the file is unchanged since sccl wrote it. If not, its claims are not
            printed.
    """
    a = expand_algorithm(algorithm)
    name = single_line(f"{a.collective.name} on {a.topology.name}")
    console.print(
        f"{name}: C={a.collective.chunks} S={a.steps} R={a.rounds}, R/C={a.bandwidth_cost}",
        style="bold",
        markup=False,
    )
    if wrong := len(violations(a)):
        console.print(
            f"[red]it fails verification: {format_count(wrong, 'violation')}[/], see 'sccl check'"
        )
    elif a.proved and intact:
        console.print(f"proved optimal: {', '.join(a.proved)}; class: {a.scope}", markup=False)
    elif a.proved:
        console.print("edited after sccl wrote it: its claims are not shown")
    if not a.topology.has_uniform_lanes:
        console.print("its links differ in speed: in a round each carries one chunk for each lane")
    for send in a.sends:
        console.print(describe_send(send), markup=False)
    lanes = a.topology.lanes()
    nodes = a.topology.ranks + len(a.topology.switches)
    console.print("\nTopology: chunks per round, from row to column", style="bold")
    console.print(matrix_table(console, nodes, lanes))
    loads: dict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
    for send in a.sends:
        loads[send.step][send.edge] += 1
    for step, rounds in enumerate(a.rounds_per_step):
        load = loads.get(step)
        if load is None:
            console.print(
                f"Step {step}, {format_count(rounds, 'round')}: nothing is sent", style="bold"
            )
            continue
        used = {edge: n / rounds for edge, n in load.items()} if rounds > 0 else {}
        console.print(
            f"Step {step}, {format_count(rounds, 'round')}: chunks per round, from row to column",
            style="bold",
        )
        console.print(matrix_table(console, nodes, used))
    console.print(_utilization_table(a))


def _utilization_table(algorithm: Algorithm) -> Table:
    table = Table("Step", "Rounds", "Sends", "Link utilization", title="Utilization")
    for row in utilization_rows(algorithm):
        table.add_row(*map(str, row), style="bold" if row[0] == "all" else None)
    return table


def utilization_rows(algorithm: Algorithm) -> list[tuple[int | str, int, int, str]]:
    """Return the used fraction of the links' capacity, in each step and in total.

    Each row contains the step (``"all"`` in the last row), its rounds, its sends, and the fraction.
    """
    capacity = sum(algorithm.topology.lanes().values())
    sends: Counter[int] = Counter(s.step for s in algorithm.sends)
    rows: list[tuple[int | str, int, int]] = [
        (step, rounds, sends[step]) for step, rounds in enumerate(algorithm.rounds_per_step)
    ]
    rows.append(("all", algorithm.rounds, len(algorithm.sends)))
    return [
        (step, rounds, count, f"{count / (capacity * rounds) if rounds > 0 else 0.0:.1%}")
        for step, rounds, count in rows
    ]


def print_topology(console: Console, topology: Topology) -> None:
    """Print the costs, lanes, diameter, degrees, switches, budgets and chassis of a machine."""
    t, m = topology, measure_topology(topology)
    console.print(_single_line(size_text(t)), style="bold", markup=False)
    for line in costs_text(t):
        console.print(_single_line(line), markup=False, soft_wrap=True)
    if t.source:
        console.print(_single_line(f"source: {t.source}"), markup=False, soft_wrap=True)
    nodes = t.ranks + len(t.switches)
    console.print("lanes, from row to column:")
    console.print(matrix_table(console, nodes, t.lanes()))
    if m.unreachable:
        src, dst = m.unreachable
        console.print(f"[yellow]disconnected:[/] no path leads from rank {src} to rank {dst}")
    else:
        console.print(f"diameter: {m.diameter}")
    console.print(f"lanes out of each rank: {', '.join(str(n) for n in m.out_lanes)}")
    console.print(f"lanes into each rank:   {', '.join(str(n) for n in m.in_lanes)}")
    for line in _model_text(t):
        console.print(_single_line(line), markup=False, soft_wrap=True)
    for i, switch in enumerate(t.switches):
        console.print(
            f"node {t.ranks + i} is the switch {_single_line(_switch_text(switch))}", markup=False
        )
    for b in t.budgets:
        edges = ", ".join(f"{u}->{v}" for u, v in b.edges)
        console.print(
            f"budget {_single_line(b.name)}: {format_count(b.chunks_per_round, 'chunk')} per round "
            f"over {edges}",
            markup=False,
        )
    for i, group in enumerate(t.chassis):
        console.print(f"chassis {i}: ranks {', '.join(str(r) for r in group)}")
    if t.labels:
        console.print(
            "labels: "
            + ", ".join(f"rank {r} is {_single_line(t.label(r))}" for r in range(t.ranks)),
            markup=False,
        )
    console.print(
        f"GPUs: {_single_line(_bus_ids_text(t.pci_bus_ids))}", markup=False, soft_wrap=True
    )


def _single_line(text: str) -> str:
    """Escape line breaks and tabs, so that a name from a file cannot forge another line."""
    return single_line(text).replace("\t", "\\t")


def _bus_ids_text(bus_ids: BusIds) -> str:
    if not bus_ids:
        return "which is which rank is not stated"
    if bus_ids == ASCENDING:
        return "numbered by ascending PCI bus id, as nvidia-smi does"
    return ", ".join(f"rank {rank} is {bus_id}" for rank, bus_id in enumerate(bus_ids))


def _switch_text(switch: Switch) -> str:
    """Return the name of a switch and its properties, such as copying and its buffer."""
    held = switch.buffer_chunks
    holds = "any number of chunks" if held is None else format_count(held or 0, "chunk")
    more = ["copies chunks"] if switch.copies else []
    more += [f"holds {holds}"] if held != 0 else []
    more += [] if switch.cut_through else ["stores each chunk whole before it sends it on"]
    return f"{switch.name}, which {', '.join(more)}" if more else switch.name


def size_text(topology: Topology) -> str:
    """Return the name of a machine and its numbers of ranks and links."""
    return f"{topology.name}: {topology.ranks} ranks, {len(topology.links)} links"


def costs_text(topology: Topology) -> list[str]:
    """Return alpha and bandwidth of links, one line for each kind of link."""
    links: dict[tuple[float, float], list[str]] = {}
    for k in topology.links:
        links.setdefault((k.alpha_us, k.gb_per_s), []).append(f"{k.src}->{k.dst}")
    words = {costs: f"alpha {costs[0]:g} us, {costs[1]:g} GB/s per lane" for costs in links}
    if len(links) == 1:
        return [f"{words[min(links)]} and direction"]
    commonest = max(links, key=lambda costs: (len(links[costs]), costs))
    rows = [
        f"{words[costs]}: {', '.join(links[costs])}"
        for costs in sorted(links)
        if costs != commonest
    ]
    return ["links differ in cost:", *rows, f"{words[commonest]}: all others"]


def _model_text(topology: Topology) -> list[str]:
    """Return the differences between a machine and its model, or why there is no model."""
    try:
        notes = machine_model(topology).notes
    except InputError as error:
        return [f"cannot be synthesised for: {error}"]
    return [f"solved as: {note}" for note in notes]


def matrix_table(console: Console, nodes: int, values: Mapping[tuple[int, int], float]) -> Table:
    """Return a matrix of ``values`` by (src, dst): rows send, columns receive.

    If the matrix is wider than the console, return a table of pairs.
    """
    if not _does_matrix_fit(console.width, nodes, values):
        return _pairs_table(values)
    table = Table("", *(str(n) for n in range(nodes)), box=box.SIMPLE_HEAD)
    for column in table.columns:
        column.justify = "right"
    for src in range(nodes):
        cells = (f"{values[src, dst]:.3g}" if (src, dst) in values else "." for dst in range(nodes))
        table.add_row(str(src), *cells)
    return table


def _does_matrix_fit(width: int, nodes: int, values: Mapping[tuple[int, int], float]) -> bool:
    """Return whether a matrix fits into ``width``, with three characters between columns."""
    if 4 * nodes > width:
        return False
    widths = [len(str(node)) for node in range(nodes)]
    for (_, dst), value in values.items():
        widths[dst] = max(widths[dst], len(f"{value:.3g}"))
    return sum(widths) + 3 * nodes + len(str(nodes)) + 3 <= width


def _pairs_table(values: Mapping[tuple[int, int], float]) -> Table:
    """Return a table with the destinations of each source, and their values unless they are 1."""
    rows: dict[int, list[str]] = defaultdict(list)
    for (src, dst), value in sorted(values.items()):
        rows[src].append(str(dst) if value == 1 else f"{dst} ({value:.3g})")
    table = Table("From", "To (1 each, or the given number)", box=box.SIMPLE_HEAD)
    for src, destinations in rows.items():
        table.add_row(str(src), ", ".join(destinations))
    return table


MAX_ROWS = 40
"""Maximum number of rows of a table. ``sccl export --format csv`` writes all transfers."""


def print_schedule(console: Console, plan: AnySchedule, *, intact: bool) -> None:
    """Print the first transfers of a schedule, and the load of its busiest links.

    Args:
        intact: whether the file is unchanged since sccl wrote it.
    """
    name = single_line(f"{plan.collective.name} on {plan.topology.name}")
    console.print(
        f"{name}: C={plan.collective.chunks} {cost_text(plan)}", style="bold", markup=False
    )
    if wrong := len(violations(plan)):
        console.print(
            f"[red]it fails verification: {format_count(wrong, 'violation')}[/], see 'sccl check'"
        )
    elif not intact:
        console.print("edited since sccl wrote it (its digest does not match)")
    console.print(_transfers_table(plan))
    if plan.num_sends > MAX_ROWS:
        console.print(
            f"these are the first {MAX_ROWS}; 'sccl export FILE --format csv -o FILE.csv' has all"
        )
    console.print(_links_table(plan))


def cost_text(plan: AnySchedule) -> str:
    """Return the chunk size, the transfers, the finish and the alpha model of a schedule."""
    sizes = plan.clock.sizes
    size = " to ".join(map(format_bytes, sorted({sizes[0], sizes[-1]})))
    finish = format_us(plan.clock.us(plan.finish))
    return f"of {size}, {format_count(plan.num_sends, 'transfer')}, {finish} (alpha {plan.model})"


def _transfers_table(plan: AnySchedule) -> Table:
    from sccl.core.packed_schedule import transfer_rows  # noqa: PLC0415 - NumPy is slow to load

    table = Table()
    for name in ("Start us", "End us", "Arrives us", "Chunk", "From", "To"):
        table.add_column(name, justify="right")
    table.add_column("What")
    for *times, chunk, src, dst, reduces in islice(transfer_rows(plan, MAX_ROWS), MAX_ROWS):
        ends = (_node_text(plan.topology, node) for node in (src, dst))
        action = "reduces" if reduces else "copies"
        table.add_row(*(f"{t:.6g}" for t in times), str(chunk), *ends, action)
    return table


def _links_table(plan: AnySchedule) -> Table:
    from sccl.core.packed_schedule import link_usage  # noqa: PLC0415 - NumPy is slow to load

    finish = plan.clock.us(plan.finish) or 1.0
    busiest = sorted(link_usage(plan), key=lambda row: (-row[2], row[1]))
    table = Table("Link", title="Busiest links")
    for name in ("Transfers", "Busy us", "Share of the time"):
        table.add_column(name, justify="right")
    for count, link, busy in busiest[:10]:
        ends = (_node_text(plan.topology, node) for node in plan.topology.links[link].edge)
        table.add_row("->".join(ends), str(count), f"{busy:.6g}", f"{busy / finish:.1%}")
    return table


def _node_text(topology: Topology, node: int) -> str:
    """Return the number of a rank, or the name of a switch."""
    return str(node) if node < topology.ranks else f"switch {node - topology.ranks}"
