"""Load, verify, and write files of training plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.core.cost import format_duration
from sccl.core.files.disk import UnreadFiles, read_text, skip_unreadable, write_atomically
from sccl.core.files.json_text import digest, file_kind, to_text
from sccl.core.files.kinds import TIMELINE, TRAINING_KINDS
from sccl.errors import InputError
from sccl.formats.files.plans import select_files
from sccl.topo import resolve_topology
from sccl.training.files.training_plans import (
    load_timeline,
    load_training_plan,
    timeline_to_wire,
    training_plan_to_wire,
)

if TYPE_CHECKING:
    from sccl.training.files.training_plan_shapes import TimelineWire, TrainingPlanWire
    from sccl.training.options.measured_costs import CostTable
    from sccl.training.types.training_plan import StepSpan, StepTimeline, TrainingPlan
    from sccl.training.validate.plan_faults import PlanFault


@dataclass(frozen=True, slots=True)
class LoadedTraining:
    """A training plan and its file.

    Attributes:
        intact: Whether the file is as sccl wrote it.
        costs: Table of measured costs. None: not available.
        claimed: Timeline in the file. None: the file has only the plan.
    """

    file: Path
    plan: TrainingPlan
    intact: bool
    costs: CostTable | None = None
    claimed: StepTimeline | None = None

    @property
    def has_unverified_times(self) -> bool:
        """Return whether times cannot be verified, because their table of costs is missing."""
        return bool(self.plan.costs) and self.costs is None

    @property
    def name(self) -> str:
        """Return the names of workload and fabric."""
        return f"{self.plan.workload.name} on {self.plan.fabric.name}"


def load_training_files(
    words: Iterable[str | Path], costs: CostTable | None = None, unread: UnreadFiles | None = None
) -> tuple[list[LoadedTraining], list[str | Path]]:
    """Load the named training plans, and return them with the remaining words.

    Args:
        words: Files and other words.
        costs: Table of measured costs of the plans. None: not available.
        unread: Collector of files that cannot be read. None: such a file is an error.

    Raises:
        InputError: A file of a training plan is invalid.
    """
    held, rest = select_files(words, TRAINING_KINDS)
    loaded = []
    for path in held:
        with skip_unreadable(path, unread):
            loaded.append(_load_training(path, costs))
    return loaded, rest


@contextmanager
def name_file_in_errors(file: Path) -> Iterator[None]:
    """Add the file's name to errors.

    Raises:
        InputError: An error within the block, with the file's name in front.
    """
    try:
        yield
    except InputError as error:
        raise type(error)(f"{file}: {error}") from error


def load_cost_table(path: Path) -> CostTable:
    """Return the table of costs of a CSV file.

    Raises:
        InputError: The file cannot be read, or is not a table of costs.
    """
    from sccl.training.options.measured_costs import parse_cost_table  # noqa: PLC0415 - loads NumPy

    return parse_cost_table(read_text(path), str(path))


def _load_training(path: Path, table: CostTable | None) -> LoadedTraining:
    if file_kind(path) == TIMELINE:
        plan, claimed, intact = load_timeline(path, resolve_topology)
        return LoadedTraining(path, plan, intact, table, claimed)
    return LoadedTraining(path, *load_training_plan(path, resolve_topology), table)


def claim_text(loaded: LoadedTraining, *, wrong: bool = False) -> str:
    """Return a plan's period and bound as text. The bound of a wrong plan is not verified."""
    plan = loaded.plan
    bound = "no bound is known"
    if plan.bound_ns:
        bound_text = format_duration(plan.bound_ns / 1000)
        bound = "proved" if plan.is_at_bound else f"at least {bound_text}"
        if loaded.has_unverified_times or wrong:
            bound = f"at least {bound_text}, not verified"
    return f"{loaded.name}, {format_duration(plan.period_ns / 1000)} per iteration ({bound})"


