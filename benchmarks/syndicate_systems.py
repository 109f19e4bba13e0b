"""SYNDICATE's Figures 2, 11, 12, 14 and 15: the systems of its evaluation, on its models.

Current stacks run one collective at a time, each with an option of GPUs alone (section 6.5.1). Here
only FIFO, BS+, HO and S-Sched have this restriction. S-Exec, the published search and ours may use
all channels concurrently.

The paper does not give the teraflops that its models reach. The figure for recommendation models is
the only fitted number: with it, A2 computes for the published fraction of the time under BS+
(Figure 14). Their trainer exchanges no batch ahead, as in Figure 13.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rich.table import Table

from sccl.training.bounds.period_bounds import period_lower_bound
from sccl.training.fabric_names import resolve_fabric
from sccl.training.models import generate_workload
from sccl.training.models.presets import find_preset
from sccl.training.options.option_catalog import OptionSettings, find_options
from sccl.training.plan_summary import covered_ns
from sccl.training.scheduling.plan_search import search_cyclic_plans
from sccl.training.scheduling.policies import POLICIES, RULE_POLICIES, PolicyEffort
from sccl.training.scheduling.steady_state import SteadyState
from sccl.training.scheduling.step_problem import CyclicPlan, find_cyclic_plan_fault
from sccl.training.scheduling.workload_problem import PlanningJob
from sccl.training.timeline import simulate_timeline
from sccl.training.types.fabric import Fabric
from sccl.training.types.training_plan import FULL_LOAD, Option, TrainingPlan
from sccl.training.types.workload import Workload
from sccl.view.charts.step_pictures import RunningPlan, iteration_panel, iteration_start

FIFO, BS, HO, EXEC, SCHED = "FIFO", "BS+", "HO", "S-Exec", "S-Sched"
PUBLISHED, OURS = "published search", "ours"

MODELS = ("A1", "A2", "A3", "A4", "A5", "A6")
SHOWN = "A2"
"""The model that the paper analyzes in detail."""

NODES = (1, 2, 4, 8, 16)
_MOST = NODES[-1]

PARTS = {
    "figure2": ((SHOWN, _MOST),),
    "figure11": tuple((model, _MOST) for model in MODELS),
    "figure12": tuple((SHOWN, nodes) for nodes in NODES),
    "figure14": ((SHOWN, _MOST),),
    "figure15": ((SHOWN, _MOST),),
}
"""Model and number of 8-GPU nodes of each figure."""

_RECOMMENDS = {"tflops": 60.0, "data_prefetch": False}

SECONDS = 2.0
"""Time limit of each search, in seconds."""

_TURN = "one collective at a time"


@dataclass(frozen=True, slots=True)
class SystemResult:
    """The result of one system on one model.

    Attributes:
        nodes: Number of nodes, each with 8 GPUs.
        period_us: Time of an iteration, microseconds.
        bound_us: Lower bound on that time for plans with the same options, microseconds.
        computes: Fraction of the period with computation.
        communicates: Fraction of the period with communication.
        seconds: Processor time of the planner.
        bars: Timeline of an iteration, for :data:`SHOWN` on the largest machine only. Each entry
            has row, kind, begin, end (microseconds), and label, separated by tabs.
    """

    model: str
    nodes: int
    system: str
    period_us: float
    bound_us: float
    computes: float
    communicates: float
    seconds: float
    bars: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Return the model, the nodes and the system, for progress lines."""
        return f"{self.model} on {self.nodes} nodes: {self.system}"


def serialize_options(
    options: Mapping[str, Sequence[Option]], channel: str
) -> dict[str, list[Option]]:
    """Return the options of one channel, each with a load that excludes concurrent collectives.

    Collectives that share a list of options still share one.
    """
    restricted: dict[int, list[Option]] = {}
    for candidates in options.values():
        on_channel = [o for o in candidates if all(motif.channel == channel for motif in o.motifs)]
        restricted.setdefault(
            id(candidates), [_make_exclusive(option) for option in on_channel or candidates[:1]]
        )
    return {name: restricted[id(candidates)] for name, candidates in options.items()}


def _make_exclusive(option: Option) -> Option:
    turn = ((_TURN, FULL_LOAD),)
    return replace(option, motifs=tuple(replace(m, loads=(*m.loads, *turn)) for m in option.motifs))


