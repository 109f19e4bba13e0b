"""Collect messages over a fabric's machine, with their dependencies."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sccl.core.clock import Clock
from sccl.errors import TooLargeError
from sccl.sim import MessageRoutes, Messages, simulate
from sccl.train.link_machine import LinkMachine
from sccl.train.scheduled import ScheduledMessages

Whole = NDArray[np.int64]

_MOST_COSTS = 2**22
"""Costs of all sizes on all links, which are all told."""

_MOST_TICKS = 2**60

PS_PER_NS = 1000
NOTHING = -1
"""In place of a gate."""


class LinkScript:
    """Messages over a machine with their dependencies, added one by one.

    Paths are numbered. Those to clocks come first, in their order.
    """

    def __init__(self, machine: LinkMachine) -> None:
        self.machine = machine
        self.gates = self.messages = self.ways = 0
        self._columns: list[tuple[Whole, Whole, Whole, Whole, Whole, Whole]] = []
        self._ways: list[tuple[Whole, Whole, Whole, Whole]] = []
        self._counts: list[tuple[int, int]] = []
        clocks = len(machine.clocks)
        hub = np.full(clocks, machine.hub)
        self.add_ways(hub, machine.clocks, np.ones(clocks, np.int64), machine.clock_links)

    def add_ways(self, source: Whole, target: Whole, length: Whole, link: Whole) -> int:
        """Add ways, and return the number of the first.

        Args:
            link: all links of the first, then those of the second ..
        """
        self._ways.append((source, target, length, link))
        self.ways += len(length)
        return self.ways - len(length)

    def add_gates(self, many: int = 1) -> int:
        """Add gates, and return the number of the first."""
        self.gates += many
        return self.gates - many

    def count(self, gate: int, others: Iterable[int]) -> None:
        """Let a gate wait for others."""
        self._counts += [(other, gate) for other in others]

    def add(  # noqa: PLR0913, PLR0917 - columns
        self,
        way: Whole,
        size: Whole,
        ns: Whole,
        waits: Whole,
        opens: Whole,
        starts: Whole | None = None,
    ) -> None:
        """Add messages: of some bytes, or that take their time alone. With the gates of each."""
        none = np.full(len(way), NOTHING) if starts is None else starts
        self._columns.append((way, size, ns, waits, opens, none))
        self.messages += len(way)

    def add_scheduled(self, one: ScheduledMessages, way: int, gate: int) -> int:
        """Add the messages of a schedule after a gate.

        Return the gate that opens after all arrivals.

        Args:
            way: Path of the first message. Those of the others follow.
        """
        first, end = self.add_gates(one.gates), self.add_gates()
        waits, opens, starts = (
            np.where(own < 0, other, first + own)
            for own, other in ((one.waits, gate), (one.arrivals, end), (one.starts, NOTHING))
        )
        count = len(one.link)
        self.add(way + np.arange(count), one.size, np.zeros(count, np.int64), waits, opens, starts)
        self._counts += [(first + opened, first + at) for opened, at in one.counts]
        self.count(end, (first + np.unique(one.arrivals[one.arrivals >= 0])).tolist())
        return end

    def arrivals(self, longest_ns: int) -> Whole:
        """Return when each message arrives, in picoseconds.

        Raises:
            InputError: it takes more ticks than are counted, or there are too many costs.
        """
        machine = self.machine
        way, size, ns, waits, opens, starts = (
            np.concatenate(own) for own in zip(*self._columns, strict=True)
        )
        source, target, length, link = (
            np.concatenate(own) for own in zip(*self._ways, strict=True)
        )
        rows = int(length[way].sum()) + 1
        tick_ps = 1 if rows * longest_ns * PS_PER_NS < _MOST_TICKS else PS_PER_NS
        sizes, chunk = np.unique(size, return_inverse=True)
        if len(sizes) * len(machine.topology.links) > _MOST_COSTS:
            raise TooLargeError(
                f"messages have {len(sizes)} sizes, and links are {len(machine.topology.links)}: "
                "costs are too many"
            )
        counts = np.array(self._counts, np.int64).reshape(-1, 2)
        sent = Messages(
            chunk=chunk.astype(np.int32),
            src=source[way].astype(np.int32),
            dst=target[way].astype(np.int32),
            reduce=np.zeros(len(way), np.bool_),
            release=np.zeros(len(way), np.int64),
            at_least=ns * PS_PER_NS // tick_ps,
            waits_for=waits.astype(np.int32),
            arrival_opens=opens.astype(np.int32),
            start_opens=starts.astype(np.int32),
            step=np.full(len(way), NOTHING, np.int32),
            barriers=np.ones(self.gates, np.bool_),
            opened=counts[:, 0].astype(np.int32),
            counted_at=counts[:, 1].astype(np.int32),
            num_chunks=len(sizes),
        )
        clock = Clock.of(machine.topology, tuple(sizes.tolist()), tick_ps=tick_ps)
        first = np.concatenate([[0], np.cumsum(length)])
        timeline = simulate(sent, machine.topology, clock, MessageRoutes(way, first, link))
        arrive = np.zeros(len(way), np.int64)
        np.maximum.at(arrive, timeline.message, timeline.arrive)
        found: Whole = arrive * tick_ps
        return found
