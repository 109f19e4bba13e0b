"""Collect the messages of a plan over a fabric, with their dependencies, for simulation.

The channels of a fabric and their shared resources form one topology. Each channel has its own
nodes, so a pair of ranks may have several links. Additional links, called clocks, model durations
of launches and computations: each task has a clock for itself.

Messages also come from a synthesizer's schedules. Each transfer starts as soon as its data have
arrived, not at the time in the schedule, because links may be busy with other motifs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.clock import Clock
from sccl.core.ids import Edge
from sccl.core.schedule import Schedule
from sccl.core.topology import Budget, Link, Topology
from sccl.errors import TooLargeError
from sccl.sim import MessageRoutes, Messages, simulate
from sccl.training.types.fabric import Fabric

_FAST_GB_PER_S = 1.0
"""Speed of clocks: one byte per nanosecond, their resolution."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkMachine:
    """A fabric as one topology.

    Attributes:
        topology: Topology of all channels and clocks.
        links: For each channel, indices of its links in the topology.
        hub: Node from which all clocks start.
        clocks: Node at which each clock ends.
        clock_links: Index of each clock in the links of the topology.
        ranks: Number of ranks of the fabric.
    """

    topology: Topology
    links: tuple[IntArray, ...]
    hub: int
    clocks: IntArray
    clock_links: IntArray
    ranks: int

    def node(self, channel: int, rank: IntArray) -> IntArray:
        """Return the nodes of ranks in a channel."""
        return rank + channel * self.ranks


def build_link_machine(fabric: Fabric, clocks: int) -> LinkMachine:
    """Return the topology of a fabric with some clocks.

    Raises:
        TopologyError: The result is not a valid topology.
    """
    machines = [channel.topology for channel in fabric.channels]
    hub = fabric.ranks * len(machines)
    switches = [switch for machine in machines for switch in machine.switches]
    firsts = np.cumsum([hub + 1 + clocks, *(len(machine.switches) for machine in machines)])
    links: list[Link] = []
    edges: list[dict[Edge, Edge]] = []
    for number, machine in enumerate(machines):
        first, after = number * fabric.ranks, int(firsts[number]) - fabric.ranks
        edge_map: dict[Edge, Edge] = {}
        for link in machine.links:
            src, dst = (node + (first if node < fabric.ranks else after) for node in link.edge)
            edge_map[link.edge] = src, dst
            links.append(Link(src, dst, link.lanes, link.alpha_us, link.gb_per_s))
        edges.append(edge_map)
    links += [Link(hub, hub + 1 + k, 1, 0.0, _FAST_GB_PER_S) for k in range(clocks)]
    topology = Topology(
        name=fabric.name,
        ranks=hub + 1 + clocks,
        links=tuple(links),
        alpha_us=0.0,
        gb_per_s=_FAST_GB_PER_S,
        budgets=tuple(_link_budgets(fabric, edges)),
        switches=tuple(switches),
    )
    place = {link.edge: k for k, link in enumerate(topology.links)}
    ends = np.arange(clocks) + hub + 1
    return LinkMachine(
        topology=topology,
        links=tuple(
            np.array([place[edge_map[link.edge]] for link in machine.links], np.int64)
            for machine, edge_map in zip(machines, edges, strict=True)
        ),
        hub=hub,
        clocks=ends,
        clock_links=np.array([place[hub, node] for node in ends.tolist()], np.int64),
        ranks=fabric.ranks,
    )


def _link_budgets(fabric: Fabric, edges: list[dict[Edge, Edge]]) -> list[Budget]:
    """Return the budgets of channels and of shared resources, for links of the new topology.

    Args:
        edges: For each channel, the edge in the new topology of each of its edges.
    """
    budgets = []
    numbers = {channel.name: k for k, channel in enumerate(fabric.channels)}
    for channel in fabric.channels:
        edge_map, machine = edges[numbers[channel.name]], channel.topology
        for budget, speed in zip(machine.budgets, machine.budget_speeds(), strict=True):
            members = tuple(edge_map[edge] for edge in budget.edges)
            name = f"{channel.name}: {budget.name}"
            budgets.append(Budget(name, members, budget.chunks_per_round, speed))
    for number, shared in enumerate(fabric.shared):
        members = tuple(edges[numbers[name]][edge] for name, edge in shared.links)
        budgets.append(Budget(f"shared {number}: {shared.name}", members, 1, shared.gb_per_s))
    return budgets


