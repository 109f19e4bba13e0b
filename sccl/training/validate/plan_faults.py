"""Verify training plans and plans of single steps, independently of the code that finds them.

Plans are simulated event by event, and no claim is trusted.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from sccl.errors import InputError
from sccl.training.bounds.merge_relaxation import groups_with_options, relax_merges
from sccl.training.bounds.period_bounds import find_bound_fault, period_lower_bound
from sccl.training.options.measured_costs import CostTable
from sccl.training.options.merge_candidates import find_merge_faults
from sccl.training.options.motif_costs import MotifPlanner
from sccl.training.scheduling.step_problem import (
    FULL_SHARE,
    StepPlan,
    StepProblem,
    find_cyclic_plan_fault,
)
from sccl.training.scheduling.workload_problem import PlanningJob, job_of_plan, result_holders
from sccl.training.timeline import simulate_timeline
from sccl.training.types.training_plan import StepTimeline, TrainingPlan
from sccl.training.validate.plan_costs import find_overload, plan_catalog, recompute_costs


class PlanFault(NamedTuple):
    """A violation of a plan.

    Attributes:
        kind: ``ranks``, ``operations``, ``order``, ``waits``, ``memory``, ``period``, ``bound``,
            ``recipe``, ``cost``, ``load``, or ``merge``.
        message: Description in a sentence.
    """

    kind: str
    message: str


class PlanVerdict(NamedTuple):
    """The result of verifying a plan.

    Attributes:
        faults: All violations. Empty: none.
        timeline: Simulated timeline of the plan. None: the plan cannot be simulated.
    """

    faults: tuple[PlanFault, ...]
    timeline: StepTimeline | None = None


def find_faults(
    plan: TrainingPlan,
    planner: MotifPlanner | None = None,
    measured: CostTable | None = None,
    *,
    options: bool = True,
) -> tuple[PlanFault, ...]:
    """Return the violations that :func:`verify_plan` finds. Empty: none."""
    return verify_plan(plan, planner, measured, options=options).faults


def verify_plan(
    plan: TrainingPlan,
    planner: MotifPlanner | None = None,
    measured: CostTable | None = None,
    *,
    options: bool = True,
) -> PlanVerdict:
    """Verify a plan, and return all violations and its timeline.

    All ranks use one order, so the ranks of a group issue their motifs in the same order.

    Args:
        plan: Plan to verify.
        planner: Planner for motifs whose carrier is a synthesizer. None: such motifs are a fault.
        measured: Table of measured costs. None: the plan has none, or its times are trusted.
        options: Whether to verify options and loads of links. Otherwise they are trusted.
    """
    if odd := _find_foreign_part(plan):
        return PlanVerdict((odd,))
    try:
        job, order = job_of_plan(plan)
        wrong = find_cyclic_plan_fault(job.problem, order)
    except InputError as error:
        return PlanVerdict((PlanFault("operations", str(error)),))
    if wrong:
        return PlanVerdict((PlanFault("order", wrong),))
    try:
        timeline = simulate_timeline(plan)
    except InputError as error:
        return PlanVerdict((PlanFault("waits", str(error)),))
    faults = _find_claim_faults(plan, timeline)
    if measured is not None and measured.digest != plan.costs:
        message = f"its times come from a table of costs with the digest {plan.costs}"
        if not plan.costs:
            message = "its times come from no table of costs"
        faults.append(PlanFault("cost", f"{message}, and {measured.source} has {measured.digest}"))
    elif options:
        anew = recompute_costs(plan, planner, measured)
        faults += [PlanFault(*fault) for fault in anew.faults]
        faults += [PlanFault("load", text) for text in find_overload(plan, timeline, anew)]
    return PlanVerdict(tuple(faults), timeline)


def _find_foreign_part(plan: TrainingPlan) -> PlanFault | None:
    """Return a violation of ranks, channels, or merged collectives. None: none."""
    workload, fabric = plan.workload, plan.fabric
    if workload.ranks > fabric.ranks:
        return PlanFault(
            "ranks", f"the workload has {workload.ranks} ranks, and the fabric {fabric.ranks}"
        )
    channels = {channel.name for channel in fabric.channels}
    for name, number, motif in plan.motifs():
        if motif.channel not in channels:
            message = f"motif {number} of {name!r:.60} takes channel {motif.channel!r:.60}"
            return PlanFault("operations", f"{message}, which the fabric does not have")
    wrong = next(find_merge_faults(plan), "")
    return PlanFault("merge", wrong) if wrong else None


def _find_claim_faults(plan: TrainingPlan, timeline: StepTimeline) -> list[PlanFault]:
    faults = []
    if timeline.period_ns != plan.period_ns:
        faults.append(
            PlanFault(
                "period",
                f"iterations repeat every {timeline.period_ns} ns, and the plan states "
                f"{plan.period_ns}",
            )
        )
    if plan.bound_ns > timeline.period_ns:
        faults.append(
            PlanFault(
                "bound",
                f"the stated lower bound is {plan.bound_ns} ns, and this plan takes "
                f"{timeline.period_ns}",
            )
        )
    if plan.memory_bytes and (held := peak_result_bytes(plan, timeline)) > plan.memory_bytes:
        faults.append(
            PlanFault(
                "memory",
                f"results of up to {held} bytes are held at once, allowed are {plan.memory_bytes}",
            )
        )
    return faults


def peak_result_bytes(plan: TrainingPlan, timeline: StepTimeline) -> int:
    """Return the largest total of held results on a rank at one time, in bytes.

    A result is held from the start of its first motif to the end of the last operation that depends
    on it, or to its own end if there is none.
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
    peak = 0
    for role in plan.workload.roles:
        changes = []
        for op in result_holders(plan.workload, role):
            for iteration in range(timeline.iterations):
                used = [ends.get((user, iteration + lag), 0) for user, lag in users[op.id]]
                until = max(used, default=0) or ends[op.id, iteration]
                changes.append((begins[op.id, iteration], op.holds_bytes))
                changes.append((until, -op.holds_bytes))
        held = 0
        for _, change in sorted(changes):  # at one time, releases come before allocations
            held += change
            peak = max(peak, held)
    return peak


