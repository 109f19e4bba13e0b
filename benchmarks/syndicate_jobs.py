"""SYNDICATE's tables of whole jobs: every search on the same options, with one lower bound.

``moe``: 200 collectives on 32 GPUs, at three speeds of computation. ``scale``: 1,248 collectives on
512 GPUs. ``models``: presets of A1 to A6 from the paper's evaluation (Figures 11, 12, 14 and 15).
``beside``: an allreduce and an alltoall on one machine, with and without options that use the
remaining capacity of a channel.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from sccl.training.bounds.period_bounds import period_lower_bound
from sccl.training.fabric_names import resolve_fabric
from sccl.training.models import generate_workload
from sccl.training.models.presets import find_preset
from sccl.training.options.motif_costs import build_motif_planner
from sccl.training.options.option_catalog import OptionSettings, find_options
from sccl.training.scheduling.plan_search import search_cyclic_plans
from sccl.training.scheduling.policies import POLICIES, RULE_POLICIES, PolicyEffort
from sccl.training.scheduling.steady_state import SteadyState, find_steady_state
from sccl.training.scheduling.step_problem import CyclicPlan, find_cyclic_plan_fault
from sccl.training.scheduling.workload_problem import PlanningJob
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import CommOp, HostAction, HostEvent, HostProgram, Role

PARTS = {
    "moe": ("moe-156", "moe-600", "moe-1500"),
    "scale": ("moe-512",),
    "models": ("A1", "A2", "A3", "A4", "A5", "A6"),
    "beside": (
        "dgx1-pcie 1 1",
        "dgx1-pcie 16 16",
        "dgx1-pcie 64 16",
        "hgx2 1 1",
        "hgx2 64 16",
        "hgx2x2 64 16",
    ),
}
"""Presets. For ``beside``: a fabric, then MiB of the allreduce and of the alltoall."""

SMOKE: dict[str, tuple[str, dict[str, int]]] = {
    "moe": ("moe-156", {"layers": 4}),
    "scale": ("moe-512", {"layers": 2, "dp": 64}),
    "models": ("A1", {}),
    "beside": ("hgx2 1 1", {}),
}
"""Jobs of ``--smoke``, with smaller parameters. Bounds for 512 GPUs alone take most of a minute."""

SECONDS = 10.0
"""Time limit of each search, in seconds."""

OURS = "sgs"


@dataclass(frozen=True, slots=True)
class JobResult:
    """Result of a search on a job.

    Attributes:
        part: Key of :data:`PARTS`.
        job: Preset.
        search: Name of the search. ``options and bound``: the preparation that all searches share.
        collectives: Number of collectives in the job.
        period_us: Time from an iteration to the next, in microseconds.
        bound_us: Lower bound on the period over all plans with the same options, in microseconds.
        binds: Constraint that gives the bound.
        idle: Fraction of the period in which the busiest computation stream is idle.
        seconds: Processor time.
    """

    part: str
    job: str
    search: str
    collectives: int
    period_us: float
    bound_us: float
    binds: str
    idle: float
    seconds: float

    @property
    def label(self) -> str:
        """Return the job and the search, for progress lines."""
        return f"{self.job}: {self.search}"


def run(parts: Sequence[str], *, smoke: bool = False) -> Iterator[JobResult]:
    """Yield the result of each search on each job.

    Raises:
        AssertionError: A plan is invalid, or shorter than the bound.
    """
    for part in parts:
        for job, changes in (SMOKE[part],) if smoke else [(job, {}) for job in PARTS[part]]:
            seconds = 0.1 if smoke else SECONDS
            if part == "beside":
                yield from _compare_complements(job, seconds)
            else:
                yield from _job(part, job, _workload(job, changes), seconds)


def _compare_complements(job: str, seconds: float) -> Iterator[JobResult]:
    """Yield results for two collectives over all ranks, without and with complements."""
    name, reduced, exchanged = job.split()
    fabric = resolve_fabric(name)
    ranks = tuple(range(fabric.ranks))
    ops = (
        CommOp("gradients", "allreduce", ranks, int(reduced) * 2**18, "float32", reduce="sum"),
        CommOp("tokens", "alltoall", ranks, int(exchanged) * 2**18, "float32"),
    )
    host = HostProgram("all", tuple(HostEvent(HostAction.SUBMIT, op.id) for op in ops))
    workload = Workload("two", len(ranks), (Role("all", ranks),), ops, (), (host,))
    for complementary in (False, True):
        begin = time.process_time()
        settings = OptionSettings(planner=build_motif_planner(), complementary=complementary)
        problem = PlanningJob(
            workload, find_options(workload, fabric, settings).by_collective
        ).problem
        bound = period_lower_bound(problem)
        best: list[int] = []

        def on_plan(_: CyclicPlan, run: SteadyState, best: list[int] = best) -> None:
            best[:] = [min([run.period, *best])]

        for rule in RULE_POLICIES:
            POLICIES[rule].run(problem, PolicyEffort(0.0, 0), on_plan)
        search_cyclic_plans(problem, seconds, 0, bound.value, on_plan)
        search = "complements, too" if complementary else "no complements"
        yield JobResult(
            *("beside", job, search, 2, best[0] / 1000, bound.value / 1000, bound.proof.kind),
            *(0.0, time.process_time() - begin),
        )


def _job(part: str, name: str, workload: Workload, seconds: float) -> Iterator[JobResult]:
    begin = time.process_time()
    options = find_options(
        workload, resolve_fabric(f"hgx2x{-(-workload.ranks // 8)}"), OptionSettings()
    )
    problem = PlanningJob(workload, options.by_collective).problem
    bound = period_lower_bound(problem)
    count = sum(1 for _ in workload.collectives())
    stream = max(computing(workload).values(), default=0.0)

    def result(search: str, period: int, elapsed: float) -> JobResult:
        idle = max(0.0, 1 - stream / (period / 1000)) if period else 0.0
        return JobResult(
            *(part, name, search, count, period / 1000, bound.value / 1000, bound.proof.kind),
            *(idle, elapsed),
        )

    yield result("options and bound", bound.value, time.process_time() - begin)
    for search in (*POLICIES, OURS):
        best: list[int] = []

        def on_plan(plan: CyclicPlan, state: SteadyState, best: list[int] = best) -> None:
            assert not find_cyclic_plan_fault(problem, plan)
            assert find_steady_state(problem, plan).period == state.period >= bound.value
            best[:] = [min([state.period, *best])]

        begin = time.process_time()
        if search == OURS:
            for rule in RULE_POLICIES:
                POLICIES[rule].run(problem, PolicyEffort(0.0, 0), on_plan)
            search_cyclic_plans(problem, seconds, 0, bound.value, on_plan)
        else:
            POLICIES[search].run(problem, PolicyEffort(seconds, 0, bound.value), on_plan)
        yield result(search, best[0], time.process_time() - begin)


def _workload(name: str, changes: Mapping[str, int]) -> Workload:
    return generate_workload(find_preset(name).family, changes, name).workload


def computing(workload: Workload) -> dict[str, float]:
    """Return the computation time of each stream per iteration, in microseconds."""
    times: dict[str, float] = {}
    for op in workload.computation():
        key = f"{op.role}: {op.stream}"
        times[key] = times.get(key, 0.0) + op.duration_us
    return times


def jobs_table(results: Sequence[JobResult]) -> Table:
    """Return a table of the searches per job: period, gap and processor time."""
    table = Table("job", "search", title="Whole jobs", title_justify="left")
    for name in ("collectives", "period, ms", "gap", "BS+ / period", "idle", "CPU s"):
        table.add_column(name, justify="right")
    lifo = {r.job: r.period_us for r in results if r.search == "lifo"}
    for r in results:
        faster = f"{lifo[r.job] / r.period_us:.2f}" if r.job in lifo and r.period_us else ""
        above = f"{r.period_us / r.bound_us - 1:.2%}" if r.bound_us else ""
        table.add_row(
            r.job,
            r.search,
            str(r.collectives),
            f"{r.period_us / 1000:,.3f}",
            r.binds if r.search == "options and bound" else above,
            faster,
            f"{r.idle:.1%}",
            f"{r.seconds:.1f}",
        )
    return table
