"""Compute the largest amount that links can carry by a tick, each alone and within budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sccl.core.clock import AlphaModel, Clock
from sccl.core.topology import Topology
from sccl.synth.network.budgets import pace_of
from sccl.synth.network.crossings import slowed
from sccl.synth.network.groups import Ticks, kinds_of
from sccl.synth.network.paths import FAR
from sccl.synth.network.sends import stalled


class PipeGroup(NamedTuple):
    """Links that are looked at together.

    Attributes:
        pace: bytes a tick that they carry together. None: that is not limited.
        wait: ticks in which the budget carries nothing, at the least.
        kinds: how many links there are of each kind.
    """

    pace: Fraction | None
    wait: int
    kinds: tuple[int, ...]


class Pipes:
    """The links of a machine, including links of switches.

    A link carries nothing before the first byte can reach it, and its last bytes must travel to
    their destination. These waiting ticks are summed.

    Args:
        come: For each rank: ticks before which it has no data that others need.
        go: For each rank: ticks from the arrival of a chunk there to its nearest destination.
        backwards: Whether schedules are read backwards on the reversed machine. Budgets and
            switches are then used as on the machine itself, from the destination of a chunk.
    """

    def __init__(
        self, topology: Topology, clock: Clock, come: Ticks, go: Ticks, *, backwards: bool = False
    ) -> None:
        self.topology, self.clock, self.backwards = topology, clock, backwards
        self.src = np.array([k.src for k in topology.links], dtype=np.int64)
        self.dst = np.array([k.dst for k in topology.links], dtype=np.int64)
        self._from, self._to = (self.dst, self.src) if backwards else (self.src, self.dst)
        come, go = (go, come) if backwards else (come, go)
        self.beta = slowed(topology, clock)
        self.alpha = np.array(clock.alpha, dtype=np.int64)
        occupies = clock.model is AlphaModel.OCCUPIES
        self.busy = self.beta + (self.alpha if occupies else 0)
        before, after = self._before(come), self._after(go)
        ends = before + self._less_ahead(after)
        wait = np.minimum(ends + (0 if occupies else self.alpha), FAR)
        costs, self.kind = kinds_of(np.stack([self.busy, wait]))
        self._busy, self._wait = costs
        place = {link.edge: i for i, link in enumerate(topology.links if self.shared else ())}
        self._budgets = [
            (pace_of(topology, clock, b), frozenset(place[edge] for edge in budget.edges))
            for b, budget in enumerate(topology.budgets)
        ]
        self._of: dict[int, list[int]] = {}
        for b, (_, members) in enumerate(self._budgets):
            for link in sorted(members):
                self._of.setdefault(link, []).append(b)
        lost = self._after(go, alphas_overlap=True) if occupies else self.alpha + after
        self._begin = np.minimum(before + (self.alpha if occupies else 0), FAR)
        self._lost = np.minimum(lost, FAR)
        self._known: dict[object, int] = {}

    @property
    def shared(self) -> bool:
        """Return whether links share budgets."""
        return bool(self.topology.budgets)

    def _before(self, come: Ticks) -> Ticks:
        """Return for each link the ticks before which no needed byte can reach it."""
        found = np.concatenate([come, np.full(len(self.topology.switches), FAR)])
        stored = self._stored(self._to)
        inner = np.flatnonzero(self._to >= self.topology.ranks)
        for _ in self.topology.switches:  # at most so many, one after the other
            step = np.where(stored, self.beta, 0) + self.alpha + found[self._from]
            np.minimum.at(found, self._to[inner], step[inner])
        here: Ticks = np.minimum(found, FAR)[self._from]
        return here

    def _after(self, go: Ticks, *, alphas_overlap: bool = False) -> Ticks:
        """Return for each link the least ticks that its last data still need to a destination.

        Args:
            alphas_overlap: Whether a cut-through switch spends the alpha of its outgoing link while
                bytes still arrive.
        """
        found = np.concatenate([go, np.full(len(self.topology.switches), FAR)])
        inner = np.flatnonzero(self._from >= self.topology.ranks)
        for _ in self.topology.switches:
            stored = self._stored(self._from)
            alpha = np.where(stored, self.alpha, 0) if alphas_overlap else self.alpha
            step = np.where(stored, self.beta, 0) + alpha + found[self._to]
            np.minimum.at(found, self._from[inner], step[inner])
        there: Ticks = np.minimum(found, FAR)[self._to]
        return there

    def _less_ahead(self, there: Ticks) -> Ticks:
        """Return these ticks minus those by which a switch can send ahead of the last byte.

        If alphas occupy links, all bytes but the last may have left a cut-through switch when that
        one arrives.
        """
        if self.clock.model is AlphaModel.TRAVELS:
            return there
        into = (self._to >= self.topology.ranks) & ~self._stored(self._to)
        ahead: Ticks = np.where(into, self.beta - self.beta.min(), 0)  # alpha, too, may be over
        left: Ticks = np.maximum(there - ahead, 0)
        return left

    def _stored(self, nodes: Ticks) -> Ticks:
        """Return of each link whether a chunk is whole at one of its ends before it goes on."""
        stores = [True] * self.topology.ranks + [not s.cut_through for s in self.topology.switches]
        return np.array(stores)[nodes]

    def ticks(self, links: Ticks, chunks: int) -> int:
        """Return the first tick by which some links can have carried so many chunks."""
        parts = [*self._parts(set(links.tolist()))]
        if not sum(sum(part.kinds) for part in parts):
            raise stalled()
        key = (chunks, tuple(sorted(parts, key=repr)))
        if key not in self._known:
            self._known[key] = self._first(parts, chunks)
        return self._known[key]

    def times(self, links: Ticks, tick: int, most: int) -> Ticks:
        """Return the first ticks by which some links can have carried 1, 2, .. chunks.

        Args:
            tick: none after it.
            most: chunks. While an alpha passes, links can carry thousands of small ones.
        """
        parts = self._parts(set(links.tolist()))
        return np.sort(np.concatenate([self._times(p, tick, most) for p in parts]))[:most]

    def _times(self, part: PipeGroup, tick: int, most: int) -> Ticks:
        found = [np.zeros(0, dtype=np.int64)]
        for kind, links in enumerate(part.kinds):
            count = min(most, max(0, tick - int(self._wait[kind])) // int(self._busy[kind]))
            each = self._wait[kind] + self._busy[kind] * np.arange(1, count + 1)
            found.append(np.repeat(each, links))
        times = np.sort(np.concatenate(found))[:most]
        if part.pace is None:
            return times
        up, down = (Fraction(self.clock.sizes[0]) / part.pace).as_integer_ratio()
        least = [part.wait - (-k * up // down) for k in range(1, len(times) + 1)]  # rounded up
        times = np.maximum(times, np.array(least, dtype=np.int64))
        return times[times <= tick]

    def _first(self, parts: Sequence[PipeGroup], chunks: int) -> int:
        low, high = 0, 1
        while sum(self._carried(high, part) for part in parts) < chunks:
            low, high = high, 2 * high
            if high >= FAR:
                raise stalled()
        while low < high:
            middle = (low + high) // 2
            enough = sum(self._carried(middle, part) for part in parts) >= chunks
            low, high = (low, middle) if enough else (middle + 1, high)
        return low

    def _parts(self, links: set[int]) -> Iterator[PipeGroup]:
        """Yield links by disjoint budgets."""
        if not self._budgets:
            yield PipeGroup(None, 0, self._kinds(links))
            return
        for b in sorted({b for link in links for b in self._of.get(link, ())}):
            pace, of_budget = self._budgets[b]
            inside = links & of_budget
            if len(inside) > 1:
                links = links - inside
                members = sorted(inside)  # the first byte and the last may pass different links
                wait = int(self._begin[members].min()) + int(self._lost[members].min())
                yield PipeGroup(pace, wait, self._kinds(inside))
        yield PipeGroup(None, 0, self._kinds(links))

    def _kinds(self, links: set[int]) -> tuple[int, ...]:
        kinds = self.kind[np.fromiter(links, dtype=np.int64, count=len(links))]
        return tuple(np.bincount(kinds, minlength=len(self._busy)).tolist())

    def _carried(self, tick: int, part: PipeGroup) -> int:
        """Return how many chunks some links can have carried by a tick."""
        each = np.maximum(tick - self._wait, 0) // self._busy
        carried = int((each * np.array(part.kinds)).sum())
        if part.pace is None:
            return carried
        size = self.clock.sizes[0]
        return min(carried, max(0, int((tick - part.wait) * part.pace / size)))
