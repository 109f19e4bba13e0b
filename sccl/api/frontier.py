"""Display, plot, explore, save, and certify frontiers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_arguments, check_wrapped_kind
from sccl.api.frontier_base import CLASS_COLUMNS, COLUMNS, FrontierBase, Point
from sccl.api.machine import Topology
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.frontiers import frontier_to_plain, frontiers_from_plain
from sccl.core.files.outputs import output_head, question_digests
from sccl.core.formatting import format_count
from sccl.core.frontier import (
    EXCHANGED,
    TREES,
    ClassFrontier,
    OpenCandidate,
    RefutedCandidate,
    StepLimitFrontier,
    SweepFrontier,
)
from sccl.core.frontier import Frontier as CoreFrontier
from sccl.core.frontier import Point as CorePoint
from sccl.core.step_limit import StepLimit
from sccl.synth.allreduce.certify import certify_frontier, certify_limits
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.problem import CollectiveProblem
from sccl.synth.common.settings import DEFAULT_TIMEOUT_S, Settings, build_effort
from sccl.synth.syncoll import solve
from sccl.view.completeness import (
    ABOVE_ALL_TEXT,
    BoundSummary,
    above_all_text,
    class_summary,
    frontier_summary,
    origin_notes,
    unswept_text,
)
from sccl.view.text.markup import heading, paragraph, table
from sccl.view.text.reasons import describe_bounds


@dataclass(frozen=True, slots=True, repr=False)
class ComputedFrontier(FrontierBase):
    """A frontier from a sweep or a computation of limits.

    Attributes:
        value: Frontier of :mod:`sccl.core.frontier`.
        subject: Machine and collective.

    Examples:
        >>> import sccl
        >>> frontier = sccl.pareto("allgather", "ring:4")
        >>> frontier.bounds.steps
        2
    """

    value: CoreFrontier
    subject: CollectiveProblem
    source_function: ClassVar[str]
    value_type: ClassVar[type[CoreFrontier]]

    def __post_init__(self) -> None:
        check_wrapped_kind(self, self.value_type, self.source_function)

    @property
    def topology(self) -> Topology:
        """Return its machine."""
        return Topology(self.subject.topology)

    @property
    def known(self) -> tuple[CoreFrontier, ...]:
        """Return the frontier as a value of :mod:`sccl.core.frontier`."""
        return (self.value,)

    @property
    def bounds(self) -> BoundSummary:
        """Return the lower bounds with their reasons."""
        assert self.value.bounds is not None
        words = describe_bounds(self.value.bounds, self.subject.spec)
        return replace(words, classes=tuple(_class_bounds(self.value)))

    def _head(self) -> dict[str, Any]:
        return output_head("frontier", question_digests(self.subject.topology, self.subject.spec))

    def to_json(self) -> dict[str, Any]:
        """Return the frontier as plain JSON values, like the verbs with ``--json``.

        Examples:
            >>> import sccl
            >>> sccl.pareto("allgather", "ring:4").to_json()["topology"]
            'ring:4'
        """
        return self._head() | frontier_to_plain(self.value)

    @check_arguments
    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the frontier and its algorithms into a folder, like ``sccl pareto --output``.

        Returns:
            Path of the frontier's file, for :func:`sccl.load`.

        Raises:
            InputError: The folder cannot be written to.

        Examples:
            >>> import sccl
            >>> sccl.load(sccl.pareto("allgather", "ring:4").save("frontier"))
            SavedFrontier(allgather on ring:4: C=2 S=2 R=3; complete for every k)
        """
        algorithm_folder = AlgorithmFolder(Path(folder))
        algorithm_folder.prepare()
        classes = tuple(_save_class(part, algorithm_folder) for part in self.value.classes)
        return algorithm_folder.save_frontier(replace(self.value, classes=classes), self._head())

    def _table(self) -> str:
        """Return the points, the bounds, and the state of each class as HTML."""
        frontier = self.value
        notes = [*self.bounds.reasons, *origin_notes(frontier)]
        if not frontier.is_multiclass:
            rows = [point.cells for point in self.points]
            return table(COLUMNS, rows) + "".join(map(paragraph, [*notes, self.summary]))
        rows = [point.cells_of_several for point in self.points]
        notes += [ABOVE_ALL_TEXT] if frontier.any_class_limits else []
        notes += map(class_summary, frontier.classes)
        notes += [unswept_text(frontier.skipped)] if frontier.skipped else []
        return table(CLASS_COLUMNS, rows) + "".join(map(paragraph, notes))


