"""Training steps in Python: workloads, and plans of them, judged, shown and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from sccl.api.arguments import check_made_of, checked, hinted
from sccl.api.chart import Chart
from sccl.api.html import heading, paragraph, table
from sccl.core import training_plan as core
from sccl.core import workload as core_workload
from sccl.core.cost import bytes_text, duration_text
from sccl.core.files.disk import check_can_write, write_atomically
from sccl.core.files.text import text_of
from sccl.core.files.training_plans import load_training_plan, training_plan_to_wire
from sccl.core.files.workloads import load_workload, workload_to_wire
from sccl.core.words import counted
from sccl.errors import ToolError
from sccl.tasks.show_training import shown_training
from sccl.tasks.step_pictures import notes_of, step_rows
from sccl.tasks.training_files import (
    LoadedTraining,
    faults_of_training,
    load_cost_table,
    right_timeline,
)
from sccl.tasks.workload import workload_part
from sccl.topo import fabric_of, resolve
from sccl.view import charts
from sccl.workload.generate import FAMILIES, made_workload

if TYPE_CHECKING:
    import pandas as pd

    from sccl.core.step_timeline import StepTimeline


@dataclass(frozen=True, slots=True, repr=False)
class Workload:
    """What a training job does in one iteration: computation, collectives, and what waits for what.

    >>> import sccl
    >>> job = {"layers": 4, "hidden": 1024, "heads": 16, "dp": 8, "zero": 3}
    >>> sccl.make_workload("transformer", job)
    Workload(transformer: 8 ranks, 12 collectives, 13.3899 ms of computation)

    Attributes:
        value: the workload of :mod:`sccl.core.workload`.
    """

    value: core_workload.Workload

    def __post_init__(self) -> None:
        check_made_of(self, core_workload.Workload, "sccl.Workload.load, or sccl.make_workload")

    @classmethod
    @checked
    def load(cls, path: str | PathLike[str]) -> Workload:
        """Return the workload in a file.

        Raises:
            InputError: the file cannot be read, or is no workload.
        """
        return cls(load_workload(Path(path)))

    @property
    def name(self) -> str:
        """Return what it is called."""
        return self.value.name

    @property
    def ranks(self) -> int:
        """Return how many there are."""
        return self.value.ranks

    @property
    def collectives(self) -> int:
        """Return how many there are in an iteration."""
        return sum(1 for _ in self.value.collectives())

    @checked
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the workload to a JSON file and return its path.

        Raises:
            InputError: the file cannot be written.
        """
        write_atomically(Path(path), text_of(workload_to_wire(self.value)))
        return Path(path)

    def __repr__(self) -> str:
        return f"Workload({self._said})"

    @property
    def _said(self) -> str:
        us = sum(op.duration_us for op in self.value.computation())
        return (
            f"{self.name}: {counted(self.ranks, 'rank')}, "
            f"{counted(self.collectives, 'collective')}, {duration_text(us)} of computation"
        )

    def _repr_html_(self) -> str:
        part = workload_part(self.value)
        head = ("Collective", "ranks", "operations", "of", "to", "together")
        rows = [
            (
                one.collective,
                one.group_ranks,
                one.operations,
                *map(bytes_text, (one.least_bytes, one.most_bytes, one.bytes)),
            )
            for one in part.collectives
        ]
        return heading(self._said) + table(head, rows) + paragraph(part.source)


