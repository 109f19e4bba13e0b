"""Compare synthesizers and classical algorithms by buffer size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from sccl.api.arguments import (
    check_arguments,
    check_wrapped_kind,
    describe_arguments,
    parse_choice,
)
from sccl.api.chart import Chart
from sccl.api.inputs import (
    CollectiveLike,
    Machine,
    Root,
    core_collective,
    core_topology,
    note_changes,
)
from sccl.api.progress import Progress, progress_lines
from sccl.api.schedule import Schedule
from sccl.comparison import comparison as tasks
from sccl.comparison.comparison_output import CompareOutput, chart_data, compare_output
from sccl.comparison.contender_selection import (
    FilePlan,
    build_contenders,
    load_file_plans,
    select_names,
)
from sccl.comparison.contenders import ComparisonProblem
from sccl.comparison.tuner_rules import TunerPart, check_tunable, write_tuner
from sccl.core.clock import AlphaModel
from sccl.core.cost import format_bytes
from sccl.core.files.disk import check_can_write
from sccl.core.files.outputs import to_plain
from sccl.core.sizes import parse_sizes
from sccl.errors import ParameterError
from sccl.synth.common.settings import build_effort
from sccl.view import charts
from sccl.view.text.markup import heading, paragraph, table


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """The fastest synthesizer or classical algorithm at each size.

    Attributes:
        value: Comparison of :mod:`sccl.comparison.comparison`.
        files: Compared plans of files, by path.
        plan_files: Written file of the fastest plan, by size.
        tuner: Written rules for NCCL: the ``file``, the ``command`` that uses it, and ``notes``
            with its assumptions. None: no rules were written.

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
    files: Mapping[str, FilePlan] = field(default_factory=dict)
    plan_files: Mapping[int, Path] = field(default_factory=dict)
    tuner: TunerPart | None = None

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
            system.name: _times_us(system) for system in self.value.systems if system.measurements
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
    def unreached(self) -> tuple[str, ...]:
        """Return the methods that an interrupt prevented."""
        return tuple(name for name, reason in self.missing.items() if reason == tasks.NOT_REACHED)

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

    def to_json(self, plot: Path | None = None) -> dict[str, Any]:
        """Return the comparison as plain JSON values, like ``sccl compare --json``.

        Args:
            plot: File of its chart. None: there is none.

        Examples:
            >>> import sccl
            >>> comparison = sccl.compare("allgather", "ring:4", size="1KB", only=["direct"])
            >>> comparison.to_json()["sizes"][0]["winner"]
            'direct'
        """
        return to_plain(self._output(plot))

    def _output(self, plot: Path | None = None) -> CompareOutput:
        return compare_output(self.value, self.files, self.plan_files, plot, self.tuner)

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
        output = self._output()
        systems, bound = chart_data(output)
        alpha = f"alpha {output.alpha}"
        chart = charts.comparison_chart(systems, bound, self.name, alpha, measure)
        return Chart(chart, f"{self.name}: {what} by size")

    @property
    def name(self) -> str:
        """Return the names of its collective and its machine."""
        problem = self.value.problem
        return f"{problem.spec.name} on {problem.topology.name}"

    def __repr__(self) -> str:
        count = len(self.times_us)
        end_text = f"; {self.value.end_reason}" if self.value.end_reason else ""
        winners = ", ".join(f"{format_bytes(size)} {name}" for size, name in self.winners.items())
        return f"Comparison({self.name}: of {count}, {winners or 'nobody'}{end_text})"

    def _repr_html_(self) -> str:
        head = ("Size", "Fastest", "Time (us)", "GB/s", "Bound (us)", "Plan")
        rows = [[*row[:5], row[6]] for row in self.rows]  # without the gap
        end_text = paragraph(str(self.value.end_reason)) if self.value.end_reason else ""
        return heading(self.name) + end_text + table(head, rows)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Return rows of a table: size, fastest, time, GB/s, lower bound, gap, and plan."""
        return [self._row(size) for size in self.sizes]

    def _row(self, size: int) -> tuple[str, ...]:
        winner, bound = self.value.winner(size), f"{self.bound_us[size]:.6g}"
        if winner is None:
            return (format_bytes(size), "-", "-", "-", bound, "", "")
        row = winner.measurements[size]
        gap = self.value.gap(row)
        times = f"{float(row.us):.6g}", f"{row.gb_per_s:.4g}"
        gap_text = "-" if gap is None else f"{gap:.1%}"
        return (format_bytes(size), winner.name, *times, bound, gap_text, row.plan)


def _times_us(system: tasks.ContenderResult) -> dict[int, float]:
    return {size: float(row.us) for size, row in system.measurements.items()}


@check_arguments
@describe_arguments(
    size='Buffer size of a rank: bytes, text such as ``"1MB"``, a list such as '
    '``"64KB,1MB"``, or a range such as ``"1KB..1GB"`` in factors of four.',
    files="Further algorithms and schedules to compare.",
    only="Names of the methods to compare. Empty: all.",
    without="Names of the methods to leave out.",
    alpha='``"travels"``: a chunk arrives alpha later, and the link is free meanwhile. '
    '``"occupies"``: the link is busy during alpha.',
    timeout_s="Seconds for each synthesizer, for all sizes together. None: a fixed budget.",
    folder="Folder for the fastest plan of each size. None: plans are not written.",
    tuner="File for NCCL's tuner plugin: NCCL's best algorithm by size. None: it is not written.",
    on_method="Function that receives the name of each finished method, and its times in "
    "microseconds by size.",
)
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
    folder: str | PathLike[str] | None = None,
    tuner: str | PathLike[str] | None = None,
    progress: Progress = True,
    on_method: Callable[[str, Mapping[int, float]], None] = lambda _name, _times: None,
) -> Comparison:
    """Return the completion times of all synthesizers and classical algorithms by size.

    Each plan is verified and simulated. Ctrl-C, or interrupting the kernel, returns the results so
    far.

    Raises:
        InputError: The collective, a size, a name, or a file does not fit the machine, or a file
            cannot be written.

    Examples:
        >>> import sccl
        >>> names = ["ring", "direct", "tacos"]
        >>> sccl.compare("allgather", "ring:4", size="1KB..16KB", only=names).winners[1000]
        'tacos'
    """
    names, sizes = select_names(only, without), parse_sizes(str(size))
    build_effort(timeout_s, seed)
    subject = note_changes(
        tasks.comparison_subject(core_topology(topology), core_collective(collective), root)
    )
    if tuner is not None:
        check_tunable(subject.spec.name)
        check_can_write(Path(tuner))
    model = parse_choice("alpha", alpha, AlphaModel) or AlphaModel.TRAVELS
    problem = ComparisonProblem(subject.topology, subject.spec, model, seed, timeout_s)
    file_plans = load_file_plans(problem, [Path(file) for file in files])
    if folder is not None:
        tasks.prepare_folder(Path(folder))
    with progress_lines(progress, f"{subject.spec.name} on {subject.topology.name}") as on_progress:
        contenders = build_contenders(problem, names, file_plans, on_progress)
        value = tasks.compare(
            problem,
            contenders,
            sizes,
            on_progress,
            on_system=lambda system: on_method(system.name, _times_us(system)),
        )
    plan_files = tasks.write_fastest(Path(folder), value) if folder is not None else {}
    rules = write_tuner(value, Path(tuner)) if tuner is not None and not value.end_reason else None
    return Comparison(value, file_plans, plan_files, rules)
