"""Exploring: algorithms, and the frontiers they are on, as a page."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from sccl.collectives import Spec, spec_of_collective
from sccl.core.files.fields import Count, FileText
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.tasks.bounds import bounds_of
from sccl.tasks.judged import judged, judged_schedule
from sccl.tasks.outputs import Output
from sccl.view.explorer.html import check_fits
from sccl.view.shown import Bounds, Shown, ShownSchedule

if TYPE_CHECKING:
    from sccl.core.packed import AnySchedule


class ExploreOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl explore'."""

    kind: Literal["explore"] = "explore"
    file: FileText
    algorithms: Count
    schedules: Count
    frontiers: Count
    training: Annotated[int, Meta(ge=0, description="Training plans.")] = 0


def shown(given: Iterable[tuple[str, AnyAlgorithm, bool]], *, by_cost: bool = False) -> list[Shown]:
    """Return the algorithms of a page, with the bounds of their problems.

    Args:
        given: Algorithms with file or name, and whether the file is unchanged.
        by_cost: Whether to sort by costs instead of file names, where C=10 comes before C=2.

    Raises:
        InputError: They are too large for a page, or one fails verification.
    """
    several = list(given)
    check_fits(*((name, algorithm) for name, algorithm, _ in several))
    bounds: dict[tuple[Topology, Spec], Bounds] = {}
    items = [_shown(*one, bounds) for one in several]
    return sorted(items, key=_place) if by_cost else items


def shown_schedules(given: Iterable[tuple[str, AnySchedule]]) -> list[ShownSchedule]:
    """Return the schedules of a page, with their lower bounds.

    Args:
        given: Schedules with file or name.

    Raises:
        InputError: They are too large for a page, or one fails verification.
    """
    several = list(given)
    check_fits(*several)
    return [_shown_schedule(*one) for one in several]


def _shown_schedule(name: str, schedule: AnySchedule) -> ShownSchedule:
    from sccl.tasks.time_bound import time_bound  # noqa: PLC0415 - NumPy is slow to load

    s, c = judged_schedule(schedule, name), schedule.collective
    try:
        bound = time_bound(s.topology, spec_of_collective(c), c, s.clock, together=s.has_together)
    except InputError as error:
        return ShownSchedule(s, Path(name).name, None, str(error))
    return ShownSchedule(s, Path(name).name, s.clock.us(bound.ticks), bound.about)


def _place(item: Shown) -> tuple[str, str, int, Fraction]:
    a = item.algorithm
    return a.topology.name, a.collective.name, a.steps, a.bandwidth_cost


def _shown(
    name: str,
    loaded: AnyAlgorithm,
    intact: bool,
    known: dict[tuple[Topology, Spec], Bounds],
) -> Shown:
    """Return the page data of an algorithm. ``known`` caches bounds."""
    algorithm = judged(loaded, name)
    question = (algorithm.topology, spec_of_collective(algorithm.collective))
    if question not in known:
        known[question] = bounds_of(*question)
    return Shown(algorithm, Path(name).name, intact, known[question])
