"""Display, plot, explore, save, and certify frontiers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_made_of, checked
from sccl.api.html import heading, paragraph, table
from sccl.api.machine import Topology
from sccl.api.shared import COLUMNS, COLUMNS_OF_SEVERAL, Point, Shared
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.frontiers import frontier_to_plain, frontiers_of_plain
from sccl.core.frontier import EXCHANGED, TREES, ClassFrontier, Open, Refuted
from sccl.core.frontier import Frontier as Known
from sccl.core.frontier import Point as KnownPoint
from sccl.core.limit import StepLimit
from sccl.core.words import counted
from sccl.synth.folder import Folder
from sccl.synth.ksync import backends
from sccl.synth.settings import DEFAULT_TIMEOUT_S, Settings, checked_effort
from sccl.tasks.certify import certify_frontier, certify_limits
from sccl.tasks.outputs import head, question_digests
from sccl.tasks.subject import Subject
from sccl.view.shown import Bounds
from sccl.view.text.reasons import in_words
from sccl.view.words import (
    EVERY_WORDS,
    above_words,
    class_summary,
    origin_notes,
    summary,
    unswept_words,
)


@dataclass(frozen=True, slots=True, repr=False)
class Searched(Shared):
    """A frontier from a sweep or a computation of limits.

    Attributes:
        value: Frontier of :mod:`sccl.core.frontier`.
        subject: Machine and collective.
    """

    value: Known
    subject: Subject
    made_by: ClassVar[str]

    def __post_init__(self) -> None:
        check_made_of(self, Known, self.made_by)

    @property
    def topology(self) -> Topology:
        """Return its machine."""
        return Topology(self.subject.topology)

    @property
    def known(self) -> tuple[Known, ...]:
        """Return the frontier as a value of :mod:`sccl.core.frontier`."""
        return (self.value,)

    @property
    def bounds(self) -> Bounds:
        """Return the lower bounds with their reasons."""
        assert self.value.bounds is not None
        words = in_words(self.value.bounds, self.subject.spec)
        return replace(words, classes=tuple(_of_classes(self.value)))

    def _head(self) -> dict[str, Any]:
        return head("frontier", question_digests(self.subject.topology, self.subject.spec))

    def to_json(self) -> dict[str, Any]:
        """Return the frontier as plain JSON values, like the verbs with ``--json``."""
        return self._head() | frontier_to_plain(self.value)

    @checked
    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the frontier and its algorithms into a folder, like ``sccl pareto --out``.

        Returns:
            Path of the frontier's file, for :func:`sccl.load`.

        Raises:
            InputError: The folder cannot be written to.
        """
        kept = Folder(Path(folder))
        kept.prepare()
        classes = tuple(_kept(part, kept) for part in self.value.classes)
        return kept.save_frontier(replace(self.value, classes=classes), self._head())

    def _table(self) -> str:
        """Return the points, the bounds, and the state of each class as HTML."""
        found = self.value
        notes = [*self.bounds.reasons, *origin_notes(found)]
        if not found.several:
            rows = [point.cells for point in self.points]
            return table(COLUMNS, rows) + "".join(map(paragraph, [*notes, self.summary]))
        rows = [point.cells_of_several for point in self.points]
        notes += [EVERY_WORDS] if found.every else []
        notes += map(class_summary, found.classes)
        notes += [unswept_words(found.unswept)] if found.unswept else []
        return table(COLUMNS_OF_SEVERAL, rows) + "".join(map(paragraph, notes))


def _of_classes(found: Known) -> Iterator[Bounds]:
    """Yield the bounds of each of several classes."""
    for part in found.classes if found.several else ():
        assert part.steps is not None
        assert part.bandwidth is not None
        yield Bounds(part.steps, part.bandwidth, (), part.scope)


def _kept(part: ClassFrontier, folder: Folder) -> ClassFrontier:
    """Write the algorithms of a class, and return the class with their files."""
    suffix = part.name if part.name in {TREES, EXCHANGED} else ""
    points = (
        replace(p, file=folder.save(p.algorithm, suffix) if p.algorithm else None)
        for p in part.points
    )
    return replace(part, points=tuple(points))


