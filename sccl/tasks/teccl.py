"""Compute the best schedule with TE-CCL's models, with a lower bound (``sccl teccl``)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from msgspec import Meta

from sccl.core.bound_consistency import require_at_least_bound
from sccl.core.clock import AlphaText
from sccl.core.files.shapes import Count, FileText, Part, Seconds
from sccl.core.outcome import Outcome, Solution
from sccl.core.sketch import Sketch
from sccl.core.stop import StopReason
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Options, Request, SearchProgress
from sccl.tasks.outputs import Output, question_digests
from sccl.tasks.planned import within_sketch

if TYPE_CHECKING:
    from sccl.core.schedule import Schedule

NAME = "teccl"

_PRIORITY = re.compile("[1-9][0-9]{0,2}|1000")

EFFORT_UNITS = 10.0
"""Default budget."""


class TenantPart(Part, frozen=True, kw_only=True):
    """When one of several collectives has finished."""

    collective: str
    priority: Annotated[int, Meta(ge=1, description="Weight in the weighted mean completion time.")]
    finish_us: Annotated[float, Meta(description="When its last chunk arrives.")]
    bound_us: Annotated[float, Meta(description="Lower bound for this collective alone.")]


class TecclOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl teccl'."""

    kind: Literal["teccl"] = "teccl"
    collective: str
    topology: str
    size_bytes: Annotated[
        int, Meta(ge=1, description="Size of a rank's buffer, which has C chunks.")
    ]
    chunks: Count
    model: Annotated[str, Meta(description="Requested model.")]
    switch: Annotated[str, Meta(description="Capability of switches.")]
    epoch_us: Annotated[float | None, Meta(description="How long an epoch of the model is.")]
    epochs: Annotated[int | None, Meta(description="Number of epochs of the schedule.")]
    alpha: Annotated[AlphaText, Meta(description="Whether alpha occupies the link or travels.")]
    finish_us: Annotated[float, Meta(description="When the last chunk arrives.")]
    bound_us: Annotated[float, Meta(description="Lower bound for all schedules of these chunks.")]
    tenants: Annotated[
        tuple[TenantPart, ...],
        Meta(description="Results of concurrent collectives with priorities; else empty."),
    ] = ()
    weighted_us: Annotated[
        float | None,
        Meta(description="Weighted mean of their completion times, which is minimized; or null."),
    ] = None
    weighted_bound_us: Annotated[
        float | None, Meta(description="Lower bound on this mean; or null.")
    ] = None
    bound_of: Annotated[str, Meta(description="Schedules that the bound covers, and its source.")]
    proved: Annotated[
        bool,
        Meta(
            description="Whether the schedule attains the lower bound; with "
            "priorities, the bound on the weighted mean."
        ),
    ]
    sends: Annotated[int, Meta(ge=0, description="Transfers over links.")]
    seconds: Seconds
    seed: Annotated[int, Meta(ge=0)]
    ended: Annotated[
        str, Meta(description="Reason why it ended before its budget was used; or empty.")
    ]
    bandwidth: Annotated[
        FileText | None, Meta(description="File with the reduced bandwidth of links; null: none.")
    ] = None
    sketch: Annotated[
        str | None, Meta(description="The sketch that bound and schedule keep to; null: none.")
    ] = None
    file: FileText | None
    by: Annotated[
        str | None,
        Meta(
            description="Method that produced it: list scheduling, the initial schedule of the "
            "models, or a model; null for reductions."
        ),
    ] = None
    combined: Annotated[
        str | None,
        Meta(description="For reductions: method of the best schedule; else null."),
    ] = None


class Switching(StrEnum):
    """The assumed capability of switches."""

    MACHINE = "machine"
    COPY = "copy"
    NOCOPY = "nocopy"
    HYPEREDGE = "hyperedge"


class Model(StrEnum):
    """The scheduling model."""

    AUTO = "auto"
    CONTINUOUS = "continuous"
    MILP = "milp"
    ASTAR = "astar"
    LP = "lp"


