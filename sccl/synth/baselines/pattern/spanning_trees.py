"""Trees of ranks, and the patterns that send data down them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sccl.core.arrays import AnyIntArray
from sccl.core.collective import Collective
from sccl.synth.baselines.pattern.composition import invert_pattern, overlay_patterns
from sccl.synth.baselines.pattern.send_pattern import Pattern, build_pattern


@dataclass(frozen=True, slots=True, eq=False)
class SpanningTree:
    """A timed tree that spans all ranks.

    Attributes:
        parent: parent of each rank. The root is its parent.
        step: step in which each rank receives the data. -1 for the root.
    """

    parent: AnyIntArray
    step: AnyIntArray

    @property
    def root(self) -> int:
        """Return the rank without a parent."""
        return int(np.argmin(self.step))

    @property
    def non_roots(self) -> AnyIntArray:
        """Return the ranks with a parent."""
        return np.flatnonzero(self.step >= 0)

    @property
    def height(self) -> int:
        """Return the number of steps until all ranks have the data."""
        return int(self.step.max()) + 1

    def relabel(self, ranks: ArrayLike) -> SpanningTree:
        """Return the tree with relabeled ranks: ``ranks[v]`` takes the place of v."""
        names = np.asarray(ranks)
        parent, step = np.empty_like(self.parent), np.empty_like(self.step)
        parent[names], step[names] = names[self.parent], self.step
        return SpanningTree(parent, step)

    def rotate_to_root(self, root: int) -> SpanningTree:
        """Return the tree with all ranks shifted cyclically so that ``root`` becomes its root."""
        ranks = len(self.parent)
        return self.relabel((np.arange(ranks) + root - self.root) % ranks)


def tree_by_levels(parent: ArrayLike) -> SpanningTree:
    """Return the tree in which each rank receives the data a step after its parent."""
    above = np.asarray(parent)
    ancestor, depth = above, np.where(above == np.arange(len(above)), 0, 1)
    while (ancestor != above[ancestor]).any():
        depth = depth + (ancestor != above[ancestor])
        ancestor = above[ancestor]
    return SpanningTree(above, depth - 1)


def broadcast_down(
    collective: Collective, tree: SpanningTree, chunks: ArrayLike, delay: int | AnyIntArray = 0
) -> Pattern:
    """Return the pattern that copies chunks from the root of a tree to all ranks.

    Args:
        delay: steps by which each chunk starts later.
    """
    below = tree.non_roots[:, None]
    return build_pattern(
        collective,
        step=tree.step[below] + delay,
        chunk=chunks,
        src=tree.parent[below],
        dst=below,
    )


def reduce_and_broadcast(
    collective: Collective, trees: Sequence[SpanningTree], pieces: int
) -> Pattern:
    """Return an allreduce over several trees, each of which reduces and broadcasts its share.

    Each share is cut into pieces, each one step after the previous one. The root broadcasts a piece
    as soon as it is complete, while later pieces are still being reduced.

    Args:
        collective: Allreduce whose chunks can be divided evenly among trees and pieces.
    """
    share = collective.num_chunks // len(trees)
    height = max(tree.height for tree in trees)
    parts = []
    for number, tree in enumerate(trees):
        chunks = number * share + np.arange(share)
        delays = np.arange(share) * pieces // share
        down = broadcast_down(collective, tree, chunks, delays + height)
        up = invert_pattern(broadcast_down(collective, tree, chunks, delays[::-1]), collective)
        parts += [up, down]
    return overlay_patterns(parts, [0] * len(parts), collective)


def scatter_down(collective: Collective, tree: SpanningTree) -> Pattern:
    """Return the pattern that sends the chunks of a scatter down a tree, each to its rank only."""
    chunks = np.arange(collective.num_chunks)
    holders: AnyIntArray = chunks % collective.ranks
    rows = []
    while (moving := holders != tree.root).any():
        at = holders[moving]
        rows.append(np.stack([tree.step[at], chunks[moving], tree.parent[at], at]))
        holders = tree.parent[holders]
    step, chunk, src, dst = np.concatenate(rows, axis=1)
    return build_pattern(collective, step=step, chunk=chunk, src=src, dst=dst)
