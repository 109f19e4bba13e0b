"""TE-CCL: the best schedule of chunks of one size, with what bounds it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.algorithm import KSynchronous
from sccl.core.files.fields import Count, FileText, Seconds
from sccl.core.outcome import Found, Outcome
from sccl.solvers.effort import Effort
from sccl.synth import registry
from sccl.synth.contract import Options, Request
from sccl.tasks.outputs import Alpha, Output, alpha_of, question_digests

NAME = "teccl"

UNITS = 10.0
"""Of effort, if nothing is said."""


class TecclOutput(Output, frozen=True, kw_only=True):
    """What 'sccl teccl' found."""

    kind: Literal["teccl"] = "teccl"
    collective: str
    topology: str
    size_bytes: Annotated[
        int, Meta(ge=1, description="Of a rank's buffer, which C chunks make up.")
    ]
    chunks: Count
    model: Annotated[str, Meta(description="Which model it was asked of.")]
    alpha: Annotated[Alpha, Meta(description="What links do during alpha.")]
    finish_us: Annotated[float, Meta(description="When the last chunk arrives.")]
    bound_us: Annotated[float, Meta(description="No schedule of such chunks finishes earlier.")]
    bound_of: Annotated[str, Meta(description="Which schedules the bound is about, and who says.")]
    proved: Annotated[bool, Meta(description="The bound is met.")]
    sends: Annotated[int, Meta(ge=0, description="Transfers over links.")]
    seconds: Seconds
    seed: Annotated[int, Meta(ge=0)]
    ended: Annotated[str, Meta(description="Why it ended before its effort was spent; or empty.")]
    file: FileText | None


def scheduled(
    request: Request,
    options: Options,
    effort: Effort,
    told: Callable[[float, float], None],
    first: Callable[[], None] = lambda: None,
) -> tuple[Outcome, float]:
    """Return what TE-CCL says, judged, and the seconds it took.

    Args:
        told: called with each best finish and the bound, microseconds.
        first: called where something is compiled, as it is not on disk yet.

    Raises:
        InputError: it does not take the request, or the options do not fit it.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    from sccl.compiled import compiling  # noqa: PLC0415 - loads Numba

    began = time.perf_counter()
    with compiling(first):
        outcome = registry.plan(registry.load(NAME), request, options, effort, partial(_tell, told))
    return outcome, time.perf_counter() - began


def _tell(told: Callable[[float, float], None], event: object) -> None:
    least, us = getattr(event, "least_us", None), getattr(event, "us", None)
    if least is not None and us is not None:
        told(us, least)


def teccl_output(  # noqa: PLR0913 - what is told
    request: Request,
    found: Found,
    *,
    model: str,
    seconds: float,
    seed: int,
    ended: str,
    file: Path | None,
) -> TecclOutput:
    """Return what was found."""
    plan, bound = found.plan, found.bound
    assert not isinstance(plan, KSynchronous)
    assert bound.least is not None
    return TecclOutput(
        inputs=question_digests(request.topology, request.spec),
        collective=request.spec.name,
        topology=request.topology.name,
        size_bytes=request.size_bytes,
        chunks=plan.collective.chunks,
        model=model,
        alpha=alpha_of(plan),
        finish_us=float(bound.attained),
        bound_us=float(bound.least),
        bound_of=bound.scope,
        proved=found.proved,
        sends=plan.num_sends,
        seconds=round(seconds, 3),
        seed=seed,
        ended=ended,
        file=str(file) if file else None,
    )
