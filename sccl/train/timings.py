"""What a plan takes where motifs share bandwidth as fluids do, beside what it claims.

A plan claims what it takes if each motif has its shares of resources to itself; so no two are on
the way whose shares come to more than the whole. Here they may: the order is the same, and a motif
starts as soon as it is issued, its stream is free and what it waits for has ended, and all that
share a resource are slowed down fairly (:mod:`sccl.sim.fluid`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.core.step_timeline import StepTimeline
from sccl.core.training_plan import WHOLE_LOAD, TrainingPlan
from sccl.sim import FluidTask, run_fluid
from sccl.train.jobs import waits_of

_EXACT = 300
"""Tasks up to which fractions are used: their numbers grow with each task that ends."""


@dataclass(frozen=True, slots=True)
class FluidTiming:
    """What a plan takes by fluid sharing.

    Attributes:
        period_ns: from an iteration to the next, the mean of the last ones that were run.
        iterations: how many were run.
    """

    period_ns: float
    iterations: int


def fluid_timing(plan: TrainingPlan, timeline: StepTimeline, iterations: int = 6) -> FluidTiming:
    """Return what a plan takes by fluid sharing.

    Args:
        timeline: of the plan, as it claims: motifs are on the same stream of a channel there.
        iterations: that are run.
    """
    spans = [s for s in timeline.spans if s.iteration < iterations]
    tasks = fluid_tasks(plan, timeline, iterations)
    ends = [span.end for span in run_fluid(tasks, exact=len(tasks) <= _EXACT)]
    last = [Fraction(0)] * iterations
    for span, end in zip(_in_order(plan, spans), ends, strict=True):
        last[span[2]] = max(last[span[2]], end)
    half = iterations // 2
    period = (last[-1] - last[half - 1]) / (iterations - half)
    return FluidTiming(float(period), iterations)
