"""What is found for some slots: which part of what goes by which tree, and what that takes."""

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
    """What was found for some slots.

    Attributes:
        us: the time it takes, microseconds.
        least: no packing of these slots takes less.
        shares: those of each commodity add up to 1.
        lengths: of the slots.
        whole: whether the trees serve everything: else there are too few slots, or too short ones.
        prices: shape (resources, rooms): of each thing of a resource, by which ``least`` is known.
    """

    slots: TimeSlots
    us: float
    least: float
    shares: tuple[TreePart, ...]
    lengths: Floats
    whole: bool
    prices: Floats
