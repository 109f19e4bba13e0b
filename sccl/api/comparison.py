"""Compare synthesizers and classical algorithms by buffer size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from sccl.api.arguments import check_arguments, check_wrapped_kind, parse_choice
from sccl.api.chart import Chart
from sccl.api.inputs import CollectiveLike, Machine, Root
from sccl.api.machine import Topology
from sccl.api.progress import Progress, progress_lines
from sccl.api.schedule import Schedule
from sccl.collectives import Spec
from sccl.comparison import comparison as tasks
from sccl.comparison.comparison_output import chart_data, compare_output
from sccl.comparison.contender_selection import build_contenders, load_file_plans, select_names
from sccl.comparison.contenders import ComparisonProblem
from sccl.core.clock import AlphaModel
from sccl.core.cost import format_bytes
from sccl.core.sizes import parse_sizes
from sccl.errors import ParameterError
from sccl.synth.common.settings import build_effort
from sccl.topo import resolve_topology
from sccl.view import charts
from sccl.view.text.markup import heading, paragraph, table


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """The fastest synthesizer or classical algorithm at each size.

    Attributes:
        value: Comparison of :mod:`sccl.comparison.comparison`.

    Examples:
        >>> import sccl
        >>> names = ["ring", "direct"]
        >>> comparison = sccl.compare("allgather", "ring:4", size="1KB", only=names)
        >>> comparison
        Comparison(allgather on ring:4: of 2, 1 KB direct)
        >>> comparison.missing
        {}
    """

    value: tasks.Comparison

    def __post_init__(self) -> None:
        check_wrapped_kind(self, tasks.Comparison, "sccl.compare")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes of a rank's buffer, bytes."""
        return self.value.sizes

    @property
    def winners(self) -> dict[int, str]:
        """Return the name of the fastest method at each size that has a plan."""
        fastest = {size: self.value.winner(size) for size in self.sizes}
        return {size: system.name for size, system in fastest.items() if system}

    @property
    def times_us(self) -> dict[str, dict[int, float]]:
        """Return the completion times of each method by size, microseconds."""
        return {
            system.name: {size: float(row.us) for size, row in system.measurements.items()}
            for system in self.value.systems
            if system.measurements
        }

    @property
    def seconds(self) -> dict[str, float]:
        """Return the wall time of each method for its plans, seconds. It differs between runs."""
        return {system.name: system.seconds for system in self.value.systems}

    @property
    def missing(self) -> dict[str, str]:
        """Return the methods that lack plans for some sizes or all, each with the reason."""
        return {system.name: system.reason for system in self.value.systems if system.reason}

    @property
    def bound_us(self) -> dict[int, float]:
        """Return the lower bound on completion time by size, for any chunks, microseconds."""
        return {size: float(self.value.lower_bounds.us(size)) for size in self.sizes}

    def fastest(self, size_bytes: int) -> Schedule:
        """Return the fastest plan for a compared size.

        Raises:
            ParameterError: No plan has that size.

        Examples:
            >>> import sccl
            >>> names = ["ring", "direct"]
            >>> comparison = sccl.compare("allgather", "ring:4", size="1KB", only=names)
            >>> comparison.fastest(1000).collective
            'allgather'
        """
        if size_bytes not in self.value.plans:
            sizes = ", ".join(map(str, self.value.plans)) or "none"
            raise ParameterError(f"there is no plan for {size_bytes} bytes; the sizes are {sizes}")
        return Schedule(self.value.plans[size_bytes][1].schedule, self.bound_us[size_bytes])

    @check_arguments
    def plot(self, what: Literal["ratio", "gap", "time", "bandwidth"] = "ratio") -> Chart:
        """Return a chart of all methods by buffer size, next to the lower bound.

        Args:
            what: Vertical axis: completion time / lower bound, gap to the lower bound in percent,
                completion time in microseconds, or buffer size / time in GB/s.

        Raises:
            ParameterError: There is no such chart.

        Examples:
            >>> import sccl
            >>> names = ["ring", "direct"]
            >>> comparison = sccl.compare("allgather", "ring:4", size="1KB", only=names)
            >>> comparison.plot("gap").title
            'allgather on ring:4: gap by size'
        """
        measure = parse_choice("what", what, charts.TimeMeasure) or charts.TimeMeasure.RATIO
        output = compare_output(self.value, {}, {}, None, None)
        systems, bound = chart_data(output)
        alpha = f"alpha {output.alpha}"
        chart = charts.comparison_chart(systems, bound, self._name, alpha, measure)
        return Chart(chart, f"{self._name}: {what} by size")

    @property
    def _name(self) -> str:
        problem = self.value.problem
        return f"{problem.spec.name} on {problem.topology.name}"

    def __repr__(self) -> str:
        count = len(self.times_us)
        end_text = f"; {self.value.end_reason}" if self.value.end_reason else ""
        winners = ", ".join(f"{format_bytes(size)} {name}" for size, name in self.winners.items())
        return f"Comparison({self._name}: of {count}, {winners or 'nobody'}{end_text})"

    def _repr_html_(self) -> str:
        head = ("Size", "Fastest", "Time (us)", "GB/s", "Bound (us)", "Plan")
        rows = [self._row(size) for size in self.sizes]
        end_text = paragraph(str(self.value.end_reason)) if self.value.end_reason else ""
        return heading(self._name) + end_text + table(head, rows)

    def _row(self, size: int) -> tuple[str, ...]:
        winner, bound = self.value.winner(size), f"{self.bound_us[size]:.6g}"
        if winner is None:
            return (format_bytes(size), "-", "-", "-", bound, "")
        row = winner.measurements[size]
        times = f"{float(row.us):.6g}", f"{row.gb_per_s:.4g}"
        return (format_bytes(size), winner.name, *times, bound, row.plan)


