"""Convert simulations to the output of ``sccl simulate --json``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.codegen.ir import Program
from sccl.comparison.plan_simulation import SimulatedCollective, SimulationRun, SimulationSource
from sccl.core.clock import AlphaText
from sccl.core.files.json_text import file_digest
from sccl.core.files.outputs import Output, build_output, plan_digests
from sccl.core.files.shapes import FileText, NonNegative, Part
from sccl.core.outcome import Plan
from sccl.sim import CriticalStep, Timeline
from sccl.sim.settings import SimulationSettings

Us = Annotated[float, Meta(ge=0, description="Microseconds.")]
Share = Annotated[float, Meta(ge=0, le=1, description="1 is all of the time.")]
WaitedFor = Literal["release", "arrival", "barrier", "start", "onward", "link", "limit", "order"]


class SimulatedPart(Part, frozen=True, kw_only=True):
    """A collective that ran, alone or with others."""

    file: FileText
    program: Annotated[str | None, "Program of the file; null: the file is not a program."]
    collective: str
    topology: str
    chunks: Annotated[int, Meta(ge=1), "C."]
    size_bytes: Annotated[int, Meta(ge=1), "L, the size of C chunks."]
    chunk_bytes: Annotated[int | None, "Size of every chunk, rounded up; null: they differ."]
    messages: NonNegative
    finish_us: Annotated[float, Meta(ge=0), "Arrival of its last chunk."]
    algorithm_gb_per_s: Annotated[float, Meta(ge=0), "L / finish, 10^9 bytes/s."]
    bound_us: Annotated[float | None, "Lower bound on its completion time; null: unknown."]
    bound: Annotated[str, "Proof of the bound, or the reason why there is none."]
    gap: Annotated[float | None, "finish_us / bound_us - 1."]


class BusiestPart(Part, frozen=True, kw_only=True):
    """The busiest link, the first one if several are equally busy."""

    link: Annotated[tuple[int, int], "[src, dst]."]
    busy_us: Us
    busy: Share
    bytes: Annotated[NonNegative, "Bytes that it carried."]


class PathPart(Part, frozen=True, kw_only=True):
    """A transfer on the critical path: all later transfers of the path wait for it."""

    file: FileText
    chunk: NonNegative
    link: Annotated[tuple[int, int], "[src, dst]."]
    ready_us: Annotated[float, "Time when it entered the link's queue."]
    start_us: Annotated[float, "Time when the link started it."]
    until_us: Annotated[float, "Start of the next transfer on the path, or the end."]
    waited_for: Annotated[
        WaitedFor,
        "Last event that this transfer waited for. Except for release, it belongs to the previous "
        "transfer on the path. release: none. arrival: its data arrived. barrier: the previous "
        "step ended. start: it started and freed a buffer or the thread block. onward: it passed "
        "the previous link of the same route. link: it left the link. limit: it freed a budget or "
        "a place in a switch. order: it started first on a link, budget or switch.",
    ]
    with_chunks: Annotated[tuple[int, ...], "Chunks that it carries together with this one."] = ()


class RunPart(Part, frozen=True, kw_only=True):
    """A simulation."""

    collectives: Annotated[tuple[SimulatedPart, ...], "Plans that ran at the same time."]
    alpha: Annotated[AlphaText, "Whether alpha occupies the link or travels."]
    stepping: Annotated[
        Literal["pipelined", "barrier"] | None,
        "Start of sends. pipelined: when their data arrive, in the order of steps on each link. "
        "barrier: when the previous step ends. null: schedules and programs have their own times.",
    ]
    finish_us: Annotated[float, Meta(ge=0), "Arrival of the last chunk of all plans."]
    utilisation: Annotated[Share, "Average over all links."]
    busiest: BusiestPart | None
    critical_path: tuple[PathPart, ...]


class SimulateOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl simulate'."""

    kind: Literal["simulate"] = "simulate"
    alpha_us: Annotated[float | None, "Latency of all links; null: the machine's."]
    gb_per_s: Annotated[float | None, "Bandwidth of all lanes; null: the machine's."]
    runs: tuple[RunPart, ...]
    plot: FileText | None


def simulate_output(
    sources: Sequence[SimulationSource],
    runs: Iterable[RunPart],
    settings: SimulationSettings,
    plot: Path | None,
) -> SimulateOutput:
    """Return the JSON output of simulations."""
    plans: dict[str, Plan] = {}
    programs: dict[str, str] = {}
    for source in sources:
        if isinstance(source.plan, Program):
            programs[source.file] = file_digest(Path(source.file))
        else:
            plans[source.file] = source.plan
    inputs = plan_digests(plans) | programs
    return build_output(SimulateOutput, settings, inputs=inputs, runs=runs, plot=plot)


def build_run_part(run: SimulationRun) -> RunPart:
    """Return the JSON output of one simulation."""
    timeline = run.timeline
    capacity = timeline.finish * len(timeline.topology.links)
    return RunPart(
        collectives=tuple(_collective_part(run, part) for part in run.parts),
        alpha=timeline.clock.model.text,
        stepping=run.stepping.value if run.stepping else None,
        finish_us=timeline.finish_us,
        utilisation=int(timeline.busy().sum()) / capacity if capacity else 0.0,
        busiest=_busiest_part(timeline),
        critical_path=tuple(_path_part(run, step) for step in timeline.critical_path()),
    )


def _collective_part(run: SimulationRun, part: SimulatedCollective) -> SimulatedPart:
    c, chunk_bytes = part.source.collective, part.chunk_bytes
    return build_output(
        SimulatedPart,
        part,
        file=part.source.file,
        program=part.source.program,
        collective=c,
        topology=part.source.topology,
        chunks=c.chunks,
        chunk_bytes=chunk_bytes if isinstance(chunk_bytes, int) else None,
        finish_us=run.to_us(part.finish),
        algorithm_gb_per_s=run.gb_per_s(part),
        bound_us=run.to_us(part.bound.value) if part.bound else None,
        bound=part.bound.proof if part.bound else part.no_bound_reason,
    )


def _busiest_part(timeline: Timeline) -> BusiestPart | None:
    if not timeline.finish:
        return None
    busy = timeline.busy()
    link = int(busy.argmax())
    return BusiestPart(
        link=timeline.topology.links[link].edge,
        busy_us=timeline.clock.us(int(busy[link])),
        busy=int(busy[link]) / timeline.finish,
        bytes=int(timeline.carried_bytes()[link]),
    )


def _path_part(run: SimulationRun, step: CriticalStep) -> PathPart:
    timeline, more = run.timeline, run.timeline.messages.more
    chunk = int(timeline.messages.chunk[step.message])
    others = more.chunk[more.message == step.message].tolist()
    part = max((p for p in run.parts if p.first_message <= step.message),
               key=lambda p: p.first_message)  # fmt: skip
    before = sum(p.source.collective.num_chunks for p in run.parts[: run.parts.index(part)])
    return build_output(
        PathPart,
        file=part.source.file,
        chunk=chunk - before,
        link=timeline.topology.links[step.link].edge,
        ready_us=timeline.clock.us(step.ready),
        start_us=timeline.clock.us(step.start),
        until_us=timeline.clock.us(step.until),
        waited_for=step.why.name.lower(),
        with_chunks=(other_chunk - before for other_chunk in others),
    )