def _class_bounds(frontier: CoreFrontier) -> Iterator[BoundSummary]:
    for part in frontier.classes if frontier.is_multiclass else ():
        assert part.steps is not None
        assert part.bandwidth is not None
        yield BoundSummary(part.steps, part.bandwidth, (), part.scope)


def _save_class(part: ClassFrontier, folder: AlgorithmFolder) -> ClassFrontier:
    """Write the algorithms of a class, and return the class with their files."""
    suffix = part.name if part.name in {TREES, EXCHANGED} else ""
    points = (
        replace(p, file=folder.save(p.algorithm, suffix) if p.algorithm else None)
        for p in part.points
    )
    return replace(part, points=tuple(points))


@dataclass(frozen=True, slots=True, repr=False)
class Frontier(ComputedFrontier):
    """The Pareto frontier of a collective on a machine, as a sweep computed it.

    Attributes:
        value: SweepFrontier of :mod:`sccl.core.frontier`.
        subject: Machine and collective.

    Examples:
        >>> import sccl
        >>> frontier = sccl.pareto("allgather", "ring:4")
        >>> frontier
        Frontier(allgather on ring:4: C=2 S=2 R=3; complete for every k)
        >>> frontier.complete, len(frontier.refuted)
        (True, 0)
    """

    value: SweepFrontier
    source_function = "sccl.pareto"
    value_type = SweepFrontier

    @property
    def open(self) -> tuple[OpenCandidate, ...]:
        """Return the open candidates. Each may hide a better algorithm."""
        return self.value.open

    @property
    def refuted(self) -> tuple[RefutedCandidate, ...]:
        """Return the refuted candidates with reasons.

        For allreduce these are candidates of its halves.
        """
        return tuple(entry for sweep in (self.value, *self.value.halves) for entry in sweep.refuted)

    @property
    def complete(self) -> bool:
        """Return whether this is the whole frontier of :attr:`scope`, for the searched k and C."""
        return self.value.is_complete

    @property
    def every_k(self) -> bool:
        """Return whether this is the whole frontier for every k and every C."""
        return self.value.covers_all_k

    @property
    def scope(self) -> str:
        """Return the class of algorithms that was searched."""
        return self.value.scope

    @check_arguments
    def certify(self, folder: str | PathLike[str], timeout_s: float = DEFAULT_TIMEOUT_S) -> Path:
        """Write every claim with its proof, for :func:`sccl.check_certificate`.

        For allreduce the claims cover compositions of a reducescatter and an allgather.
        Compositions of equal steps and rounds are swept for this. Other compositions are covered
        for every k and C, as far as the limits of the halves prove it.

        Args:
            timeout_s: Time limit of each proof, in seconds.

        Returns:
            Path of the file of claims.

        Raises:
            InputError: The folder cannot be written to.

        Examples:
            >>> import sccl
            >>> _ = sccl.pareto("allgather", "ring:4").certify("claims")
            >>> sccl.check_certificate("claims").holds
            True
        """
        settings = Settings(self.value.solver, build_effort(timeout_s, seed=0))
        return certify_frontier(self.subject, self.value, settings, Path(folder)).file

    def _repr_html_(self) -> str:
        refuted = format_count(len(self.refuted), "candidate")
        counts = f"{refuted} refuted, {len(self.open)} open."
        of_class = "" if self.value.is_multiclass else f" Searched: {self.value.scope}."
        return heading(self.name) + self._table() + paragraph(counts + of_class)


