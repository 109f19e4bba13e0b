"""What every frontier can do, and its points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sccl import view
from sccl.api.algorithm import Algorithm
from sccl.api.arguments import checked
from sccl.api.chart import Chart
from sccl.core.files import check_can_write, write_atomically
from sccl.errors import InputError, ToolError
from sccl.tasks.frontiers import Known, known
from sccl.tasks.pages import shown
from sccl.view.explore import check_fits, page
from sccl.view.shown import Bounds

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
        optimal: which lower bounds it meets: ``"latency"``, ``"bandwidth"``, ``"limit"``.
        proved: whether nothing dominates it; if not, it is the best found.
        attained: whether the algorithm has this R/C.
    """

    steps: int
    bandwidth_cost: Fraction
    algorithm: Algorithm | None
    optimal: tuple[str, ...]
    proved: bool
    attained: bool = True

    @property
    def chunks(self) -> int | None:
        """Return C of the algorithm, if there is one."""
        return self.algorithm.chunks if self.algorithm else None

    @property
    def rounds(self) -> int | None:
        """Return R of the algorithm, if there is one."""
        return self.algorithm.rounds if self.algorithm else None

    @property
    def state(self) -> str:
        """Return ``"proved"`` or ``"best found"``."""
        return "proved" if self.proved else "best found"

    @property
    def text(self) -> str:
        """Return its costs in words."""
        if self.algorithm and self.attained:
            return f"C={self.chunks} S={self.steps} R={self.rounds}"
        return f"S={self.steps} R/C={self.bandwidth_cost}"

    def __repr__(self) -> str:
        return f"Point({self.text}, {self.state})"


class Shared(ABC):
    """What every frontier can do: it needs what was found as plain values, and algorithms."""

    __slots__ = ()
    called: ClassVar[str] = "a frontier"

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, as ``sccl pareto --json`` prints them."""

    @abstractmethod
    def _algorithms(self) -> Sequence[Algorithm]:
        """Return the algorithms of its points."""

    @property
    def name(self) -> str:
        """Return what it is the frontier of."""
        return self._known().name

    @property
    def summary(self) -> str:
        """Return how far it is known, in a sentence."""
        return self._known().sweeps[0].summary

    @checked
    def plot(self, *others: Shared) -> Chart:
        """Return steps against R/C, with what is known below; of several, one over another."""
        charts = _charts([self, *others])
        return Chart(view.frontier_chart(charts), self._title(others, "frontier"))

    @checked
    def plot_times(
        self, *others: Shared, alpha_us: float | None = None, gb_per_s: float | None = None
    ) -> Chart:
        """Return the time of every point by buffer size, with the crossovers.

        Args:
            alpha_us: latency of a step, microseconds; None: the machine's.
            gb_per_s: bandwidth of a lane, 10^9 bytes per second; None: the machine's.
        """
        charts = _charts([self, *others])
        drawn = view.time_chart(charts, alpha_us, gb_per_s)
        return Chart(drawn, self._title(others, "times by buffer size"))

    def to_dataframe(self) -> pd.DataFrame:
        """Return the points as a table of pandas, R/C as a float beside the exact text.

        Raises:
            ToolError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ToolError(
                "to_dataframe needs pandas, which is not installed: pip install 'sccl[notebook]'"
            ) from error
        exact = [point.get("limit") or point["bandwidth_cost"] for point in self._points()]
        points = [
            {
                **{name: point[name] for name in ("chunks", "steps", "rounds")},
                "bandwidth_cost": float(Fraction(cost)),
                "exact": cost,
                "proved": point["proved"],
                "optimal": ", ".join(point["optimal"]),
            }
            for point, cost in zip(self._points(), exact, strict=True)
        ]
        return pd.DataFrame(points).convert_dtypes()

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
        check_fits((repr(a), a.value) for a in algorithms)
        seen: dict[Any, Bounds] = {}
        items = [shown(a.name, a.value, a.intact, seen) for a in algorithms]
        write_atomically(Path(path), page(items, self._known().sweeps, frontier=True))
        return Path(path)

    def _points(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.to_json()["points"]
        return found

    def _known(self) -> Known:
        return known(self.to_json(), "this frontier")

    def _title(self, others: Sequence[Shared], what: str) -> str:
        return f"{', '.join(one.name for one in (self, *others))}: {what}"

    def __repr__(self) -> str:
        points = ", ".join(point.text for point in self._known().charts[0].points) or "no point"
        return f"{type(self).__name__}({self.name}: {points}; {self.summary.split(':')[0].lower()})"


def _charts(frontiers: Iterable[Shared]) -> list[view.FrontierData]:
    return [one for frontier in frontiers for one in frontier._known().charts]  # noqa: SLF001
