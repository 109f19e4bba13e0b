"""Compute the best schedule within a sketch, with a lower bound (``sccl taccl``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from msgspec import Meta

from sccl.core.clock import AlphaText
from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import to_text
from sccl.core.files.shapes import Count, FileText, Part, Seconds
from sccl.core.files.sketch_shapes import SketchWire
from sccl.core.files.sketches import load_sketch, sketch_to_wire
from sccl.core.outcome import Outcome, Solution
from sccl.core.stop import StopReason
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Options, Request, SearchProgress
from sccl.tasks.outputs import Output, question_digests

if TYPE_CHECKING:
    from sccl.core.schedule import Schedule

NAME = "taccl"

EFFORT_UNITS = 2.0
"""Default budget."""

AUTO = "auto"
"""In place of a sketch: the best of several that the machine suggests."""


class RoutePaths(StrEnum):
    """Which ways chunks may go."""

    AUTO = "auto"
    SHORTEST = "shortest"
    ANY = "any"


class Ordering(StrEnum):
    """Which chunk goes first on a link."""

    BEST = "best"
    FARTHEST_START = "farthest-start"
    FARTHEST_END = "farthest-end"
    SOONEST_START = "soonest-start"
    SOONEST_END = "soonest-end"


class Steps(StrEnum):
    """Whether routes are kept, or bettered together with orders."""

    AUTO = "auto"
    THREE = "three"
    JOINED = "joined"


class TacclPhasePart(Part, frozen=True, kw_only=True):
    """How one phase went, step by step."""

    relaxed_us: Annotated[float, Meta(description="Lower bound for all orders of its routes.")]
    by: Annotated[str, Meta(description="Order or model that produced the schedule.")]
    tried: Annotated[dict[str, float], Meta(description="Result of each order and each model.")]


class TacclOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl taccl'."""

    kind: Literal["taccl"] = "taccl"
    collective: str
    topology: str
    size_bytes: Annotated[
        int, Meta(ge=1, description="Size of a rank's buffer, which has C chunks.")
    ]
    chunks: Count
    sketch: Annotated[str, Meta(description="Sketch that the schedule obeys.")]
    alpha: Annotated[AlphaText, Meta(description="Whether alpha occupies the link or travels.")]
    finish_us: Annotated[float, Meta(description="When the last chunk arrives.")]
    bound_us: Annotated[
        float, Meta(description="Lower bound for all schedules of these chunks, in any sketch.")
    ]
    bound_of: Annotated[str, Meta(description="Schedules that the bound covers.")]
    proved: Annotated[bool, Meta(description="Whether the schedule attains the lower bound.")]
    phases: tuple[TacclPhasePart, ...]
    sends: Annotated[int, Meta(ge=0, description="Transfers of a chunk over a link.")]
    seconds: Seconds
    seed: Annotated[int, Meta(ge=0)]
    ended: Annotated[
        str, Meta(description="Reason why it ended before its budget was used; or empty.")
    ]
    file: FileText | None
    sketch_file: FileText | None


@dataclass(frozen=True, slots=True)
class TacclResult:
    """The result of TACCL.

    Attributes:
        seconds: Seconds that it took.
        phases: Result of each phase.
        sketch: Sketch of the schedule. None: unknown.
    """

    outcome: Outcome
    seconds: float
    phases: tuple[TacclPhasePart, ...]
    sketch: SketchWire | None


def optional_sketch_wire(sketch: str) -> SketchWire | None:
    """Return the sketch of a file, or, of ``auto``, None.

    Raises:
        InputError: the file cannot be read, is no sketch, or contradicts itself.
    """
    if sketch == AUTO:
        return None
    return sketch_to_wire(load_sketch(Path(sketch)))


def write_sketch(path: Path, sketch: SketchWire) -> None:
    """Write a sketch to a file, whole or not at all.

    Raises:
        InputError: it cannot be written.
    """
    write_atomically(path, to_text(sketch))


def run_taccl(
    request: Request,
    options: Options,
    effort: Effort,
    notify: Callable[[float, float, str], None],
    first: Callable[[], None] = lambda: None,
) -> TacclResult:
    """Return the verified result of TACCL.

    Args:
        notify: Function that receives each best completion time and bound in microseconds, and the
            sketch's name.
        first: Function that is called before a compilation without a cache.

    Raises:
        InputError: It does not support the request, or the options do not fit it.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    from sccl.compiled import compiling  # noqa: PLC0415 - loads Numba

    began, heard = time.perf_counter(), _EventListener(notify)
    with compiling(first):
        outcome = registry.plan(registry.load(NAME), request, options, effort, heard)
    seconds = time.perf_counter() - began
    return TacclResult(outcome, seconds, tuple(heard.phases), heard.sketch)


@dataclass
class _EventListener:
    on_progress: Callable[[float, float, str], None]
    phases: list[TacclPhasePart] = field(default_factory=list)
    sketch: SketchWire | None = None

    def __call__(self, event: object) -> None:
        if isinstance(event, SearchProgress):
            self.on_progress(event.us, event.lower_bound_us, event.sketch)
        phases = getattr(event, "phases", None)
        if phases is not None:
            self.phases = [
                TacclPhasePart(relaxed_us=phase.relaxed_us, by=phase.by, tried=phase.tried)
                for phase in phases
            ]
            self.sketch = getattr(event, "kept", None)


def taccl_output(  # noqa: PLR0913 - independent fields
    request: Request,
    result: Solution,
    by: TacclResult,
    *,
    sketch: str,
    seed: int,
    ended: StopReason,
    file: Path | None,
    sketch_file: Path | None,
) -> TacclOutput:
    """Return the JSON output."""
    plan, bound = cast("Schedule", result.plan), result.bound
    return TacclOutput(
        inputs=question_digests(request.topology, request.spec),
        collective=request.spec.name,
        topology=request.topology.name,
        size_bytes=request.size_bytes,
        chunks=plan.collective.chunks,
        sketch=sketch if by.sketch is None else by.sketch.name,
        alpha=plan.model.text,
        finish_us=plan.clock.us(plan.finish),
        bound_us=float(bound.value),
        bound_of=bound.scope,
        proved=result.is_optimal,
        phases=by.phases,
        sends=plan.num_sends,
        seconds=round(by.seconds, 3),
        seed=seed,
        ended=str(ended),
        file=str(file) if file else None,
        sketch_file=str(sketch_file) if sketch_file else None,
    )
