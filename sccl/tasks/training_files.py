"""Find and verify files of training plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.core.cost import duration_text
from sccl.core.files.disk import read_text, write_atomically
from sccl.core.files.kinds import STEPPED, TIMELINE
from sccl.core.files.text import digest, text_of
from sccl.core.files.timelines import load_timeline, timeline_to_wire
from sccl.core.files.training_plans import load_training_plan, training_plan_to_wire
from sccl.errors import InputError
from sccl.tasks.files import Unread, held_files, kind_of_file, skipping
from sccl.topo import resolve

if TYPE_CHECKING:
    from sccl.core.files.training_plan_shapes import TimelineWire, TrainingPlanWire
    from sccl.core.step_timeline import StepSpan, StepTimeline
    from sccl.core.training_plan import TrainingPlan
    from sccl.train.tables import CostTable
    from sccl.train.verdict import PlanFault


@dataclass(frozen=True, slots=True)
class LoadedTraining:
    """A training plan, and the file it is from.

    Attributes:
        intact: whether the file is as sccl wrote it.
        costs: the table of costs that was given with it. None: none was.
        claimed: how the file says that it runs. None: it holds the plan alone.
    """

    file: Path
    plan: TrainingPlan
    intact: bool
    costs: CostTable | None = None
    claimed: StepTimeline | None = None

    @property
    def as_told(self) -> bool:
        """Return whether its times can't be derived again: their table of costs is not given."""
        return bool(self.plan.costs) and self.costs is None

    @property
    def name(self) -> str:
        """Return the names of its workload and its fabric."""
        return f"{self.plan.workload.name} on {self.plan.fabric.name}"


def training_files(
    words: Iterable[str | Path], costs: CostTable | None = None, unread: Unread | None = None
) -> tuple[list[LoadedTraining], list[str | Path]]:
    """Return the training plans that are named, and the words that name anything else.

    Args:
        costs: the table of costs by which they were made.
        unread: takes the files that cannot be read. None: they are refused.

    Raises:
        InputError: a file says that it is one and is none.
    """
    held, rest = held_files(words, STEPPED)
    loaded = []
    for path in held:
        with skipping(path, unread):
            loaded.append(_loaded(path, costs))
    return loaded, rest


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Add the file's name to errors.

    Raises:
        InputError: An error within the block, after the file's name.
    """
    try:
        yield
    except InputError as error:
        raise type(error)(f"{file}: {error}") from error


def load_cost_table(path: Path) -> CostTable:
    """Return the table of costs of a CSV file.

    Raises:
        InputError: it cannot be read, or is none.
    """
    from sccl.train.tables import cost_table_of_text  # noqa: PLC0415 - loads NumPy

    return cost_table_of_text(read_text(path), str(path))


def _loaded(path: Path, table: CostTable | None) -> LoadedTraining:
    if kind_of_file(path) == TIMELINE:
        plan, claimed, intact = load_timeline(path, resolve)
        return LoadedTraining(path, plan, intact, table, claimed)
    return LoadedTraining(path, *load_training_plan(path, resolve), table)


def told_training(one: LoadedTraining, *, wrong: bool = False) -> str:
    """Return a plan's claims as text. A wrong plan proves nothing."""
    plan = one.plan
    bound = "no bound is known"
    if plan.bound_ns:
        least = duration_text(plan.bound_ns / 1000)
        bound = "proved" if plan.meets_bound else f"at least {least}"
        if one.as_told or wrong:
            bound = f"at least {least}, not verified"
    return f"{one.name}, {duration_text(plan.period_ns / 1000)} an iteration ({bound})"


def training_digests(several: Iterable[LoadedTraining]) -> dict[str, str]:
    """Return the digests of training plans, by file."""
    return {str(one.file): digest(_wire(one)) for one in several}


def _wire(one: LoadedTraining) -> TrainingPlanWire | TimelineWire:
    if one.claimed is not None:
        return timeline_to_wire(one.plan, one.claimed)
    return training_plan_to_wire(one.plan)


def write_timeline(path: Path, one: LoadedTraining) -> None:
    """Write when all of a training plan starts and ends, whole or not at all.

    Raises:
        InputError: the plan fails verification, or the file cannot be written.
    """
    write_atomically(path, text_of(timeline_to_wire(one.plan, right_timeline(one))))


def faults_of_training(one: LoadedTraining) -> tuple[PlanFault, ...]:
    """Return the violations of a training plan. Its bound is proved again.

    Raises:
        InputError: It names an unknown synthesizer.
    """
    from sccl.tasks.motif_planning import motif_planner  # noqa: PLC0415 - loads NumPy and Numba
    from sccl.train.rebounding import wrong_bound  # noqa: PLC0415
    from sccl.train.running import timeline_of  # noqa: PLC0415
    from sccl.train.verdict import PlanFault, faults_in  # noqa: PLC0415

    plan = one.plan
    by = motif_planner(plan.planned_by, plan.seed) if plan.planned_by else None
    found = faults_in(plan, by, one.costs)
    if not found and (wrong := _runs_otherwise(one, timeline_of(plan))):
        found = (PlanFault("timeline", wrong),)
    if found or one.as_told or not plan.bound_ns:
        return found
    wrong = wrong_bound(plan, by, one.costs)
    return (PlanFault("bound", wrong),) if wrong else ()


def notes_on_training(one: LoadedTraining) -> tuple[str, ...]:
    """Return sentences on values of a training plan that are trusted without verification."""
    from sccl.train.recosting import believed  # noqa: PLC0415 - loads NumPy and Numba

    return tuple(believed(as_told=one.as_told))


def right_timeline(one: LoadedTraining) -> StepTimeline:
    """Return a training plan as it runs, whose options are taken as they are.

    Raises:
        InputError: it fails verification.
    """
    from sccl.train.verdict import verdict_on  # noqa: PLC0415 - loads NumPy

    faults, timeline = verdict_on(one.plan, options=False)
    wrong = faults[0].message if faults else ""
    if timeline is None or (wrong := wrong or _runs_otherwise(one, timeline)):
        raise InputError(
            f"{one.file}: this plan fails verification: {wrong}; see all with 'sccl check "
            f"{one.file}'"
        )
    return timeline


def _runs_otherwise(one: LoadedTraining, timeline: StepTimeline) -> str:
    """Return the difference between a plan's run and its stored timeline. Empty: none."""
    claimed = one.claimed
    if claimed is None or claimed == timeline:
        return ""
    for number, (said, span) in enumerate(zip(claimed.spans, timeline.spans, strict=False)):
        if said != span:
            return (
                f"span {number} is {_told_span(span)}, claimed is {_told_span(said)}: it is no "
                "timeline of its plan"
            )
    return (
        f"it has {len(timeline.spans)} spans, and repeats every {timeline.period_ns} ns from "
        f"iteration {timeline.first} on, claimed are {len(claimed.spans)}, every "
        f"{claimed.period_ns} from iteration {claimed.first} on: it is no timeline of its plan"
    )


def _told_span(span: StepSpan) -> str:
    what = f"motif {span.motif} of {span.op!r:.60}, iteration {span.iteration},"
    return f"{what} on {span.lane!r:.60} from {span.start_ns} to {span.end_ns} ns"
