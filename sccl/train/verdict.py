"""The judge of training plans: it runs them by itself, event by event, and believes no claim."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from sccl.core.step_timeline import StepTimeline
from sccl.core.training_plan import TrainingPlan
from sccl.errors import InputError
from sccl.train.costs import MotifPlanner
from sccl.train.cyclic import wrong_in_cyclic
from sccl.train.jobs import job_of
from sccl.train.memory import holders_of
from sccl.train.merging import wrong_merges
from sccl.train.recosting import overloaded, recosted
from sccl.train.running import timeline_of
from sccl.train.tables import CostTable


class PlanFault(NamedTuple):
    """A violation of a plan.

    Attributes:
        kind: ``ranks``, ``operations``, ``order``, ``waits``, ``memory``, ``period``, ``bound``,
            ``recipe``, ``cost``, ``load``, or ``merge``.
    """

    kind: str
    message: str


class PlanVerdict(NamedTuple):
    """The result of verifying a plan.

    Attributes:
        faults: All violations. Empty: none.
        timeline: Timeline of the plan's run. None: it does not run.
    """

    faults: tuple[PlanFault, ...]
    timeline: StepTimeline | None = None


def faults_in(
    plan: TrainingPlan,
    planner: MotifPlanner | None = None,
    measured: CostTable | None = None,
    *,
    options: bool = True,
) -> tuple[PlanFault, ...]:
    """Return all that is wrong with a plan, as :func:`verdict_on` finds it. Empty: nothing."""
    return verdict_on(plan, planner, measured, options=options).faults


def verdict_on(
    plan: TrainingPlan,
    planner: MotifPlanner | None = None,
    measured: CostTable | None = None,
    *,
    options: bool = True,
) -> PlanVerdict:
    """Verify a plan, and return all violations and its timeline.

    The order is one for all ranks, so the ranks of a group issue alike.

    Args:
        planner: Planner of motifs that name it. None: these are trusted.
        measured: Table of costs of the plan. None: there is none, or times are trusted.
        options: Whether options and simultaneous loads of links are derived again. Otherwise they
            are trusted.
    """
    if odd := _outside(plan):
        return PlanVerdict((odd,))
    try:
        job, order = job_of(plan)
        wrong = wrong_in_cyclic(job.problem, order)
    except InputError as error:
        return PlanVerdict((PlanFault("operations", str(error)),))
    if wrong:
        return PlanVerdict((PlanFault("order", wrong),))
    try:
        timeline = timeline_of(plan)
    except InputError as error:
        return PlanVerdict((PlanFault("waits", str(error)),))
    found = _claims(plan, timeline)
    if measured is not None and measured.digest != plan.costs:
        told = f"its times are of a table of costs with the digest {plan.costs}"
        if not plan.costs:
            told = "its times are of no table of costs"
        found.append(PlanFault("cost", f"{told}, and {measured.where} has {measured.digest}"))
    elif options:
        anew = recosted(plan, planner, measured)
        found += [PlanFault(*one) for one in anew.wrong]
        found += [PlanFault("load", text) for text in overloaded(plan, timeline, anew)]
    return PlanVerdict(tuple(found), timeline)


def _outside(plan: TrainingPlan) -> PlanFault | None:
    """Return a violation for parts that the fabric or the workload does not have."""
    workload, fabric = plan.workload, plan.fabric
    if workload.ranks > fabric.ranks:
        return PlanFault(
            "ranks", f"the workload has {workload.ranks} ranks, and the fabric {fabric.ranks}"
        )
    channels = {channel.name for channel in fabric.channels}
    for name, number, motif in plan.motifs():
        if motif.channel not in channels:
            told = f"motif {number} of {name!r:.60} takes channel {motif.channel!r:.60}"
            return PlanFault("operations", f"{told}, which the fabric does not have")
    wrong = next(wrong_merges(plan), "")
    return PlanFault("merge", wrong) if wrong else None


def _claims(plan: TrainingPlan, timeline: StepTimeline) -> list[PlanFault]:
    found = []
    if timeline.period_ns != plan.period_ns:
        found.append(
            PlanFault(
                "period",
                f"an iteration follows upon the one before in {timeline.period_ns} ns, claimed are "
                f"{plan.period_ns}",
            )
        )
    if plan.bound_ns > timeline.period_ns:
        found.append(
            PlanFault(
                "bound",
                f"the claimed lower bound is {plan.bound_ns} ns, and this plan takes "
                f"{timeline.period_ns}",
            )
        )
    if plan.memory_bytes and (held := held_bytes(plan, timeline)) > plan.memory_bytes:
        found.append(
            PlanFault(
                "memory",
                f"results of up to {held} bytes are held at once, allowed are {plan.memory_bytes}",
            )
        )
    return found


def held_bytes(plan: TrainingPlan, timeline: StepTimeline) -> int:
    """Return the most that results of collectives take at once on a rank.

    Each is held from the start of its first motif to the end of the last operation that waits for
    it. If none does, to the end of its own.
    """
    users: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for dep in plan.workload.deps:
        users[dep.before].append((dep.after, dep.lag))
    begins: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    for span in timeline.spans:
        key = span.op, span.iteration
        begins[key] = min(begins.get(key, span.start_ns), span.start_ns)
        ends[key] = max(ends.get(key, span.end_ns), span.end_ns)
    most = 0
    for role in plan.workload.roles:
        changes = []
        for op in holders_of(plan.workload, role):
            for iteration in range(timeline.iterations):
                used = [ends.get((user, iteration + lag), 0) for user, lag in users[op.id]]
                until = max(used, default=0) or ends[op.id, iteration]
                changes.append((begins[op.id, iteration], op.holds_bytes))
                changes.append((until, -op.holds_bytes))
        held = 0
        for _, change in sorted(changes):  # what is let go of at a time makes room at that time
            held += change
            most = max(most, held)
    return most
