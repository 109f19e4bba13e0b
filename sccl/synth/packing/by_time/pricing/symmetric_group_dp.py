"""Tables of trees if groups of nodes are equal, and equally joined: counts replace sets of groups.

As in :mod:`sccl.synth.packing.by_time.pricing.slot_set_dp` a tree enters each group once. If only
the number of groups still to be reached matters, and not which, one table serves all groups.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from sccl.compiled import compiled
from sccl.core.arrays import IntArray
from sccl.synth.packing.by_time.pricing.slot_set_dp import INFINITE
from sccl.synth.packing.schedules.flow_problem import FlowProblem

_MIN_CHASSIS = 3
"""Chassis that are looked at for being alike; of fewer a table of sets is small."""


class InterchangeableGroups(NamedTuple):
    """A group, and how it is joined with the others.

    Attributes:
        nodes: how many there are in a group.
        groups: how many groups there are.
        src: of each kind of link: where in its group it comes from.
        dst: where in its own group, or in another, it leads to.
        inside: whether it stays in its group. Those come first.
        link: one of each kind.
    """

    nodes: int
    groups: int
    src: IntArray
    dst: IntArray
    inside: IntArray
    link: IntArray


@compiled
def fill_symmetric_groups(  # noqa: PLR0912, PLR0913, PLR0917 - the inputs of :func:`tables.fill`
    nodes: int,
    groups: int,
    slots: int,
    src: IntArray,
    dst: IntArray,
    inside: IntArray,
    cost: IntArray,
    arrive: IntArray,
    table: IntArray,
) -> None:
    """Fill in the cost of serving some ranks of a group, and some other groups, from each node.

    Args:
        cost: shape (kinds, slots).
        arrive: shape (kinds, slots).
        table: by the number of other groups, own ranks as bits, slot (and one after the last) and
            node.
    """
    full = (1 << nodes) - 1
    long = (slots + 1) * nodes
    for others in range(groups):
        for local_mask in range(full + 1):
            row = ((others << nodes) | local_mask) * long
            if local_mask == 0 and others == 0:
                table[row : row + long] = 0
                continue
            table[row : row + long] = INFINITE
            low = local_mask & -local_mask
            part = local_mask
            while True:  # each part of own, itself and the empty one among them
                if part & low or local_mask == 0:
                    for share in range(others + 1):
                        if (part == local_mask and share == others) or (part == 0 and share == 0):
                            continue
                        first_row = ((share << nodes) | part) * long
                        two = (((others - share) << nodes) | (local_mask ^ part)) * long
                        for i in range(long):
                            table[row + i] = min(
                                table[row + i], table[first_row + i] + table[two + i]
                            )
                if part == 0:
                    break
                part = (part - 1) & local_mask
            for v in range(nodes):
                if local_mask >> v & 1:
                    without = ((others << nodes) | (local_mask ^ (1 << v))) * long
                    for i in range(v, long, nodes):
                        table[row + i] = min(table[row + i], table[without + i])
            for slot in range(slots - 1, -1, -1):
                for i in range(row + slot * nodes, row + (slot + 1) * nodes):
                    table[i] = min(table[i], table[i + nodes])
                again = True
                while again:  # forwards within the slot
                    again = False
                    for k in range(len(src)):
                        arrival = arrive[k, slot]
                        if arrival < 0:
                            continue
                        if inside[k]:
                            onward = table[row + arrival * nodes + dst[k]]
                        elif local_mask == 0:
                            goal = ((others - 1) << nodes) | full
                            onward = table[goal * long + arrival * nodes + dst[k]]
                        else:
                            continue
                        at = row + slot * nodes + src[k]
                        if onward + cost[k, slot] < table[at]:
                            table[at] = onward + cost[k, slot]
                            again = again or arrival == slot


@compiled
def extract_symmetric_tree(  # noqa: PLR0912, PLR0913, PLR0915, PLR0917 - a table, and where to begin
    nodes: int,
    groups: int,
    slots: int,
    src: IntArray,
    dst: IntArray,
    inside: IntArray,
    cost: IntArray,
    arrive: IntArray,
    table: IntArray,
    group: int,
    node: int,
    local_mask: int,
    tree: IntArray,
) -> int:
    """Put the sends of a cheapest tree into ``tree``; return how many there are, -1 if none is.

    Groups are served in their order, from the one after the first on.

    Args:
        tree: shape (most, 4): kind of link, slot, and the groups it comes from and leads to.
    """
    full = (1 << nodes) - 1
    long = (slots + 1) * nodes
    stack = np.empty((len(tree) + groups, 6), np.int64)
    # group, node, slot, own ranks, and other groups: from one on, and how many
    stack[0] = (group, node, 0, local_mask, group + 1, groups - 1)
    high, sends = 1, 0
    while high:
        high -= 1
        group, node, slot, local_mask, begin, others = stack[high]
        if local_mask == 0 and others == 0:
            continue
        row = ((others << nodes) | local_mask) * long
        at = slot * nodes + node
        lowest_cost = table[row + at]
        if lowest_cost >= INFINITE:
            return -1
        if local_mask >> node & 1:
            without = ((others << nodes) | (local_mask ^ (1 << node))) * long
            if table[without + at] == lowest_cost:
                stack[high] = (group, node, slot, local_mask ^ (1 << node), begin, others)
                high += 1
                continue
        if slot < slots and table[row + at + nodes] == lowest_cost:
            stack[high] = (group, node, slot + 1, local_mask, begin, others)
            high += 1
            continue
        low, part, is_split = local_mask & -local_mask, local_mask, False
        while not is_split:
            if part & low or local_mask == 0:
                for share in range(others + 1):
                    if (part == local_mask and share == others) or (part == 0 and share == 0):
                        continue
                    first_row = ((share << nodes) | part) * long
                    two = (((others - share) << nodes) | (local_mask ^ part)) * long
                    if table[first_row + at] + table[two + at] == lowest_cost:
                        stack[high] = (group, node, slot, part, begin, share)
                        rest = (group, node, slot, local_mask ^ part, begin + share, others - share)
                        stack[high + 1] = rest
                        high += 2
                        is_split = True
                        break
            if part == 0:
                break
            part = (part - 1) & local_mask
        if is_split:
            continue
        for k in range(len(src)):
            arrival = arrive[k, slot]
            if src[k] != node or arrival < 0:
                continue
            if inside[k]:
                onward = table[row + arrival * nodes + dst[k]]
            elif local_mask == 0:
                goal = ((others - 1) << nodes) | full
                onward = table[goal * long + arrival * nodes + dst[k]]
            else:
                continue
            if onward + cost[k, slot] != lowest_cost:
                continue
            there_group = group if inside[k] else begin % groups
            tree[sends] = (k, slot, group, there_group)
            sends += 1
            if inside[k]:
                stack[high] = (group, dst[k], arrival, local_mask, begin, others)
            else:
                stack[high] = (there_group, dst[k], arrival, full, begin + 1, others - 1)
            high += 1
            break
    return sends


def find_interchangeable_groups(
    problem: FlowProblem,
) -> tuple[InterchangeableGroups, dict[tuple[int, int, int], int]] | None:
    """Return the mapping between equal chassis, and the links between them. None: they differ.

    They are equal if each has consecutive ranks and the same links, the same links lead from each
    to each other, and their costs and uses are equal by symmetry.
    """
    topology = problem.topology
    chassis = [sorted(map(int, inside)) for inside in topology.chassis]
    many = len(chassis)
    if many < _MIN_CHASSIS:
        return None
    size = topology.ranks // many
    if sorted(chassis) != [list(range(at, at + size)) for at in range(0, many * size, size)]:
        return None
    held: list[list[tuple[int, int]]] = [[] for _ in problem.edges]
    for i, resource in enumerate(problem.resources):
        for link, times in resource.links:
            held[link].append((i, times))
    kinds: dict[tuple[object, ...], dict[tuple[int, int], int]] = {}
    met: Counter[tuple[object, ...]] = Counter()
    for link, (u, v) in enumerate(problem.edges):
        (g, a), (h, b) = divmod(u, size), divmod(v, size)
        signature = (g != h, a, b, problem.alpha[link], tuple(held[link]))
        met[signature, g, h] += 1  # of several that are the same, each is of a kind of its own
        kinds.setdefault((*signature, met[signature, g, h]), {})[g, h] = link
    ordered = sorted(kinds.items(), key=lambda kind: (kind[0][:3], sorted(kind[1].items())))
    if any(len(of) != (many * (many - 1) if kind[0] else many) for kind, of in ordered):
        return None
    joined = InterchangeableGroups(
        size,
        many,
        np.array([kind[1] for kind, _ in ordered], np.int64),
        np.array([kind[2] for kind, _ in ordered], np.int64),
        np.array([not kind[0] for kind, _ in ordered], np.int64),
        np.array([min(of.values()) for _, of in ordered], np.int64),
    )
    links_by_kind = {
        (i, g, h): link for i, (_, of) in enumerate(ordered) for (g, h), link in of.items()
    }
    return joined, links_by_kind
