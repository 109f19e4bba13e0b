"""Files of training plans: which of those that are given hold one, and what the judge says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.core.cost import duration_text
from sccl.core.files.disk import is_packed, read_text
from sccl.core.files.kinds import TRAINING_PLAN
from sccl.core.files.text import digest
from sccl.core.files.training_plans import load_training_plan, training_plan_to_wire
from sccl.errors import InputError, ParameterError
from sccl.tasks.files import kind_of_file, paths_of
from sccl.topo import resolve

if TYPE_CHECKING:
    from sccl.core.step_timeline import StepTimeline
    from sccl.core.training_plan import TrainingPlan
    from sccl.train.tables import CostTable
    from sccl.train.verdict import PlanFault


@dataclass(frozen=True, slots=True)
class LoadedTraining:
    """A training plan, and the file it is from.

    Attributes:
        intact: whether the file is as sccl wrote it.
        costs: the table of costs that was given with it; None: none was.
    """

    file: Path
    plan: TrainingPlan
    intact: bool
    costs: CostTable | None = None

    @property
    def as_told(self) -> bool:
        """Return whether its times can't be derived anew: their table of costs is not given."""
        return bool(self.plan.costs) and self.costs is None

    @property
    def name(self) -> str:
        """Return what it plans, and for what."""
        return f"{self.plan.workload.name} on {self.plan.fabric.name}"


def training_files(
    words: Iterable[str | Path], costs: Path | None = None
) -> tuple[list[LoadedTraining], list[str | Path]]:
    """Return the training plans that are named, and the words that name anything else.

    Args:
        costs: the file of the table of costs by which they were made.

    Raises:
        InputError: a file says that it is one and is none; there are costs, and no such plan.
    """
    table = None if costs is None else load_cost_table(costs)
    found, rest = list[LoadedTraining](), list[str | Path]()
    for word in words:
        try:
            paths = paths_of([word])
        except InputError:  # it matches no JSON file, and may match those of others
            rest.append(word)
            continue
        held = [path for path in paths if _holds_one(path)]
        found += [LoadedTraining(path, *load_training_plan(path, resolve), table) for path in held]
        if not held:
            rest.append(word)
        elif len(held) < len(paths):
            rest += [path for path in paths if path not in held]
    if costs is not None and not found:
        raise ParameterError(
            f"{costs} is a table of costs, and no training plan is given: give one, or leave out "
            "the table"
        )
    return found, rest


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Say of which file it is what is refused.

    Raises:
        InputError: what is raised within, after the file's name.
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


def _holds_one(path: Path) -> bool:
    if path.suffix != ".json" or not isfile(path) or is_packed(path):  # noqa: PTH113 - never raises
        return False
    try:
        return kind_of_file(path) == TRAINING_PLAN
    except InputError:
        return False  # who reads it says what is wrong with it


def told_training(one: LoadedTraining) -> str:
    """Return what a plan claims, in words."""
    plan = one.plan
    bound = "no bound is known"
    if plan.bound_ns:
        least = duration_text(plan.bound_ns / 1000)
        bound = "proved" if plan.meets_bound else f"at least {least}"
        if one.as_told:
            bound = f"at least {least}, as told"
    return f"{one.name}, {duration_text(plan.period_ns / 1000)} an iteration ({bound})"


def training_digests(several: Iterable[LoadedTraining]) -> dict[str, str]:
    """Return the digests of training plans, by file."""
    return {str(one.file): digest(training_plan_to_wire(one.plan)) for one in several}


def faults_of_training(one: LoadedTraining) -> tuple[PlanFault, ...]:
    """Return what the judge says of a training plan, whose bound it proves again.

    Raises:
        InputError: it names a synthesiser that there is not.
    """
    from sccl.tasks.motif_planning import motif_planner  # noqa: PLC0415 - loads NumPy and Numba
    from sccl.train.rebounding import wrong_bound  # noqa: PLC0415
    from sccl.train.verdict import PlanFault, faults_in  # noqa: PLC0415

    plan = one.plan
    by = motif_planner(plan.planned_by, plan.seed) if plan.planned_by else None
    found = faults_in(plan, by, one.costs)
    if found or one.as_told or not plan.bound_ns:
        return found
    wrong = wrong_bound(plan, by, one.costs)
    return (PlanFault("bound", wrong),) if wrong else ()


def notes_on_training(one: LoadedTraining) -> tuple[str, ...]:
    """Return what of a training plan the judge takes as it is told, in sentences."""
    from sccl.train.recosting import believed  # noqa: PLC0415 - loads NumPy and Numba

    return tuple(believed(as_told=one.as_told))


def right_timeline(one: LoadedTraining) -> StepTimeline:
    """Return a training plan as it runs, whose options are taken as they are.

    Raises:
        InputError: the judge refuses it.
    """
    from sccl.train.running import timeline_of  # noqa: PLC0415 - loads NumPy
    from sccl.train.verdict import faults_in  # noqa: PLC0415 - likewise

    if faults := faults_in(one.plan, options=False):
        raise InputError(
            f"{one.file}: the judge refuses this plan: {faults[0].message}; see all with "
            f"'sccl check {one.file}'"
        )
    return timeline_of(one.plan)