@dataclass(frozen=True, slots=True, repr=False)
class Frontier(Searched):
    """The Pareto frontier of a collective on a machine, as a sweep computed it.

    Attributes:
        value: Frontier of :mod:`sccl.core.frontier`.
        subject: Machine and collective.
    """

    made_by = "sccl.pareto"

    @property
    def open(self) -> tuple[Open, ...]:
        """Return the undecided candidates. Each may hide a better algorithm."""
        return self.value.open

    @property
    def refuted(self) -> tuple[Refuted, ...]:
        """Return the refuted candidates with reasons.

        For allreduce these are candidates of its halves.
        """
        return tuple(one for of in (self.value, *self.value.halves) for one in of.refuted)

    @property
    def complete(self) -> bool:
        """Return whether this is the whole frontier of :attr:`scope`, for the searched k and C."""
        return self.value.complete

    @property
    def every_k(self) -> bool:
        """Return whether this is the whole frontier for every k and every C."""
        return self.value.every_k

    @property
    def scope(self) -> str:
        """Return the class of algorithms that was searched."""
        return self.value.scope

    @checked
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
        """
        settings = Settings(self.value.solver, checked_effort(timeout_s, seed=0))
        return certify_frontier(self.subject, self.value, settings, Path(folder)).file

    def _repr_html_(self) -> str:
        refuted = counted(len(self.refuted), "candidate")
        counts = f"{refuted} refuted, {len(self.open)} open."
        of_class = "" if self.value.several else f" Class: {self.value.scope}."
        return heading(self.name) + self._table() + paragraph(counts + of_class)


@dataclass(frozen=True, slots=True, repr=False)
class LimitFrontier(Searched):
    """The infimum of R/C for every S, over all k and all C.

    Attributes:
        value: Frontier of :mod:`sccl.core.frontier`.
        subject: Machine and collective.
    """

    made_by = "sccl.limits"

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
        return self.value.complete

    @checked
    def certify(self, folder: str | PathLike[str]) -> Path:
        """Write every limit with its proof (cuts or prices), for :func:`sccl.check_certificate`.

        For allreduce the claims cover compositions, as in :meth:`Frontier.certify`, and trees.

        Returns:
            Path of the file of claims.

        Raises:
            InputError: The folder cannot be written to.
        """
        settings = Settings(backends.DEFAULT, checked_effort(None, seed=0))
        return certify_limits(self.subject, self.value, None, settings, Path(folder)).file

    def _repr_html_(self) -> str:
        return heading(f"{self.name}, limits over all k and C") + self._table()


@dataclass(frozen=True, slots=True, repr=False)
class SavedFrontier(Shared):
    """A frontier from a file, with the algorithms next to it.

    Attributes:
        path: File that ``.save(folder)`` or ``sccl pareto --out`` wrote.
        value: Content of the file, as plain JSON values.
    """

    path: Path
    value: dict[str, Any]

    def __post_init__(self) -> None:
        check_made_of(self, dict, "sccl.load")

    def to_json(self) -> dict[str, Any]:
        """Return the content of the file."""
        return self.value

    @property
    def known(self) -> tuple[Known, ...]:
        """Return the frontiers in the file, as values of :mod:`sccl.core.frontier`."""
        return frontiers_of_plain(self.value, str(self.path))

    def _algorithm_of(self, point: KnownPoint) -> Algorithm | None:
        """Return the algorithm of a point, from the file that it names.

        Raises:
            InputError: The file cannot be read.
        """
        if point.file is None:
            return None
        return Algorithm(*load_algorithm(self.path.parent / point.file.name))

    def _repr_html_(self) -> str:
        known, found = self.known, heading(self.name)
        if known[0].several:
            rows: list[tuple[object, ...]] = [
                (*_shape(p), p.cost, name, above_words(known[0].above_every(p)), p.state_words)
                for name, p in known[0].stairs
            ]
            columns = ("C", "S", "R", "R/C", "Class", "Above all", "State")
            words = [EVERY_WORDS] if known[0].every else []
            notes = "".join(map(paragraph, [*words, self.summary]))
            return found + table(columns, rows) + notes
        for one in known:
            rows = [(*_shape(p), p.cost, p.state_words) for p in one.points]
            scope = one.bounds.scope if one.bounds else one.scope
            found += heading(scope) if len(known) > 1 else ""
            found += table(("C", "S", "R", "R/C", "State"), rows) + paragraph(summary(one))
        return found


def _shape(point: KnownPoint) -> tuple[object, ...]:
    """Return C, S and R as cells of a table."""
    return point.chunks or "-", point.steps, point.rounds or "-"