@dataclass(frozen=True, slots=True, repr=False)
class TrainingPlan:
    """How a fabric does a step of training: how collectives are split, and in which order.

    Attributes:
        value: the plan of :mod:`sccl.core.training_plan`.
        intact: whether its file is as sccl wrote it.
    """

    value: core.TrainingPlan
    intact: bool = True

    def __post_init__(self) -> None:
        check_made_of(self, core.TrainingPlan, "sccl.TrainingPlan.load, or sccl.plan")

    @classmethod
    @checked
    def load(cls, path: str | PathLike[str]) -> TrainingPlan:
        """Return the training plan in a file, right or wrong: :meth:`violations` judges it.

        Raises:
            InputError: the file cannot be read, or is no training plan.
        """
        return cls(*load_training_plan(Path(path), resolve))

    @property
    def name(self) -> str:
        """Return what it plans, and for what."""
        return self._loaded.name

    @property
    def workload(self) -> Workload:
        """Return what it plans."""
        return Workload(self.value.workload)

    @property
    def period_us(self) -> float:
        """Return what it claims from an iteration to the next, microseconds."""
        return self.value.period_ns / 1000

    @property
    def bound_us(self) -> float | None:
        """Return microseconds that no plan of these options takes less than; None: not known."""
        return self.value.bound_ns / 1000 if self.value.bound_ns else None

    @property
    def gap(self) -> float | None:
        """Return by which part the period is above the bound; None: none is known."""
        return self.value.gap if self.value.bound_ns else None

    @property
    def proved(self) -> bool:
        """Return whether the bound is met; not where times are of a table of costs."""
        return bool(self.value.bound_ns) and self.value.proved

    @property
    def recipes(self) -> dict[str, str]:
        """Return how each collective is split, by its id."""
        return {name: option.recipe for name, option in self.value.options}

    @checked
    def violations(self, costs: str | PathLike[str] | None = None) -> list[str]:
        """Return everything that is wrong with it, as the independent judge finds it.

        Args:
            costs: the table of costs by which it was made, a CSV file; None: its times are taken
                as told, if they are of one.

        Raises:
            InputError: the table cannot be read, or is none.
        """
        table = None if costs is None else load_cost_table(Path(costs))
        faults = faults_of_training(replace(self._loaded, costs=table))
        return [f"{fault.kind}: {fault.message}" for fault in faults]

    def timeline(self) -> StepTimeline:
        """Return when computations and motifs start and end, until iterations repeat.

        Raises:
            InputError: the judge refuses it.
        """
        return right_timeline(self._loaded)

    def plot(self) -> Chart:
        """Return what streams and channels do in two iterations.

        Raises:
            InputError: the judge refuses it.
        """
        drawn = charts.steps_chart(step_rows(self.value, self.timeline(), self.name))
        return Chart(drawn, f"{self.name}: timeline")

    def to_dataframe(self) -> pd.DataFrame:
        """Return its timeline as a table of pandas: a row for each computation and motif.

        Raises:
            InputError: the judge refuses it.
            ToolError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ToolError(
                "to_dataframe needs pandas, which is not installed: pip install 'sccl[notebook]'"
            ) from error
        return pd.DataFrame(self._rows(), columns=_COLUMNS).convert_dtypes()

    @checked
    def explore(self, path: str | PathLike[str]) -> Path:
        """Write a page of its timeline, to zoom and to click through, and return its path.

        Raises:
            InputError: the judge refuses it, it is too large for a page, or the file cannot be
                written.
        """
        from sccl.tasks.step_page import training_page  # noqa: PLC0415 - where one is wanted

        check_can_write(Path(path))
        write_atomically(Path(path), training_page(self._loaded))
        return Path(path)

    @checked
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the plan to a JSON file and return its path.

        Raises:
            InputError: the file cannot be written.
        """
        write_atomically(Path(path), text_of(training_plan_to_wire(self.value)))
        return Path(path)

    @property
    def _loaded(self) -> LoadedTraining:
        return LoadedTraining(Path("training plan"), self.value, self.intact)

    def _rows(self) -> list[tuple[object, ...]]:
        calls = {op.id: op for op in self.value.workload.collectives()}
        options = dict(self.value.options)
        found: list[tuple[object, ...]] = []
        for span in self.timeline().spans:
            told: tuple[object, ...] = (None,) * 4
            if not span.computes:
                call, option = calls[span.op], options[span.op]
                carrier = option.motifs[span.motif].carrier
                told = (call.collective, call.size_bytes, option.recipe, carrier)
            times = (span.start_ns / 1000, span.end_ns / 1000)
            found.append((span.op, span.iteration, span.motif, span.lane, *times, *told))
        return found

    def __repr__(self) -> str:
        return f"TrainingPlan({self._said})"

    @property
    def _said(self) -> str:
        said = f"{self.name}: {duration_text(self.period_us)} an iteration"
        if self.bound_us is None:
            return said
        above = f"{self.gap:.2%} above the bound"
        return f"{said}; {'the bound is met' if self.proved else above}"

    def _repr_html_(self) -> str:
        if faults := self.violations():
            return heading(self._said) + paragraph(f"the judge refuses it: {faults[0]}")
        shown = shown_training(self._loaded)
        head = ("Collective", "ranks", "size", "operations", "recipe", "motifs", "alone", "by")
        rows = [
            (
                *(one.collective, one.group_ranks, bytes_text(one.bytes), one.operations),
                *(one.recipe, one.motifs, duration_text(one.us), ", ".join(one.carriers)),
            )
            for one in shown.options
        ]
        notes = "".join(map(paragraph, notes_of(self.value, self.timeline())))
        return heading(self._said) + notes + table(head, rows)


