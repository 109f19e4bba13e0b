"""Plan workloads on fabrics: options, problem, bounds, and search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.bound import require_at_least_bound
from sccl.core.files.outputs import copy_fields
from sccl.errors import ParameterError, unknown_name
from sccl.solvers.effort import UNIT_S, Effort
from sccl.training.bounds.period_bounds import STRETCH_EFFORT, period_lower_bound
from sccl.training.options.measured_costs import CostTable
from sccl.training.options.motif_costs import MotifPlanner
from sccl.training.options.option_catalog import OptionCatalog, OptionSettings
from sccl.training.scheduling.plan_search import (
    refuse_large_problem,
    search_by_cpsat,
    search_cyclic_plans,
)
from sccl.training.scheduling.policies import (
    POLICIES,
    RULE_POLICIES,
    PolicyEffort,
    plan_in_submission_order,
)
from sccl.training.scheduling.steady_state import SteadyState, find_steady_state
from sccl.training.scheduling.step_problem import CyclicPlan, CyclicProblem
from sccl.training.scheduling.workload_problem import PlanningJob
from sccl.training.timeline import has_interference, simulate_timeline
from sccl.training.types.fabric import Fabric
from sccl.training.types.training_plan import TrainingPlan
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import MAX_ELEMENTS

StageCallback = Callable[[str, int | None, int | None], None]
"""Function that receives progress, and the current period and bound in nanoseconds."""

_BOUND_SHARE = 0.25
"""Largest share of the budget for bounds, and smallest share for the search."""

SERIAL = "sgs"
EXACT = "exact"
SEARCHES = (SERIAL, EXACT, *POLICIES)
SEARCH_DESCRIPTIONS = {
    SERIAL: "options and order together, by serial generation and annealing, over several windows",
    EXACT: "small steps by CP-SAT alone: all starts of a period, then windows",
    **{name: policy.about for name, policy in POLICIES.items()},
}


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Settings of a plan's search.

    Attributes:
        search: One of :data:`SEARCHES`.
        seconds: Approximate budget, which does not depend on the machine. Options are always
            derived completely. Bounds have at most a quarter for CP-SAT. The search has the rest,
            at least a quarter, and the same again if collectives may be merged.
        max_motifs: Largest number of parts of a collective.
        memory_bytes: Limit for held results. 0: none.
        bitwise: Whether collectives keep their order of reduction.
        measured: Measured times instead of modeled ones.
        planner: Planner of schedules for small machines with links between ranks. None: none.
        merge_bytes: Largest size of collectives that may be merged. 0: none.

    Raises:
        ParameterError: A value is out of range.
        UnknownNameError: There is no such search.
    """

    search: str = "sgs"
    seconds: float = 10.0
    seed: int = 0
    max_motifs: int = 16
    memory_bytes: int = 0
    bitwise: bool = False
    measured: CostTable | None = None
    planner: MotifPlanner | None = None
    merge_bytes: int = 0

    def __post_init__(self) -> None:
        if self.search not in SEARCHES:
            raise unknown_name("search", self.search, SEARCHES, f"expected {', '.join(SEARCHES)}")
        if not 0 <= self.seconds <= 1e6:
            raise ParameterError(f"seconds is {self.seconds:g}, expected 0 to 1000000")
        if not 1 <= self.max_motifs <= 1024:
            raise ParameterError(f"max_motifs is {self.max_motifs}, expected 1 to 1024")
        if not 0 <= self.merge_bytes <= MAX_ELEMENTS:
            raise ParameterError(f"merge_bytes is {self.merge_bytes}, expected 0 to {MAX_ELEMENTS}")

    @property
    def option_settings(self) -> OptionSettings:
        """Return the settings of the offered options."""
        return copy_fields(OptionSettings, self)

    @property
    def costs(self) -> str:
        """Return the digest of the table of measured times. Empty: times are modeled."""
        return "" if self.measured is None else self.measured.digest

    @property
    def planned_by(self) -> str:
        """Return the name of the synthesizer that plans motifs. Empty: none."""
        return "" if self.planner is None else self.planner.name


def check_bound_holds(plan: TrainingPlan) -> TrainingPlan:
    """Return the plan, unless its period is below its lower bound.

    Raises:
        ContradictionError: The period is below the lower bound.
    """
    require_at_least_bound(
        Fraction(plan.period_ns, 1000),
        Fraction(plan.bound_ns, 1000),
        result=f"the period of a plan of {plan.workload.name} by {plan.search}",
        limit=f"the lower bound on the period ({plan.binding})",
        unit="us",
    )
    return plan


