"""What a plan takes where motifs share bandwidth as fluids do, beside what it claims.

A plan claims what it takes if each motif has its shares of resources to itself; so no two are on
the way whose shares come to more than the whole. Here they may: the order is the same, and a motif
starts as soon as it is issued, its stream is free and what it waits for has ended, and all that
share a resource are slowed down fairly (:mod:`sccl.sim.fluid`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.step_timeline import StepTimeline
from sccl.core.training_plan import WHOLE_LOAD, OptionMotif, TrainingPlan
from sccl.core.workload_ops import ComputeOp
from sccl.sim import FluidTask, run_fluid
from sccl.train.jobs import NS_PER_US, all_waits, stream_of

_EXACT = 300
"""Tasks up to which fractions are used: their numbers grow with each task that ends."""

_Key = tuple[str, int, int]
"""An operation, a motif of its option, and an iteration."""


@dataclass(frozen=True, slots=True)
class FluidTiming:
    """What a plan takes by fluid sharing.

    Attributes:
        period_ns: from an iteration to the next, the mean of the last ones that were run.
        first_ns: until the first iteration has ended.
    """

    period_ns: float
    first_ns: float


def streams_resource(channel: str) -> str:
    """Return the name of the resource that stands for a channel's streams."""
    return f"{channel}: streams"


def fluid_timing(plan: TrainingPlan, timeline: StepTimeline, iterations: int = 6) -> FluidTiming:
    """Return what a plan takes by fluid sharing.

    Args:
        timeline: of the plan, as it claims: motifs are on the same streams of channels here.
        iterations: that are run, 2 or more.
    """
    keys, tasks = _tasks(plan, timeline, iterations)
    ends = [span.end for span in run_fluid(tasks, exact=len(tasks) <= _EXACT)]
    last = [Fraction(0)] * iterations
    for (_, _, iteration), end in zip(keys, ends, strict=True):
        last[iteration] = max(last[iteration], end)
    half = iterations // 2
    period = (last[-1] - last[half - 1]) / (iterations - half)
    return FluidTiming(float(period), float(last[0]))


def _tasks(
    plan: TrainingPlan, timeline: StepTimeline, iterations: int
) -> tuple[list[_Key], list[FluidTask]]:
    """Return what is run, and of which operation each is, in the order of issue."""
    keys = list(_issued(plan, iterations))
    place = {key: k for k, key in enumerate(keys)}
    computes = {op.id: op for op in plan.workload.ops if isinstance(op, ComputeOp)}
    motifs = {(name, k): motif for name, k, motif in plan.motifs()}
    counts = {name: len(option.motifs) for name, option in plan.options}
    before: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for wait in all_waits(plan.workload, plan.memory_bytes):
        before[wait.after].append((wait.before, wait.lag))
    resources: dict[str, int] = {}
    streams: dict[object, int] = {}
    on = _streams(plan, timeline, keys)
    found = []
    for op, k, iteration in keys:
        waits = [
            place[other, j, iteration - lag]
            for other, lag in before[op]
            if iteration >= lag
            for j in range(counts.get(other, 1))
        ]
        if op in computes:
            ns, loads = round(computes[op].duration_us * NS_PER_US), {}
            stream: object = stream_of(computes[op])
        else:
            motif = motifs[op, k]
            waits += [place[op, j, iteration] for j in motif.after]
            ns, loads = motif.ns, _loads(motif, resources)
            stream = on.get((op, k, iteration))
        if iteration:
            waits.append(place[op, k, iteration - 1])
        number = None if stream is None else streams.setdefault(stream, len(streams))
        found.append(
            FluidTask(Fraction(ns), loads, tuple(waits), stream=number, issued=op not in computes)
        )
    return keys, found


def _loads(motif: OptionMotif, resources: dict[str, int]) -> dict[int, Fraction]:
    own = streams_resource(motif.channel)
    return {
        resources.setdefault(name, len(resources)): Fraction(load, WHOLE_LOAD)
        for name, load in motif.loads
        if name != own
    }


def _issued(plan: TrainingPlan, iterations: int) -> Iterator[_Key]:
    ahead = max((issue.shift for issue in plan.order), default=0)
    for window in range(-ahead, iterations):
        for issue in plan.order:
            if 0 <= window + issue.shift < iterations:
                yield issue.op, issue.motif, window + issue.shift


def _streams(
    plan: TrainingPlan, timeline: StepTimeline, keys: Iterable[_Key]
) -> dict[_Key, tuple[str, int]]:
    """Return on which stream of its channel each motif is: the first that is free as claimed.

    Args:
        keys: in the order of issue.
    """
    many = {channel.name: channel.streams for channel in plan.fabric.channels}
    spans = {(s.op, s.motif, s.iteration): s for s in timeline.spans if not s.computes}
    free: dict[tuple[str, int], int] = {}
    found = {}
    for key in keys:
        if span := spans.get(key):
            slots = range(many[span.lane])
            slot = next((k for k in slots if free.get((span.lane, k), 0) <= span.start_ns), 0)
            free[span.lane, slot] = max(free.get((span.lane, slot), 0), span.end_ns)
            found[key] = span.lane, slot
    return found
