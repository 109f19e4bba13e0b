"""Plan a training step on a fabric, with a lower bound, or compare all searches on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import digest, to_text
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import FileText, NonNegative, Part, Seconds
from sccl.core.sizes import parse_size
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopReason
from sccl.errors import ParameterError, ScclError
from sccl.training.files.fabrics import fabric_to_wire
from sccl.training.files.training_plans import training_plan_to_wire
from sccl.training.files.workloads import workload_to_wire
from sccl.training.plan_files import load_cost_table
from sccl.training.types.fabric import Fabric
from sccl.training.types.merges import merged_id_rows
from sccl.training.types.workload import Workload

if TYPE_CHECKING:
    from sccl.training.planner import Planner, PlanSettings
    from sccl.training.types.training_plan import TrainingPlan


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The search, its budget, and the choices that plans may use."""

    search: Annotated[
        str,
        "Search: sgs (options and order together), exact (small steps), mcmc (as published), or a "
        "framework's: fifo, lifo, p3, tictac, ho, s-exec, s-sched.",
    ] = "sgs"
    budget: Annotated[
        float,
        Meta(ge=0),
        "Budget of bounds and search, in approximate seconds. Counted in steps, so load does not "
        "change the result.",
    ] = 10.0
    seed: Annotated[int, Meta(ge=0), "Seed; the same seed gives the same plan."] = 0
    max_motifs: Annotated[int, Meta(ge=1), "Largest number of motifs of a collective."] = 16
    memory: Annotated[str | None, "Memory limit of gathered results, such as 3GB.", "any"] = None
    bitwise: Annotated[bool, "Keep each collective's order of reduction."] = False
    merge: Annotated[
        str | None, "Largest size of merged collectives, such as 25MB.", "none are"
    ] = None
    costs: Annotated[
        Path | None,
        "Measured times as CSV: collective,option,ranks,bytes,us; an option is a channel and a "
        "carrier, such as 'gpu ring'.",
        "reckoned",
    ] = None


def build_plan_settings(options: PlanOptions) -> PlanSettings:
    """Return the settings of a plan's search.

    Raises:
        InputError: There is no such search, or a number or the table of costs is invalid.
    """
    from sccl.training.options.motif_costs import build_motif_planner  # noqa: PLC0415 - loads NumPy
    from sccl.training.planner import PlanSettings  # noqa: PLC0415 - loads NumPy

    return PlanSettings(
        search=options.search,
        seconds=options.budget,
        seed=options.seed,
        max_motifs=options.max_motifs,
        memory_bytes=parse_size(options.memory, "memory") if options.memory else 0,
        bitwise=options.bitwise,
        measured=load_cost_table(options.costs) if options.costs else None,
        planner=build_motif_planner(seed=options.seed),
        merge_bytes=parse_size(options.merge, "merge") if options.merge else 0,
    )


_Us = Annotated[float, Meta(ge=0, description="Microseconds.")]

StageCallback = Callable[[str, float | None, float | None], None]
"""Function that receives progress, and the current period and bound in microseconds."""


class TrainingPlanOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train plan'."""

    kind: Literal["plan"] = "plan"
    workload: str
    fabric: str
    search: str
    period_us: Annotated[float, Meta(ge=0), "Time from one iteration to the next."]
    bound_us: Annotated[
        float, Meta(ge=0), "Lower bound on the period over all plans with these options."
    ]
    gap: Annotated[
        float | None,
        "Relative gap between the period and its lower bound; null: no bound is known.",
    ]
    binding: Annotated[str, "Constraint that gives the bound."]
    baseline_us: Annotated[
        float,
        Meta(ge=0),
        "Period in the order of submission, with the fastest option of each collective.",
    ]
    two_iterations_us: _Us
    proved: bool
    collectives: Annotated[NonNegative, "Number of collectives; merged ones count as one."]
    merged: Annotated[NonNegative, "Number of collectives that are merged with others."] = 0
    motifs: NonNegative
    seconds: Seconds
    compilation_seconds: Annotated[
        float, Meta(ge=0), "Part for compilation at the first use, which --budget excludes."
    ] = 0.0
    seed: NonNegative
    ended: Annotated[str, "Reason why it ended early; or empty."]
    file: FileText | None


