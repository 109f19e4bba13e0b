"""Frontiers in Python: tabulated, drawn, explored, kept and certified."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_made_of, checked
from sccl.api.html import heading, paragraph, table
from sccl.api.machine import Topology
from sccl.api.shared import COLUMNS, Point, Shared
from sccl.core.files.algorithms import load_algorithm
from sccl.core.frontier import Open, Refuted
from sccl.core.limit import StepLimit
from sccl.core.words import counted
from sccl.synth.allreduce.classes import TREES
from sccl.synth.allreduce.every_class import AllreduceFrontier
from sccl.synth.allreduce.plain import plain_of
from sccl.synth.folder import Folder
from sccl.synth.frontier import Frontier as Swept
from sccl.synth.frontier import Point as SweptPoint
from sccl.synth.ksync import backends
from sccl.synth.limit.frontier import LimitFrontier as SweptLimits
from sccl.synth.limit.frontier import LimitPoint
from sccl.synth.settings import DEFAULT_TIMEOUT_S, Settings, checked_effort
from sccl.tasks.certify import certify_frontier, certify_limits
from sccl.tasks.outputs import head, question_digests
from sccl.view.shown import Bounds
from sccl.view.text.classes import class_summary, unswept_words
from sccl.view.text.reasons import any_in_words, in_words


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
    def classes(self) -> dict[str, tuple[Point, ...]]:
        """Return the points of each class of algorithms, by class; allreduce has up to three."""
        return _classes(self.value)

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points by ascending S, each with a smaller R/C than the one before."""
        return _points(self.value)

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
        return head("frontier", asked) | plain_of(self.value)

    @checked
    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the frontier and its algorithms into a folder, as ``sccl pareto --out`` does.

        Returns:
            the file of the frontier, for :func:`sccl.load`.

        Raises:
            InputError: the folder cannot be written to.
        """
        return _saved(self.value, self.to_json(), folder, "frontier")

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
    found = shown.value
    notes = [*shown.bounds.reasons]
    if not isinstance(found, AllreduceFrontier):
        rows = [point.cells for point in shown.points]
        return table(COLUMNS, rows) + "".join(map(paragraph, [*notes, shown.summary]))
    rows = [(*point.cells, point.of_class) for point in shown.points]
    notes += map(class_summary, found.classes)
    notes += [unswept_words(found.unswept)] if found.unswept else []
    return table((*COLUMNS, "Class"), rows) + "".join(map(paragraph, notes))


def _points(found: Swept | SweptLimits | AllreduceFrontier) -> tuple[Point, ...]:
    """Return the points that none of any class dominates."""
    if isinstance(found, AllreduceFrontier):
        return tuple(replace(_any_point(p), of_class=name) for name, p in found.stairs)
    return tuple(map(_any_point, found.points))


def _classes(found: Swept | SweptLimits | AllreduceFrontier) -> dict[str, tuple[Point, ...]]:
    if isinstance(found, AllreduceFrontier):
        return {
            one.scope: tuple(replace(_any_point(p), of_class=one.name) for p in one.points)
            for one in found.classes
        }
    return {found.scope: _points(found)}


def _bounds(found: Swept | SweptLimits | AllreduceFrontier) -> Bounds:
    if isinstance(found, AllreduceFrontier):
        of_classes = (Bounds(c.steps, c.bandwidth, (), c.scope) for c in found.classes)
        return replace(any_in_words(found.bounds), classes=tuple(of_classes))
    return in_words(found.bounds)


def _saved(
    found: Swept | SweptLimits | AllreduceFrontier,
    plain: dict[str, Any],
    folder: str | PathLike[str],
    kind: str,
) -> Path:
    """Write a frontier and its algorithms, and return the frontier's file."""
    kept = _folder(folder)
    parts = found.classes if isinstance(found, AllreduceFrontier) else (found,)
    rows = plain["classes"] if isinstance(found, AllreduceFrontier) else [plain]
    files: dict[tuple[str, int, str], str] = {}
    for row, part in zip(rows, parts, strict=True):
        suffix = TREES if row.get("class") == TREES else ""
        for one, point in zip(row["points"], part.points, strict=True):
            one["file"] = str(kept.save(point.algorithm, suffix)) if point.algorithm else None
            files[row.get("class", ""), one["steps"], one["bandwidth_cost"]] = one["file"]
    for one in plain["points"]:
        one["file"] = files[one.get("class", ""), one["steps"], one["bandwidth_cost"]]
    return kept.save_frontier(plain, kind)


