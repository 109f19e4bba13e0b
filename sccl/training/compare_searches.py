"""``sccl train compare``: every search on one step of training, on the same options."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from sccl.core.fabric import Fabric
from sccl.core.files.fabrics import fabric_to_wire
from sccl.core.files.json_text import digest
from sccl.core.files.outputs import Output
from sccl.core.files.shapes import Count, FileText, Part, Seconds
from sccl.core.files.workloads import workload_to_wire
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopReason
from sccl.core.workload import Workload
from sccl.errors import ParameterError, ScclError

if TYPE_CHECKING:
    from sccl.training.planner import Planner, PlanSettings


class ComparedSearchPart(Part, frozen=True, kw_only=True):
    """The result of a search."""

    search: str
    about: Annotated[str, Meta(description="Description and source.")]
    period_us: Annotated[float, Meta(ge=0, description="Time from one iteration to the next.")]
    gap: Annotated[
        float | None,
        Meta(
            description="Relative gap between the period and its lower bound; null: no bound is "
            "known."
        ),
    ]
    seconds: Seconds


class ComparePlansOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train compare'."""

    kind: Literal["compare-plans"] = "compare-plans"
    workload: str
    fabric: str
    collectives: Count
    bound_us: Annotated[
        float,
        Meta(ge=0, description="Lower bound on the period over all plans with these options."),
    ]
    binding: Annotated[str, Meta(description="Constraint that gives the bound.")]
    searches: Annotated[tuple[ComparedSearchPart, ...], Meta(description="The best first.")]
    ended: Annotated[str, Meta(description="Reason why it ended early; or empty.")]
    file: Annotated[FileText | None, Meta(description="The picture, if any.")]


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
    from sccl.training.planner import SEARCHES, Planner  # noqa: PLC0415 - likewise

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

    If the user interrupts during verification, the plan is kept and its options are not derived
    again.

    Args:
        options: Whether options are derived again.

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
