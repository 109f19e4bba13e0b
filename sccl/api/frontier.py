"""Frontiers in Python: tabulated, drawn, explored, kept and certified."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_made_of, checked
from sccl.api.html import heading, paragraph, table
from sccl.api.machine import Topology
from sccl.api.shared import COLUMNS, Point, Shared
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.frontiers import frontier_to_plain, frontiers_of_plain
from sccl.core.frontier import TREES, ClassFrontier, Open, Refuted
from sccl.core.frontier import Frontier as Known
from sccl.core.frontier import Point as KnownPoint
from sccl.core.limit import StepLimit
from sccl.core.words import counted
from sccl.synth.allreduce.frontier import AllreduceFrontier
from sccl.synth.allreduce.nouns import noun_of
from sccl.synth.folder import Folder
from sccl.synth.frontier import Frontier as Swept
from sccl.synth.ksync import backends
from sccl.synth.limit.frontier import LimitFrontier as SweptLimits
from sccl.synth.settings import DEFAULT_TIMEOUT_S, Settings, checked_effort
from sccl.tasks.certify import certify_frontier, certify_limits
from sccl.tasks.outputs import head, question_digests
from sccl.view.shown import Bounds
from sccl.view.text.reasons import in_words
from sccl.view.words import class_summary, summary, unswept_words


@dataclass(frozen=True, slots=True, repr=False)
class Frontier(Shared):
    """The Pareto frontier of a collective on a machine, as a sweep found it.

    Attributes:
        value: the frontier of :mod:`sccl.pareto`.
    """

    value: Swept | AllreduceFrontier

    def __post_init__(self) -> None:
        check_made_of(self, Swept | AllreduceFrontier, "sccl.pareto")

    @property
    def topology(self) -> Topology:
        """Return its machine."""
        return Topology(self.value.topology)

    @property
    def known(self) -> tuple[Known, ...]:
        """Return what is known, as a value of :mod:`sccl.core.frontier`."""
        return (noun_of(self.value),)

    @property
    def open(self) -> tuple[Open, ...]:
        """Return the candidates that were not decided: each may hide a better algorithm."""
        return self.value.open

    @property
    def refuted(self) -> tuple[Refuted, ...]:
        """Return the candidates that have no algorithm, and why; of allreduce, those of halves."""
        if isinstance(self.value, AllreduceFrontier):
            return tuple(one for half in self.value.swept for one in half.refuted)
        return self.value.refuted

    @property
    def complete(self) -> bool:
        """Return whether this is the whole frontier of :attr:`scope`, for the k and C searched."""
        return self.value.complete

    @property
    def every_k(self) -> bool:
        """Return whether it is the whole frontier for every k and every C."""
        return self.value.every_k

    @property
    def scope(self) -> str:
        """Return the class of algorithms that was searched."""
        return self.value.scope

    @property
    def bounds(self) -> Bounds:
        """Return what no algorithm can beat, and why."""
        return _bounds(self.value)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, as ``sccl pareto --json`` prints them."""
        asked = question_digests(self.value.topology, self.value.spec)
        return head("frontier", asked) | frontier_to_plain(self.known[0])

    @checked
    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the frontier and its algorithms into a folder, as ``sccl pareto --out`` does.

        Returns:
            the file of the frontier, for :func:`sccl.load`.

        Raises:
            InputError: the folder cannot be written to.
        """
        return _saved(self, folder, "frontier")

    @checked
    def certify(self, folder: str | PathLike[str], timeout_s: float = DEFAULT_TIMEOUT_S) -> Path:
        """Write every claim with its proof, for :func:`sccl.check_certificate`.

        Of allreduce they are about compositions of a reducescatter and an allgather: of equal steps
        and rounds, which are swept for it, and of any, as far as the limits of the halves prove it
        for every k and C.

        Args:
            timeout_s: seconds for each proof.

        Returns:
            the file of the claims.

        Raises:
            InputError: the folder cannot be written to.
        """
        settings = Settings(self.value.solver, checked_effort(timeout_s, seed=0))
        return certify_frontier(self.value, settings, Path(folder)).file

    def _repr_html_(self) -> str:
        refuted = counted(len(self.refuted), "candidate")
        counts = f"{refuted} refuted, {len(self.open)} open."
        of_class = f" Class: {self.value.scope}." if isinstance(self.value, Swept) else ""
        return heading(self.name) + _html(self) + paragraph(counts + of_class)


def _html(shown: Frontier | LimitFrontier) -> str:
    """Return the points, the bounds and what is known of each class."""
    found = shown.known[0]
    notes = [*shown.bounds.reasons]
    if not found.several:
        rows = [point.cells for point in shown.points]
        return table(COLUMNS, rows) + "".join(map(paragraph, [*notes, shown.summary]))
    rows = [(*point.cells, point.of_class) for point in shown.points]
    notes += map(class_summary, found.classes)
    notes += [unswept_words(found.unswept)] if found.unswept else []
    return table((*COLUMNS, "Class"), rows) + "".join(map(paragraph, notes))


def _bounds(found: Swept | SweptLimits | AllreduceFrontier) -> Bounds:
    words = in_words(found.bounds, found.spec)
    if isinstance(found, AllreduceFrontier):
        of_classes = (Bounds(c.steps, c.bandwidth, (), c.scope) for c in found.classes)
        return replace(words, classes=tuple(of_classes))
    return words


def _saved(shown: Frontier | LimitFrontier, path: str | PathLike[str], kind: str) -> Path:
    """Write a frontier and its algorithms, and return the frontier's file."""
    folder = _folder(path)
    (found,) = shown.known
    kept = replace(found, classes=tuple(_kept(part, folder) for part in found.classes))
    return folder.save_frontier(shown.to_json() | frontier_to_plain(kept), kind)


