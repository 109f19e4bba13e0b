"""What the explorer is given to show."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sccl.core.algorithm import Algorithm

if TYPE_CHECKING:
    from sccl.core.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no algorithm for the same question can beat.

    Attributes:
        steps: least S.
        bandwidth: least R/C.
        reasons: why, in sentences.
        scope: the class of algorithms that it holds for. Empty: all of them.
        classes: what holds for classes of algorithms only.
    """

    steps: int
    bandwidth: Fraction
    reasons: tuple[str, ...]
    scope: str = ""
    classes: tuple[Bounds, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """An algorithm to show. The judge has accepted it.

    Attributes:
        file: its name, as the user knows it.
        intact: whether the file is as sccl wrote it. Otherwise what it claims is not repeated.
        bounds: of all algorithms for the same question, whatever their class.
    """

    algorithm: Algorithm
    file: str
    intact: bool
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class ShownSchedule:
    """A schedule to show. The judge has accepted it.

    Attributes:
        file: its name, as the user knows it.
        least_us: what no schedule of such chunks takes less than. None: nothing is known.
        reason: what shows that, or why nothing is known.
    """

    schedule: Schedule
    file: str
    least_us: float | None
    reason: str