class Solver(StrEnum):
    """The solver of the model."""

    AUTO = "auto"
    CP_SAT = "cp-sat"
    GLOP = "glop"
    HIGHS = "highs"
    PDLP = "pdlp"
    SCIP = "scip"
    GUROBI = "gurobi"


def parse_priorities(text: str) -> tuple[int, ...]:
    """Return priorities, as 3,1; of no text none.

    Raises:
        ParameterError: the text is none.
    """
    if not text:
        return ()
    parts = text.split(",")
    if not all(_PRIORITY.fullmatch(part) for part in parts):
        raise ParameterError(f"priorities are {text!r}, expected numbers from 1 to 1000, as 3,1")
    return tuple(int(part) for part in parts)


class Combine(StrEnum):
    """The method of reductions."""

    AUTO = "auto"
    REVERSAL = "reversal"
    DIRECT = "direct"


def with_switching(topology: Topology, switch: Switching) -> Topology:
    """Return a machine with the assumed capability of switches.

    Raises:
        ParameterError: It has no switches.
    """
    if switch is not Switching.MACHINE and not topology.switches:
        raise ParameterError(
            f"switch is {switch}, and topology {topology.name!r} has no switches: leave it out"
        )
    if switch in {Switching.MACHINE, Switching.HYPEREDGE}:
        return topology
    copies = switch is Switching.COPY
    switches = tuple(replace(device, copies=copies) for device in topology.switches)
    return replace(topology, switches=switches)


@dataclass(frozen=True, slots=True)
class TecclResult:
    """The result of TE-CCL.

    Attributes:
        seconds: Seconds that it took.
        epoch_us: Length of an epoch. None: the best schedule has no epochs.
        epochs: Number of epochs.
        model: Model with these epochs.
        deciding_method: Method of the best schedule: list scheduling or a model. None: a reduction.
        combination: Method of the best reduction. None: no reduction.
    """

    outcome: Outcome
    seconds: float
    epoch_us: float | None
    epochs: int | None
    model: str | None
    deciding_method: str | None
    combination: str | None = None


