"""C-Cube's two trees on a DGX-1: pieces come down while the next ones go up."""

from __future__ import annotations

from math import lcm

import numpy as np

from sccl.errors import TopologyError
from sccl.synth.baselines.pattern import Pattern, PatternMaker
from sccl.synth.baselines.pattern.pattern_conversion import link_indices
from sccl.synth.baselines.pattern.spanning_trees import reduce_and_broadcast, tree_by_levels
from sccl.synth.common.contract import Request

NAME = "c-cube"
SOURCE = "Cho, Son, Kim, HPCA 2023, as in TACOS (MICRO 2024), section V-A; trees are computed"

PARENTS = ((0, 0, 0, 1, 5, 1, 5, 3), (4, 2, 6, 2, 4, 7, 4, 6))
"""Parents in each tree, whose root is its parent. No lane is used twice, and no rank has children
in both: of all such pairs of binary trees, these have the smallest height, 3, and the lowest
numbers.
"""


def _allreduce(request: Request, pieces: int) -> Pattern:
    parents = np.array(PARENTS)
    machine, ranks = request.topology, len(PARENTS[0])
    children = np.arange(ranks)[None, :]
    links = link_indices(np.broadcast_to(children, parents.shape), parents, machine)
    if machine.ranks != ranks or (links < 0)[parents != children].any():
        raise TopologyError(
            f"C-Cube uses trees of a DGX-1, and topology {machine.name!r} lacks their links: give "
            "dgx1"
        )
    collective = request.spec.at(lcm(request.spec.unit, 2 * pieces))
    return reduce_and_broadcast(collective, [tree_by_levels(tree) for tree in PARENTS], pieces)


COLLECTIVES: dict[str, PatternMaker] = {"allreduce": _allreduce}
