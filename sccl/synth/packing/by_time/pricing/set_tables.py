"""Sets of ranks that a chunk is to reach, as tables of cheapest trees go through them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sccl.core.arrays import IntArray
from sccl.synth.packing.by_time.pricing.slot_set_dp import NodeGroups, extract_tree, fill_tables
from sccl.synth.packing.schedules.flow_problem import FlowCommodity, FlowProblem, SlotTree


class NoTreeError(Exception):
    """Something cannot be served within the slots."""


class SetTables:
    """Tables of the costs of trees to all sets of ranks of groups, and of other groups.

    Attributes:
        commodities: the commodities they serve.
        is_exact: whether no trees are left out.
    """

    def __init__(
        self, problem: FlowProblem, reached: Sequence[Sequence[int]], commodities: tuple[int, ...]
    ) -> None:
        self.commodities, self.groups = commodities, node_groups(problem, reached)
        self.is_exact = len(self.groups.nodes) == 1
        self._table = np.zeros(0, np.int64)
        self._tree = np.zeros((4 * len(problem.edges) + 256, 2), np.int64)

    def work(self, slots: int) -> float:
        """Return about how many operations filling them for so many slots takes."""
        many = int((self.groups.place >= 0).sum())
        sets = 3.0 ** (self.groups.ranks + many - 1)
        return float((sets * self.groups.nodes).sum() * (slots + 1))

    def fill(self, cost: IntArray, arrive: IntArray) -> None:
        """Fill them in for some costs of sends, and the slots from which on these are there."""
        slots, rows = cost.shape[1], _row_counts(self.groups)
        size = int(rows.sum() * (slots + 1))
        if len(self._table) != size:
            first = np.concatenate([[0], np.cumsum(rows * (slots + 1))[:-1]])
            self.groups = self.groups._replace(first=first.astype(np.int64))
            self._table = np.zeros(size, np.int64)
        fill_tables(self.groups, slots, cost, arrive, self._table)

    def tree(
        self, commodity: FlowCommodity, start: int, cost: IntArray, arrive: IntArray
    ) -> SlotTree:
        """Return a cheapest tree, by the costs that they are filled in for.

        Raises:
            NoTreeError: there is none.
        """
        return self.tree_from(self.goal_set(commodity, start), start, 0, cost, arrive)

    def tree_from(
        self, goal: int, start: int, slot: int, cost: IntArray, arrive: IntArray
    ) -> SlotTree:
        """Return a cheapest tree from a node that has the chunk from a slot on.

        Args:
            goal: the set to serve: ranks of the node's group as bits, and above them groups.

        Raises:
            NoTreeError: there is none.
        """
        groups, slots = self.groups, cost.shape[1]
        ranks = int(groups.ranks[groups.group[start]])
        local_mask, others = goal & (1 << ranks) - 1, goal >> ranks
        walked = (self._table, start, slot, local_mask, others, self._tree)
        count = extract_tree(groups, slots, cost, arrive, *walked)
        if count < 0:
            raise NoTreeError
        return frozenset((int(e), int(t)) for e, t in self._tree[:count])

    def prices(self, start: int, slots: int) -> IntArray:
        """Return the costs of trees from a node, shape (goals, slots and one more), by start."""
        groups, g = self.groups, int(self.groups.group[start])
        nodes, first = int(groups.nodes[g]), int(groups.first[g])
        goals = 1 << int(groups.ranks[g] + (groups.place >= 0).sum())
        rows = self._table[first : first + goals * (slots + 1) * nodes]
        return rows.reshape(goals, slots + 1, nodes)[:, :, groups.local[start]]

    def goal_set(self, commodity: FlowCommodity, start: int) -> int:
        """Return all that a commodity has to serve from a node."""
        groups, g = self.groups, int(self.groups.group[start])
        local_mask = sum(
            1 << int(groups.local[r])
            for r in commodity.wanted - commodity.holders
            if groups.group[r] == g and groups.local[r] < groups.ranks[g]
        )
        wanted = {int(groups.place[groups.group[r]]) for r in commodity.wanted}
        others = sum(1 << place for place in wanted - {int(groups.place[g])} if place >= 0)
        return others << int(groups.ranks[g]) | local_mask


def chunk_starts(problem: FlowProblem) -> dict[frozenset[int], int]:
    """Return where chunks start: a rank, or a node of its own with links to all who hold them."""
    nodes, starts = problem.topology.ranks, dict[frozenset[int], int]()
    for commodity in problem.commodities:
        holders = commodity.holders
        if holders not in starts:
            starts[holders] = nodes if len(holders) > 1 else min(holders)
            nodes += len(holders) > 1
    return starts


def node_groups(problem: FlowProblem, reached: Sequence[Sequence[int]]) -> NodeGroups:
    """Return the groups whose ranks are to be reached; nodes that are in none join the first."""
    several = [
        (node, holders) for holders, node in chunk_starts(problem).items() if len(holders) > 1
    ]
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


def _row_counts(groups: NodeGroups) -> IntArray:
    """Return, by group, how many numbers its table has in a slot."""
    many = int((groups.place >= 0).sum())
    return (1 << (groups.ranks + many)) * groups.nodes
