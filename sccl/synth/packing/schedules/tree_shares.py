"""Describe packings of slots: the share of each commodity on each tree, and the time."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.arrays import FloatArray
from sccl.synth.packing.schedules.flow_problem import SlotTree
from sccl.synth.packing.schedules.time_slots import TimeSlots


@dataclass(frozen=True, slots=True, eq=False)
class TreePart:
    """A part of a commodity that goes by a tree."""

    commodity: int
    tree: SlotTree
    part: float


@dataclass(frozen=True, slots=True, eq=False)
class TimedPacking:
    """A packing of some slots.

    Attributes:
        us: Its time, microseconds.
        lower_bound_us: Lower bound for packings of these slots.
        shares: Shares. Those of each commodity add up to 1.
        lengths: Lengths of the slots.
        is_complete: Whether the trees serve everything. If not, there are too few slots, or too
            short
            ones.
        prices: Shape (resources, rooms): prices that prove ``lower_bound_us``, per unit of a
            resource.
    """

    slots: TimeSlots
    us: float
    lower_bound_us: float
    shares: tuple[TreePart, ...]
    lengths: FloatArray
    is_complete: bool
    prices: FloatArray
