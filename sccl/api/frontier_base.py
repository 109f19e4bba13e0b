"""Implement the methods that all frontiers share, and their points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_arguments
from sccl.api.chart import Chart
from sccl.core.answer import Origin
from sccl.core.files.disk import check_can_write, write_atomically
from sccl.core.frontier import Frontier as CoreFrontier
from sccl.core.frontier import Point as CorePoint
from sccl.core.frontier import describe_state, format_optimal
from sccl.errors import InputError, ToolError
from sccl.view import charts
from sccl.view.completeness import above_all_text, frontier_state, frontier_summary
from sccl.view.text.markup import Latex, tabular

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, repr=False)
class Point:
    """A point of a frontier.

    Attributes:
        steps: S.
        bandwidth_cost: R/C. In a limit frontier, the limit.
        algorithm: Algorithm that attains it, or is close to it if ``attained`` is false. None: it
            is too large for a file.
        optimal: Lower bounds that it attains: ``"latency"``, ``"bandwidth"``, ``"limit"``. For a
            point in ``.classes`` these are bounds of its family, otherwise of every algorithm.
        proved: Whether it is proved that nothing dominates it.
        attained: Whether the algorithm has this R/C.
        seconds: Seconds of its synthesis. None: not in its file.
        chunks: C of the algorithm. None: there is none.
        rounds: R of the algorithm. None: there is none.
        of_class: Family of the algorithm, for collectives with several.
        within: Range of k and C of the proof, such as ``"k = 2"``. Empty: no restriction.
        above_every: For allreduce: gap between R/C and the lower bound for every allreduce with as
            many steps, as a fraction. None: unknown.
        rests_on: Origins, other than this process, of refutations that the proof needs:
            ``"stored"`` (the user's store), ``"other-version"``, ``"store-file"``, ``"cluster"``.
            For a point without a proof: origins that would prove it if they were verified.
        found_by: Method that generated the algorithm: ``"greedy"``, ``"construction"``,
            ``"packing"``, ``"composition"``, or a solver, such as ``"cp-sat"``. Empty: not in its
            file.

    Examples:
        >>> import sccl
        >>> sccl.pareto("allgather", "ring:4")[0]
        Point(C=2 S=2 R=3, proved)
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
    found_by: str = ""

    @classmethod
    def of(
        cls, point: CorePoint, algorithm: Algorithm | None, of_class: str, above: Fraction | None
    ) -> Point:
        """Return a point with its algorithm.

        Examples:
            >>> import sccl
            >>> frontier = sccl.pareto("allgather", "ring:4")
            >>> sccl.Point.of(frontier.value.points[0], None, "", None)
            Point(C=2 S=2 R=3, proved)
        """
        return cls(
            point.steps,
            point.cost,
            algorithm,
            point.optimal,
            point.is_proved,
            point.is_attained,
            None if point.seconds is None else round(point.seconds, 3),
            point.chunks,
            point.rounds,
            point.within.description if point.is_proved and point.within else "",
            of_class,
            above,
            tuple(origin.value for origin in point.proof_origins),
            point.found_by,
        )

    @property
    def state(self) -> str:
        """Return ``"proved"``, ``"proved (stored) for k = 2"``, ``"best found"``, or similar."""
        origins = map(Origin, self.rests_on)
        return describe_state("proved" if self.proved else "best found", self.within, origins)

    @property
    def text(self) -> str:
        """Return its costs as text."""
        if self.chunks and self.attained:
            return f"C={self.chunks} S={self.steps} R={self.rounds}"
        return f"S={self.steps} R/C={self.bandwidth_cost}"

    @property
    def cells(self) -> tuple[object, ...]:
        """Return a table row: C, S, R, R/C, the bounds that it attains, and its state."""
        return (
            "-" if self.chunks is None else self.chunks,
            self.steps,
            "-" if self.rounds is None else self.rounds,
            f"{self.bandwidth_cost}{'' if self.attained else ' (approached)'}",
            format_optimal(self.optimal) or "-",
            self.state,
        )

    def __repr__(self) -> str:
        return f"Point({self.text}, {self.state})"

    @property
    def cells_of_several(self) -> tuple[object, ...]:
        """Return a table row for several families: also the family, and the gap above all."""
        return (*self.cells, self.of_class, above_all_text(self.above_every))


COLUMNS = ("C", "S", "R", "R/C", "Optimal in", "State")
CLASS_COLUMNS = (*COLUMNS, "Family", "Above all")


class FrontierBase(ABC):
    """Base of all frontiers. Subclasses provide the known points and their algorithms.

    A frontier is a sequence of its points: ``for point in frontier``, ``len(frontier)``,
    ``frontier[-1]``.

    Examples:
        >>> import sccl
        >>> len(sccl.pareto("allgather", "dgx1"))
        2
    """

    __slots__ = ()
    type_label: ClassVar[str] = "a frontier"

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the frontier as plain JSON values, like ``sccl pareto --json``."""

    @property
    @abstractmethod
    def known(self) -> tuple[CoreFrontier, ...]:
        """Return the frontiers of :mod:`sccl.core.frontier`.

        Files of earlier versions may have several.
        """

    def _algorithm_of(self, point: CorePoint) -> Algorithm | None:
        """Return the algorithm of a point, if there is one."""
        return Algorithm(point.algorithm) if point.algorithm else None

    @property
    def classes(self) -> dict[str, tuple[Point, ...]]:
        """Return the points of each family of algorithms, by family. Allreduce has up to four."""
        return {
            part.scope or (frontier.bounds.scope if frontier.bounds else ""): tuple(
                Point.of(
                    point, self._algorithm_of(point), part.name, frontier.gap_to_any_class(point)
                )
                for point in part.points
            )
            for frontier in self.known
            for part in frontier.classes
        }

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points by ascending S, each with a smaller R/C than the previous one."""
        frontier = self.known[0]
        return tuple(
            Point.of(point, self._algorithm_of(point), name, frontier.gap_to_any_class(point))
            for name, point in frontier.non_dominated
        )

    def _algorithms(self) -> Sequence[Algorithm]:
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
        """Return the names of the collective and the machine."""
        return self.known[0].name

    @property
    def summary(self) -> str:
        """Return a sentence on the completeness of the frontier."""
        return frontier_summary(self.known[0])

    @check_arguments
    def plot(self, *others: FrontierBase) -> Chart:
        """Return a chart of steps against R/C of one or more frontiers.

        Examples:
            >>> import sccl
            >>> frontier = sccl.pareto("allgather", "ring:4")
            >>> frontier.plot(sccl.pareto("allgather", "full:4")).title
            'allgather on ring:4, allgather on full:4: frontier'
        """
        lines = _chart_data([self, *others])
        return Chart(charts.frontier_chart(lines), self._title(others, "frontier"))

    @check_arguments
    def plot_times(
        self, *others: FrontierBase, alpha_us: float | None = None, gb_per_s: float | None = None
    ) -> Chart:
        """Return a chart of the time of every point by buffer size, with the crossovers.

        Args:
            alpha_us: Latency of a step, in microseconds. None: the machine's.
            gb_per_s: Bandwidth of a lane, in 10^9 bytes per second. None: the machine's.

        Examples:
            >>> import sccl
            >>> sccl.pareto("allgather", "dgx1").plot_times(alpha_us=2.0).title
            'allgather on dgx1: times by buffer size'
        """
        lines = _chart_data([self, *others])
        chart = charts.time_chart(lines, alpha_us, gb_per_s)
        return Chart(chart, self._title(others, "times by buffer size"))

    def to_dataframe(self) -> pd.DataFrame:
        """Return the points of all families as a pandas table.

        Each row has its machine and its family, so you can concatenate the tables of several
        frontiers. R/C is a float, next to its exact text. ``above_every`` is the gap to the lower
        bound for every allreduce, as a fraction. ``seconds`` is the time of the point's synthesis.

        Raises:
            ToolError: pandas is not installed.

        Examples:
            >>> import sccl
            >>> table = sccl.pareto("allgather", "dgx1").to_dataframe()
            >>> table[["steps", "exact"]].values.tolist()
            [[2, '3/2'], [3, '7/6']]
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
            {**question, "class": scope, **_point_to_json(point)}
            for scope, points in self.classes.items()
            for point in points
        ]
        return pd.DataFrame(rows, columns=[*question, "class", *_FRAME_COLUMNS]).convert_dtypes()

    @check_arguments
    def to_latex(self, caption: str | None = None, label: str | None = None) -> Latex:
        r"""Return the points of all families as a LaTeX table (package booktabs).

        A notebook shows its source. If a notebook is converted to a LaTeX document (``jupyter
        nbconvert --to pdf``), it and the frontier itself become the table.

        Args:
            caption: Caption, in which names are escaped. With a caption or a label the result is a
                floating ``table``, otherwise only a ``tabular``.
            label: Label for ``\ref``.

        Examples:
            >>> import sccl
            >>> print(sccl.pareto("allgather", "ring:4", progress=False).to_latex())
            \begin{tabular}{rrrrll}
            \toprule
            C & S & R & R/C & Optimal in & State \\
            \midrule
            2 & 2 & 3 & 3/2 & S, R/C & proved \\
            \bottomrule
            \end{tabular}
        """
        classes = self.classes
        if all(point.above_every is None for points in classes.values() for point in points):
            parts = {scope: [p.cells for p in points] for scope, points in classes.items()}
            named = parts if len(parts) > 1 else {"": next(iter(parts.values()))}
            return tabular(COLUMNS, "rrrrll", named, caption, label)
        parts = {
            scope: [(*p.cells, above_all_text(p.above_every)) for p in points]
            for scope, points in classes.items()
        }
        return tabular((*COLUMNS, "Above all"), "rrrrlll", parts, caption, label)

    def _repr_latex_(self) -> str:
        return self.to_latex()

    @check_arguments
    def explore(self, path: str | PathLike[str]) -> Path:
        """Write a page that plays the algorithms of the frontier step by step, and return its path.

        Raises:
            InputError: There is no algorithm, they are too large for a page, or the file cannot be
                written.

        Examples:
            >>> import sccl
            >>> sccl.pareto("allgather", "ring:4").explore("frontier.html").name
            'frontier.html'
        """
        from sccl.view.explorer.explorer_plans import explorer_algorithms  # noqa: PLC0415 - few ask for a page
        from sccl.view.explorer.page_html import render_page  # noqa: PLC0415

        check_can_write(Path(path))
        algorithms = self._algorithms()
        if not algorithms:
            raise InputError(f"{self.name}: no algorithm is known, so there is nothing to explore")
        items = explorer_algorithms((a.name, a.value, a.intact) for a in algorithms)
        write_atomically(Path(path), render_page(items, self.known, frontier=True))
        return Path(path)

    def _title(self, others: Sequence[FrontierBase], subject: str) -> str:
        return f"{', '.join(frontier.name for frontier in (self, *others))}: {subject}"

    def __repr__(self) -> str:
        first = self.known[0]
        if first.is_multiclass:
            texts = ", ".join(point.text for point in first.points) or "no point"
            return f"{type(self).__name__}({self.name}: {texts}; {self.summary.lower()})"
        classes = [_short_text(frontier) for frontier in self.known]
        if len(classes) > 1:
            scopes = [
                frontier.bounds.scope if frontier.bounds else frontier.scope
                for frontier in self.known
            ]
            classes = [f"{scope}: {text}" for scope, text in zip(scopes, classes, strict=True)]
        return f"{type(self).__name__}({self.name}: {' | '.join(classes)})"


def _short_text(frontier: CoreFrontier) -> str:
    """Return the points of a frontier and its state as text."""
    points = ", ".join(point.text for point in frontier.points) or "no point"
    return f"{points}; {frontier_state(frontier).head.lower()}"


def _chart_data(frontiers: Iterable[FrontierBase]) -> list[charts.FrontierData]:
    return charts.frontier_lines(
        known_frontier for frontier in frontiers for known_frontier in frontier.known
    )


_FRAME_COLUMNS = (
    *("chunks", "steps", "rounds", "bandwidth_cost", "exact"),
    *("attained", "proved", "optimal", "above_every", "seconds"),
)


def _point_to_json(point: Point) -> dict[str, Any]:
    cost, above = point.bandwidth_cost, point.above_every
    row = {name: getattr(point, name) for name in _FRAME_COLUMNS if name != "exact"}
    return row | {
        "bandwidth_cost": float(cost),
        "exact": str(cost),
        "optimal": ", ".join(point.optimal),
        "above_every": None if above is None else float(above),
    }
