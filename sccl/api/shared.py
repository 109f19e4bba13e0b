"""What every frontier can do, and its points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import checked
from sccl.api.chart import Chart
from sccl.api.latex import Latex, tabular
from sccl.core.answer import Origin
from sccl.core.files.disk import check_can_write, write_atomically
from sccl.core.frontier import Frontier as Known
from sccl.core.frontier import Point as KnownPoint
from sccl.core.frontier import state_words
from sccl.errors import InputError, ToolError
from sccl.tasks.explore import shown
from sccl.view import charts
from sccl.view.explorer.html import page
from sccl.view.words import above_words, state, summary

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, repr=False)
class Point:
    """A point of a frontier.

    Attributes:
        steps: S.
        bandwidth_cost: R/C; of a limit frontier, the limit.
        algorithm: attains it, or is near it if ``attained`` is false; None: it is too large to be
            written down.
        optimal: which lower bounds it meets: ``"latency"``, ``"bandwidth"``, ``"limit"``; those of
            its class for a point in ``.classes``, else of every algorithm.
        proved: whether nothing dominates it; if not, it is the best found.
        attained: whether the algorithm has this R/C.
        seconds: what finding it took; None: its file does not say.
        chunks: C of the algorithm; None: there is none.
        rounds: R of the algorithm; None: there is none.
        of_class: the class of algorithms that it is of, where a collective has several.
        within: the k and C that the proof is restricted to, such as ``"k = 2"``; empty: none.
        above_every: of an allreduce, by which part R/C is above what no algorithm of any class
            beats in as many steps: 0: none has less; None: that is not known.
        rests_on: where refutations that the proof needs came from, other than this process:
            ``"stored"`` (the user's own store), ``"other-version"``, ``"store-file"``,
            ``"cluster"``; of a point that is not proved, those that would prove it if they were
            verified.
    """

    steps: int
    bandwidth_cost: Fraction
    algorithm: Algorithm | None
    optimal: tuple[str, ...]
    proved: bool
    attained: bool = True
    seconds: float | None = None
    chunks: int | None = None
    rounds: int | None = None
    within: str = ""
    of_class: str = ""
    above_every: Fraction | None = None
    rests_on: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, point: KnownPoint, algorithm: Algorithm | None, of_class: str, above: Fraction | None
    ) -> Point:
        """Return a point with its algorithm."""
        return cls(
            point.steps,
            point.cost,
            algorithm,
            point.optimal,
            point.proved,
            point.attained,
            None if point.seconds is None else round(point.seconds, 3),
            point.chunks,
            point.rounds,
            point.within.words if point.proved and point.within else "",
            of_class,
            above,
            tuple(origin.value for origin in point.rests_on),
        )

    @property
    def state(self) -> str:
        """Return ``"proved"``, ``"proved (stored) for k = 2"``, ``"best found"``, or the like."""
        origins = map(Origin, self.rests_on)
        return state_words("proved" if self.proved else "best found", self.within, origins)

    @property
    def text(self) -> str:
        """Return its costs in words."""
        if self.chunks and self.attained:
            return f"C={self.chunks} S={self.steps} R={self.rounds}"
        return f"S={self.steps} R/C={self.bandwidth_cost}"

    @property
    def cells(self) -> tuple[object, ...]:
        """Return it as a row of a table: C, S, R, R/C, what it is optimal in, and its state."""
        return (
            "-" if self.chunks is None else self.chunks,
            self.steps,
            "-" if self.rounds is None else self.rounds,
            f"{self.bandwidth_cost}{'' if self.attained else ' (approached)'}",
            " and ".join(self.optimal) or "-",
            self.state,
        )

    def __repr__(self) -> str:
        return f"Point({self.text}, {self.state})"

    @property
    def cells_of_several(self) -> tuple[object, ...]:
        """Return the row of a table of several classes: also its class, and what is above all."""
        return (*self.cells, self.of_class, above_words(self.above_every))


COLUMNS = ("C", "S", "R", "R/C", "Optimal in", "State")
COLUMNS_OF_SEVERAL = (*COLUMNS, "Class", "Above all")


class Shared(ABC):
    """What every frontier can do: it needs what is known, and where algorithms are.

    A frontier is a sequence of its points: ``for point in frontier``, ``len(frontier)``,
    ``frontier[-1]``.
    """

    __slots__ = ()
    called: ClassVar[str] = "a frontier"

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, as ``sccl pareto --json`` prints them."""

    @property
    @abstractmethod
    def known(self) -> tuple[Known, ...]:
        """Return what is known; of files of earlier versions, also that of other classes."""

    def _algorithm_of(self, point: KnownPoint) -> Algorithm | None:
        """Return the algorithm of a point, if there is one."""
        return Algorithm(point.algorithm) if point.algorithm else None

    @property
    def classes(self) -> dict[str, tuple[Point, ...]]:
        """Return the points of each class of algorithms, by class; allreduce has up to four."""
        return {
            part.scope or (one.bounds.scope if one.bounds else ""): tuple(
                Point.of(point, self._algorithm_of(point), part.name, one.above_every(point))
                for point in part.points
            )
            for one in self.known
            for part in one.classes
        }

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points by ascending S, each with a smaller R/C than the one before."""
        known = self.known[0]
        return tuple(
            Point.of(point, self._algorithm_of(point), name, known.above_every(point))
            for name, point in known.stairs
        )

    def _algorithms(self) -> Sequence[Algorithm]:
        """Return the algorithms of the points of all classes."""
        return [p.algorithm for points in self.classes.values() for p in points if p.algorithm]

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Point, ...]: ...
    def __getitem__(self, index: int | slice) -> Point | tuple[Point, ...]:
        return self.points[index]

    @property
    def name(self) -> str:
        """Return what it is the frontier of."""
        return self.known[0].name

    @property
    def summary(self) -> str:
        """Return how far it is known, in a sentence."""
        return summary(self.known[0])

    @checked
    def plot(self, *others: Shared) -> Chart:
        """Return steps against R/C, with what is known below; of several, one over another."""
        lines = _charts([self, *others])
        return Chart(charts.frontier_chart(lines), self._title(others, "frontier"))

    @checked
    def plot_times(
        self, *others: Shared, alpha_us: float | None = None, gb_per_s: float | None = None
    ) -> Chart:
        """Return the time of every point by buffer size, with the crossovers.

        Args:
            alpha_us: latency of a step, microseconds; None: the machine's.
            gb_per_s: bandwidth of a lane, 10^9 bytes per second; None: the machine's.
        """
        lines = _charts([self, *others])
        drawn = charts.time_chart(lines, alpha_us, gb_per_s)
        return Chart(drawn, self._title(others, "times by buffer size"))

    def to_dataframe(self) -> pd.DataFrame:
        """Return the points of all classes as a table of pandas.

        Each row says its machine and its class, so that the tables of several frontiers can be
        laid under one another. R/C is a float, beside its exact text; so is by which part it is
        above what no algorithm of any class beats, of allreduces; seconds are those that finding
        the point took.

        Raises:
            ToolError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ToolError(
                "to_dataframe needs pandas, which is not installed: pip install 'sccl[notebook]'"
            ) from error
        plain = self.to_json()
        question = {name: plain[name] for name in ("topology", "collective", "root")}
        rows = [
            {**question, "class": scope, **_plain(point)}
            for scope, points in self.classes.items()
            for point in points
        ]
        return pd.DataFrame(rows, columns=[*question, "class", *_FRAME]).convert_dtypes()

    @checked
    def to_latex(self, caption: str | None = None, label: str | None = None) -> Latex:
        r"""Return the points of all classes as a LaTeX table (package booktabs).

        In a notebook it shows its source; where a notebook becomes a LaTeX document
        (``jupyter nbconvert --to pdf``), it and the frontier itself become the table.

        Args:
            caption: what stands above it, a text; names in it are escaped. With a caption or a
                label it is a floating ``table``, else a ``tabular`` alone.
            label: for ``\ref``.

        >>> import sccl
        >>> print(sccl.pareto("allgather", "ring:4", progress=False).to_latex())
        \begin{tabular}{rrrrll}
        \toprule
        C & S & R & R/C & Optimal in & State \\
        \midrule
        2 & 2 & 3 & 3/2 & latency and bandwidth & proved \\
        \bottomrule
        \end{tabular}
        """
        classes = self.classes
        if all(point.above_every is None for points in classes.values() for point in points):
            parts = {scope: [p.cells for p in points] for scope, points in classes.items()}
            named = parts if len(parts) > 1 else {"": next(iter(parts.values()))}
            return tabular(COLUMNS, "rrrrll", named, caption, label)
        parts = {
            scope: [(*p.cells, above_words(p.above_every)) for p in points]
            for scope, points in classes.items()
        }
        return tabular((*COLUMNS, "Above all"), "rrrrlll", parts, caption, label)

    def _repr_latex_(self) -> str:
        return self.to_latex()

    @checked
    def explore(self, path: str | PathLike[str]) -> Path:
        """Write a page of the frontier and its algorithms, step by step, and return its path.

        Raises:
            InputError: there is no algorithm, they are too large for a page, or the file cannot be
                written.
        """
        check_can_write(Path(path))
        algorithms = self._algorithms()
        if not algorithms:
            raise InputError(f"{self.name}: no algorithm was found, so there is none to explore")
        items = shown((a.name, a.value, a.intact) for a in algorithms)
        write_atomically(Path(path), page(items, self.known, frontier=True))
        return Path(path)

    def _title(self, others: Sequence[Shared], what: str) -> str:
        return f"{', '.join(one.name for one in (self, *others))}: {what}"

    def __repr__(self) -> str:
        first = self.known[0]
        if first.several:
            texts = ", ".join(point.text for point in first.points) or "no point"
            return f"{type(self).__name__}({self.name}: {texts}; {self.summary.lower()})"
        classes = [_in_short(one) for one in self.known]
        if len(classes) > 1:
            scopes = [one.bounds.scope if one.bounds else one.scope for one in self.known]
            classes = [f"{scope}: {text}" for scope, text in zip(scopes, classes, strict=True)]
        return f"{type(self).__name__}({self.name}: {' | '.join(classes)})"


def _in_short(one: Known) -> str:
    """Return the points of a frontier, and how far they are known."""
    points = ", ".join(point.text for point in one.points) or "no point"
    return f"{points}; {state(one).head.lower()}"


def _charts(frontiers: Iterable[Shared]) -> list[charts.FrontierData]:
    return charts.lines_of(one for frontier in frontiers for one in frontier.known)


_FRAME = (
    *("chunks", "steps", "rounds", "bandwidth_cost", "exact"),
    *("attained", "proved", "optimal", "above_every", "seconds"),
)


def _plain(point: Point) -> dict[str, Any]:
    cost, above = point.bandwidth_cost, point.above_every
    found = {name: getattr(point, name) for name in _FRAME if name != "exact"}
    return found | {
        "bandwidth_cost": float(cost),
        "exact": str(cost),
        "optimal": ", ".join(point.optimal),
        "above_every": None if above is None else float(above),
    }