@dataclass(frozen=True, slots=True, repr=False)
class LimitFrontier(ComputedFrontier):
    """The infimum of R/C for every S, over all k and all C.

    Attributes:
        value: StepLimitFrontier of :mod:`sccl.core.frontier`.
        subject: Machine and collective.

    Examples:
        >>> import sccl
        >>> limits = sccl.limits("allgather", "ring:4")
        >>> limits
        LimitFrontier(allgather on ring:4: C=2 S=2 R=3; complete for every k)
        >>> [(point.steps, str(point.bandwidth_cost)) for point in limits]
        [(2, '3/2')]
    """

    value: StepLimitFrontier
    source_function = "sccl.limits"
    value_type = StepLimitFrontier

    @property
    def limits(self) -> tuple[StepLimit, ...]:
        """Return the limit of every examined S. For allreduce these are limits of its first family.

        :meth:`to_json` has the limits of each family, in ``classes``.
        """
        return self.value.classes[0].limits

    @property
    def others(self) -> dict[str, tuple[Point, ...]]:
        """Return the points of all families except the first."""
        return dict(list(self.classes.items())[1:])

    @property
    def complete(self) -> bool:
        """Return whether no other S gives a smaller R/C, for any k and any C."""
        return self.value.is_complete

    @check_arguments
    def certify(self, folder: str | PathLike[str]) -> Path:
        """Write every limit with its proof (cuts or prices), for :func:`sccl.check_certificate`.

        For allreduce the claims cover compositions, as in :meth:`Frontier.certify`, and trees.

        Returns:
            Path of the file of claims.

        Raises:
            InputError: The folder cannot be written to.

        Examples:
            >>> import sccl
            >>> _ = sccl.limits("allgather", "ring:4").certify("limits")
            >>> sccl.check_certificate("limits").holds
            True
        """
        settings = Settings(solve.DEFAULT_SOLVER, build_effort(None, seed=0))
        return certify_limits(self.subject, self.value, None, settings, Path(folder)).file

    def _repr_html_(self) -> str:
        return heading(f"{self.name}, limits over all k and C") + self._table()


@dataclass(frozen=True, slots=True, repr=False)
class SavedFrontier(FrontierBase):
    """A frontier from a file, with the algorithms next to it.

    Attributes:
        path: File that ``.save(folder)`` or ``sccl pareto --output`` wrote.
        value: Content of the file, as plain JSON values.

    Examples:
        >>> import sccl
        >>> frontier = sccl.pareto("allgather", "ring:4")
        >>> saved = sccl.load(frontier.save("frontier"))
        >>> saved[0].algorithm == frontier[0].algorithm
        True
    """

    path: Path
    value: dict[str, Any]

    def __post_init__(self) -> None:
        check_wrapped_kind(self, dict, "sccl.load")

    def to_json(self) -> dict[str, Any]:
        """Return the content of the file.

        Examples:
            >>> import sccl
            >>> saved = sccl.load(sccl.pareto("allgather", "ring:4").save("frontier"))
            >>> saved.to_json()["collective"]
            'allgather'
        """
        return self.value

    @property
    def known(self) -> tuple[CoreFrontier, ...]:
        """Return the frontiers in the file, as values of :mod:`sccl.core.frontier`."""
        return frontiers_from_plain(self.value, str(self.path))

    def _algorithm_of(self, point: CorePoint) -> Algorithm | None:
        """Return the algorithm of a point, from the file that it names.

        Raises:
            InputError: The file cannot be read.
        """
        if point.file is None:
            return None
        return Algorithm(*load_algorithm(self.path.parent / point.file.name))

    def _repr_html_(self) -> str:
        frontiers, html = self.known, heading(self.name)
        if frontiers[0].is_multiclass:
            rows: list[tuple[object, ...]] = [
                (
                    *_shape_cells(p),
                    p.cost,
                    name,
                    above_all_text(frontiers[0].gap_to_any_class(p)),
                    p.state_text,
                )
                for name, p in frontiers[0].non_dominated
            ]
            columns = ("C", "S", "R", "R/C", "Family", "Above all", "State")
            words = [ABOVE_ALL_TEXT] if frontiers[0].any_class_limits else []
            notes = "".join(map(paragraph, [*words, self.summary]))
            return html + table(columns, rows) + notes
        for frontier in frontiers:
            rows = [(*_shape_cells(p), p.cost, p.state_text) for p in frontier.points]
            scope = frontier.bounds.scope if frontier.bounds else frontier.scope
            html += heading(scope) if len(frontiers) > 1 else ""
            html += table(("C", "S", "R", "R/C", "State"), rows) + paragraph(
                frontier_summary(frontier)
            )
        return html


def _shape_cells(point: CorePoint) -> tuple[object, ...]:
    """Return C, S and R as cells of a table."""
    return point.chunks or "-", point.steps, point.rounds or "-"
