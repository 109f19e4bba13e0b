"""Cheap timed trees, lower bounds on their cost, and cheapest ones by branching, for many ranks.

A timed tree is a Steiner arborescence in the network of (rank, slot), in which waiting is free.

*Trees* grow by the rule of Takahashi and Matsuyama (1980): the rank that is cheapest to reach is
attached next. Then each rank may be attached again, with all ranks that it serves, if that is
cheaper.

*Bounds* are dual solutions. A cut for a destination is the set of (rank, slot) that a slot for each
rank describes: the rank is inside the cut until this slot. A send enters the cut if it leads from a
rank outside to a rank inside. Each cut has a price, and the sum of all prices is a lower bound on
the cost of every tree. Prices are raised cut by cut, each around one destination, until an entering
send has no reduced cost left (Wong, A dual ascent approach for Steiner tree problems on a directed
graph, Mathematical Programming 28, 1984).

*Branching*: the bound is mostly equal, or close, to the cost of a grown tree. Few branches close
the rest of the gap: the most expensive send of the tree is the only one into its rank, or is
excluded. Both branches exclude sends, so the next dual solution is larger. If that takes too many
nodes, CP-SAT continues from the cheapest tree so far, without the sends that no cheaper tree uses.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import NamedTuple

import numpy as np

from sccl.compiled import compiled
from sccl.core.arrays import BoolArray, IntArray
from sccl.core.ids import Edge
from sccl.synth.limits import ELEMENT_EFFORT, INFINITE, MAX_ITERATIONS
from sccl.synth.packing.flow_problem import SlotTree
from sccl.synth.packing.price_sets import TreeDemand

_MAX_OPEN_NODES = 128
"""Limit on open nodes of branch and bound. ``ndv2x2`` takes 4 nodes on average, 0.1 ms, and CP-SAT
7 ms for the same."""


class TreeNetwork(NamedTuple):
    """Links, and the ranks that hold and want a chunk.

    Attributes:
        src: Node that each link leaves.
        dst: Node that each link enters.
        arrive: Slot from which a send has arrived, shape (links, slots). -1: it cannot be sent.
        held: Whether each rank holds the chunk at the start.
        wanted: Whether each rank demands the chunk and does not hold it.
    """

    src: IntArray
    dst: IntArray
    arrive: IntArray
    held: BoolArray
    wanted: BoolArray


def tree_network(
    edges: tuple[Edge, ...], ranks: int, demand: TreeDemand, arrive: IntArray
) -> TreeNetwork:
    """Return the network of a demand over all links."""
    src, dst = np.ascontiguousarray(np.array(edges, np.int64).reshape(-1, 2).T)
    held = np.isin(np.arange(ranks), list(demand.holders))
    wanted = np.isin(np.arange(ranks), list(demand.wanted)) & ~held
    return TreeNetwork(src, dst, arrive, held, wanted)


@compiled
def insert_targets(network: TreeNetwork, cost: IntArray, first: BoolArray, tree: IntArray) -> int:
    """Write the (link, slot) pairs of a cheap tree into ``tree``. Return their number, or -1.

    Args:
        network: The network.
        cost: Cost of a send, 1 or more, shape (links, slots).
        first: Destinations from which a tree is started. The cheapest tree is kept.
        tree: Shape (capacity, 2). Updated.
    """
    slots, ranks = cost.shape[1], len(network.held)
    best, many = INFINITE, -1
    by, have = np.empty((ranks, 2), np.int64), np.empty(ranks, np.int64)
    far, via = np.empty((slots + 1, ranks), np.int64), np.empty((slots + 1, ranks), np.int64)
    for start in range(ranks):
        if network.wanted[start] and first[start]:
            if not grow_tree(network, cost, have, by, start, far, via):
                continue
            better = True
            while better:
                better = False
                for v in range(ranks):
                    if by[v, 0] >= 0:
                        better |= _reattach_target(network, cost, have, by, v, far, via)
            total = _prune_and_price(network, cost, by)
            if total < best:
                best, many = total, 0
                for v in range(ranks):
                    if by[v, 0] >= 0:
                        tree[many] = by[v]
                        many += 1
    return many


@compiled
def grow_tree(  # noqa: PLR0913, PLR0917 - a network, a tree, and its scratch
    network: TreeNetwork,
    cost: IntArray,
    have: IntArray,
    by: IntArray,
    start: int,
    far: IntArray,
    via: IntArray,
) -> bool:
    """Attach the destination that is cheapest to reach, until none is left. Return False if stuck.

    Args:
        network: The network.
        cost: Cost of a send, shape (links, slots).
        have: Output: slot from which each rank has the chunk.
        by: Output: link and slot by which each rank receives it, shape (ranks, 2). -1: none.
        start: Rank that is attached first. -1: the cheapest.
        far: Work space, shape (slots + 1, ranks).
        via: Work space, shape (slots + 1, ranks).
    """
    slots = cost.shape[1]
    by[:], have[:] = -1, np.where(network.held, 0, slots + 1)
    target = start
    while True:
        _arrival_costs(network, cost, have, by, -1, far, via)
        for v in range(len(have)) if target < 0 else range(0):
            missing = network.wanted[v] and have[v] > slots
            if missing and (target < 0 or far[slots, v] < far[slots, target]):
                target = v
        if target < 0:
            return True
        if far[slots, target] >= INFINITE:
            return False
        _attach_target(network, have, by, target, slots, via)
        target = -1


@compiled
def _arrival_costs(  # noqa: PLR0912, PLR0913, PLR0917 - one loop
    network: TreeNetwork,
    cost: IntArray,
    have: IntArray,
    by: IntArray,
    below: int,
    far: IntArray,
    via: IntArray,
) -> None:
    """Compute the cost of having the chunk at each rank by each slot, from the ranks that have it.

    Args:
        network: The network.
        cost: Cost of a send, shape (links, slots).
        have: Slot from which each rank has the chunk.
        by: Link and slot by which each rank receives it.
        below: Rank that counts as without the chunk, with all ranks that it serves. -1: none.
        far: Output: the costs, shape (slots + 1, ranks).
        via: Output: link * slots + slot of the arriving send. -1: the rank has the chunk from the
            slot before. -2: at no cost.
    """
    src, dst, arrive = network.src, network.dst, network.arrive
    slots, ranks = cost.shape[1], len(have)
    out = np.zeros(ranks, np.int64)
    if below >= 0:
        for v in range(ranks):
            u = v
            while u != below and by[u, 0] >= 0:
                u = src[by[u, 0]]
            out[v] = u == below
    for k in range(slots + 1):
        for v in range(ranks):
            arrived = have[v] <= k and not out[v]
            far[k, v] = 0 if arrived else INFINITE
            via[k, v] = -2
    for k in range(slots + 1):
        if k > 0:
            for v in range(ranks):
                if far[k - 1, v] <= far[k, v]:  # as early as possible
                    far[k, v], via[k, v] = far[k - 1, v], -1
        again = k < slots
        while again:  # forward within the slot
            again = False
            for link in range(len(src)):
                arrived, u, v = arrive[link, k], src[link], dst[link]
                if arrived < 0 or far[k, u] >= INFINITE or (out[v] and v != below):
                    continue
                if far[k, u] + cost[link, k] < far[arrived, v]:
                    far[arrived, v], via[arrived, v] = far[k, u] + cost[link, k], link * slots + k
                    again = again or arrived == k


@compiled
def _attach_target(  # noqa: PLR0913, PLR0917
    network: TreeNetwork, have: IntArray, by: IntArray, rank: int, slot: int, via: IntArray
) -> None:
    """Attach a rank by a slot over its cheapest path, with all ranks on the path."""
    slots = network.arrive.shape[1]
    while via[slot, rank] != -2:
        if via[slot, rank] == -1:
            slot -= 1
            continue
        link, slot = divmod(via[slot, rank], slots)
        by[rank, 0], by[rank, 1], have[rank] = link, slot, network.arrive[link, slot]
        rank = network.src[link]


@compiled
def _reattach_target(  # noqa: PLR0913, PLR0917
    network: TreeNetwork,
    cost: IntArray,
    have: IntArray,
    by: IntArray,
    rank: int,
    far: IntArray,
    via: IntArray,
) -> bool:
    """Attach a rank again by the slot where it is needed, if cheaper. Return whether it was."""
    need = cost.shape[1]
    serves = False
    for v in range(len(have)):
        if by[v, 0] >= 0 and network.src[by[v, 0]] == rank:
            need, serves = min(need, by[v, 1]), True
    old = cost[by[rank, 0], by[rank, 1]]
    if not serves and not network.wanted[rank]:
        by[rank], have[rank] = -1, cost.shape[1] + 1
        return True
    _arrival_costs(network, cost, have, by, rank, far, via)
    if far[need, rank] >= old:
        return False
    _attach_target(network, have, by, rank, need, via)
    return True


@compiled
def _prune_and_price(network: TreeNetwork, cost: IntArray, by: IntArray) -> int:
    """Remove ranks that neither demand the chunk nor serve others. Return the remaining cost."""
    again = True
    while again:
        again = False
        for v in range(len(by)):
            if by[v, 0] >= 0 and not network.wanted[v]:
                serves = False
                for w in range(len(by)):
                    serves |= by[w, 0] >= 0 and network.src[by[w, 0]] == v
                if not serves:
                    by[v] = -1
                    again = True
    total = 0
    for v in range(len(by)):
        if by[v, 0] >= 0:
            total += cost[by[v, 0], by[v, 1]]
    return total


@compiled
def dual_ascent_bound(network: TreeNetwork, reduced: IntArray) -> tuple[int, int]:  # noqa: PLR0912
    """Return a lower bound on the cost of trees, and the number of cuts in it.

    Args:
        network: The network.
        reduced: Costs of sends, shape (links, slots). Output: the reduced costs.
    """
    src, dst, arrive = network.src, network.dst, network.arrive
    links, slots = reduced.shape
    ranks = len(network.held)
    until, size = np.empty(ranks, np.int64), np.zeros(ranks, np.int64)
    total, sets = 0, 0
    while True:
        target = -1  # small sets first, because few sends enter them
        for rank in range(ranks):
            waits = network.wanted[rank] and size[rank] >= 0
            if waits and (target < 0 or size[rank] < size[target]):
                target = rank
        if target < 0:
            return total, sets
        until[:] = -1
        until[target] = slots
        for slot in range(slots - 1, -1, -1):
            again, is_within = True, False
            while again:  # backward within the slot
                again = False
                for link in range(links):
                    arrived = arrive[link, slot]
                    inside = until[src[link]] < slot and 0 <= arrived <= until[dst[link]]
                    if inside and reduced[link, slot] == 0:
                        until[src[link]] = slot
                        again = True
                    is_within = is_within or arrived == slot
                again = again and is_within
        inside = 0
        for rank in range(ranks):
            inside += until[rank] + 1
            if network.held[rank] and until[rank] >= 0:
                inside = -1
                break
        size[target] = inside
        if inside < 0:
            continue
        min_cost = INFINITE
        for link in range(links):
            last = until[dst[link]]
            for slot in range(until[src[link]] + 1, min(last + 1, slots)):
                if 0 <= arrive[link, slot] <= last:
                    min_cost = min(min_cost, reduced[link, slot])
        if min_cost >= INFINITE:
            return INFINITE, sets
        for link in range(links):
            last = until[dst[link]]
            for slot in range(until[src[link]] + 1, min(last + 1, slots)):
                if 0 <= arrive[link, slot] <= last and reduced[link, slot] < INFINITE:
                    reduced[link, slot] -= min_cost
        total += min_cost
        sets += 1


@compiled
def solve_branch_and_bound(
    network: TreeNetwork, left: IntArray, below: int, max_nodes: int, best: IntArray
) -> tuple[int, int, int]:
    """Return the minimum cost of a tree below a limit, the number of cuts, and of nodes.

    The cost is ``below`` if no cheaper tree exists. If there were too many nodes, their number is
    -1, and a tree of less cost may exist.

    Args:
        network: The network.
        left: Costs of sends in open nodes, shape (open nodes, links, slots). The first node is the
            root.
        below: Upper limit on the cost, exclusive.
        max_nodes: Limit on nodes.
        best: Output: link and slot by which each rank of the tree is reached, shape (ranks, 2). -1:
            none.
    """
    _, links, slots = left.shape
    ranks = len(network.held)
    reduced, doubled = np.empty((links, slots), np.int64), np.empty((links, slots), np.int64)
    by, have = np.empty((ranks, 2), np.int64), np.empty(ranks, np.int64)
    far, via = np.empty((slots + 1, ranks), np.int64), np.empty((slots + 1, ranks), np.int64)
    waiting, nodes, paid = 1, 0, 0
    while waiting > 0:
        if nodes == max_nodes or waiting == len(left):
            return below, paid, -1
        nodes, waiting = nodes + 1, waiting - 1
        costs = left[waiting]
        reduced[:] = costs
        bound, sets = dual_ascent_bound(network, reduced)
        paid += sets + 1
        if bound >= below:
            continue
        _exclude_sends(costs, reduced, below - bound, doubled)
        if not grow_tree(network, doubled, have, by, -1, far, via):
            continue
        total = 0
        for rank in range(ranks):
            total += costs[by[rank, 0], by[rank, 1]] if by[rank, 0] >= 0 else 0
        if total < below:
            below = total
            best[:] = by
        rank = _most_expensive_rank(costs, network.dst, by) if bound < below else -1
        if rank >= 0:
            link, slot = by[rank]
            left[waiting + 1] = costs
            for other_link in range(links):
                if network.dst[other_link] == rank:
                    left[waiting + 1, other_link] = INFINITE
            left[waiting + 1, link, slot] = costs[link, slot]
            costs[link, slot] = INFINITE
            waiting += 2
    return below, paid, nodes


@compiled
def _exclude_sends(costs: IntArray, reduced: IntArray, room: int, doubled: IntArray) -> None:
    """Exclude sends that no cheap enough tree has. Double the cost of sends with reduced cost."""
    links, slots = costs.shape
    for link in range(links):
        for slot in range(slots):
            if reduced[link, slot] >= room:
                costs[link, slot] = INFINITE
            expensive = reduced[link, slot] > 0 and costs[link, slot] < INFINITE
            doubled[link, slot] = costs[link, slot] * (2 if expensive else 1)


@compiled
def _most_expensive_rank(costs: IntArray, dst: IntArray, by: IntArray) -> int:
    """Return the rank of a tree's most expensive send that has an alternative, or -1."""
    choices = [0] * len(by)
    links, slots = costs.shape
    for link in range(links):
        for slot in range(slots):
            if costs[link, slot] < INFINITE:
                choices[dst[link]] += 1
    best_rank, max_cost = -1, -1
    for rank in range(len(by)):
        if by[rank, 0] >= 0 and choices[rank] > 1:
            cost = costs[by[rank, 0], by[rank, 1]]
            if cost > max_cost:
                best_rank, max_cost = rank, cost
    return best_rank