@check_arguments
def compare(  # noqa: PLR0913 - the problem and its options
    collective: CollectiveLike,
    topology: Machine,
    *,
    size: int | str = "1KB..1GB",
    files: Iterable[str | PathLike[str]] = (),
    only: Iterable[str] = (),
    without: Iterable[str] = (),
    root: Root | None = None,
    alpha: Literal["travels", "occupies"] = "travels",
    timeout_s: float | None = None,
    seed: int = 0,
    progress: Progress = True,
) -> Comparison:
    """Return the completion times of all synthesizers and classical algorithms by size.

    Each plan is verified and simulated. Ctrl-C, or interrupting the kernel, returns the results so
    far.

    Args:
        collective: Name, file, or result of :func:`collective`.
        topology: Name, file, or topology.
        size: Buffer size of a rank: bytes, text such as ``"1MB"``, a list such as ``"64KB,1MB"``,
            or a range such as ``"1KB..1GB"`` in factors of four.
        files: Further algorithms and schedules to compare.
        only: Names of the methods to compare. Empty: all.
        without: Names of the methods to leave out.
        root: Root of broadcast, reduce, gather, and scatter, by number or label. None: rank 0.
        alpha: ``"travels"``: a chunk arrives alpha later, and the link is free meanwhile.
            ``"occupies"``: the link is busy during alpha.
        timeout_s: Seconds for each synthesizer, for all sizes together. None: a fixed budget.
        seed: Seed of the synthesizers. The same seed gives the same plans.
        progress: Whether to show progress, or a function that receives each line of it.

    Raises:
        InputError: The collective, a size, a name, or a file does not fit the machine.

    Examples:
        >>> import sccl
        >>> names = ["ring", "direct", "tacos"]
        >>> sccl.compare("allgather", "ring:4", size="1KB..16KB", only=names).winners[1000]
        'tacos'
    """
    machine = topology.value if isinstance(topology, Topology) else resolve_topology(str(topology))
    spec = collective if isinstance(collective, Spec) else str(collective)
    names, sizes = select_names(only, without), parse_sizes(str(size))
    build_effort(timeout_s, seed)
    subject = tasks.comparison_subject(machine, spec, root)
    model = parse_choice("alpha", alpha, AlphaModel) or AlphaModel.TRAVELS
    problem = ComparisonProblem(subject.topology, subject.spec, model, seed, timeout_s)
    file_plans = load_file_plans(problem, [Path(file) for file in files])
    with progress_lines(progress, f"{subject.spec.name} on {subject.topology.name}") as on_progress:
        contenders = build_contenders(problem, names, file_plans, on_progress)
        return Comparison(tasks.compare(problem, contenders, sizes, on_progress))
