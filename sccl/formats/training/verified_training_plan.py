"""A plan of a training step as formats take it: judged, and as it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sccl.core.step_timeline import StepSpan, StepTimeline
from sccl.core.training_plan import TrainingPlan
from sccl.core.workload_ops import Dependency


@dataclass(frozen=True, slots=True)
class VerifiedTrainingPlan:
    """A training plan that passed verification.

    Attributes:
        name: Name of its file: letters, digits and hyphens.
        waits: All dependencies: of the workload, of the order of streams, and of host programs.
    """

    name: str
    plan: TrainingPlan
    timeline: StepTimeline
    waits: tuple[Dependency, ...]


def dependency_arrows(
    stepped: VerifiedTrainingPlan, spans: Iterable[StepSpan]
) -> Iterator[tuple[StepSpan, StepSpan]]:
    """Yield pairs of spans: one, and another that depends on it.

    For an operation of several motifs, dependents wait for the last one to end, and the first one
    to begin waits. Computations of one stream follow one another in any case.
    """
    of: dict[tuple[str, int], list[StepSpan]] = defaultdict(list)
    for span in spans:
        of[span.op, span.iteration].append(span)
    options = dict(stepped.plan.options)
    for op_spans in of.values():
        if op_spans[0].computes:
            continue
        by_motif = {span.motif: span for span in op_spans}
        for span in op_spans:
            for motif in options[span.op].motifs[span.motif].after:
                if motif in by_motif:
                    yield by_motif[motif], span
    iterations = sorted({iteration for _, iteration in of})
    for wait in stepped.waits:
        for iteration in iterations:
            op_spans = of.get((wait.after, iteration), [])
            before = of.get((wait.before, iteration - wait.lag))
            if not before or not op_spans:
                continue
            last = max(before, key=lambda span: (span.end_ns, span.motif))
            first = min(op_spans, key=lambda span: (span.start_ns, span.motif))
            if not (last.computes and last.lane == first.lane):
                yield last, first