_MAX_COSTS = 2**22
"""Largest number of transfer times, one for each message size and link."""

_MAX_TICKS = 2**60

PS_PER_NS = 1000
NO_GATE = -1
"""Value in place of a gate."""


class MessageScript:
    """Messages over a machine with their dependencies, added one by one.

    Routes are numbered. Those of clocks come first, in their order. A gate opens when all messages
    and gates that it waits for have arrived or opened.
    """

    def __init__(self, machine: LinkMachine) -> None:
        self.machine = machine
        self.gates = self.messages = self.route_count = 0
        self._columns: list[tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]] = []
        self._route_rows: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []
        self._counts: list[tuple[int, int]] = []
        clocks = len(machine.clocks)
        hub = np.full(clocks, machine.hub)
        self.add_routes(hub, machine.clocks, np.ones(clocks, np.int64), machine.clock_links)

    def add_routes(
        self, source: IntArray, target: IntArray, length: IntArray, link: IntArray
    ) -> int:
        """Add routes, and return the number of the first one.

        Args:
            source: Source node of each route.
            target: Target node of each route.
            length: Number of links of each route.
            link: Links of all routes, one route after the other.
        """
        self._route_rows.append((source, target, length, link))
        self.route_count += len(length)
        return self.route_count - len(length)

    def add_gates(self, many: int = 1) -> int:
        """Add gates, and return the number of the first one."""
        self.gates += many
        return self.gates - many

    def add_gate_inputs(self, gate: int, others: Iterable[int]) -> None:
        """Make a gate wait for other gates."""
        self._counts += [(awaited, gate) for awaited in others]

    def add_messages(  # noqa: PLR0913, PLR0917 - columns
        self,
        route: IntArray,
        size: IntArray,
        ns: IntArray,
        waits: IntArray,
        opens: IntArray,
        starts: IntArray | None = None,
    ) -> None:
        """Add messages with their gates.

        Args:
            route: Route number of each message, shape (messages,).
            size: Bytes of each message.
            ns: Minimal duration of each message, in nanoseconds.
            waits: Gate that each message waits for.
            opens: Gate that waits for the arrival of each message.
            starts: Gate that waits for the start of each message. None: no gates.
        """
        start_gates = np.full(len(route), NO_GATE) if starts is None else starts
        self._columns.append((route, size, ns, waits, opens, start_gates))
        self.messages += len(route)

    def add_schedule(self, sent: ScheduledMessages, route: int, gate: int) -> int:
        """Add the messages of a schedule after a gate.

        Args:
            route: Route of the first message. The others have the next numbers.

        Returns:
            Gate that opens after all arrivals.
        """
        first, end = self.add_gates(sent.gates), self.add_gates()
        waits, opens, starts = (
            np.where(gates < 0, default, first + gates)
            for gates, default in ((sent.waits, gate), (sent.arrivals, end), (sent.starts, NO_GATE))
        )
        count = len(sent.link)
        self.add_messages(
            route + np.arange(count), sent.size, np.zeros(count, np.int64), waits, opens, starts
        )
        self._counts += [(first + opened, first + at) for opened, at in sent.counts]
        self.add_gate_inputs(end, (first + np.unique(sent.arrivals[sent.arrivals >= 0])).tolist())
        return end

    def arrival_times_ps(self, longest_ns: int) -> IntArray:
        """Return the arrival time of each message in picoseconds, by simulation.

        Args:
            longest_ns: Longest duration of a task, in nanoseconds.

        Raises:
            InputError: The simulation needs too many ticks or transfer times.
        """
        machine = self.machine
        route, size, ns, waits, opens, starts = (
            np.concatenate(column) for column in zip(*self._columns, strict=True)
        )
        source, target, length, link = (
            np.concatenate(column) for column in zip(*self._route_rows, strict=True)
        )
        rows = int(length[route].sum()) + 1
        tick_ps = 1 if rows * longest_ns * PS_PER_NS < _MAX_TICKS else PS_PER_NS
        sizes, chunk = np.unique(size, return_inverse=True)
        if len(sizes) * len(machine.topology.links) > _MAX_COSTS:
            raise TooLargeError(
                f"messages have {len(sizes)} sizes, and links are {len(machine.topology.links)}: "
                "costs are too many"
            )
        counts = np.array(self._counts, np.int64).reshape(-1, 2)
        sent = Messages(
            chunk=chunk.astype(np.int32),
            src=source[route].astype(np.int32),
            dst=target[route].astype(np.int32),
            reduce=np.zeros(len(route), np.bool_),
            release=np.zeros(len(route), np.int64),
            at_least=ns * PS_PER_NS // tick_ps,
            waits_for=waits.astype(np.int32),
            arrival_opens=opens.astype(np.int32),
            start_opens=starts.astype(np.int32),
            step=np.full(len(route), NO_GATE, np.int32),
            barriers=np.ones(self.gates, np.bool_),
            opened=counts[:, 0].astype(np.int32),
            counted_at=counts[:, 1].astype(np.int32),
            num_chunks=len(sizes),
        )
        clock = Clock.from_topology(machine.topology, tuple(sizes.tolist()), tick_ps=tick_ps)
        first = np.concatenate([[0], np.cumsum(length)])
        timeline = simulate(sent, machine.topology, clock, MessageRoutes(route, first, link))
        arrive = np.zeros(len(route), np.int64)
        np.maximum.at(arrive, timeline.message, timeline.arrive)
        arrival_ps: IntArray = arrive * tick_ps
        return arrival_ps


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledMessages:
    """Transfers of a schedule. Gates have numbers from 0. -1: no gate.

    Attributes:
        link: Link of each transfer, as an index in the links of the channel.
        size: Bytes of each transfer.
        waits: Gate that each transfer waits for.
        arrivals: Gate that waits for the arrival of each transfer.
        starts: Gate that waits for the start of each transfer.
        gates: Number of gates.
        counts: Pairs of a gate and of another gate that waits for it.
    """

    link: IntArray
    size: IntArray
    waits: IntArray
    arrivals: IntArray
    starts: IntArray
    gates: int
    counts: tuple[tuple[int, int], ...]


