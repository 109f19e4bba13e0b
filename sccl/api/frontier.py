"""Frontiers in Python: tabulated, drawn, explored, kept and certified."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_made_of, checked
from sccl.api.html import heading, paragraph, table
from sccl.api.machine import Topology
from sccl.api.shared import COLUMNS, Point, Shared
from sccl.core.codec import load_algorithm
from sccl.core.words import counted
from sccl.pareto import Folder, LimitPoint, Open, Refuted, StepLimit, TreeFrontier, frontier_json
from sccl.pareto import Frontier as Swept
from sccl.pareto import LimitFrontier as SweptLimits
from sccl.pareto import Point as SweptPoint
from sccl.tasks.find import Limits
from sccl.tasks.outputs import head, question_digests
from sccl.tasks.reasons import in_words
from sccl.tasks.settings import DEFAULT_TIMEOUT_S, checked_limits
from sccl.view.shown import Bounds


@dataclass(frozen=True, slots=True, repr=False)
class Frontier(Shared):
    """The Pareto frontier of a collective on a machine, as a sweep found it.

    Attributes:
        value: the frontier of :mod:`sccl.pareto`.
    """

    value: Swept

    def __post_init__(self) -> None:
        check_made_of(self, Swept, "sccl.pareto")

    @property
    def topology(self) -> Topology:
        """Return its machine."""
        return Topology(self.value.topology)

    @property
    def classes(self) -> dict[str, tuple[Point, ...]]:
        """Return the points of the class of algorithms that was swept, by its name."""
        return {self.value.scope: tuple(map(_swept, self.value.points))}

    @property
    def open(self) -> tuple[Open, ...]:
        """Return the candidates that were not decided: each may hide a better algorithm."""
        return self.value.open

    @property
    def refuted(self) -> tuple[Refuted, ...]:
        """Return the candidates that have no algorithm, and why."""
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
        return in_words(self.value.bounds)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, as ``sccl pareto --json`` prints them."""
        asked = question_digests(self.value.topology, self.value.spec)
        return head("frontier", asked) | frontier_json(self.value)

    @checked
    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the frontier and its algorithms into a folder, as ``sccl pareto --out`` does.

        Returns:
            the file of the frontier, for :func:`sccl.load`.

        Raises:
            InputError: the folder cannot be written to.
        """
        kept = _folder(folder)
        plain = self.to_json()
        for row, point in zip(plain["points"], self.value.points, strict=True):
            row["file"] = str(kept.save(point.algorithm))
        return kept.save_frontier(plain, "frontier")

    @checked
    def certify(self, folder: str | PathLike[str], timeout_s: float = DEFAULT_TIMEOUT_S) -> Path:
        """Write every claim with its proof, for :func:`sccl.check_certificate`.

        Args:
            timeout_s: seconds for each proof.

        Returns:
            the file of the claims.

        Raises:
            InputError: the folder cannot be written to.
        """
        from sccl.certify.write import write_certificate  # noqa: PLC0415 - loads much

        checked_limits(timeout_s, seed=0)
        return write_certificate(self.value, Path(folder), timeout_s)

    def _repr_html_(self) -> str:
        refuted = counted(len(self.refuted), "candidate")
        counts = f"{refuted} refuted, {len(self.open)} open."
        notes = [*self.bounds.reasons, f"{counts} Class: {self.value.scope}.", self.summary]
        rows = [point.cells for point in self.points]
        return heading(self.name) + table(COLUMNS, rows) + "".join(map(paragraph, notes))


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
        value: the limit frontier of :mod:`sccl.tasks`, with those of other classes (allreduce).
    """

    value: Limits

    def __post_init__(self) -> None:
        check_made_of(self, Limits, "sccl.limits")

    @property
    def topology(self) -> Topology:
        """Return its machine."""
        return Topology(self.value.frontier.topology)

    @property
    def limits(self) -> tuple[StepLimit, ...]:
        """Return the limit of every S that was looked at, with its certificates."""
        return self.value.frontier.limits

    @property
    def classes(self) -> dict[str, tuple[Point, ...]]:
        """Return the points of every class of algorithms, by its name; allreduce has three.

        The first is the class of :attr:`points`.
        """
        return {one.scope: tuple(map(_limit_point, one.points)) for one in self._all()}

    @property
    def others(self) -> dict[str, tuple[Point, ...]]:
        """Return the points of the classes but the first."""
        return dict(list(self.classes.items())[1:])

    @property
    def complete(self) -> bool:
        """Return whether no other S gives a smaller R/C, with any k and any C."""
        return self.value.frontier.complete

    @property
    def bounds(self) -> Bounds:
        """Return what no algorithm can beat, and why."""
        return in_words(self.value.frontier.bounds)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, as ``sccl pareto --limit --json`` prints them."""
        asked = question_digests(self.value.frontier.topology, self.value.frontier.spec)
        return head("frontier", asked) | self.value.json()

    def _all(self) -> list[SweptLimits | TreeFrontier]:
        return [self.value.frontier, *self.value.others]

    @checked
    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the frontier and its algorithms into a folder, as ``sccl pareto --out`` does.

        Returns:
            the file of the frontier, for :func:`sccl.load`.

        Raises:
            InputError: the folder cannot be written to.
        """
        kept = _folder(folder)
        plain = self.to_json()
        for rows, one in zip([plain, *plain.get("classes", [])], self._all(), strict=True):
            for row, point in zip(rows["points"], one.points, strict=True):
                kind = "trees" if isinstance(one, TreeFrontier) else ""
                found = point.algorithm
                row["file"] = str(kept.save(found, kind)) if found else None
        return kept.save_frontier(plain, "limits")

    @checked
    def certify(self, folder: str | PathLike[str]) -> Path:
        """Write every limit with the prices that prove it, for :func:`sccl.check_certificate`.

        Returns:
            the file of the claims.

        Raises:
            InputError: the folder cannot be written to.
        """
        from sccl.certify.limits import write_limit_certificate  # noqa: PLC0415 - loads much

        return write_limit_certificate(self.value.frontier, self.value.trees, Path(folder))

    def _repr_html_(self) -> str:
        title = heading(f"{self.name}, limits over all k and C")
        first = table(COLUMNS, [point.cells for point in self.points])
        summaries = [sweep.summary for sweep in self._known().sweeps[1:]]
        others = "".join(
            heading(scope) + table(COLUMNS, [p.cells for p in points]) + paragraph(summary)
            for (scope, points), summary in zip(self.others.items(), summaries, strict=True)
        )
        notes = [*self.bounds.reasons, self.summary]
        return title + first + "".join(map(paragraph, notes)) + others


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
        parts = [self.value, *self.value.get("classes", [])]
        scopes = [part.get("scope") or part["bounds"].get("scope", "") for part in parts]
        kept = [
            tuple(map(self._point, part["points"], [p.within for p in chart.points]))
            for part, chart in zip(parts, self._known().charts, strict=True)
        ]
        return dict(zip(scopes, kept, strict=True))

    def _point(self, plain: dict[str, Any], within: str) -> Point:
        file = plain.get("file")
        beside = self.path.parent / Path(file).name if file else None
        return Point(
            plain["steps"],
            Fraction(plain.get("limit") or plain["bandwidth_cost"]),
            Algorithm(*load_algorithm(beside)) if beside else None,
            tuple(plain.get("optimal", ())),
            plain["proved"],
            plain.get("attained", True),
            plain.get("seconds"),
            plain.get("chunks"),
            plain.get("rounds"),
            within,
        )

    def _repr_html_(self) -> str:
        known = self._known()
        several = len(known.charts) > 1
        found = heading(self.name)
        for chart, sweep in zip(known.charts, known.sweeps, strict=True):
            rows = [
                (p.chunks or "-", p.steps, p.rounds or "-", p.cost, p.state_words)
                for p in chart.points
            ]
            found += heading(chart.scope) if several else ""
            found += table(("C", "S", "R", "R/C", "State"), rows) + paragraph(sweep.summary)
        return found
