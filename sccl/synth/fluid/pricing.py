"""The cheapest timed trees of all commodities at given prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.errors import TooLargeError
from sccl.synth.fluid.problem import FluidCommodity, FluidProblem, Tree
from sccl.synth.fluid.tables import NodeGroups, Whole, fill, walk

MOST_RANKS = 10
"""To be reached, of which all sets are looked at without a word; of more, if chassis part them."""

MOST_WORK = 15 * 10**8
"""Pairs of sets times slots times nodes: a second for each time that trees are priced."""

MOST_PARTED = 3 * 10**8
"""Likewise, of a machine's ranks in groups: tenths of a second."""

_FINE = 1 << 30
"""Of the dearest send, as a whole number: sums of them stay far below 64 bits."""


class _Part(NamedTuple):
    """Commodities that one table serves."""

    groups: NodeGroups
    commodities: tuple[int, ...]


class TreePricing:
    """Tables for the trees of a problem.

    Attributes:
        exact: whether its trees are the cheapest of all; else of those that enter a group once.

    Raises:
        TooLargeError: there are too many sets of ranks to look at.
    """

    def __init__(self, problem: FluidProblem) -> None:
        self.problem = problem
        self.starts = _starts(problem)
        self.parts = list(_parts(problem))
        self.exact = all(len(part.groups.nodes) == 1 for part in self.parts)
        self._tables: list[Whole | None] = [None] * len(self.parts)
        self._tree = np.zeros((4 * len(problem.edges) + 256, 2), np.int64)
        self.check(2)

    def check(self, slots: int) -> None:
        """Check that trees of so many slots can be priced.

        Raises:
            TooLargeError: that would take minutes.
        """
        work = sum(_work(part.groups, slots) for part in self.parts)
        if work > MOST_WORK:
            topology = self.problem.topology
            raise TooLargeError(
                f"topology {topology.name!r}: the least time over all chunkings looks at sets of "
                f"ranks, of which {self.problem.collective.name} among {topology.ranks} has too "
                f"many; this version does up to {MOST_RANKS} ranks, or chassis of as many"
            )

    def effort(self, slots: int) -> float:
        """Return what it takes to price trees of so many slots, in units of some seconds."""
        return 5e-10 * sum(_work(part.groups, slots) for part in self.parts)

    def cheapest(self, prices: NDArray[np.float64], arrive: Whole) -> list[tuple[float, Tree]]:
        """Return, for each commodity, a cheapest tree and its price.

        Args:
            prices: shape (links, slots): of a byte.
            arrive: likewise: from which slot on it is there; -1: it is not sent.
        """
        slots, own = prices.shape[1], len(self.problem.edges)
        more = sum(len(holders) for holders in self.starts if len(holders) > 1)
        prices = np.concatenate([prices, np.zeros((more, slots))])
        arrive = np.concatenate([arrive, np.tile(np.arange(slots), (more, 1))])
        dearest = float(prices.max(initial=0.0)) or 1.0
        # a send costs a little even where it is free: it may cost something later, and ends loops
        cost = np.floor(prices * (_FINE / dearest)).astype(np.int64) * 64 + 1
        found: list[tuple[float, Tree] | None] = [None] * len(self.problem.commodities)
        for i in range(len(self.parts)):
            table, part = self._table(i, slots), self.parts[i]
            fill(part.groups, slots, cost, arrive, table)
            for c in part.commodities:
                tree = self._walk(
                    part.groups, self.problem.commodities[c], slots, cost, arrive, table
                )
                tree = frozenset(use for use in tree if use[0] < own)
                price = float(sum(prices[use] for use in sorted(tree)))
                best = found[c]
                if best is None or price < best[0]:
                    found[c] = (price, tree)
        return [one for one in found if one is not None]

    def _table(self, part: int, slots: int) -> Whole:
        groups = self.parts[part].groups
        size = int(_rows(groups).sum() * (slots + 1))
        kept = self._tables[part]
        if kept is None or len(kept) != size:
            first = np.concatenate([[0], np.cumsum(_rows(groups) * (slots + 1))[:-1]])
            self.parts[part] = self.parts[part]._replace(
                groups=groups._replace(first=first.astype(np.int64))
            )
            kept = self._tables[part] = np.zeros(size, np.int64)
        return kept

    def _walk(  # noqa: PLR0913, PLR0917 - what :func:`walk` takes
        self,
        groups: NodeGroups,
        commodity: FluidCommodity,
        slots: int,
        cost: Whole,
        arrive: Whole,
        table: Whole,
    ) -> Tree:
        source = self.starts[commodity.holders]
        g = int(groups.group[source])
        own = sum(
            1 << int(groups.local[r])
            for r in commodity.wanted - commodity.holders
            if groups.group[r] == g and groups.local[r] < groups.ranks[g]
        )
        wanted = {int(groups.place[groups.group[r]]) for r in commodity.wanted}
        others = sum(1 << place for place in wanted - {int(groups.place[g])} if place >= 0)
        count = walk(groups, slots, cost, arrive, table, source, own, others, self._tree)
        if count < 0:
            raise NoTreeError
        return frozenset((int(e), int(t)) for e, t in self._tree[:count])


