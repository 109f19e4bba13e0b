"""Plans of training steps in Python: create, verify, time, show, and write them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.api.arguments import check_arguments, check_wrapped_kind, describe_arguments
from sccl.api.chart import Chart
from sccl.api.plotting import training_chart
from sccl.api.workloads import Workload
from sccl.core.cost import format_bytes, format_duration
from sccl.core.files.disk import check_can_write, write_atomically
from sccl.core.formatting import format_gap
from sccl.errors import ToolError
from sccl.topo import resolve_topology
from sccl.training.fabric_names import resolve_fabric
from sccl.training.files.training_plans import load_training_plan
from sccl.training.files.workloads import load_workload
from sccl.training.plan_files import (
    LoadedTraining,
    load_cost_table,
    name_file_in_errors,
    training_faults,
    valid_timeline,
    write_timeline,
)
from sccl.training.plan_step import PlanOptions, build_plan_settings, write_training_plan
from sccl.training.plan_summary import fluid_us, links_us, model_notes, training_part
from sccl.training.types import training_plan as core
from sccl.view.charts.step_pictures import plan_notes
from sccl.view.text.markup import heading, paragraph, table

if TYPE_CHECKING:
    import pandas as pd

    from sccl.training.types.training_plan import StepTimeline


@dataclass(frozen=True, slots=True, repr=False)
class TrainingPlan:
    """A plan of a training step on a fabric: the parts of each collective, and their order.

    Attributes:
        value: The plan of :mod:`sccl.training.types.training_plan`.
        intact: Whether its file is unchanged since sccl wrote it.

    Examples:
        >>> import sccl
        >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
        >>> job = sccl.make_workload("transformer", model)
        >>> plan = sccl.plan(job, "hgx2", search="fifo", budget=1)
        >>> plan
        TrainingPlan(transformer on hgx2: 7680.01 us per iteration; lower bound attained)
        >>> plan.recipes
        {'reduce/layer-1': 'whole', 'reduce/layer-0': 'whole'}
    """

    value: core.TrainingPlan
    intact: bool = True

    def __post_init__(self) -> None:
        check_wrapped_kind(self, core.TrainingPlan, "sccl.TrainingPlan.load, or sccl.plan")

    @classmethod
    @check_arguments
    def load(cls, path: str | PathLike[str]) -> TrainingPlan:
        """Return the training plan in a file. :meth:`violations` verifies it.

        Raises:
            InputError: The file cannot be read, or is not a training plan.

        Examples:
            >>> import sccl
            >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
            >>> job = sccl.make_workload("transformer", model)
            >>> plan = sccl.plan(job, "hgx2", search="fifo", budget=1)
            >>> sccl.TrainingPlan.load(plan.save("plan.json")).name
            'transformer on hgx2'
        """
        return cls(*load_training_plan(Path(path), resolve_topology))

    @property
    def name(self) -> str:
        """Return the names of the workload and the fabric."""
        return self._loaded_plan.name

    @property
    def workload(self) -> Workload:
        """Return the workload as given by the user."""
        return Workload(self.value.input_workload)

    @property
    def period_us(self) -> float:
        """Return the planned time of an iteration, in microseconds."""
        return self.value.period_ns / 1000

    @property
    def bound_us(self) -> float | None:
        """Return the lower bound for plans with these options, in microseconds. None: unknown."""
        return self.value.bound_ns / 1000 if self.value.bound_ns else None

    @property
    def gap(self) -> float | None:
        """Return the gap between period and lower bound as a fraction. None: no bound is known."""
        return self.value.gap if self.value.bound_ns else None

    @property
    def proved(self) -> bool:
        """Return whether the period equals the bound. False with a table of measured costs."""
        return bool(self.value.bound_ns) and self.value.is_optimal

    @property
    def fluid_us(self) -> float:
        """Return the time of an iteration in microseconds if motifs share bandwidth fairly.

        Raises:
            InputError: The plan fails verification.
        """
        return fluid_us(self.value, self.timeline())

    @property
    def links_us(self) -> float | None:
        """Return the time of an iteration simulated link by link, in microseconds.

        Returns:
            None: this simulation does not apply. The notebook view gives the reason.

        Raises:
            InputError: The plan fails verification.
        """
        return links_us(self.value, self.timeline())[0]

    @property
    def recipes(self) -> dict[str, str]:
        """Return the recipe of each collective, by its id."""
        return {name: option.recipe for name, option in self.value.options}

    @check_arguments
    def violations(self, costs: str | PathLike[str] | None = None) -> list[str]:
        """Return all violations that the independent verifier finds. A valid plan has none.

        Args:
            costs: Table of measured costs of the plan, a CSV file. None: the times in the plan are
                trusted if they come from a table.

        Raises:
            InputError: The table cannot be read, or is not a table of costs.

        Examples:
            >>> import sccl
            >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
            >>> job = sccl.make_workload("transformer", model)
            >>> plan = sccl.plan(job, "hgx2", search="fifo", budget=1)
            >>> plan.violations()
            []
        """
        table = None if costs is None else load_cost_table(Path(costs))
        faults = training_faults(replace(self._loaded_plan, costs=table))
        return [f"{fault.kind}: {fault.message}" for fault in faults]

    def timeline(self) -> StepTimeline:
        """Return the starts and ends of computations and motifs, until iterations repeat.

        Raises:
            InputError: The plan fails verification.

        Examples:
            >>> import sccl
            >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
            >>> job = sccl.make_workload("transformer", model)
            >>> plan = sccl.plan(job, "hgx2", search="fifo", budget=1)
            >>> plan.timeline().spans[0].op
            'forward/layer-0'
        """
        return valid_timeline(self._loaded_plan)

    def plot(self, before: TrainingPlan | None = None) -> Chart:
        """Return a picture of one iteration, with one layer of it enlarged.

        Args:
            before: Plan to draw above this one, such as ``plan(..., search="fifo")``, which issues
                collectives in the order of submission.

        Raises:
            InputError: A plan fails verification.

        Examples:
            >>> import sccl
            >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
            >>> job = sccl.make_workload("transformer", model)
            >>> plan = sccl.plan(job, "hgx2", search="fifo", budget=1)
            >>> plan.plot().title
            'transformer on hgx2: timeline'
        """
        plans = [self] if before is None else [before, self]
        chart = training_chart([each._loaded_plan for each in plans])  # noqa: SLF001 - of this class
        return Chart(chart, f"{self.name}: timeline")

    def to_dataframe(self) -> pd.DataFrame:
        """Return its timeline as a pandas table with one row per computation and motif.

        Raises:
            InputError: The plan fails verification.
            ToolError: pandas is not installed.

        Examples:
            >>> import sccl
            >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
            >>> job = sccl.make_workload("transformer", model)
            >>> plan = sccl.plan(job, "hgx2", search="fifo", budget=1)
            >>> list(plan.to_dataframe()["op"][:3])
            ['forward/layer-0', 'forward/layer-1', 'backward/layer-1']
        """
        try:
            import pandas as pd  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ToolError(
                "to_dataframe needs pandas, which is not installed: pip install 'sccl[notebook]'"
            ) from error
        return pd.DataFrame(self._rows(), columns=_COLUMNS).convert_dtypes()

    @check_arguments
    def explore(self, path: str | PathLike[str]) -> Path:
        """Write an interactive page of its timeline, and return its path.

        Raises:
            InputError: The plan fails verification, it is too large for a page, or the file cannot
                be written.

        Examples:
            >>> import sccl
            >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
            >>> job = sccl.make_workload("transformer", model)
            >>> plan = sccl.plan(job, "hgx2", search="fifo", budget=1)
            >>> plan.explore("plan.html").name
            'plan.html'
        """
        from sccl.view.explorer.training_page import training_page  # noqa: PLC0415 - few pages are written

        check_can_write(Path(path))
        write_atomically(Path(path), training_page(self._loaded_plan))
        return Path(path)

    @check_arguments
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the plan to a JSON file and return its path.

        Raises:
            InputError: The file cannot be written.

        Examples:
            >>> import sccl
            >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
            >>> job = sccl.make_workload("transformer", model)
            >>> plan = sccl.plan(job, "hgx2", search="fifo", budget=1)
            >>> plan.save("plan.json").name
            'plan.json'
        """
        write_training_plan(Path(path), self.value)
        return Path(path)

    @check_arguments
    def save_timeline(self, path: str | PathLike[str]) -> Path:
        """Write the starts and ends of its work, with the plan, to a JSON file. Return its path.

        Raises:
            InputError: The plan fails verification, or the file cannot be written.

        Examples:
            >>> import sccl
            >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
            >>> job = sccl.make_workload("transformer", model)
            >>> plan = sccl.plan(job, "hgx2", search="fifo", budget=1)
            >>> plan.save_timeline("timeline.json").name
            'timeline.json'
        """
        check_can_write(Path(path))
        write_timeline(Path(path), self._loaded_plan)
        return Path(path)

    @property
    def _loaded_plan(self) -> LoadedTraining:
        return LoadedTraining(Path("training plan"), self.value, self.intact)

    def _rows(self) -> list[tuple[object, ...]]:
        calls = {op.id: op for op in self.value.workload.collectives()}
        options = dict(self.value.options)
        rows: list[tuple[object, ...]] = []
        for span in self.timeline().spans:
            details: tuple[object, ...] = (None,) * 4
            if not span.computes:
                call, option = calls[span.op], options[span.op]
                carrier = option.motifs[span.motif].carrier
                details = (call.collective, call.size_bytes, option.recipe, carrier)
            times = (span.start_ns / 1000, span.end_ns / 1000)
            rows.append((span.op, span.iteration, span.motif, span.lane, *times, *details))
        return rows

    def __repr__(self) -> str:
        return f"TrainingPlan({self._summary})"

    @property
    def _summary(self) -> str:
        text = f"{self.name}: {format_duration(self.period_us)} per iteration"
        if self.bound_us is None:
            return text
        if self.gap:
            return f"{text}; gap {format_gap(self.gap)} to the lower bound"
        return f"{text}; lower bound attained{'' if self.proved else ', not verified'}"

    def _repr_html_(self) -> str:
        if faults := self.violations():
            return heading(self._summary) + paragraph(f"the plan fails verification: {faults[0]}")
        part = training_part(self._loaded_plan)
        head = ("Collective", "ranks", "size", "operations", "recipe", "motifs", "alone", "by")
        rows = [
            (
                *(option.collective, option.group_ranks, format_bytes(option.bytes)),
                *(option.operations, option.recipe, option.motifs),
                *(format_duration(option.us), ", ".join(option.carriers)),
            )
            for option in part.options
        ]
        notes = [*plan_notes(self.value, self.timeline()), *model_notes(part)]
        return heading(self._summary) + "".join(map(paragraph, notes)) + table(head, rows)


