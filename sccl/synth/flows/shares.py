"""Describe packings of slots: the share of each commodity on each tree, and the time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sccl.synth.flows.problem import Tree
from sccl.synth.flows.slots import TimeSlots

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TreePart:
    """A part of a commodity that goes by a tree."""

    commodity: int
    tree: Tree
    part: float


@dataclass(frozen=True, slots=True, eq=False)
class TimedPacking:
    """A packing of some slots.

    Attributes:
        us: Its time, microseconds.
        least: Lower bound for packings of these slots.
        shares: Shares. Those of each commodity add up to 1.
        lengths: Lengths of the slots.
        whole: Whether the trees serve everything. If not, there are too few slots, or too short
            ones.
        prices: Shape (resources, rooms): prices that prove ``least``, per unit of a resource.
    """

    slots: TimeSlots
    us: float
    least: float
    shares: tuple[TreePart, ...]
    lengths: Floats
    whole: bool
    prices: Floats
