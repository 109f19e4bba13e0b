"""Trees of ranks, and the patterns that send data down them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sccl.core.collective import Collective
from sccl.synth.baselines.pattern.combine import together, turned
from sccl.synth.baselines.pattern.noun import Numbers, Pattern, pattern_of


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A timed tree that spans all ranks.

    Attributes:
        parent: parent of each rank. The root is its parent.
        step: step in which each rank receives the data. -1 for the root.
    """

    parent: Numbers
    step: Numbers

    @property
    def root(self) -> int:
        """Return the rank without a parent."""
        return int(np.argmin(self.step))

    @property
    def others(self) -> Numbers:
        """Return the ranks with a parent."""
        return np.flatnonzero(self.step >= 0)

    @property
    def height(self) -> int:
        """Return the number of steps until all ranks have the data."""
        return int(self.step.max()) + 1

    def moved(self, ranks: ArrayLike) -> Tree:
        """Return the tree with other names for its ranks: ``ranks[v]`` takes the place of v."""
        names = np.asarray(ranks)
        parent, step = np.empty_like(self.parent), np.empty_like(self.step)
        parent[names], step[names] = names[self.parent], self.step
        return Tree(parent, step)

    def rooted(self, root: int) -> Tree:
        """Return the tree turned round the circle of ranks, so that it starts elsewhere."""
        ranks = len(self.parent)
        return self.moved((np.arange(ranks) + root - self.root) % ranks)


def by_levels(parent: ArrayLike) -> Tree:
    """Return the tree in which each rank receives the data a step after its parent."""
    above = np.asarray(parent)
    here, depth = above, np.where(above == np.arange(len(above)), 0, 1)
    while (here != above[here]).any():
        depth = depth + (here != above[here])
        here = above[here]
    return Tree(above, depth - 1)


def spread(
    collective: Collective, tree: Tree, chunks: ArrayLike, delay: int | Numbers = 0
) -> Pattern:
    """Return the pattern that copies chunks from the root of a tree to all ranks.

    Args:
        delay: steps by which each chunk starts later.
    """
    below = tree.others[:, None]
    return pattern_of(
        collective,
        step=tree.step[below] + delay,
        chunk=chunks,
        src=tree.parent[below],
        dst=below,
    )


def both_ways(whole: Collective, trees: Sequence[Tree], pieces: int) -> Pattern:
    """Return an allreduce that goes up each of some trees, and down again, with its share of it.

    Each share is cut into pieces, one a step behind the other. A piece turns back at the root as
    soon as it is complete, while the next ones still go up.

    Args:
        whole: an allreduce whose chunks can be dealt out evenly to trees and pieces.
    """
    share = whole.num_chunks // len(trees)
    height = max(tree.height for tree in trees)
    parts = []
    for number, tree in enumerate(trees):
        chunks = number * share + np.arange(share)
        late = np.arange(share) * pieces // share
        down = spread(whole, tree, chunks, late + height)
        up = turned(spread(whole, tree, chunks, late[::-1]), whole)
        parts += [up, down]
    return together(parts, [0] * len(parts), whole)


def dealt(collective: Collective, tree: Tree) -> Pattern:
    """Return the pattern that sends the chunks of a scatter down a tree, each to its rank only."""
    chunks = np.arange(collective.num_chunks)
    here: Numbers = chunks % collective.ranks
    rows = []
    while (moving := here != tree.root).any():
        at = here[moving]
        rows.append(np.stack([tree.step[at], chunks[moving], tree.parent[at], at]))
        here = tree.parent[here]
    step, chunk, src, dst = np.concatenate(rows, axis=1)
    return pattern_of(collective, step=step, chunk=chunk, src=src, dst=dst)
