"""Compute a TACOS schedule for a machine of any size, with a lower bound (``sccl tacos``)."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sccl.core.algorithm import KSynchronousPlan
from sccl.core.clock import AlphaText
from sccl.core.files.disk import write_atomically
from sccl.core.files.shapes import Count, FileText, Seconds
from sccl.core.outcome import Outcome, Solution
from sccl.core.progress import ProgressCallback
from sccl.core.sketch import Sketch
from sccl.core.stop import StopReason
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Options, Request, VerificationProgress
from sccl.tasks.outputs import Output, question_digests, to_plain
from sccl.tasks.planned import within_sketch

NAME = "tacos"


class TacosOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl tacos'."""

    kind: Literal["tacos"] = "tacos"
    collective: str
    topology: str
    size_bytes: Annotated[
        int, Meta(ge=1, description="Size of a rank's buffer, which has C chunks.")
    ]
    chunks: Count
    alpha: Annotated[AlphaText, Meta(description="Whether alpha occupies the link or travels.")]
    finish_us: Annotated[float, Meta(description="When the last chunk arrives.")]
    bound_us: Annotated[float, Meta(description="Lower bound for all schedules of these chunks.")]
    proved: Annotated[bool, Meta(description="Whether the schedule attains the lower bound.")]
    sketch: Annotated[
        str | None, Meta(description="The sketch that bound and schedule keep to; null: none.")
    ] = None
    sends: Annotated[int, Meta(ge=0, description="Transfers over links.")]
    seconds: Seconds
    seed: Annotated[int, Meta(ge=0)]
    ended: Annotated[
        str, Meta(description="Reason why it ended before all seeds were tried; or empty.")
    ]
    recorded: Annotated[
        bool,
        Meta(
            description="Whether the file holds the schedule, or only the inputs that reproduce it."
        ),
    ] = True
    again: Annotated[str, Meta(description="The command that makes the same schedule.")] = ""
    file: FileText | None


def run_tacos(  # noqa: PLR0913 - independent inputs
    request: Request,
    options: Options,
    on_progress: ProgressCallback,
    *,
    judging: ProgressCallback = lambda *_: None,
    first: Callable[[], None] = lambda: None,
    timeout_s: float | None,
    seed: int,
    sketch: Sketch | None = None,
) -> tuple[Outcome, float]:
    """Return the verified result of TACOS, and its seconds.

    Args:
        on_progress: Function that receives the number of transfers so far, and of all.
        judging: Function that receives the number of verified transfers, and of all, if many.
        first: Function that is called before a compilation without a cache.
        sketch: Sketch to obey. None: none.

    Raises:
        InputError: It does not support the request, or the options or the sketch do not fit it.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    from sccl.compiled import compiling  # noqa: PLC0415 - loads Numba

    began = time.perf_counter()
    synthesizer, effort = within_sketch(sketch, NAME), Effort(timeout_s, seed)
    with compiling(first):
        outcome = registry.plan(
            synthesizer, request, options, effort, partial(_report_event, on_progress, judging)
        )
    return outcome, time.perf_counter() - began


def _report_event(on_progress: ProgressCallback, judging: ProgressCallback, event: object) -> None:
    from sccl.synth.tacos.planner import MatchingProgress  # noqa: PLC0415 - loads NumPy and Numba

    if isinstance(event, MatchingProgress):
        on_progress(event.sends, event.total)
    elif isinstance(event, VerificationProgress):
        judging(event.sends, event.total)


def reproduce_command(
    about: Mapping[str, str | Path | None], options: Options, size: int, seed: int
) -> str:
    """Return the command that reproduces the schedule.

    Args:
        about: Collective, machine, and other inputs, by option. None: not given.
    """
    stated = msgspec.to_builtins(options) | {"size": size, "seed": seed}
    del stated["jobs"]  # of no effect
    words = ["sccl", "tacos"]
    for name, value in about.items():
        words += [] if value is None else ["--" + name.replace("_", "-"), str(value)]
    for name in sorted(stated):
        words += ["--" + name.replace("_", "-"), str(stated[name])]
    return shlex.join(words)


def write_output(path: Path, shown: TacosOutput) -> None:
    """Write the JSON output without its schedule.

    Raises:
        InputError: It cannot be written.
    """
    write_atomically(path, json.dumps(to_plain(shown), indent=1) + "\n")


def tacos_output(  # noqa: PLR0913 - independent fields
    request: Request,
    result: Solution,
    *,
    seconds: float,
    seed: int,
    ended: StopReason,
    file: Path | None,
    again: str,
    recorded: bool,
    sketch: Sketch | None = None,
) -> TacosOutput:
    """Return the JSON output."""
    plan = result.plan
    assert not isinstance(plan, KSynchronousPlan)
    return TacosOutput(
        inputs=question_digests(request.topology, request.spec),
        collective=request.spec.name,
        topology=request.topology.name,
        size_bytes=request.size_bytes,
        chunks=plan.collective.chunks,
        alpha=plan.model.text,
        finish_us=float(result.objective),
        bound_us=float(result.bound.value),
        proved=result.is_optimal,
        sketch=None if sketch is None else sketch.name,
        sends=plan.num_sends,
        seconds=round(seconds, 3),
        seed=seed,
        ended=str(ended),
        recorded=recorded,
        again=again,
        file=str(file) if file else None,
    )