@dataclass(frozen=True, slots=True)
class PlannedTraining:
    """A plan and data on its search.

    Attributes:
        plan: Verified plan.
        baseline_ns: Period if collectives are issued in the order of submission.
        two_iterations_ns: Time until the first two iterations have ended.
        seconds: Duration of search and verification, including compilation.
        end_reason: Reason why the search ended early.
        compilation_seconds: Part of ``seconds`` for compilation.
    """

    plan: TrainingPlan
    baseline_ns: int
    two_iterations_ns: int
    seconds: float
    end_reason: StopReason
    compilation_seconds: float = 0.0


def plan_training(
    workload: Workload,
    fabric: Fabric,
    settings: PlanSettings,
    on_progress: StageCallback = lambda *_: None,
    first: Callable[[], None] = lambda: None,
) -> PlannedTraining:
    """Return the best plan for a workload on a fabric, verified.

    Args:
        first: Function that is called before a compilation without a cache.

    Raises:
        InputError: The workload does not fit the fabric, or an operation has no option.
        ScclError: The plan fails verification, which is a defect.
        KeyboardInterrupt: The user interrupted before there was a plan.
    """
    from sccl.compiled import compiling  # noqa: PLC0415 - loads Numba
    from sccl.training.planner import Planner  # noqa: PLC0415 - loads Numba
    from sccl.training.scheduling.merge_search import MergingPlanner  # noqa: PLC0415 - loads NumPy and Numba
    from sccl.training.validate.plan_faults import verify_plan  # noqa: PLC0415

    began, ended = time.perf_counter(), NOT_STOPPED

    def tell(doing: str, period_ns: int | None, bound_ns: int | None) -> None:
        on_progress(doing, *(None if ns is None else ns / 1000 for ns in (period_ns, bound_ns)))

    kind = MergingPlanner if settings.merge_bytes else Planner
    planner = kind(workload, fabric, settings, tell)

    def judged(*, options: bool) -> tuple[TrainingPlan, int]:
        plan = planner.plan()
        tell("judging", plan.period_ns, plan.bound_ns or None)
        faults, timeline = verify_plan(plan, settings.planner, settings.measured, options=options)
        if faults or timeline is None:
            raise ScclError(
                f"a plan of {workload.name} on {fabric.name} failed verification: "
                f"{faults[0].message}; this is a defect of sccl"
            )
        return plan, timeline.finish_ns()

    compilation = None
    try:
        with compiling(first) as compilation:
            planner.run()
        plan, two = judged(options=True)
    except KeyboardInterrupt:
        if planner.best is None:
            raise
        ended = INTERRUPTED
        # An interrupt does not wait for new options, which 'sccl check' derives.
        plan, two = judged(options=False)
    seconds = time.perf_counter() - began
    compiled = 0.0 if compilation is None else compilation.seconds
    return PlannedTraining(plan, planner.baseline_ns, two, seconds, ended, compiled)


def write_training_plan(path: Path, plan: TrainingPlan) -> None:
    """Write the file of a training plan atomically.

    Raises:
        InputError: The file cannot be written.
    """
    write_atomically(path, to_text(training_plan_to_wire(plan)))


def planning_output(planned: PlannedTraining, file: Path | None) -> TrainingPlanOutput:
    """Return the JSON output of a plan."""
    plan = planned.plan
    return build_output(
        TrainingPlanOutput,
        plan,
        inputs={
            "workload": digest(workload_to_wire(plan.input_workload)),
            "fabric": digest(fabric_to_wire(plan.fabric)),
        },
        baseline_us=planned.baseline_ns / 1000,
        two_iterations_us=planned.two_iterations_ns / 1000,
        proved=plan.is_at_bound,
        collectives=len(plan.options),
        merged=sum(map(len, merged_id_rows(plan.workload))),
        motifs=sum(len(option.motifs) for _, option in plan.options),
        seconds=planned.seconds,
        compilation_seconds=round(planned.compilation_seconds, 3),
        ended=planned.end_reason,
        file=file,
    )