def find_plan_bound_fault(
    plan: TrainingPlan, planner: MotifPlanner | None = None, measured: CostTable | None = None
) -> str:
    """Return a violation of a plan's bound. Empty: none.

    Options are derived again with the plan's settings, and must include those of the plan. The
    stated bound must not exceed the bound for all options, whose proof is checked in integers.

    Args:
        plan: Plan with valid options.
        planner: Planner of motifs, if one was used.
        measured: Table of measured costs, if the plan names one.

    Raises:
        InputError: No options can be derived.
    """
    book = plan_catalog(plan, planner, measured)
    offered = book.job_options(plan.workload.collectives())
    for name, option in plan.options:
        if option not in offered.by_collective[name]:
            return (
                f"operation {name!r:.60} takes {option.recipe}, which is none of its "
                f"{len(offered.by_collective[name])} options with at most {plan.max_motifs} "
                "motifs: the "
                "bound does not cover such plans"
            )
    if not plan.bound_ns:
        return ""
    if rows := groups_with_options(plan.input_workload, plan.merge_bytes, book):
        job = relax_merges(plan.input_workload, rows, book)
    else:
        job = PlanningJob(plan.workload, offered.by_collective, plan.memory_bytes)
    problem = job.problem
    bound = period_lower_bound(problem)
    if wrong := find_bound_fault(problem, bound):
        return f"the proof does not hold: {wrong}"
    if plan.bound_ns > bound.value:
        return (
            f"{bound.value} ns are proved ({bound.proof.kind}), and the plan states {plan.bound_ns}"
        )
    return ""


_ResourceUse = tuple[int, int, int, str]
"""Start, end, and share of a use, and the label of its motif."""


def find_step_plan_fault(problem: StepProblem, plan: StepPlan) -> str:
    """Return the first violation of a plan of a single step. Empty: none."""
    if len(plan.options) != len(problem.ops) or len(plan.starts) != len(problem.ops):
        return f"it has {len(plan.options)} operations, and the step has {len(problem.ops)}"
    ends: list[int] = []
    busy: dict[int, list[_ResourceUse]] = {}
    for number, op in enumerate(problem.ops):
        where, choice = f"op {op.name!r}", plan.options[number]
        if not 0 <= choice < len(op.options):
            return f"{where} takes option {choice}, and has {len(op.options)}"
        motifs, starts = op.options[choice].motifs, plan.starts[number]
        if len(starts) != len(motifs):
            return f"{where} starts {len(starts)} motifs, and its option has {len(motifs)}"
        ready = max((ends[k] for k in op.after), default=0)
        for k, (motif, start) in enumerate(zip(motifs, starts, strict=True)):
            waits = max((starts[j] + motifs[j].ticks for j in motif.after), default=0)
            if start < max(ready, waits):
                return f"{where}: motif {k} starts at {start}, and waits until {max(ready, waits)}"
            for resource, part in zip(motif.uses, motif.parts, strict=True):
                row = (start, start + motif.ticks, part, f"{where}, motif {k}")
                busy.setdefault(resource, []).append(row)
        ends.append(max(s + m.ticks for s, m in zip(starts, motifs, strict=True)))
    for resource, rows in busy.items():
        if wrong := _find_overuse(rows, problem.resources[resource]):
            return wrong
    return ""


def _find_overuse(rows: list[_ResourceUse], name: str) -> str:
    """Return a violation of a resource's capacity, with its tick."""
    running: list[_ResourceUse] = []
    for row in sorted(row for row in rows if row[1] > row[0]):
        running = [*(use for use in running if use[1] > row[0]), row]
        shares = sum(use[2] for use in running)
        if shares > FULL_SHARE:
            names = " and ".join(use[3] for use in reversed(running))
            if all(use[2] == FULL_SHARE for use in running):
                return f"{names} both have {name!r} at tick {row[0]}"
            return f"{names} have {shares} of {FULL_SHARE} shares of {name!r} at tick {row[0]}"
    return ""
