"""What no schedule takes less than: what has to pass into and out of sets of ranks, and how far.

Source: the "ideal" of TACOS (MICRO 2024) section V-A, in whole ticks: there it is the injection and
ejection of all chunks at the slowest rank, and the diameter. Here the larger of

- for every rank, and every set of ranks that reach one another over links cheaper than the others:
  the first tick by which the links into it can have brought all chunks that are wanted in it and
  not held there, each link whole chunks one after the other, and links of a budget no more bytes
  than that carries; likewise the links out of it;
- the longest of the shortest ways from a chunk's nearest source to who wants it;
- where each chunk goes from one rank to one: the time that all links together need if each chunk
  walks its shortest way.

For allreduce, whatever its method: each chunk enters and leaves every rank, is sent 2(P-1) times in
all (Harary and Schwenk 1974), and something of every rank reaches every other.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.synth.tacos.budgets import pace_of
from sccl.synth.tacos.by_route import is_routed
from sccl.synth.tacos.machine import Net
from sccl.synth.tacos.paths import FAR, Ways
from sccl.synth.tacos.sends import Demand, stalled

Ints = NDArray[np.int64]


class Pipes:
    """How much links carry together by when."""

    def __init__(self, topology: Topology, clock: Clock, net: Net) -> None:
        self.net, self.size = net, clock.sizes[0]
        self.src, self.dst = net.src.astype(np.int64), net.dst.astype(np.int64)
        self.kind = net.kind.astype(np.int64)
        first, members = net.members_first.astype(np.int64), net.members.astype(np.int64)
        self.budgets = [
            (pace_of(topology, clock, b), frozenset(members[first[b] : first[b + 1]].tolist()))
            for b in range(len(net.room))
        ]
        self._known: dict[object, int] = {}

    def ticks(self, links: Ints, chunks: int) -> int:
        """Return the first tick by which some links can have carried so many chunks."""
        if not len(links):
            raise stalled()
        parts = [*self._parts(set(links.tolist()))]
        key = (chunks, tuple(sorted((pace or 0, kinds) for pace, kinds in parts)))
        if key not in self._known:
            low, high = 0, int((chunks * self.net.busy + self.net.lag).max())
            while low < high:
                middle = (low + high) // 2
                enough = sum(self._carried(middle, *part) for part in parts) >= chunks
                low, high = (low, middle) if enough else (middle + 1, high)
            self._known[key] = low
        return self._known[key]

    def _parts(self, links: set[int]) -> Iterator[tuple[Fraction | None, tuple[int, ...]]]:
        """Yield links by disjoint budgets: the pace, and how many links of each kind."""
        for pace, members in self.budgets:
            inside = links & members
            if len(inside) > 1:
                links = links - inside
                yield pace, self._kinds(inside)
        yield None, self._kinds(links)

    def _kinds(self, links: set[int]) -> tuple[int, ...]:
        return tuple(np.bincount(self.kind[sorted(links)], minlength=len(self.net.busy)).tolist())

    def _carried(self, tick: int, pace: Fraction | None, kinds: tuple[int, ...]) -> int:
        """Return how many chunks some links can have carried by a tick."""
        each = np.maximum(tick - self.net.lag, 0) // self.net.busy
        carried = int((each * np.array(kinds)).sum())
        return carried if pace is None else min(carried, int(tick * pace / self.size))


def least_ticks(topology: Topology, clock: Clock, net: Net, demand: Demand, attained: int) -> int:
    """Return a lower bound on when all that is wanted has arrived.

    Args:
        attained: by a schedule; ways are not looked at where the links alone show that it is best.

    Raises:
        UnreachableError: something cannot.
    """
    pipes, found = Pipes(topology, clock, net), 0
    for group in _groupings(net):
        crosses = group[pipes.src] != group[pipes.dst]
        for needed, ends in zip(_needs(demand, group), (pipes.dst, pipes.src), strict=True):
            by_group = _by_group(group[ends], crosses, len(needed))
            for links, chunks in zip(by_group, needed.tolist(), strict=True):
                found = max(found, pipes.ticks(links, chunks) if chunks else 0)
    if found == attained:
        return found
    return max(found, _farthest(net, demand), _work(net, demand) if is_routed(demand) else 0)


def least_of_allreduce(topology: Topology, clock: Clock, net: Net, chunks: int) -> int:
    """Return a lower bound on when all chunks are reduced over all ranks on all of them."""
    pipes = Pipes(topology, clock, net)
    ways, ranks = Ways(net), net.nodes
    found = max(int(ways.from_any([rank]).max()) for rank in range(ranks))
    if found >= FAR:
        raise stalled()
    found = max(found, pipes.ticks(np.arange(len(pipes.src)), 2 * (ranks - 1) * chunks))
    for group in _groupings(net):
        crosses = group[pipes.src] != group[pipes.dst]
        for ends in (pipes.src, pipes.dst):
            for links in _by_group(group[ends], crosses, int(group.max()) + 1):
                found = max(found, pipes.ticks(links, chunks))
    return found


def _work(net: Net, demand: Demand) -> int:
    """Return by when all links together can have carried each chunk over its shortest way."""
    assert demand.wanted is not None
    assert demand.wanted_by is not None
    goal = np.zeros(demand.chunks, dtype=np.int64)
    goal[demand.wanted] = demand.wanted_by
    ways, busy = Ways(net._replace(lag=np.zeros_like(net.lag))), 0
    for source in np.unique(demand.held_by).tolist():
        busy += int(ways.from_any([source])[goal[demand.held[demand.held_by == source]]].sum())
    return -(-busy // len(net.src))


def _groupings(net: Net) -> Iterator[Ints]:
    """Yield the group of every rank: each by itself, then those that are near, level by level."""
    yield np.arange(net.nodes)
    for row in net.near.reshape(-1, net.nodes)[1:].astype(np.int64):
        group = np.unique(row, return_inverse=True)[1].reshape(-1).astype(np.int64)
        if 0 < group.max() < net.nodes - 1:
            yield group


def _by_group(group: Ints, chosen: NDArray[np.bool_], groups: int) -> list[Ints]:
    """Return the chosen links by the group that they are of."""
    links = np.flatnonzero(chosen)
    links = links[np.argsort(group[links], kind="stable")]
    ends = np.searchsorted(group[links], np.arange(groups + 1))
    return [links[a:b] for a, b in pairwise(ends.tolist())]


def _needs(demand: Demand, group: Ints) -> tuple[Ints, Ints]:
    """Return how many chunks have to enter, and to leave, each group of ranks."""
    groups, chunks = int(group.max()) + 1, demand.chunks
    held = np.unique(group[demand.held_by] * chunks + demand.held)
    only = np.bincount(held % chunks, minlength=chunks) == 1
    lonely = held[only[held % chunks]]  # held in one group alone
    if demand.wanted is None or demand.wanted_by is None:
        into = chunks - np.bincount(held // chunks, minlength=groups)
        return into, np.bincount(lonely // chunks, minlength=groups)
    wanted = np.unique(group[demand.wanted_by] * chunks + demand.wanted)
    missing = np.setdiff1d(wanted, held, assume_unique=True)
    leaving = lonely[np.isin(lonely % chunks, missing % chunks)]
    counts = [np.bincount(pairs // chunks, minlength=groups) for pairs in (missing, leaving)]
    return counts[0], counts[1]


def _farthest(net: Net, demand: Demand) -> int:
    """Return the longest of the shortest ways, in ticks."""
    ways, found = Ways(net), 0
    sources: dict[int, list[int]] = {}
    for rank, chunk in zip(demand.held_by.tolist(), demand.held.tolist(), strict=True):
        sources.setdefault(chunk, []).append(rank)
    wanted: dict[tuple[int, ...], set[int]] = {}
    if demand.wanted is None or demand.wanted_by is None:
        wanted = {tuple(ranks): set(range(net.nodes)) for ranks in sources.values()}
    else:
        for rank, chunk in zip(demand.wanted_by.tolist(), demand.wanted.tolist(), strict=True):
            wanted.setdefault(tuple(sources[chunk]), set()).add(rank)
    for ranks, others in wanted.items():
        found = max(found, int(ways.from_any(list(ranks))[sorted(others)].max()))
    if found >= FAR:
        raise stalled()
    return found