class ComparedSearchPart(Part, frozen=True, kw_only=True):
    """The result of a search."""

    search: str
    about: Annotated[str, "Description and source."]
    period_us: Annotated[float, Meta(ge=0), "Time from one iteration to the next."]
    gap: Annotated[
        float | None,
        "Relative gap between the period and its lower bound; null: no bound is known.",
    ]
    seconds: Seconds


class ComparePlansOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train compare'."""

    kind: Literal["compare-plans"] = "compare-plans"
    workload: str
    fabric: str
    collectives: NonNegative
    bound_us: Annotated[
        float, Meta(ge=0), "Lower bound on the period over all plans with these options."
    ]
    binding: Annotated[str, "Constraint that gives the bound."]
    searches: Annotated[tuple[ComparedSearchPart, ...], "The best first."]
    ended: Annotated[str, "Reason why it ended early; or empty."]
    file: Annotated[FileText | None, "The picture, if any."]


def compare_plans(  # noqa: PLR0913, PLR0917 - independent inputs
    workload: Workload,
    fabric: Fabric,
    settings: PlanSettings,
    picture: Path | None,
    on_progress: Callable[[str], None] = lambda _: None,
    first: Callable[[], None] = lambda: None,
) -> ComparePlansOutput:
    """Return the verified result of every search.

    Args:
        picture: File for the picture. None: no picture.
        on_progress: Function that receives progress.
        first: Function that is called before a compilation without a cache.

    Raises:
        InputError: The workload does not fit the fabric, or an operation has no option.
        ScclError: A plan fails verification, which is a defect.
        KeyboardInterrupt: The user interrupted before any search had ended.
    """
    from sccl.compiled import compiling  # noqa: PLC0415 - loads Numba
    from sccl.training.planner import SEARCHES, Planner  # noqa: PLC0415 - loads Numba

    planner = Planner(workload, fabric, settings, lambda doing, *_: on_progress(doing))
    results, ended = list[ComparedSearchPart](), NOT_STOPPED
    with compiling(first):
        planner.prepare()
        for name in SEARCHES:
            on_progress(name)
            try:
                result, ended = _search_result(planner, name, options=name == SEARCHES[0])
            except ParameterError:
                continue  # too large for CP-SAT alone
            except KeyboardInterrupt:
                if not results:
                    raise
                ended = INTERRUPTED
                break
            results.append(result)
            if ended:
                break
    return ComparePlansOutput(
        inputs={
            "workload": digest(workload_to_wire(workload)),
            "fabric": digest(fabric_to_wire(fabric)),
        },
        workload=workload.name,
        fabric=fabric.name,
        collectives=sum(1 for _ in workload.collectives()),
        bound_us=planner.bound_ns / 1000,
        binding=planner.binding,
        searches=tuple(sorted(results, key=lambda result: result.period_us)),
        ended=str(ended),
        file=None if picture is None else str(picture),
    )


def _search_result(
    planner: Planner, name: str, *, options: bool
) -> tuple[ComparedSearchPart, StopReason]:
    """Return the result of a search, and the reason to stop, if there is one.

    If the user interrupts verification, the plan is verified without deriving its options again.

    Args:
        options: Whether verification derives options again.

    Raises:
        ParameterError: The instance is too large for the search.
        ScclError: The plan fails verification, which is a defect.
        KeyboardInterrupt: The user interrupted the search.
    """
    from sccl.training.planner import SEARCH_DESCRIPTIONS  # noqa: PLC0415 - loads Numba
    from sccl.training.validate.plan_faults import find_faults  # noqa: PLC0415

    began, ended, asked = time.perf_counter(), NOT_STOPPED, planner.settings
    planner.best = None
    planner.search(name, asked.seconds)
    seconds = time.perf_counter() - began
    plan = planner.plan()
    try:
        faults = find_faults(plan, asked.planner, asked.measured, options=options)
    except KeyboardInterrupt:
        ended, faults = INTERRUPTED, find_faults(plan, options=False)
    if faults:
        raise ScclError(
            f"a plan of {plan.workload.name} by {name} failed verification: {faults[0].message}; "
            "this is a defect of sccl"
        )
    result = ComparedSearchPart(
        search=name,
        about=SEARCH_DESCRIPTIONS[name],
        period_us=plan.period_ns / 1000,
        gap=plan.gap,
        seconds=round(seconds, 3),
    )
    return result, ended
