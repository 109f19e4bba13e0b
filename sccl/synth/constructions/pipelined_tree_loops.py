"""Check whether a tree may take a link such that all trees can be completed: compiled loops."""

from __future__ import annotations

from typing import Any

from sccl.compiled import compiled


@compiled
def can_take_link(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    machine: Any, left: Any, depth: Any, tree: int, link: int, scratch: Any
) -> bool:
    """Return whether all trees can still be completed if one takes a link to a new rank.

    This holds if there are lane-disjoint paths over the remaining lanes to this rank, one from each
    other tree. Then each set of ranks has at least as many incoming lanes as there are trees
    outside the set.

    Args:
        machine: Links by destination (starts, links), links by source (starts, links), source and
            destination of each link.
        left: Lanes of each link that no tree has taken.
        depth: Depth of each rank in each tree, shape (trees, ranks). -1: not in the tree.
        tree: The tree.
        link: The link.
        scratch: Work space: flow of each link, start of each tree's path (-1: none), predecessor of
            each node of a search, the link from it, and a queue.
    """
    flow, begins = scratch[0], scratch[1]
    dst = machine[5]
    flow[:] = 0
    begins[:] = -1
    left[link] -= 1
    num_paths = 0
    while num_paths < len(begins) - 1 and _find_augmenting_path(
        machine, left, depth, tree, dst[link], scratch
    ):
        num_paths += 1
    left[link] += 1
    return num_paths == len(begins) - 1


@compiled
def _find_augmenting_path(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    machine: Any, left: Any, depth: Any, tree: int, sink: int, scratch: Any
) -> bool:
    """Add a path to a rank by a backward search in the residual graph. False: no path exists."""
    in_start, in_link, out_start, out_link, src, dst = machine
    flow, begins, before, by, queue = scratch
    trees, ranks = depth.shape
    before[:] = -2
    before[sink] = -1
    queue[0] = sink
    head, tail = 0, 1
    while head < tail:
        node = queue[head]
        head += 1
        if node >= ranks:  # a tree: its path starts elsewhere, or can start here
            start = begins[node - ranks]
            if start < 0:
                _augment(node - ranks, ranks, src, flow, begins, before, by)
                return True
            if before[start] == -2:
                before[start], by[start] = node, -1
                queue[tail] = start
                tail += 1
            continue
        for other_tree in range(trees):
            if (
                other_tree != tree
                and depth[other_tree, node] >= 0
                and before[ranks + other_tree] == -2
            ):
                before[ranks + other_tree], by[ranks + other_tree] = node, -1
                queue[tail] = ranks + other_tree
                tail += 1
        for i in range(in_start[node], in_start[node + 1]):
            k = in_link[i]
            if flow[k] < left[k] and before[src[k]] == -2:
                before[src[k]], by[src[k]] = node, k
                queue[tail] = src[k]
                tail += 1
        for i in range(out_start[node], out_start[node + 1]):
            k = out_link[i]
            if flow[k] > 0 and before[dst[k]] == -2:
                before[dst[k]], by[dst[k]] = node, k
                queue[tail] = dst[k]
                tail += 1
    return False


@compiled
def _augment(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    tree: int, ranks: int, src: Any, flow: Any, begins: Any, before: Any, by: Any
) -> None:
    """Add the found path: set the start of a tree's path, and change the flows along the search."""
    node = ranks + tree
    while before[node] != -1:
        after, link = before[node], by[node]
        if node >= ranks:
            begins[node - ranks] = after
        elif link >= 0:
            flow[link] += 1 if src[link] == node else -1
        node = after