class Systems:
    """Systems on one workload.

    Args:
        seconds: Time limit of each search, in seconds.
    """

    def __init__(self, workload: Workload, fabric: Fabric, seconds: float) -> None:
        self.workload, self.fabric, self.seconds = workload, fabric, seconds
        options = find_options(workload, fabric, OptionSettings()).by_collective
        self.free = PlanningJob(workload, options)
        self.today = PlanningJob(workload, serialize_options(options, fabric.channels[0].name))

    @cached_property
    def bound(self) -> int:
        """Return the lower bound on the period, in nanoseconds."""
        return period_lower_bound(self.free.problem).value

    def plans(self) -> Iterator[tuple[str, TrainingPlan]]:
        """Yield the plan of each system.

        Raises:
            AssertionError: A plan is invalid.
        """
        yield FIFO, self._policy(self.today, "fifo")
        yield BS, self._policy(self.today, "lifo")
        by_hand = self._policy(self.today, "ho")
        yield HO, by_hand
        yield EXEC, self._policy(self.free, "s-exec")
        yield SCHED, self._order_alone(by_hand)
        yield PUBLISHED, self._policy(self.free, "mcmc")
        yield OURS, self._searched(self.free, RULE_POLICIES)

    def _policy(self, job: PlanningJob, name: str) -> TrainingPlan:
        best = _BestPlan(job)
        POLICIES[name].run(job.problem, PolicyEffort(self.seconds, 0), best.on_plan)
        return self._plan(best, name)

    def _order_alone(self, by_hand: TrainingPlan) -> TrainingPlan:
        """Search the order of HO's options, including starts in earlier iterations."""
        return self._searched(
            PlanningJob(self.workload, {name: (option,) for name, option in by_hand.options}),
            ("ho",),
        )

    def _searched(self, job: PlanningJob, rules: Sequence[str]) -> TrainingPlan:
        best = _BestPlan(job)
        for rule in rules:
            POLICIES[rule].run(job.problem, PolicyEffort(0.0, 0), best.on_plan)
        search_cyclic_plans(job.problem, self.seconds, 0, self.bound, best.on_plan)
        return self._plan(best, "sgs")

    def _plan(self, best: _BestPlan, search: str) -> TrainingPlan:
        plan, state = best.result
        options, order = best.job.export_plan(plan)
        return TrainingPlan(
            workload=self.workload,
            fabric=self.fabric,
            options=options,
            order=order,
            period_ns=state.period,
            bound_ns=self.bound,
            binding="",
            search=search,
        )


class _BestPlan:
    """Best plan so far."""

    def __init__(self, job: PlanningJob) -> None:
        self.job = job
        self._result: tuple[CyclicPlan, SteadyState] | None = None

    @property
    def result(self) -> tuple[CyclicPlan, SteadyState]:
        assert self._result is not None
        return self._result

    def on_plan(self, plan: CyclicPlan, state: SteadyState) -> None:
        assert not find_cyclic_plan_fault(self.job.problem, plan)
        if self._result is None or state.period < self._result[1].period:
            self._result = plan, state


def run(parts: Sequence[str], *, smoke: bool = False) -> Iterator[SystemResult]:
    """Yield the result of each system on the models of some figures, without repetition.

    Raises:
        AssertionError: A plan is invalid, shorter than the bound, or differs from its stated time.
    """
    cases = dict.fromkeys(case for part in parts for case in PARTS[part])
    for model, nodes in list(cases)[: 1 if smoke else None]:
        yield from measure_systems(model, nodes, 0.05 if smoke else SECONDS)


def workload_of(name: str, nodes: int = 0) -> Workload:
    """Return a preset's workload, with the settings for recommendation models.

    Args:
        nodes: Number of nodes of 8 GPUs. 0: as in the preset.
    """
    preset = find_preset(name)
    sizes = {"ranks": 8 * nodes} if nodes else {}
    recommends = _RECOMMENDS if preset.family == "dlrm" else {}
    return generate_workload(preset.family, {**sizes, **recommends}, name).workload


def measure_systems(model: str, nodes: int, seconds: float) -> Iterator[SystemResult]:
    """Yield the result of each system on a model."""
    systems = Systems(workload_of(model, nodes), resolve_fabric(f"hgx2x{nodes}"), seconds)
    begin = time.process_time()
    for system, plan in systems.plans():
        elapsed = time.process_time() - begin
        yield result_of(model, nodes, system, plan, elapsed)
        begin = time.process_time()


def result_of(
    model: str, nodes: int, system: str, plan: TrainingPlan, seconds: float
) -> SystemResult:
    """Return the result of a plan, simulated event by event."""
    timeline = simulate_timeline(plan)
    assert timeline.period_ns == plan.period_ns >= plan.bound_ns
    begin = iteration_start(timeline, timeline.first_periodic)
    until = begin + timeline.period_ns
    computes, communicates = (
        covered_ns((s for s in timeline.spans if s.computes == kind), begin, until) / plan.period_ns
        for kind in (True, False)
    )
    bars: tuple[str, ...] = ()
    if (model, nodes) == (SHOWN, _MOST):
        rows = iteration_panel(RunningPlan(plan, timeline, system))
        shown = [bar for bar in rows.bars if bar.since_us < plan.period_ns / 1000]
        bars = tuple(
            f"{rows.rows[b.row]}\t{b.kind}\t{b.since_us:.3f}\t{b.until_us:.3f}\t{b.label}"
            for b in shown
        )
    return SystemResult(
        model=model,
        nodes=nodes,
        system=system,
        period_us=plan.period_ns / 1000,
        bound_us=plan.bound_ns / 1000,
        computes=computes,
        communicates=communicates,
        seconds=seconds,
        bars=bars,
    )


def systems_table(results: Sequence[SystemResult]) -> Table:
    """Return a table of systems per model: period, speedup over BS+, and busy fractions."""
    table = Table("model", "nodes", "system", title="Systems", title_justify="left")
    for name in ("period, ms", "gap", "BS+ / period", "computes", "communicates", "CPU s"):
        table.add_column(name, justify="right")
    baseline_us = {(r.model, r.nodes): r.period_us for r in results if r.system == BS}
    for r in results:
        baseline = baseline_us.get((r.model, r.nodes), 0.0)
        table.add_row(
            *(r.model, str(r.nodes), r.system, f"{r.period_us / 1000:,.3f}"),
            *(
                f"{r.period_us / r.bound_us - 1:.2%}",
                f"{baseline / r.period_us:.3f}" if baseline else "",
            ),
            *(f"{r.computes:.1%}", f"{r.communicates:.1%}", f"{r.seconds:.1f}"),
        )
    return table
