"""Plan a training step on a fabric, with a lower bound (``sccl train plan``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from sccl.core.fabric import Fabric
from sccl.core.files.disk import write_atomically
from sccl.core.files.fabrics import fabric_to_wire
from sccl.core.files.json_text import digest, to_text
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import Count, FileText, Seconds
from sccl.core.files.training_plans import training_plan_to_wire
from sccl.core.files.workloads import workload_to_wire
from sccl.core.merges import merged_id_rows
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopReason
from sccl.core.workload import Workload
from sccl.errors import ScclError

if TYPE_CHECKING:
    from sccl.core.training_plan import TrainingPlan
    from sccl.training.planner import PlanSettings

_Us = Annotated[float, Meta(ge=0, description="Microseconds.")]

StageCallback = Callable[[str, float | None, float | None], None]
"""Function that receives progress, and the current period and bound in microseconds."""


class TrainingPlanOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train plan'."""

    kind: Literal["plan"] = "plan"
    workload: str
    fabric: str
    search: str
    period_us: Annotated[float, Meta(ge=0, description="Time from one iteration to the next.")]
    bound_us: Annotated[
        float,
        Meta(ge=0, description="Lower bound on the period over all plans with these options."),
    ]
    gap: Annotated[
        float | None,
        Meta(
            description="Relative gap between the period and its lower bound; null: no bound is "
            "known."
        ),
    ]
    binding: Annotated[str, Meta(description="Constraint that gives the bound.")]
    baseline_us: Annotated[
        float,
        Meta(
            ge=0,
            description="Period in the order of submission, with the fastest option "
            "of each collective.",
        ),
    ]
    two_iterations_us: _Us
    proved: bool
    collectives: Annotated[
        int, Meta(ge=0, description="Number of collectives; merged ones count as one.")
    ]
    merged: Annotated[
        int, Meta(ge=0, description="Number of collectives that are merged with others.")
    ] = 0
    motifs: Count
    seconds: Seconds
    compilation_seconds: Annotated[
        float,
        Meta(ge=0, description="Part for compilation at the first use, which --budget excludes."),
    ] = 0.0
    seed: Count
    ended: Annotated[str, Meta(description="Reason why it ended early; or empty.")]
    file: FileText | None


@dataclass(frozen=True, slots=True)
class PlannedTraining:
    """A plan and data on its search.

    Attributes:
        baseline_ns: Period if collectives are issued in the order of submission.
        two_iterations_ns: Time until the first two iterations have ended.
        end_reason: Reason why the search ended early.
        compilation_seconds: Seconds of compilation, which are not part of the search.
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
    from sccl.training.planner import Planner  # noqa: PLC0415 - likewise
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
    """Write the file of a training plan, whole or not at all.

    Raises:
        InputError: it cannot be written.
    """
    write_atomically(path, to_text(training_plan_to_wire(plan)))


def planning_output(planned: PlannedTraining, file: Path | None) -> TrainingPlanOutput:
    """Return the JSON output."""
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
