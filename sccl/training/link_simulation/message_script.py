"""Collect messages over a fabric's machine, with their dependencies."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.clock import Clock
from sccl.errors import TooLargeError
from sccl.sim import MessageRoutes, Messages, simulate
from sccl.training.link_simulation.fabric_machine import LinkMachine
from sccl.training.link_simulation.schedule_messages import ScheduledMessages

_MAX_COSTS = 2**22
"""Costs of all sizes on all links, which are all told."""

_MAX_TICKS = 2**60

PS_PER_NS = 1000
NO_GATE = -1
"""In place of a gate."""


class MessageScript:
    """Messages over a machine with their dependencies, added one by one.

    Paths are numbered. Those to clocks come first, in their order.
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
        """Add ways, and return the number of the first.

        Args:
            link: all links of the first, then those of the second ..
        """
        self._route_rows.append((source, target, length, link))
        self.route_count += len(length)
        return self.route_count - len(length)

    def add_gates(self, many: int = 1) -> int:
        """Add gates, and return the number of the first."""
        self.gates += many
        return self.gates - many

    def add_gate_inputs(self, gate: int, others: Iterable[int]) -> None:
        """Let a gate wait for others."""
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
        """Add messages: of some bytes, or that take their time alone. With the gates of each."""
        start_gates = np.full(len(route), NO_GATE) if starts is None else starts
        self._columns.append((route, size, ns, waits, opens, start_gates))
        self.messages += len(route)

    def add_schedule(self, sent: ScheduledMessages, route: int, gate: int) -> int:
        """Add the messages of a schedule after a gate.

        Return the gate that opens after all arrivals.

        Args:
            route: Path of the first message. Those of the others follow.
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
        """Return when each message arrives, in picoseconds.

        Raises:
            InputError: it takes more ticks than are counted, or there are too many costs.
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