_COLUMNS = (
    *("op", "iteration", "motif", "lane", "start_us", "end_us"),
    *("collective", "bytes", "recipe", "carrier"),
)


@check_arguments
@describe_arguments(
    PlanOptions,
    workload="Workload, or the path of its file.",
    fabric='``"hgx2"``, ... (``sccl train show``), a machine, or the path of a .json.',
    memory_bytes="Memory limit of gathered results, in bytes. 0: no limit.",
    merge_bytes="Largest size of merged collectives, in bytes. 0: none are.",
)
def plan(  # noqa: PLR0913 - the problem and its options
    workload: Workload | str | PathLike[str],
    fabric: str | PathLike[str],
    *,
    search: str = "sgs",
    budget: float = 10.0,
    seed: int = 0,
    max_motifs: int = 16,
    memory_bytes: int = 0,
    bitwise: bool = False,
    merge_bytes: int = 0,
    costs: str | PathLike[str] | None = None,
) -> TrainingPlan:
    """Return the best plan of a search for a workload on a fabric, verified, with its gap.

    Raises:
        InputError: The workload does not fit the fabric, or an operation has no option.

    Examples:
        >>> import sccl
        >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
        >>> job = sccl.make_workload("transformer", model)
        >>> sccl.plan(job, "hgx2", search="fifo", budget=1)
        TrainingPlan(transformer on hgx2: 7680.01 us per iteration; lower bound attained)
    """
    from sccl.training.plan_step import plan_training  # noqa: PLC0415 - loads NumPy and Numba

    loaded = workload.value if isinstance(workload, Workload) else load_workload(Path(workload))
    options = PlanOptions(
        search=search,
        budget=budget,
        seed=seed,
        max_motifs=max_motifs,
        memory=str(memory_bytes) if memory_bytes else None,
        bitwise=bitwise,
        merge=str(merge_bytes) if merge_bytes else None,
        costs=None if costs is None else Path(costs),
    )
    settings = build_plan_settings(options)
    with nullcontext() if isinstance(workload, Workload) else name_file_in_errors(Path(workload)):
        return TrainingPlan(plan_training(loaded, resolve_fabric(str(fabric)), settings).plan)
