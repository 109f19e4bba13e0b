"""The input of the explorer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sccl.core.algorithm import Algorithm
from sccl.view.completeness import BoundSummary

if TYPE_CHECKING:
    from sccl.core.schedule import Schedule


@dataclass(frozen=True, slots=True)
class ExplorerAlgorithm:
    """A verified algorithm to show.

    Attributes:
        algorithm: algorithm.
        file: file name.
        intact: whether the file is unchanged since sccl wrote it. If not, its claims are not shown.
        bounds: lower bounds of the problem.
    """

    algorithm: Algorithm
    file: str
    intact: bool
    bounds: BoundSummary


@dataclass(frozen=True, slots=True)
class ExplorerSchedule:
    """A verified schedule to show.

    Attributes:
        schedule: schedule.
        file: file name.
        lower_bound_us: lower bound on the completion time for these chunks, in microseconds. None:
            unknown.
        reason: proof of the bound, or the reason why it is unknown.
    """

    schedule: Schedule
    file: str
    lower_bound_us: float | None
    reason: str