def _any_point(point: SweptPoint | LimitPoint) -> Point:
    return _swept(point) if isinstance(point, SweptPoint) else _limit_point(point)


def _swept(point: SweptPoint) -> Point:
    c = point.candidate
    return Point(
        c.steps,
        c.cost,
        Algorithm(point.algorithm),
        point.optimal,
        point.proved,
        seconds=round(point.seconds, 3),
        chunks=c.chunks,
        rounds=c.rounds,
        within=point.within.words if point.within else "",
    )


def _limit_point(point: LimitPoint) -> Point:
    found = Algorithm(point.algorithm) if point.algorithm else None
    return Point(
        point.limit.steps,
        point.limit.upper,
        found,
        point.optimal,
        point.proved,
        point.attains,
        seconds=round(point.seconds, 3),
        chunks=found.chunks if found else None,
        rounds=found.rounds if found else None,
    )


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
    def classes(self) -> dict[str, tuple[Point, ...]]:
        """Return the points of each class of algorithms, by class; allreduce has up to three."""
        return _classes(self.value)

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points by ascending S, each with a smaller R/C than the one before."""
        return _points(self.value)

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
        return head("frontier", asked) | plain_of(self.value)

    @checked
    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the frontier and its algorithms into a folder, as ``sccl pareto --out`` does.

        Returns:
            the file of the frontier, for :func:`sccl.load`.

        Raises:
            InputError: the folder cannot be written to.
        """
        return _saved(self.value, self.to_json(), folder, "limits")

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
    def classes(self) -> dict[str, tuple[Point, ...]]:
        """Return the points of every class of algorithms in the file, with what files they name.

        Raises:
            InputError: the file of an algorithm cannot be read.
        """
        parts = self.value.get("classes", [])
        if not any("class" in part for part in parts):
            parts = [self.value, *parts]
        scopes = [part.get("scope") or part["bounds"].get("scope", "") for part in parts]
        kept = [
            tuple(map(self._point, part["points"], [p.within for p in chart.points]))
            for part, chart in zip(parts, self._known().charts, strict=True)
        ]
        return dict(zip(scopes, kept, strict=True))

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points by ascending S, each with a smaller R/C than the one before."""
        if not any("class" in part for part in self.value.get("classes", [])):
            return next(iter(self.classes.values()))
        charts = self._known().charts
        words = {(p.steps, p.cost): p.within for chart in charts for p in chart.points}
        return tuple(
            self._point(p, words.get((p["steps"], _cost_of(p)), "")) for p in self.value["points"]
        )

    def _point(self, plain: dict[str, Any], within: str) -> Point:
        file = plain.get("file")
        beside = self.path.parent / Path(file).name if file else None
        return Point(
            plain["steps"],
            _cost_of(plain),
            Algorithm(*load_algorithm(beside)) if beside else None,
            tuple(plain.get("optimal", ())),
            plain["proved"],
            plain.get("attained", True),
            plain.get("seconds"),
            plain.get("chunks"),
            plain.get("rounds"),
            within,
            plain.get("class", ""),
        )

    def _repr_html_(self) -> str:
        known = self._known()
        found = heading(self.name)
        if len(known.charts) > len(known.sweeps):  # classes, of which the points are the best
            rows: list[tuple[object, ...]] = [
                (p.chunks or "-", p.steps, p.rounds or "-", p.bandwidth_cost, p.of_class, p.state)
                for p in self.points
            ]
            names = ("C", "S", "R", "R/C", "Class", "State")
            return found + table(names, rows) + paragraph(self.summary)
        several = len(known.charts) > 1
        for chart, sweep in zip(known.charts, known.sweeps, strict=True):
            rows = [
                (p.chunks or "-", p.steps, p.rounds or "-", p.cost, p.state_words)
                for p in chart.points
            ]
            found += heading(chart.scope) if several else ""
            found += table(("C", "S", "R", "R/C", "State"), rows) + paragraph(sweep.summary)
        return found


def _cost_of(plain: dict[str, Any]) -> Fraction:
    return Fraction(plain.get("limit") or plain["bandwidth_cost"])