def build_schedule_messages(schedule: Schedule, machine: Topology) -> ScheduledMessages:
    """Return the messages of a schedule on a machine that contains its links."""
    made = Messages.from_schedule(schedule)
    place = {link.edge: k for k, link in enumerate(machine.links)}
    places = np.array([place[link.edge] for link in schedule.topology.links], np.int64)
    first = schedule.transfer_starts()
    leaders = np.flatnonzero(first == np.arange(len(first)))
    each = np.broadcast_to(np.array(schedule.chunk_bytes), schedule.collective.num_chunks)
    size = each[made.chunk].astype(np.int64)
    np.add.at(size, made.more.message, each[made.more.chunk])
    return ScheduledMessages(
        link=places[schedule.link[leaders]],
        size=size,
        waits=made.waits_for.astype(np.int64),
        arrivals=made.arrival_opens.astype(np.int64),
        starts=made.start_opens.astype(np.int64),
        gates=len(made.barriers),
        counts=tuple(zip(made.opened.tolist(), made.counted_at.tolist(), strict=True)),
    )


def link_bytes(schedule: Schedule) -> dict[int, int]:
    """Return the total bytes that each link carries."""
    sizes = schedule.chunk_bytes
    if isinstance(sizes, int):
        link, count = np.unique(np.asarray(schedule.link), return_counts=True)
        return dict(zip(link.tolist(), (count * sizes).tolist(), strict=True))
    totals: dict[int, int] = {}
    for link, chunk in zip(schedule.link.tolist(), schedule.chunk.tolist(), strict=True):
        totals[link] = totals.get(link, 0) + sizes[chunk]
    return totals
