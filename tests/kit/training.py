"""Random workloads with options of their collectives, and plans of them."""

from __future__ import annotations

import random

from sccl.errors import InputError
from sccl.training.fabric_names import resolve_fabric
from sccl.training.scheduling.step_problem import CyclicPlan, CyclicProblem
from sccl.training.scheduling.workload_problem import PlanningJob
from sccl.training.types.training_plan import Option, OptionMotif, TrainingPlan
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import (
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)

RESOURCES = ("gpu: links", "cpu: links")


def random_job(seed: int, options: int = 1) -> PlanningJob | None:
    """Draw a job of a few operations on two streams, or None if its waits form a cycle.

    Args:
        options: Maximum number of options of each collective.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    computed = rng.randint(2, 6)
    calls = [f"m{k}" for k in range(rng.randint(1, 6))]
    ops: list[ComputeOp | CommOp] = [
        ComputeOp(f"c{k}", "all", rng.choice("sst"), float(rng.randint(0, 9)))
        for k in range(computed)
    ]
    ops += [CommOp(name, "allreduce", (0, 1), 10, "float32", reduce="sum") for name in calls]
    deps: dict[Dependency, None] = {}
    for name in calls:
        if rng.random() < 0.8:
            lag = rng.choice((0, 0, 0, 1))
            deps[Dependency(f"c{rng.randrange(computed)}", name, lag)] = None
        if rng.random() < 0.7:
            lag = rng.choice((0, 0, 1, 1, 2))
            deps[Dependency(name, f"c{rng.randrange(computed)}", lag)] = None
    events = tuple(HostEvent(HostAction.SUBMIT, name) for name in calls)
    try:
        workload = Workload(
            name="drawn",
            ranks=2,
            roles=(Role("all", (0, 1)),),
            ops=tuple(ops),
            deps=tuple(deps),
            submits=(HostProgram("all", events),),
        )
        job = PlanningJob(
            workload,
            {
                name: tuple(_option(rng, k) for k in range(rng.randint(1, options)))
                for name in calls
            },
        )
        assert job.problem.step.ops
    except InputError:
        return None
    return job


def _option(rng: random.Random, number: int) -> Option:
    motifs: list[OptionMotif] = []
    for _ in range(rng.randint(1, 3)):
        loads = tuple(
            (name, 100 * rng.randint(1, 10)) for name in sorted(RESOURCES) if rng.random() < 0.7
        )
        after = tuple(k for k in range(len(motifs)) if rng.random() < 0.4)
        motifs.append(OptionMotif("gpu", "ring", 1000 * rng.randint(0, 9), loads, after))
    return Option("whole" if number == 0 else f"seg({number + 1})", tuple(motifs))


def random_plan(problem: CyclicProblem, seed: int) -> CyclicPlan | None:
    """Draw options, shifts and an order without waits for later operations, or None by chance.

    Computations belong to the window's own iteration, collectives to that or to the next.
    """
    rng, ops = random.Random(seed), problem.step.ops  # noqa: S311 - no secret
    shifts = [int(op.communicates and rng.random() < 0.4) for op in ops]
    if any(lag + shifts[a] - shifts[b] < 0 for a, b, lag in problem.waits):
        shifts = [0] * len(ops)
    options = [rng.randrange(len(op.options)) for op in ops]
    waits = {
        (op, k): {(op, j) for j in motif.after}
        for op in range(len(ops))
        for k, motif in enumerate(ops[op].options[options[op]].motifs)
    }
    for before, after, lag in problem.waits:
        if lag + shifts[before] - shifts[after] == 0:
            own = {item for item in waits if item[0] == before}
            for item in waits:
                if item[0] == after:
                    waits[item] |= own
    order: list[tuple[int, int]] = []
    while len(order) < len(waits):
        ready = sorted(i for i in waits if i not in order and waits[i] <= set(order))
        if not ready:
            return None
        order.append(rng.choice(ready))
    return CyclicPlan(tuple(options), tuple(order), tuple(shifts[op] for op, _ in order))


def training_plan(job: PlanningJob, plan: CyclicPlan, period: int) -> TrainingPlan:
    """Return a plan as a training plan, which claims a period."""
    options, order = job.export_plan(plan)
    fabric = resolve_fabric("hgx2")
    return TrainingPlan(job.workload, fabric, options, order, period, 0, "none", "drawn")


def random_training_plan(seed: int) -> TrainingPlan | None:
    """Draw a plan without claims, or None by chance."""
    job = random_job(seed, 3)
    plan = None if job is None else random_plan(job.problem, seed)
    return None if job is None or plan is None else training_plan(job, plan, 0)
