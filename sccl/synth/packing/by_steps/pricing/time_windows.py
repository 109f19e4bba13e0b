"""The places and times at which sends of a commodity can matter, and their cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.ids import Edge
from sccl.synth.packing.by_steps.packing_problem import Commodity, PackingProblem, StepTree

INFINITE = 1 << 52
"""Dearer than any tree; sums of a few stay within 64 bits."""

STEP_EFFORT, ELEMENT_EFFORT = 1e-7, 3e-9
"""Effort of looking at a link in a step in Python, and of one element of an array.

Estimates that do not depend on how busy a machine is, in the unit of CP-SAT's deterministic time,
which takes one to five seconds.
"""


def max_price_scale(ranks: int) -> int:
    """Return the largest integer for a price of 1 that keeps tree costs below INFINITE."""
    return INFINITE // (2 * (ranks + 1) ** 2)


class PricedTimeWindow:
    """The places and times at which a commodity's sends can matter."""

    def __init__(self, problem: PackingProblem, commodity: Commodity) -> None:
        self.edges: tuple[Edge, ...] = problem.edges
        self.ranks, self.steps = problem.topology.ranks, problem.steps
        self.commodity = commodity
        when = np.arange(self.steps)[None, :]
        first = np.array(commodity.first_step)[:, None]
        end = np.array(commodity.end_step)[:, None]
        self.usable = (first <= when) & (when < end)

    def weights(self, prices: IntArray) -> NDArray[np.int64]:
        """Return prices, then sends, as one number; INFINITE where a send is of no use."""
        weights: NDArray[np.int64] = np.where(
            self.usable, prices * (self.ranks + 1) + 1, np.int64(INFINITE)
        )
        return weights

    def cost(self, prices: IntArray, tree: StepTree) -> int:
        """Return the cost of a tree."""
        return sum(int(prices[use]) for use in tree)
