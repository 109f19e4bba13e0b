"""The cheapest timed tree to every set of ranks, from every node and slot: compiled loops.

The method is Dreyfus and Wagner's dynamic programming (1972) on a time-expanded network. A node
that has a chunk from some slot on serves a set of ranks in one of four ways. It waits. It sends the
chunk over a link, whose end has it some slots later. It serves two parts of the set separately. It
is in the set itself, and serves the rest.

Nodes are divided into groups, one for each chassis. A tree is assumed to enter each group at most
once and to serve all of it from there. So another group counts as one goal for any number of ranks.
With a single group there is no assumption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sccl.compiled import compiled
from sccl.core.arrays import IntArray
from sccl.synth.limits import INFINITE
from sccl.synth.packing.flow_problem import FlowCommodity, FlowProblem, SlotTree
from sccl.synth.packing.problem import Commodity, PackingProblem


class NodeGroups(NamedTuple):
    """Groups of nodes, and the links by the group that they leave.

    Attributes:
        nodes: Number of nodes of each group.
        ranks: Number of target ranks of each group. They come first in the group.
        place: Index of each group among those with target ranks. -1: it has none.
        first: Start of each group's table.
        group: Group of each node.
        local: Index of each node in its group.
        links_first: Start of each group's part of ``links``, and the end of the last one.
        links: Links in the order of the group that they leave.
        src: Node that each link leaves.
        dst: Node that each link enters.
    """

    nodes: IntArray
    ranks: IntArray
    place: IntArray
    first: IntArray
    group: IntArray
    local: IntArray
    links_first: IntArray
    links: IntArray
    src: IntArray
    dst: IntArray


@compiled
def fill_tables(
    groups: NodeGroups, slots: int, cost: IntArray, arrive: IntArray, table: IntArray
) -> None:
    """Compute the cost of serving each set, from each node and slot.

    Args:
        groups: The groups.
        slots: Number of slots.
        cost: Cost of a send in a slot, 1 or more, shape (links, slots).
        arrive: Slot from which the chunk has arrived, shape (links, slots). -1: it cannot be sent.
        table: Costs by group, set, slot (and the end of the last one), and node. Updated. A set has
            one bit for each rank of the group, and above them one for each other group to reach.
    """
    many = 0
    for g in range(len(groups.nodes)):
        many += groups.place[g] >= 0
    for others in range(1 << many):
        for turn in range(2):  # groups without target ranks first: others send through them
            for g in range(len(groups.nodes)):
                place = groups.place[g]
                if (place >= 0) != (turn == 1) or (place >= 0 and others >> place & 1):
                    continue
                for local_mask in range(1 << groups.ranks[g]):
                    _fill_row(groups, slots, cost, arrive, table, g, local_mask, others)


@compiled
def _fill_row(  # noqa: PLR0912, PLR0913, PLR0917 - the inputs of :func:`fill_tables`, and a row
    groups: NodeGroups,
    slots: int,
    cost: IntArray,
    arrive: IntArray,
    table: IntArray,
    g: int,
    local_mask: int,
    others: int,
) -> None:
    nodes, ranks, begin = groups.nodes[g], groups.ranks[g], groups.first[g]
    long = (slots + 1) * nodes
    goal = (others << ranks) | local_mask
    row = begin + goal * long
    if goal == 0:
        for i in range(row, row + long):
            table[i] = 0
        return
    for i in range(row, row + long):
        table[i] = INFINITE
    low = goal & -goal
    part = (goal - 1) & goal
    while part > 0:
        if part & low:
            first_row, two = begin + part * long, begin + (goal ^ part) * long
            for i in range(long):
                table[row + i] = min(table[row + i], table[first_row + i] + table[two + i])
        part = (part - 1) & goal
    for v in range(ranks):
        if local_mask >> v & 1:
            without = begin + (goal ^ (1 << v)) * long
            for i in range(v, long, nodes):
                table[row + i] = min(table[row + i], table[without + i])
    for slot in range(slots - 1, -1, -1):
        for i in range(row + slot * nodes, row + (slot + 1) * nodes):
            table[i] = min(table[i], table[i + nodes])
        again, is_within = True, False
        while again:  # forward within the slot
            again = False
            for k in range(groups.links_first[g], groups.links_first[g + 1]):
                link = groups.links[k]
                arrival = arrive[link, slot]
                if arrival < 0:
                    continue
                onward = _forwarding_cost(groups, slots, table, link, arrival, local_mask, others)
                at = row + slot * nodes + groups.local[groups.src[link]]
                if onward + cost[link, slot] < table[at]:
                    table[at] = onward + cost[link, slot]
                    again = True
                is_within = is_within or arrival == slot
            again = again and is_within


@compiled
def _forwarding_cost(  # noqa: PLR0913, PLR0917 - a table, a link and a set
    groups: NodeGroups,
    slots: int,
    table: IntArray,
    link: int,
    arrival: int,
    local_mask: int,
    others: int,
) -> int:
    """Return the cost of serving the set from the end of a link after the arrival."""
    dst = groups.dst[link]
    g, h = groups.group[groups.src[link]], groups.group[dst]
    if g != h:
        if local_mask:
            return INFINITE
        if groups.place[h] >= 0:
            if not others >> groups.place[h] & 1:
                return INFINITE
            local_mask, others = (1 << groups.ranks[h]) - 1, others ^ (1 << groups.place[h])
    goal = (others << groups.ranks[h]) | local_mask
    nodes = groups.nodes[h]
    place = (goal * (slots + 1) + arrival) * nodes + groups.local[dst]
    price: int = table[groups.first[h] + place]
    return price


@compiled
def _separate_part(table: IntArray, begin: int, long: int, goal: int) -> int:
    """Return a part of a set that a cheapest tree serves apart from the rest. 0: none."""
    low, part = goal & -goal, (goal - 1) & goal
    while part > 0:
        both = table[begin + part * long] + table[begin + (goal ^ part) * long]
        if part & low and both == table[begin + goal * long]:
            return part
        part = (part - 1) & goal
    return 0


@compiled
def extract_tree(  # noqa: PLR0913, PLR0917 - a table, how it was filled, and where to begin
    groups: NodeGroups,
    slots: int,
    cost: IntArray,
    arrive: IntArray,
    table: IntArray,
    node: int,
    begin_slot: int,
    local_mask: int,
    others: int,
    tree: IntArray,
) -> int:
    """Write the (link, slot) pairs of a cheapest tree into ``tree``. Return their number, or -1.

    Args:
        groups: The groups.
        slots: Number of slots.
        cost: Costs of the table, see :func:`fill_tables`.
        arrive: Arrivals of the table, see :func:`fill_tables`.
        table: The filled table.
        node: Node at which the tree starts.
        begin_slot: Slot from which this node has the chunk.
        local_mask: Ranks of the node's group to serve.
        others: Other groups to serve.
        tree: Shape (capacity, 2). Updated.
    """
    stack = np.empty((len(tree), 4), np.int64)
    stack[0] = (node, begin_slot, local_mask, others)
    high, sends = 1, 0
    while high:
        high -= 1
        node, slot, local_mask, others = stack[high]
        g = groups.group[node]
        nodes, ranks = groups.nodes[g], groups.ranks[g]
        goal = (others << ranks) | local_mask
        if goal == 0:
            continue
        long = (slots + 1) * nodes
        at = slot * nodes + groups.local[node]
        begin = groups.first[g] + at
        lowest_cost = table[begin + goal * long]
        if lowest_cost >= INFINITE:
            return -1
        bit = 1 << groups.local[node]
        if (
            groups.local[node] < ranks
            and local_mask & bit
            and table[begin + (goal ^ bit) * long] == lowest_cost
        ):
            stack[high] = (node, slot, local_mask ^ bit, others)
            high += 1
            continue
        if slot < slots and table[begin + nodes + goal * long] == lowest_cost:
            stack[high] = (node, slot + 1, local_mask, others)
            high += 1
            continue
        part = _separate_part(table, begin, long, goal)
        if part > 0:
            mine = (1 << ranks) - 1
            stack[high] = (node, slot, part & mine, part >> ranks)
            stack[high + 1] = (node, slot, (goal ^ part) & mine, (goal ^ part) >> ranks)
            high += 2
            continue
        for k in range(groups.links_first[g], groups.links_first[g + 1]):
            link = groups.links[k]
            arrival = arrive[link, slot]
            if groups.src[link] != node or arrival < 0:
                continue
            onward = _forwarding_cost(groups, slots, table, link, arrival, local_mask, others)
            if onward + cost[link, slot] != lowest_cost:
                continue
            tree[sends] = (link, slot)
            sends += 1
            h = groups.group[groups.dst[link]]
            if h != g and groups.place[h] >= 0:
                local_mask, others = (1 << groups.ranks[h]) - 1, others ^ (1 << groups.place[h])
            stack[high] = (groups.dst[link], arrival, local_mask, others)
            high += 1
            break
    return sends


WORK_EFFORT = 5e-10
"""Budget of a pair of sets at a node in a slot."""


TreeProblem = FlowProblem | PackingProblem
TreeDemand = FlowCommodity | Commodity


class NoTreeError(Exception):
    """A demand cannot be met within the slots."""


class SetTables:
    """Tables of the costs of trees to all sets of ranks of a group and other groups.

    Attributes:
        commodities: Numbers of the commodities that the tables price.
        is_exact: Whether the tables consider all trees.
    """

    def __init__(
        self, problem: TreeProblem, reached: Sequence[Sequence[int]], commodities: tuple[int, ...]
    ) -> None:
        self.commodities, self.groups = commodities, node_groups(problem, reached)
        self.is_exact = len(self.groups.nodes) == 1
        self._table = np.zeros(0, np.int64)
        self._tree = np.zeros((4 * len(problem.edges) + 256, 2), np.int64)

    def work(self, slots: int) -> float:
        """Return the approximate number of operations of :meth:`fill` for a number of slots."""
        many = int((self.groups.place >= 0).sum())
        sets = 3.0 ** (self.groups.ranks + many - 1)
        return float((sets * self.groups.nodes).sum() * (slots + 1))

    def fill(self, cost: IntArray, arrive: IntArray) -> None:
        """Compute the tables for given costs and arrival slots of sends."""
        slots, rows = cost.shape[1], _row_counts(self.groups)
        size = int(rows.sum() * (slots + 1))
        if len(self._table) != size:
            first = np.concatenate([[0], np.cumsum(rows * (slots + 1))[:-1]])
            self.groups = self.groups._replace(first=first.astype(np.int64))
            self._table = np.zeros(size, np.int64)
        fill_tables(self.groups, slots, cost, arrive, self._table)

    def tree(self, commodity: TreeDemand, start: int, cost: IntArray, arrive: IntArray) -> SlotTree:
        """Return a cheapest tree at the costs of the last :meth:`fill`.

        Raises:
            NoTreeError: No tree exists.
        """
        return self.tree_from(self.goal_set(commodity, start), start, 0, cost, arrive)

    def tree_from(
        self, goal: int, start: int, slot: int, cost: IntArray, arrive: IntArray
    ) -> SlotTree:
        """Return a cheapest tree from a node that has the chunk from a slot on.

        Args:
            goal: Set to serve: one bit for each rank of the node's group, then one for each group.
            start: The node.
            slot: The slot.
            cost: Costs of the last :meth:`fill`.
            arrive: Arrival slots of the last :meth:`fill`.

        Raises:
            NoTreeError: No tree exists.
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
        """Return the costs of trees from a node, shape (goals, slots + 1), by set and slot."""
        groups, g = self.groups, int(self.groups.group[start])
        nodes, first = int(groups.nodes[g]), int(groups.first[g])
        goals = 1 << int(groups.ranks[g] + (groups.place >= 0).sum())
        rows = self._table[first : first + goals * (slots + 1) * nodes]
        return rows.reshape(goals, slots + 1, nodes)[:, :, groups.local[start]]

    def goal_set(self, commodity: TreeDemand, start: int) -> int:
        """Return the set that a commodity has to serve from a node, as a bit mask."""
        groups, g = self.groups, int(self.groups.group[start])
        local_mask = sum(
            1 << int(groups.local[r])
            for r in commodity.wanted - commodity.holders
            if groups.group[r] == g and groups.local[r] < groups.ranks[g]
        )
        wanted = {int(groups.place[groups.group[r]]) for r in commodity.wanted}
        others = sum(1 << place for place in wanted - {int(groups.place[g])} if place >= 0)
        return others << int(groups.ranks[g]) | local_mask


