"""Prepare verified algorithms and schedules, with their lower bounds, for the explorer."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from sccl.collectives import Spec, recover_spec
from sccl.core.files.outputs import Output
from sccl.core.files.shapes import FileText, NonNegative
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.transform.validated import validated_algorithm, validated_schedule
from sccl.view.completeness import BoundSummary
from sccl.view.explorer.explorer_data import ExplorerAlgorithm, ExplorerSchedule
from sccl.view.explorer.page_html import check_fits
from sccl.view.text.problem_bounds import compute_bounds

if TYPE_CHECKING:
    from sccl.core.packed_schedule import AnySchedule


class ExploreOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl explore'."""

    kind: Literal["explore"] = "explore"
    file: FileText
    algorithms: NonNegative
    schedules: NonNegative
    frontiers: NonNegative
    training: Annotated[NonNegative, "Training plans."] = 0


def explorer_algorithms(
    entries: Iterable[tuple[str, AnyAlgorithm, bool]], *, by_cost: bool = False
) -> list[ExplorerAlgorithm]:
    """Return the algorithms of a page, with the bounds of their problems.

    Args:
        entries: File or name of each algorithm, the algorithm, and whether the file is unchanged.
        by_cost: Whether to sort by costs. Otherwise the order of ``entries`` is kept; file names
            would sort C=10 before C=2.

    Raises:
        InputError: The algorithms are too large for a page, or one fails verification.
    """
    several = list(entries)
    check_fits(*((name, algorithm) for name, algorithm, _ in several))
    bounds: dict[tuple[Topology, Spec], BoundSummary] = {}
    items = [_explorer_algorithm(*entry, bounds) for entry in several]

    def costs(item: ExplorerAlgorithm) -> tuple[str, str, int, Fraction]:
        a = item.algorithm
        return a.topology.name, a.collective.name, a.steps, a.bandwidth_cost

    return sorted(items, key=costs) if by_cost else items


def explorer_schedules(entries: Iterable[tuple[str, AnySchedule]]) -> list[ExplorerSchedule]:
    """Return the schedules of a page, with their lower bounds.

    Args:
        entries: File or name of each schedule, and the schedule.

    Raises:
        InputError: The schedules are too large for a page, or one fails verification.
    """
    several = list(entries)
    check_fits(*several)
    return [_explorer_schedule(*entry) for entry in several]


def _explorer_schedule(name: str, schedule: AnySchedule) -> ExplorerSchedule:
    from sccl.synth.packing.by_time.time_bound import compute_time_bound  # noqa: PLC0415 - NumPy is slow to load

    s, c = validated_schedule(schedule, name), schedule.collective
    try:
        bound = compute_time_bound(
            s.topology, recover_spec(c), c, s.clock, together=s.has_combined_transfers
        )
    except InputError as error:
        return ExplorerSchedule(s, Path(name).name, None, str(error))
    return ExplorerSchedule(s, Path(name).name, s.clock.us(bound.value), bound.proof)


def _explorer_algorithm(
    name: str,
    loaded: AnyAlgorithm,
    intact: bool,
    bound_cache: dict[tuple[Topology, Spec], BoundSummary],
) -> ExplorerAlgorithm:
    """Return the page data of an algorithm. ``bound_cache`` stores the bounds of problems."""
    algorithm = validated_algorithm(loaded, name)
    question = (algorithm.topology, recover_spec(algorithm.collective))
    if question not in bound_cache:
        bound_cache[question] = compute_bounds(*question)
    return ExplorerAlgorithm(algorithm, Path(name).name, intact, bound_cache[question])