def run_teccl(  # noqa: PLR0913 - a question, and who is told
    request: Request,
    options: Options,
    effort: Effort,
    notify: Callable[[float, float], None],
    first: Callable[[], None] = lambda: None,
    *,
    sketch: Sketch | None = None,
) -> TecclResult:
    """Return the verified result of TE-CCL.

    Args:
        notify: Function that receives each best completion time and bound, in microseconds.
        first: Function that is called before a compilation without a cache.
        sketch: Sketch to obey. None: none.

    Raises:
        InputError: It does not support the request, or the options or the sketch do not fit it.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    from sccl.compiled import compiling  # noqa: PLC0415 - loads Numba

    if sketch is not None and getattr(options, "bandwidth", None) is not None:
        raise ParameterError(
            "bandwidth and sketch are both given: bandwidth intervals describe all links of the "
            "machine, and a sketch removes some; leave one of the two out"
        )
    began = time.perf_counter()
    heard = _EventListener(notify)
    with compiling(first):
        outcome = registry.plan(within_sketch(sketch, NAME), request, options, effort, heard)
    seconds = time.perf_counter() - began
    in_epochs = heard.epoch_us, heard.epochs, heard.model
    return TecclResult(outcome, seconds, *in_epochs, heard.deciding_method, heard.combination)


@dataclass
class _EventListener:
    on_progress: Callable[[float, float], None]
    epoch_us: float | None = None
    epochs: int | None = None
    model: str | None = None
    deciding_method: str | None = None
    combination: str | None = None

    def __call__(self, event: object) -> None:
        if isinstance(event, SearchProgress):
            self.on_progress(event.us, event.lower_bound_us)
        if (epochs := getattr(event, "epochs", None)) is not None:
            self.epoch_us, self.epochs = getattr(event, "epoch_us", None), epochs
            self.model = getattr(event, "model", None)
        self.deciding_method = getattr(event, "found_by", self.deciding_method)
        if (by := getattr(event, "by", None)) is not None:
            self.combination = str(by)


def teccl_output(  # noqa: PLR0913 - independent fields
    request: Request,
    result: Solution,
    by: TecclResult,
    *,
    model: Model,
    switch: Switching,
    seed: int,
    ended: StopReason,
    file: Path | None,
    priorities: tuple[int, ...] = (),
    bandwidth: Path | None = None,
    sketch: Sketch | None = None,
) -> TecclOutput:
    """Return the JSON output.

    Args:
        priorities: Weights of concurrent collectives. Empty: none.
        bandwidth: File of the reduced bandwidth. None: none.
        sketch: Sketch of the schedule. None: none.
    """
    plan, bound = cast("Schedule", result.plan), result.bound
    mean = (result.objective, bound.value) if priorities else None
    lower_bound = bound.value if mean is None else _lower_bound(request, plan)
    if mean is not None:
        _require_not_before(plan, plan.finish, lower_bound, "of a schedule of several collectives")
    return TecclOutput(
        inputs=question_digests(request.topology, request.spec),
        collective=request.spec.name,
        topology=request.topology.name,
        size_bytes=request.size_bytes,
        chunks=plan.collective.chunks,
        model=by.model or Model.CONTINUOUS if model is Model.AUTO else model,
        switch=switch,
        epoch_us=by.epoch_us,
        epochs=by.epochs,
        alpha=plan.model.text,
        finish_us=plan.clock.us(plan.finish),
        bound_us=float(lower_bound),
        tenants=_concurrent_parts(request, plan, priorities),
        weighted_us=None if mean is None else float(mean[0]),
        weighted_bound_us=None if mean is None else float(mean[1]),
        bound_of=bound.scope,
        proved=result.is_optimal,
        sends=plan.num_sends,
        seconds=round(by.seconds, 3),
        seed=seed,
        ended=str(ended),
        bandwidth=str(bandwidth) if bandwidth else None,
        sketch=None if sketch is None else sketch.name,
        file=str(file) if file else None,
        by=str(model) if model is Model.LP else by.deciding_method,
        combined=by.combination,
    )


def _lower_bound(request: Request, plan: Schedule) -> Fraction:
    """Return the lower bound for schedules of these chunks, for any priorities."""
    from sccl.tasks.time_bound import compute_time_bound  # noqa: PLC0415 - loads NumPy

    bound = compute_time_bound(request.topology, request.spec, plan.collective, plan.clock)
    return Fraction(bound.value * plan.tick_ps, 10**6)


def _concurrent_parts(
    request: Request, plan: Schedule, priorities: tuple[int, ...]
) -> tuple[TenantPart, ...]:
    """Return when each of several collectives has finished. Without priorities none.

    Raises:
        ContradictionError: one finishes before its lower bound.
    """
    from sccl.prove.bounds.time_cuts import completion_time_bound  # noqa: PLC0415 - loads solvers

    if not priorities:
        return ()
    parts, model = request.spec.single_specs(), plan.clock.model
    finishes = plan.part_finishes([part.pattern_chunks for part in parts])
    tenants = []
    for part, priority, finish in zip(parts, priorities, finishes, strict=True):
        lower_bound = completion_time_bound(request.topology, part, model).us(request.size_bytes)
        _require_not_before(plan, finish, lower_bound, f"of {part.name} among several collectives")
        tenants.append(
            TenantPart(
                collective=part.name,
                priority=priority,
                finish_us=plan.clock.us(finish),
                bound_us=float(lower_bound),
            )
        )
    return tuple(tenants)


def _require_not_before(plan: Schedule, finish: int, lower_bound: Fraction, of: str) -> None:
    """Check that a part of a schedule does not finish before its lower bound.

    Args:
        finish: tick at which it does.
        lower_bound: the bound, microseconds.

    Raises:
        ContradictionError: it does.
    """
    require_at_least_bound(
        Fraction(finish * plan.tick_ps, 10**6),
        lower_bound,
        result=f"the completion time {of}",
        limit="the lower bound on it",
        unit="us",
    )