def chunk_starts(problem: TreeProblem) -> dict[frozenset[int], int]:
    """Return the start of each set of holders: the rank, or an extra node linked to all of them."""
    nodes, starts = problem.topology.ranks, dict[frozenset[int], int]()
    for commodity in problem.commodities:
        holders = commodity.holders
        if holders not in starts:
            starts[holders] = nodes if len(holders) > 1 else min(holders)
            nodes += len(holders) > 1
    return starts


def with_start_links(
    starts: Mapping[frozenset[int], int], cost: IntArray, arrive: IntArray
) -> tuple[IntArray, IntArray]:
    """Return costs and arrivals extended by the free links from extra start nodes to holders.

    Args:
        starts: Start node of each set of holders, see :func:`chunk_starts`.
        cost: Cost of a send, 1 or more, shape (links, slots).
        arrive: Slot from which a send has arrived, shape (links, slots). -1: it cannot be sent.
    """
    more = sum(len(holders) for holders in starts if len(holders) > 1)
    if not more:
        return cost, arrive
    free = np.zeros((more, cost.shape[1]), np.int64)
    return np.concatenate([cost, free]), np.concatenate([arrive, free + np.arange(cost.shape[1])])


def node_groups(problem: TreeProblem, reached: Sequence[Sequence[int]]) -> NodeGroups:
    """Return groups of nodes by the ranks to reach. Nodes of no group join the first group."""
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
    """Return the number of table entries of each group per slot."""
    many = int((groups.place >= 0).sum())
    return (1 << (groups.ranks + many)) * groups.nodes