def training_digests(several: Iterable[LoadedTraining]) -> dict[str, str]:
    """Return the digests of training plans, by file."""
    return {str(loaded.file): digest(_to_wire(loaded)) for loaded in several}


def _to_wire(loaded: LoadedTraining) -> TrainingPlanWire | TimelineWire:
    if loaded.claimed is not None:
        return timeline_to_wire(loaded.plan, loaded.claimed)
    return training_plan_to_wire(loaded.plan)


def write_timeline(path: Path, loaded: LoadedTraining) -> None:
    """Write the timeline of a training plan atomically.

    Raises:
        InputError: The plan fails verification, or the file cannot be written.
    """
    write_atomically(path, to_text(timeline_to_wire(loaded.plan, valid_timeline(loaded))))


def training_faults(loaded: LoadedTraining) -> tuple[PlanFault, ...]:
    """Return the violations of a training plan. The bound is computed again.

    Raises:
        InputError: The synthesizer is unknown.
    """
    from sccl.training.options.motif_costs import build_motif_planner  # noqa: PLC0415 - loads NumPy and Numba
    from sccl.training.timeline import simulate_timeline  # noqa: PLC0415
    from sccl.training.validate.plan_bound import find_plan_bound_fault  # noqa: PLC0415
    from sccl.training.validate.plan_faults import PlanFault, find_faults  # noqa: PLC0415

    plan = loaded.plan
    by = build_motif_planner(plan.planned_by, plan.seed) if plan.planned_by else None
    faults = find_faults(plan, by, loaded.costs)
    if not faults and (wrong := _timeline_difference(loaded, simulate_timeline(plan))):
        faults = (PlanFault("timeline", wrong),)
    if faults or loaded.has_unverified_times or not plan.bound_ns:
        return faults
    wrong = find_plan_bound_fault(plan, by, loaded.costs)
    return (PlanFault("bound", wrong),) if wrong else ()


def training_notes(loaded: LoadedTraining) -> tuple[str, ...]:
    """Return sentences on values of a training plan that are trusted without verification."""
    if not loaded.has_unverified_times:
        return ()
    note = "times come from a table of costs and are not verified, so the lower bound on the period"
    return (f"{note} is not proved; pass the table with --costs",)


def valid_timeline(loaded: LoadedTraining) -> StepTimeline:
    """Return the timeline of a training plan, and verify all but its options.

    Raises:
        InputError: The plan fails verification.
    """
    from sccl.training.validate.plan_faults import verify_plan  # noqa: PLC0415 - loads NumPy

    faults, timeline = verify_plan(loaded.plan, options=False)
    wrong = faults[0].message if faults else ""
    if timeline is None or (wrong := wrong or _timeline_difference(loaded, timeline)):
        raise InputError(
            f"{loaded.file}: this plan fails verification: {wrong}; see all with 'sccl check "
            f"{loaded.file}'"
        )
    return timeline


def _timeline_difference(loaded: LoadedTraining, timeline: StepTimeline) -> str:
    """Return the first difference between the stored and the simulated timeline. Empty: none."""
    claimed = loaded.claimed
    if claimed is None or claimed == timeline:
        return ""
    for number, (said, span) in enumerate(zip(claimed.spans, timeline.spans, strict=False)):
        if said != span:
            return (
                f"span {number} is {_span_text(span)}, claimed is {_span_text(said)}: it is no "
                "timeline of its plan"
            )
    return (
        f"it has {len(timeline.spans)} spans, and repeats every {timeline.period_ns} ns from "
        f"iteration {timeline.first_periodic} on, and the file states {len(claimed.spans)}, every "
        f"{claimed.period_ns} from iteration {claimed.first_periodic} on: it is no timeline of its "
        "plan"
    )


def _span_text(span: StepSpan) -> str:
    subject = f"motif {span.motif} of {span.op!r:.60}, iteration {span.iteration},"
    return f"{subject} on {span.lane!r:.60} from {span.start_ns} to {span.end_ns} ns"
