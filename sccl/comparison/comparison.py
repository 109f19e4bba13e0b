"""Compare the fastest verified plan of each contender, and a lower bound, by size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path

from sccl.collectives import Spec
from sccl.comparison.contenders import (
    ComparisonProblem,
    Contender,
    ContenderKind,
    DeadlineError,
    TimedPlan,
)
from sccl.core.bound import require_at_least_bound
from sccl.core.files.disk import check_can_write, make_directory, slugify
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopReason
from sccl.core.topology import Topology
from sccl.errors import InputError, TopologyError
from sccl.formats.files.plans import write_plan
from sccl.prove.bounds.time_cuts import CompletionTimeBound, completion_time_bound
from sccl.synth.common.problem import CollectiveProblem, build_problem, build_spec
from sccl.synth.packing.by_time.time_bound_curve import compute_bound_curve

NOT_REACHED = "not reached"
"""Reason why a system has no times if an interrupt came first."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The time of a contender at a size.

    Attributes:
        size_bytes: Size of a rank's buffer.
        us: Completion time in microseconds.
        plan: Description of the plan.
    """

    size_bytes: int
    us: Fraction
    plan: str

    @property
    def gb_per_s(self) -> float:
        """Return the algorithm bandwidth, size / time in 10^9 bytes per second."""
        return float(self.size_bytes / self.us / 1000) if self.us else 0.0


@dataclass(slots=True)
class ContenderResult:
    """A contender and its results.

    Attributes:
        name: Name of the contender.
        kind: Kind of contender.
        about: Description in one line.
        seconds: Seconds of planning.
        measurements: Results by size.
        reason: Reason why some or all sizes are missing, or empty.
    """

    name: str
    kind: ContenderKind
    about: str
    seconds: float = 0.0
    measurements: dict[int, Measurement] = field(default_factory=dict)
    reason: str = ""


@dataclass(slots=True)
class Comparison:
    """The times of all contenders.

    Attributes:
        problem: Problem of the comparison.
        sizes: Compared sizes of a rank's buffer in bytes.
        lower_bounds: Lower bound on the completion time, for every chunk count.
        systems: Contenders with their results.
        end_reason: Reason why the comparison ended early.
        plans: Name of the fastest contender and its plan, by size.
    """

    problem: ComparisonProblem
    sizes: tuple[int, ...]
    lower_bounds: CompletionTimeBound
    systems: list[ContenderResult] = field(default_factory=list)
    end_reason: StopReason = NOT_STOPPED
    plans: dict[int, tuple[str, TimedPlan]] = field(default_factory=dict)
    _bound_us: dict[int, Fraction] = field(default_factory=dict, init=False)

    def bound_us(self, size_bytes: int) -> Fraction:
        """Return the lower bound for a size, in microseconds."""
        if size_bytes not in self._bound_us:
            self._bound_us[size_bytes] = self.lower_bounds.us(size_bytes)
        return self._bound_us[size_bytes]

    def raise_bound(self, size_bytes: int, us: Fraction) -> None:
        """Add a lower bound for a size, in microseconds."""
        self.lower_bounds = self.lower_bounds.raise_at(size_bytes, us)
        self._bound_us.pop(size_bytes, None)

    def gap(self, row: Measurement) -> float | None:
        """Return the gap: completion time / lower bound - 1. None: the bound is 0."""
        lower_bound = self.bound_us(row.size_bytes)
        return float(row.us / lower_bound - 1) if lower_bound else None

    def winner(self, size_bytes: int) -> ContenderResult | None:
        """Return the first of the fastest systems at a size, or None if none has a plan."""
        rows = [system for system in self.systems if size_bytes in system.measurements]
        return min(rows, key=lambda system: system.measurements[size_bytes].us, default=None)


def comparison_subject(
    machine: Topology, collective: str | Spec, root: str | int | None
) -> CollectiveProblem:
    """Return the problem to compare, with switches replaced by links if these are equivalent.

    Raises:
        InputError: There is no such collective or root.
    """
    try:
        return build_problem(machine, collective, root)
    except TopologyError as error:
        note = f"the machine is not changed, and only some methods support it: {error}"
        return CollectiveProblem(machine, build_spec(machine, collective, root), (note,))


def compare(  # noqa: PLR0913 - a problem, contenders, and callbacks
    problem: ComparisonProblem,
    contenders: Sequence[Contender],
    sizes: Sequence[int],
    on_progress: Callable[[str], None] = lambda _: None,
    *,
    on_system: Callable[[ContenderResult], None] = lambda _: None,
    times_alone: bool = False,
) -> Comparison:
    """Return the times of all contenders by size. After an interrupt, some are missing.

    Args:
        problem: Problem of the comparison.
        contenders: Contenders.
        sizes: Sizes of a rank's buffer in bytes.
        on_progress: Progress callback: description of the current work.
        on_system: Callback that receives each contender with its times.
        times_alone: Whether only times are needed. Schedules are then not verified, since the sends
            and their order already are.

    Raises:
        InputError: A destination cannot be reached, or there are too many ranks.
        JudgeError: A plan fails verification.
        ContradictionError: A plan is faster than the lower bound of its size.
    """
    cuts = completion_time_bound(problem.topology, problem.spec, problem.model)
    comparison = Comparison(problem, tuple(sizes), cuts)
    comparison.systems = [
        ContenderResult(contender.name, contender.kind, contender.about, reason=NOT_REACHED)
        for contender in contenders
    ]
    pairs = zip(contenders, comparison.systems, strict=True)
    try:
        on_progress("the lower bound")
        comparison.lower_bounds = compute_bound_curve(
            problem.topology, problem.spec, cuts, comparison.sizes
        )
        for done, (contender, system) in enumerate(sorted(pairs, key=_run_order)):
            system.reason = ""
            _measure_system(
                contender,
                system,
                comparison,
                verify=not times_alone,
                on_progress=partial(_report, on_progress, f"{done} of {len(contenders)} done"),
            )
            on_system(system)
    except KeyboardInterrupt:
        comparison.end_reason = INTERRUPTED
    _require_consistent(comparison)
    return comparison


def _require_consistent(comparison: Comparison) -> None:
    """Check that no plan is faster than the lower bound of its size.

    Raises:
        ContradictionError: A plan is faster.
    """
    for system in comparison.systems:
        for row in system.measurements.values():
            bound_us = comparison.bound_us(row.size_bytes)
            if row.us >= bound_us:
                continue  # the source of the bound is slow to find
            require_at_least_bound(
                row.us,
                bound_us,
                result=f"the completion time of {system.name} at {row.size_bytes} bytes",
                limit="the lower bound on it (by "
                f"{comparison.lower_bounds.source(row.size_bytes)})",
                unit="us",
            )


def _run_order(pair: tuple[Contender, ContenderResult]) -> int:
    """Return a sort key: fast contenders first, so that an interrupt loses little."""
    return ("file", "baseline", "synthesiser").index(pair[0].kind)


def _report(on_progress: Callable[[str], None], before: str, text: str) -> None:
    on_progress(f"{before}; {text}")


def _measure_system(
    contender: Contender,
    system: ContenderResult,
    comparison: Comparison,
    on_progress: Callable[[str], None],
    *,
    verify: bool,
) -> None:
    """Add the times of a contender."""
    try:
        contender.choose_sizes(comparison.sizes, comparison.lower_bounds)
        for done, size in enumerate(comparison.sizes):
            on_progress(f"{contender.name}, {done} of {len(comparison.sizes)} sizes")
            fastest = contender.fastest(size)
            if fastest is not None:
                timed = fastest.verify(f"{contender.name!r}") if verify else fastest
                _add_measurement(timed, size, system, comparison)
    except (InputError, DeadlineError) as error:
        system.reason = str(error)
    except KeyboardInterrupt:
        system.reason = str(INTERRUPTED)
        raise
    finally:
        system.seconds = contender.seconds
        for size, us in contender.proved_us.items():
            comparison.raise_bound(size, us)
    if not system.measurements and not system.reason:
        system.reason = _no_plan_reason(contender)


def _no_plan_reason(contender: Contender) -> str:
    if contender.kind == "file":
        return "it is a schedule for another size, and its times are valid for that size only"
    return "it returned no algorithm that can be written"


def _add_measurement(
    timed: TimedPlan, size: int, system: ContenderResult, comparison: Comparison
) -> None:
    """Add the time of a plan, and store the plan if it is the fastest so far."""
    system.measurements[size] = Measurement(size, timed.us, timed.about)
    if comparison.winner(size) is system:
        comparison.plans[size] = (system.name, timed)


def prepare_folder(directory: Path) -> None:
    """Create a folder for the fastest plans.

    Raises:
        InputError: The folder cannot be created or written to.
    """
    make_directory(directory)
    check_can_write(directory / "probe")


def write_fastest(directory: Path, comparison: Comparison) -> dict[int, Path]:
    """Write the fastest plan of each size, and return the files.

    Raises:
        InputError: A file cannot be written.
    """
    files: dict[int, Path] = {}
    problem = comparison.problem
    for size, (name, timed) in sorted(comparison.plans.items()):
        words = f"{problem.spec.name} {problem.topology.name} {size} {Path(name).stem}"
        files[size] = directory / f"{slugify(words)}.json"
        write_plan(files[size], timed.schedule)
    return files