class Planner:
    """A search for a plan.

    Attributes:
        best: Best plan so far, and its period in nanoseconds. None: no plan.
        baseline_ns: Period if ops are issued in the order of submission with their fastest options.
        bound_ns: Lower bound on the period.
        binding: Constraint that gives the bound.
        book: Options of collectives. None: not derived yet.
    """

    def __init__(  # noqa: PLR0913 - independent inputs
        self,
        workload: Workload,
        fabric: Fabric,
        settings: PlanSettings,
        notify: StageCallback = lambda *_: None,
        *,
        book: OptionCatalog | None = None,
        bound_ns: int | None = None,
    ) -> None:
        """Prepare a search.

        Args:
            book: Options of collectives. None: derive them.
            bound_ns: Lower bound on the period. None: compute it.
        """
        self.book, self._bounded = book, bound_ns is not None
        self.workload, self.fabric, self.settings, self._on_progress = (
            workload,
            fabric,
            settings,
            notify,
        )
        self.best: tuple[CyclicPlan, int] | None = None
        self._baseline: tuple[CyclicPlan, int] | None = None
        self.baseline_ns, self.bound_ns, self.binding = 0, bound_ns or 0, ""
        self._job: PlanningJob | None = None
        self._left = settings.seconds

    def run(self) -> None:
        """Search for a plan.

        After an interrupt, the best plan so far remains, at least the baseline.

        Raises:
            InputError: The workload does not fit the fabric, an operation has no option, or there
                are too many of them for CP-SAT alone.
            KeyboardInterrupt: The user interrupted.
        """
        try:
            self.prepare()
            self.search(self.settings.search, self._left)
        except KeyboardInterrupt:
            self.best = self.best or self._baseline
            raise

    def prepare(self) -> None:
        """Derive options, the baseline, and a lower bound on the period.

        Raises:
            InputError: The workload does not fit the fabric, or an operation has no option.
            KeyboardInterrupt: The user interrupted.
        """
        asked = self.settings
        if self.book is None:
            self.book = OptionCatalog(
                self.workload, self.fabric, asked.option_settings, self._report_progress
            )
        options = self.book.job_options(self.workload.collectives())
        self._job = PlanningJob(self.workload, options.by_collective, asked.memory_bytes)
        if asked.search == EXACT:
            refuse_large_problem(
                self._job.problem
            )  # before bounds, which are slow for large problems
        baseline = plan_in_submission_order(self._job.problem)
        repetition = find_steady_state(self._job.problem, baseline)
        self.baseline_ns = self._period_of(baseline, repetition)
        self._baseline = baseline, self.baseline_ns
        if asked.search == SERIAL:
            self._record_plan(baseline, repetition)
        if not self._bounded:
            self._report_progress("bounds")
            self._raise_bound(self._job.problem)
        spent = options.seconds + self._bound_effort_units * UNIT_S
        self._left = max(asked.seconds - spent, asked.seconds * _BOUND_SHARE)

    def search(self, name: str, seconds: float) -> None:
        """Search for plans by one of :data:`SEARCHES`, after :meth:`prepare`.

        Args:
            name: Name of the search.
            seconds: Approximate budget.

        Raises:
            ParameterError: There are too many options for CP-SAT alone.
            KeyboardInterrupt: The user interrupted.
        """
        assert self._job is not None
        problem, asked = self._job.problem, self.settings
        if name == SERIAL:
            effort = PolicyEffort(0.0, asked.seed)
            for policy in RULE_POLICIES:
                POLICIES[policy].run(problem, effort, self._record_plan)
            target = self.bound_ns
            search_cyclic_plans(
                problem, seconds, asked.seed, target, self._record_plan, self._report_bound
            )
        elif name == EXACT:
            target = self.bound_ns
            search_by_cpsat(
                problem, seconds, asked.seed, target, self._record_plan, self._report_bound
            )
        else:
            effort = PolicyEffort(seconds, asked.seed, self.bound_ns)
            POLICIES[name].run(problem, effort, self._record_plan)

    @property
    def _bound_effort_units(self) -> float:
        return min(STRETCH_EFFORT.units or 0.0, self.settings.seconds * _BOUND_SHARE / UNIT_S)

    def _raise_bound(self, problem: CyclicProblem) -> None:
        """Set the lower bound to that of a problem whose plans include all searched plans."""
        bound = period_lower_bound(problem, Effort(units=self._bound_effort_units))
        self.bound_ns, self.binding = bound.value, bound.proof.kind

    def plan(self) -> TrainingPlan:
        """Return the best plan that was found.

        Raises:
            ContradictionError: The period is below the lower bound.
        """
        assert self.best is not None
        return check_bound_holds(self._build_training_plan(*self.best))

    def _build_training_plan(self, plan: CyclicPlan, period_ns: int) -> TrainingPlan:
        assert self._job is not None
        options, order = self._job.export_plan(plan)
        return copy_fields(
            TrainingPlan,
            self.settings,
            workload=self.workload,
            fabric=self.fabric,
            options=options,
            order=order,
            period_ns=period_ns,
            bound_ns=self.bound_ns,
            binding=self.binding,
            merge_bytes=0,
        )

    def _report_bound(self, ticks: int) -> None:
        if self.best is not None:
            period = self.best[1]
            if not has_interference(self.fabric):
                period = min(ticks, period)
            self._on_progress("searching", period, self.bound_ns or None)

    def _report_progress(self, stage: str) -> None:
        self._on_progress(stage, None, None)

    def _record_plan(self, plan: CyclicPlan, repetition: SteadyState) -> None:
        if self.best is None or repetition.period < self.best[1]:
            period = self._period_of(plan, repetition)
            if self.best is None or period < self.best[1]:
                self.best = plan, period
        self._on_progress("searching", self.best[1], self.bound_ns or None)

    def _period_of(self, plan: CyclicPlan, repetition: SteadyState) -> int:
        """Return the period of a plan, including the slowdown of computations by channels.

        Searches ignore this slowdown.
        """
        if not has_interference(self.fabric):
            return repetition.period
        return simulate_timeline(self._build_training_plan(plan, repetition.period)).period_ns