class NoTreeError(Exception):
    """Something cannot be served within the slots."""


def _parts(problem: FluidProblem) -> list[_Part]:
    """Return the tables that are needed: one for each destination, or one for all."""
    commodities = problem.commodities
    missing = [c.wanted - c.holders for c in commodities]
    if all(len(ranks) == 1 for ranks in missing):
        by_goal: dict[int, list[int]] = {}
        for i, (goal,) in enumerate(missing):
            by_goal.setdefault(goal, []).append(i)
        return [_Part(_groups(problem, [[goal]]), tuple(all_)) for goal, all_ in by_goal.items()]
    every = sorted(frozenset().union(*missing))
    whole = tuple(range(len(commodities)))
    if len(every) > MOST_RANKS and all(
        len(c.wanted) == problem.topology.ranks for c in commodities
    ):
        parted = [_Part(_groups(problem, groups), whole) for groups in _partitions(problem)]
        if light := [part for part in parted if _work(part.groups, 2) <= MOST_PARTED]:
            return light
    return [_Part(_groups(problem, [every]), whole)]


def _starts(problem: FluidProblem) -> dict[frozenset[int], int]:
    """Return where chunks start: a rank, or a node of its own with links to all who hold them."""
    nodes, found = problem.topology.ranks, dict[frozenset[int], int]()
    for commodity in problem.commodities:
        holders = commodity.holders
        if holders not in found:
            found[holders] = nodes if len(holders) > 1 else min(holders)
            nodes += len(holders) > 1
    return found


def _partitions(problem: FluidProblem) -> Iterator[list[list[int]]]:
    """Yield all ranks in groups: by chassis; or, if there are none, as rows and columns of grids.

    The trees of each leave out others, so it is good to have several.
    """
    topology, ranks = problem.topology, problem.topology.ranks
    if len(topology.chassis) > 1:
        apart = {rank for inside in topology.chassis for rank in inside}
        alone = [[rank] for rank in range(ranks) if rank not in apart]
        yield [sorted(inside) for inside in topology.chassis] + alone
        return
    for size in range(2, ranks // 2 + 1):
        if ranks % size == 0:
            rows = [list(range(at, at + size)) for at in range(0, ranks, size)]
            columns = [list(range(at, ranks, ranks // size)) for at in range(ranks // size)]
            yield from (groups for groups in (rows, columns) if _hang_together(problem, groups))


def _hang_together(problem: FluidProblem, groups: list[list[int]]) -> bool:
    """Return whether in each group all are reached from the first by links within it."""
    successors: dict[int, list[int]] = {}
    for u, v in problem.edges:
        successors.setdefault(u, []).append(v)
    for inside in groups:
        reached = [inside[0]]
        for rank in reached:  # grows while it is walked
            reached += [n for n in successors.get(rank, ()) if n in inside and n not in reached]
        if len(reached) < len(inside):
            return False
    return True


def _groups(problem: FluidProblem, reached: Sequence[Sequence[int]]) -> NodeGroups:
    """Return the groups whose ranks are to be reached; nodes that are in none join the first."""
    several = [(node, holders) for holders, node in _starts(problem).items() if len(holders) > 1]
    pairs = [*problem.edges, *((node, h) for node, holders in several for h in sorted(holders))]
    src, dst = np.array(pairs, dtype=np.int64).T.copy()
    everywhere = [list(ranks) for ranks in reached]
    inside = {rank for ranks in reached for rank in ranks}
    count = problem.topology.ranks + len(several)
    everywhere[0] += [node for node in range(count) if node not in inside]
    group, local = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for g, nodes in enumerate(everywhere):
        group[nodes], local[nodes] = g, np.arange(len(nodes))
    by_group = np.argsort(group[src], kind="stable")
    count = len(everywhere)
    return NodeGroups(
        nodes=np.array([len(nodes) for nodes in everywhere], np.int64),
        ranks=np.array([len(ranks) for ranks in reached], np.int64),
        place=np.arange(count, dtype=np.int64),
        first=np.zeros(count, np.int64),
        group=group,
        local=local,
        links_first=np.searchsorted(group[src][by_group], np.arange(count + 1)).astype(np.int64),
        links=by_group.astype(np.int64),
        src=src,
        dst=dst,
    )


def _rows(groups: NodeGroups) -> Whole:
    """Return, by group, how many numbers its table has in a slot."""
    many = int((groups.place >= 0).sum())
    return (1 << (groups.ranks + many)) * groups.nodes


def _work(groups: NodeGroups, slots: int) -> float:
    many = int((groups.place >= 0).sum())
    sets = 3.0 ** (groups.ranks + many - 1)
    return float((sets * groups.nodes).sum() * (slots + 1))