def _kept(part: ClassFrontier, folder: Folder) -> ClassFrontier:
    """Return a class with its points' algorithms written."""
    suffix = TREES if part.name == TREES else ""
    points = (
        replace(p, file=folder.save(p.algorithm, suffix) if p.algorithm else None)
        for p in part.points
    )
    return replace(part, points=tuple(points))


def _folder(path: str | PathLike[str]) -> Folder:
    folder = Folder(Path(path))
    folder.prepare()
    return folder


@dataclass(frozen=True, slots=True, repr=False)
class LimitFrontier(Shared):
    """For every S the infimum of R/C, over all k and all C.

    Attributes:
        value: the limit frontier of :mod:`sccl.pareto`; of allreduce, over its classes.
    """

    value: SweptLimits | AllreduceFrontier

    def __post_init__(self) -> None:
        check_made_of(self, SweptLimits | AllreduceFrontier, "sccl.limits")

    @property
    def topology(self) -> Topology:
        """Return its machine."""
        return Topology(self.value.topology)

    @property
    def limits(self) -> tuple[StepLimit, ...]:
        """Return the limit of every S that was looked at; of allreduce, of its first class.

        :meth:`to_json` has those of each class, in ``classes``.
        """
        if isinstance(self.value, AllreduceFrontier):
            return self.value.classes[0].limits
        return self.value.limits

    @property
    def known(self) -> tuple[Known, ...]:
        """Return what is known, as a value of :mod:`sccl.core.frontier`."""
        return (noun_of(self.value),)

    @property
    def others(self) -> dict[str, tuple[Point, ...]]:
        """Return the points of the classes but the first."""
        return dict(list(self.classes.items())[1:])

    @property
    def complete(self) -> bool:
        """Return whether no other S gives a smaller R/C, with any k and any C."""
        return self.value.complete

    @property
    def bounds(self) -> Bounds:
        """Return what no algorithm can beat, and why."""
        return _bounds(self.value)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, as ``sccl limits --json`` prints them."""
        asked = question_digests(self.value.topology, self.value.spec)
        return head("frontier", asked) | frontier_to_plain(self.known[0])

    @checked
    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the frontier and its algorithms into a folder, as ``sccl pareto --out`` does.

        Returns:
            the file of the frontier, for :func:`sccl.load`.

        Raises:
            InputError: the folder cannot be written to.
        """
        return _saved(self, folder, "limits")

    @checked
    def certify(self, folder: str | PathLike[str]) -> Path:
        """Write every limit with the prices that prove it, for :func:`sccl.check_certificate`.

        Of allreduce they are about compositions, as of :meth:`Frontier.certify`, and about trees.

        Returns:
            the file of the claims.

        Raises:
            InputError: the folder cannot be written to.
        """
        settings = Settings(backends.DEFAULT, checked_effort(None, seed=0))
        return certify_limits(self.value, None, settings, Path(folder)).file

    def _repr_html_(self) -> str:
        title = heading(f"{self.name}, limits over all k and C")
        return title + _html(self)


@dataclass(frozen=True, slots=True, repr=False)
class SavedFrontier(Shared):
    """A frontier that was kept: what its file says, and the algorithms beside it.

    Attributes:
        path: the file, as ``.save(folder)`` or ``sccl pareto --out`` wrote it.
        value: what it says, as plain JSON values.
    """

    path: Path
    value: dict[str, Any]

    def __post_init__(self) -> None:
        check_made_of(self, dict, "sccl.load")

    def to_json(self) -> dict[str, Any]:
        """Return what the file says."""
        return self.value

    @property
    def known(self) -> tuple[Known, ...]:
        """Return what is known, as values of :mod:`sccl.core.frontier`."""
        return frontiers_of_plain(self.value, str(self.path))

    def _algorithm_of(self, point: KnownPoint) -> Algorithm | None:
        """Return the algorithm of a point, from the file that it names.

        Raises:
            InputError: the file cannot be read.
        """
        if point.file is None:
            return None
        return Algorithm(*load_algorithm(self.path.parent / point.file.name))

    def _repr_html_(self) -> str:
        known, found = self.known, heading(self.name)
        if known[0].several:
            rows: list[tuple[object, ...]] = [
                (*_shape(p), p.cost, name, p.state_words) for name, p in known[0].stairs
            ]
            columns = ("C", "S", "R", "R/C", "Class", "State")
            return found + table(columns, rows) + paragraph(self.summary)
        for one in known:
            rows = [(*_shape(p), p.cost, p.state_words) for p in one.points]
            scope = one.bounds.scope if one.bounds else one.scope
            found += heading(scope) if len(known) > 1 else ""
            found += table(("C", "S", "R", "R/C", "State"), rows) + paragraph(summary(one))
        return found


def _shape(point: KnownPoint) -> tuple[object, ...]:
    """Return C, S and R as cells of a table."""
    return point.chunks or "-", point.steps, point.rounds or "-"
