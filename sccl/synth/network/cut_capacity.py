"""Compute upper bounds on the amount that links carry by a tick, separately and within budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.clock import AlphaModel, Clock
from sccl.core.topology import Topology
from sccl.synth.limits import INFINITE
from sccl.synth.network.adjacency import distinct_columns
from sccl.synth.network.resources import budget_pace
from sccl.synth.network.routes import passing_ticks
from sccl.synth.network.transfers import stalled_error


class LinkGroup(NamedTuple):
    """Links that are considered together.

    Attributes:
        pace: Rate of their common budget, bytes per tick. None: no budget.
        wait: Minimum number of ticks in which the budget carries nothing.
        kinds: Number of links of each kind.
    """

    pace: Fraction | None
    wait: int
    kinds: tuple[int, ...]


class CutCapacity:
    """The links of a machine, including links of switches.

    A link carries nothing before the first byte can reach it. After its last bytes have passed,
    they must still travel to their destination. The ticks of both are added.

    Args:
        topology: The machine.
        clock: Ticks of links.
        come: Ticks before which each rank has no data that others need.
        go: Ticks from the arrival of a chunk at each rank to its nearest destination.
        backwards: Whether schedules are reversed in time, on the reversed machine. Budgets and
            switches are then used as on the machine itself, from the destination of a chunk.
    """

    def __init__(
        self,
        topology: Topology,
        clock: Clock,
        come: IntArray,
        go: IntArray,
        *,
        backwards: bool = False,
    ) -> None:
        self.topology, self.clock, self.backwards = topology, clock, backwards
        self.src = np.array([k.src for k in topology.links], dtype=np.int64)
        self.dst = np.array([k.dst for k in topology.links], dtype=np.int64)
        self._from, self._to = (self.dst, self.src) if backwards else (self.src, self.dst)
        come, go = (go, come) if backwards else (come, go)
        self.beta = passing_ticks(topology, clock)
        self.alpha = np.array(clock.alpha, dtype=np.int64)
        occupies = clock.model is AlphaModel.OCCUPIES
        self.busy = self.beta + (self.alpha if occupies else 0)
        before, after = self._before(come), self._after(go)
        ends = before + self._subtract_cut_through(after)
        wait = np.minimum(ends + (0 if occupies else self.alpha), INFINITE)
        costs, self.kind = distinct_columns(np.stack([self.busy, wait]))
        self._busy, self._wait = costs
        place = {
            link.edge: i for i, link in enumerate(topology.links if self.has_shared_budgets else ())
        }
        self._budgets = [
            (budget_pace(topology, clock, b), frozenset(place[edge] for edge in budget.edges))
            for b, budget in enumerate(topology.budgets)
        ]
        self._budget_of_link: dict[int, list[int]] = {}
        for b, (_, members) in enumerate(self._budgets):
            for link in sorted(members):
                self._budget_of_link.setdefault(link, []).append(b)
        lost = self._after(go, alphas_overlap=True) if occupies else self.alpha + after
        self._begin = np.minimum(before + (self.alpha if occupies else 0), INFINITE)
        self._lost = np.minimum(lost, INFINITE)
        self._cache: dict[object, int] = {}

    @property
    def has_shared_budgets(self) -> bool:
        """Return whether links share budgets."""
        return bool(self.topology.budgets)

    def _before(self, come: IntArray) -> IntArray:
        """Return the ticks before which no needed byte can reach each link."""
        node_ticks = np.concatenate([come, np.full(len(self.topology.switches), INFINITE)])
        stored = self._is_stored(self._to)
        inner = np.flatnonzero(self._to >= self.topology.ranks)
        for _ in self.topology.switches:  # a path passes each switch at most once
            step = np.where(stored, self.beta, 0) + self.alpha + node_ticks[self._from]
            np.minimum.at(node_ticks, self._to[inner], step[inner])
        link_ticks: IntArray = np.minimum(node_ticks, INFINITE)[self._from]
        return link_ticks

    def _after(self, go: IntArray, *, alphas_overlap: bool = False) -> IntArray:
        """Return the least ticks from each link's last byte to its arrival at a destination.

        Args:
            alphas_overlap: Whether a cut-through switch spends the alpha of its outgoing link while
                bytes still arrive.
        """
        node_ticks = np.concatenate([go, np.full(len(self.topology.switches), INFINITE)])
        inner = np.flatnonzero(self._from >= self.topology.ranks)
        for _ in self.topology.switches:
            stored = self._is_stored(self._from)
            alpha = np.where(stored, self.alpha, 0) if alphas_overlap else self.alpha
            step = np.where(stored, self.beta, 0) + alpha + node_ticks[self._to]
            np.minimum.at(node_ticks, self._from[inner], step[inner])
        link_ticks: IntArray = np.minimum(node_ticks, INFINITE)[self._to]
        return link_ticks

    def _subtract_cut_through(self, link_ticks: IntArray) -> IntArray:
        """Subtract the ticks by which a cut-through switch can send ahead of the last byte.

        If alphas occupy links, all bytes but the last may have left a cut-through switch when the
        last one arrives.
        """
        if self.clock.model is AlphaModel.TRAVELS:
            return link_ticks
        into = (self._to >= self.topology.ranks) & ~self._is_stored(self._to)
        ahead: IntArray = np.where(into, self.beta - self.beta.min(), 0)  # alpha may have passed
        left: IntArray = np.maximum(link_ticks - ahead, 0)
        return left

    def _is_stored(self, nodes: IntArray) -> IntArray:
        """Return whether each node in a list stores whole chunks before it forwards them."""
        stores = [True] * self.topology.ranks + [not s.cut_through for s in self.topology.switches]
        return np.array(stores)[nodes]

    def carry_ticks(self, links: IntArray, chunks: int) -> int:
        """Return the first tick by which links can have carried a number of chunks."""
        return self.first_tick(self.group_links(links), chunks)

    def first_tick(self, parts: tuple[LinkGroup, ...], chunks: int) -> int:
        """Return the first tick by which groups of links can have carried a number of chunks.

        Raises:
            UnreachableError: They never can.
        """
        if not sum(sum(part.kinds) for part in parts):
            raise stalled_error()
        key = (chunks, parts)
        if key not in self._cache:
            self._cache[key] = self._search_tick(parts, chunks)
        return self._cache[key]

    def carry_times(self, links: IntArray, tick: int, max_chunks: int) -> IntArray:
        """Return the first ticks by which links can have carried 1, 2, .. chunks.

        Args:
            links: The links.
            tick: Latest tick to return.
            max_chunks: Largest number of chunks. During an alpha, links can carry thousands of
                small ones.
        """
        times = [self._times(part, tick, max_chunks) for part in self.group_links(links)]
        return np.sort(np.concatenate(times))[:max_chunks]

    def _times(self, part: LinkGroup, tick: int, max_chunks: int) -> IntArray:
        kind_times = [np.zeros(0, dtype=np.int64)]
        for kind, links in enumerate(part.kinds):
            count = min(max_chunks, max(0, tick - int(self._wait[kind])) // int(self._busy[kind]))
            each = self._wait[kind] + self._busy[kind] * np.arange(1, count + 1)
            kind_times.append(np.repeat(each, links))
        times = np.sort(np.concatenate(kind_times))[:max_chunks]
        if part.pace is None:
            return times
        up, down = (Fraction(self.clock.sizes[0]) / part.pace).as_integer_ratio()
        bounds = [part.wait - (-k * up // down) for k in range(1, len(times) + 1)]  # rounded up
        times = np.maximum(times, np.array(bounds, dtype=np.int64))
        return times[times <= tick]

    def _search_tick(self, parts: Sequence[LinkGroup], chunks: int) -> int:
        low, high = 0, 1
        while self.carried_chunks(high, parts) < chunks:
            low, high = high, 2 * high
            if high >= INFINITE:
                raise stalled_error()
        while low < high:
            middle = (low + high) // 2
            is_enough = self.carried_chunks(middle, parts) >= chunks
            low, high = (low, middle) if is_enough else (middle + 1, high)
        return low

    def group_links(self, links: IntArray) -> tuple[LinkGroup, ...]:
        """Divide links into groups by disjoint budgets."""
        if not self._budgets:
            kinds = np.bincount(self.kind[links], minlength=len(self._busy))
            return (LinkGroup(None, 0, tuple(kinds.tolist())),)
        return tuple(sorted(self._budget_groups(set(links.tolist())), key=repr))

    def _budget_groups(self, links: set[int]) -> Iterator[LinkGroup]:
        for b in sorted({b for link in links for b in self._budget_of_link.get(link, ())}):
            pace, of_budget = self._budgets[b]
            inside = links & of_budget
            if len(inside) > 1:
                links = links - inside
                members = sorted(inside)  # the first byte and the last may pass different links
                wait = int(self._begin[members].min()) + int(self._lost[members].min())
                yield LinkGroup(pace, wait, self._kinds(inside))
        yield LinkGroup(None, 0, self._kinds(links))

    def _kinds(self, links: set[int]) -> tuple[int, ...]:
        kinds = self.kind[np.fromiter(links, dtype=np.int64, count=len(links))]
        return tuple(np.bincount(kinds, minlength=len(self._busy)).tolist())

    def carried_chunks(self, tick: int, parts: Sequence[LinkGroup]) -> int:
        """Return the maximum number of chunks that groups of links can have carried by a tick."""
        each = np.maximum(tick - self._wait, 0) // self._busy
        total = 0
        for part in parts:
            carried = int((each * part.kinds).sum())
            if part.pace is not None:
                size = self.clock.sizes[0]
                carried = min(carried, max(0, int((tick - part.wait) * part.pace / size)))
            total += carried
        return total