class TreeSearch:
    """Search for cheapest trees by branch and bound, then by CP-SAT on a time-indexed model.

    Args:
        network: Links of the machine. Sends take one slot or more.
        max_effort: Limit on CP-SAT's effort for a tree.
        deadline: Time of ``time.perf_counter()`` after which no search starts.

    Attributes:
        spent: Effort so far, the same on every machine.
    """

    def __init__(self, network: TreeNetwork, max_effort: float, deadline: float = math.inf) -> None:
        reached = (network.arrive >= 0).any(axis=1) & ~network.held[network.dst]
        self.useful, self.max_effort = np.flatnonzero(reached), max_effort
        self.deadline, self.spent = deadline, 0.0
        ends = (network.src[self.useful], network.dst[self.useful], network.arrive[self.useful])
        self.network = TreeNetwork(*ends, network.held, network.wanted)

    def lower_bound(self, costs: IntArray) -> int:
        """Return a lower bound on the cost of trees.

        Args:
            costs: Cost of a send, shape (links, slots). INFINITE: no send.
        """
        return self._ascend_duals(costs[self.useful])[0]

    def cheapest(self, costs: IntArray, below: int = INFINITE) -> tuple[SlotTree | None, int]:
        """Return the cheapest tree below a cost, and a lower bound on the cost of trees below it.

        The tree is None if it does not exist, or was not found. The bound is ``below`` if no tree
        exists.

        Raises:
            TimeoutError: The deadline has passed.
            KeyboardInterrupt: The user interrupted.
        """
        seconds = self.deadline - perf_counter()
        if seconds <= 0:
            raise TimeoutError("no time is left for a cheapest timed tree")
        useful_costs = costs[self.useful]
        tree, cost, is_complete = self._branch_and_bound(useful_costs, below)
        if is_complete:
            return tree, cost
        lower_bound, reduced = self._ascend_duals(useful_costs)
        allowed = (reduced < cost - lower_bound) & (self.network.arrive >= 0)
        better, proved = self._solve_cpsat(useful_costs, allowed, cost, seconds)
        return better or tree, max(lower_bound, proved)

    def grow(self, costs: IntArray) -> SlotTree:
        """Return a tree by the rule of Takahashi and Matsuyama."""
        network, useful_costs = self.network, costs[self.useful]
        slots, ranks = costs.shape[1], len(network.held)
        self.spent += ELEMENT_EFFORT * int(network.wanted.sum()) * useful_costs.size
        by, have = np.empty((ranks, 2), np.int64), np.empty(ranks, np.int64)
        far, via = np.empty((2, slots + 1, ranks), np.int64)
        is_complete = grow_tree(network, useful_costs, have, by, -1, far, via)
        assert is_complete, "each rank can be reached in the slots that there are"
        return self._tree(by)

    def _branch_and_bound(self, costs: IntArray, below: int) -> tuple[SlotTree | None, int, bool]:
        """Return the cheapest tree of a few nodes, its cost, and whether it is proved optimal."""
        left = np.empty((_MAX_OPEN_NODES, *costs.shape), np.int64)
        left[0] = costs
        best = np.full((len(self.network.held), 2), -1, np.int64)
        cost, paid, nodes = solve_branch_and_bound(self.network, left, below, MAX_ITERATIONS, best)
        each = len(best) + int(self.network.wanted.sum())
        many = MAX_ITERATIONS if nodes < 0 else nodes
        self.spent += ELEMENT_EFFORT * (paid + many * each) * costs.size
        return (self._tree(best) if cost < below else None), cost, nodes >= 0

    def _tree(self, by: IntArray) -> SlotTree:
        """Return the tree as (link, slot) pairs."""
        return frozenset((int(self.useful[link]), int(slot)) for link, slot in by if link >= 0)

    def _ascend_duals(self, costs: IntArray) -> tuple[int, IntArray]:
        """Return a lower bound on the cost of trees, and the reduced costs that prove it."""
        reduced = costs.copy()
        bound, sets = dual_ascent_bound(self.network, reduced)
        self.spent += ELEMENT_EFFORT * (sets + len(self.network.held)) * reduced.size
        return bound, reduced

    def _solve_cpsat(
        self, costs: IntArray, allowed: BoolArray, below: int, seconds: float
    ) -> tuple[SlotTree | None, int]:
        """Return CP-SAT's cheapest tree below a cost, and a lower bound on its cost.

        With it, the limit of a broadcast on ``torus:4x4x2`` with S = 5 is known. More branching
        with the same budget leaves it open.

        Args:
            costs: Cost of a send, by useful link and slot.
            allowed: Whether the tree may have a send, by useful link and slot.
            below: Upper limit on the cost, exclusive.
            seconds: Time limit.
        """
        from sccl.solvers.cpsat import CpModel, LinearExpr, Strategy, solve  # noqa: PLC0415 - slow to load
        from sccl.solvers.effort import Effort  # noqa: PLC0415 - slow to load

        src, dst, arrive, held, wanted = self.network
        model = CpModel()
        sent = {
            (int(e), int(k)): model.new_bool_var("")
            for e, k in zip(*np.nonzero(allowed), strict=True)
        }
        into: list[list[tuple[int, int]]] = [[] for _ in held]
        for e, k in sent:
            into[dst[e]].append((e, k))
        order = [model.new_int_var(0, len(held), "") for _ in held]
        for rank, arrivals in enumerate(into):
            arriving = [sent[use] for use in arrivals]
            if wanted[rank]:
                model.add_exactly_one(arriving)
            elif arriving:
                model.add_at_most_one(arriving)
        for (e, k), used in sent.items():
            if not held[src[e]]:
                before = (sent[use] for use in into[src[e]] if arrive[use] <= k)
                model.add_bool_or([~used, *before])
                if arrive[e, k] == k:  # no cycles within a slot
                    model.add(order[dst[e]] > order[src[e]]).only_enforce_if(used)
        total = LinearExpr.weighted_sum(list(sent.values()), [int(costs[use]) for use in sent])
        model.add(total < below)
        model.minimize(total)
        timeout_s = seconds if seconds < math.inf else None
        effort = Effort(timeout_s, seed=1, units=self.max_effort)  # the seed of CP-SAT
        result = solve(model, effort, Strategy(workers=1, linear=2))
        self.spent += result.units
        if result.is_infeasible:
            return None, below
        if not result.has_solution:
            return None, result.bound
        tree = frozenset(
            (int(self.useful[e]), k) for (e, k), used in sent.items() if result.value(used)
        )
        cost = sum(int(costs[use]) for use, used in sent.items() if result.value(used))
        return tree, cost if result.is_optimal else result.bound