_COLUMNS = (
    *("op", "iteration", "motif", "lane", "start_us", "end_us"),
    *("collective", "bytes", "recipe", "carrier"),
)


@checked
def make_workload(
    family: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    preset: str | None = None,
    name: str | None = None,
) -> Workload:
    """Return an iteration of training a model, made by formulas.

    Args:
        family: ``"transformer"``, ``"moe"``, ``"dlrm"``, ... (``sccl workload make --help``).
        parameters: by name, such as ``{"layers": 4, "dp": 8}``; the others are as usual.
        preset: whose parameters are taken where none are given.
        name: of the workload; None: that of the preset, else the family's.

    Raises:
        InputError: there is no such family or preset, or parameters contradict one another.
    """
    given = dict(parameters or {})
    if family in FAMILIES:
        hints = get_type_hints(FAMILIES[family].job)
        for one in [name for name in given if name in hints]:
            given[one] = hinted(f"sccl.make_workload: {one}", given[one], hints[one])
    return Workload(made_workload(family, given, preset, name).workload)


@checked
def plan(  # noqa: PLR0913 - as the verb takes them
    workload: Workload | str | PathLike[str],
    fabric: str | PathLike[str],
    *,
    search: str = "sgs",
    seconds: float = 10.0,
    seed: int = 0,
    max_motifs: int = 16,
    memory_bytes: int = 0,
    bitwise: bool = False,
) -> TrainingPlan:
    """Return the best plan of a workload on a fabric that is found, judged, with its gap.

    Args:
        workload: or the path of its file.
        fabric: ``"hgx2"``, ``"hgx2x4"``, ... (``sccl fabric list``), or the path of a .json.
        search: ``"sgs"``, ``"exact"``, ``"mcmc"``, or what frameworks do: ``"fifo"``, ...
        seconds: how much is done in all, about: options come first, then bounds with a quarter at
            the most, and a search with the rest; the same on any machine, however busy.
        seed: the same seed, the same plan.
        max_motifs: into how many a collective is split at the most.
        memory_bytes: what gathered results may take at once; 0: any.
        bitwise: whether collectives keep the order in which they reduce.

    Raises:
        InputError: the workload does not fit the fabric, or an operation has no option.
    """
    from sccl.tasks.planning import plan_training  # noqa: PLC0415 - loads NumPy and Numba
    from sccl.train.planner import PlanSettings  # noqa: PLC0415

    given = workload.value if isinstance(workload, Workload) else load_workload(Path(workload))
    settings = PlanSettings(search, seconds, seed, max_motifs, memory_bytes, bitwise)
    return TrainingPlan(plan_training(given, fabric_of(str(fabric)), settings).plan)
