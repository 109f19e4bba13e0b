"""Control a running job: propose plans, watch them, plan again, and return to earlier plans.

``sccl train control`` reports the state of a job, and commits plans to it.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol, Self

from sccl.core.cost import format_duration
from sccl.core.files.json_text import parse
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import NonNegative, Part
from sccl.errors import InputError, ScclError, ToolError
from sccl.solvers.process_control import last_line, start_process
from sccl.topo import resolve_topology
from sccl.torch_backend.control.coordinator import Coordinator, Decision
from sccl.torch_backend.control.feedback import (
    FeedbackReader,
    IterationSummary,
    ReplanAdvice,
    ReplanDecision,
    ReplanPolicy,
)
from sccl.torch_backend.control.job_stores import DecisionError, JobStore
from sccl.torch_backend.control.ledger import Ledger, current_ledger
from sccl.torch_backend.script import PlanScript, format_script, parse_script
from sccl.training.files.training_plan_shapes import TrainingPlanWire
from sccl.training.files.training_plans import training_plan_from_wire
from sccl.training.plan_files import load_training_files, training_digests, training_faults
from sccl.training.types.training_plan import TrainingPlan

PLAN_FILE, COSTS_FILE, RESULT_FILE = "plan.json", "costs.csv", "found.json"
"""Files of :mod:`sccl.torch_backend.jobs.replan_worker`: the active plan, measured times of its
motifs, and the new plan.
"""


class ReplanSearch(Protocol):
    """A running search for a plan."""

    def result(self) -> bytes | None:
        """Return the plan. None: not yet. A ScclError has the reason why there is none."""

    def close(self) -> None:
        """End the search."""


SearchFactory = Callable[[bytes, str], ReplanSearch]
"""Function that starts a search from the active plan and a table of measured costs."""


class ReplanProcess:
    """A process of ``sccl.torch_backend.jobs.replan_worker``, with a temporary folder."""

    def __init__(self, plan: bytes, costs: str, seconds: float) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sccl-")
        place = Path(self._folder.name)
        (place / PLAN_FILE).write_bytes(plan)
        if costs.count("\n") > 1:  # there are rows below the header
            (place / COSTS_FILE).write_text(costs, encoding="utf-8")
        self._result_file = place / RESULT_FILE
        self._process = start_process(
            "sccl.torch_backend.jobs.replan_worker",
            self._folder.name,
            seconds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def result(self) -> bytes | None:
        """Return the plan. None: not yet.

        Raises:
            ToolError: The process has ended without a plan.
        """
        if self._process.poll() is None:
            return None
        if self._process.returncode:
            assert self._process.stderr is not None
            raise ToolError(last_line(self._process.stderr.read()))
        return self._result_file.read_bytes()

    def close(self) -> None:
        """End the process, and remove its folder."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


def encode_plan(plan: TrainingPlan) -> bytes:
    """Return the stored form of a plan: its script, with the text of its file.

    Raises:
        ParameterError: No job can follow the plan.
    """
    from sccl.torch_backend.jobs.compile_plan import compile_plan  # noqa: PLC0415 - loads NumPy

    return format_script(compile_plan(plan)).encode()


def encode_no_plan(ranks: int) -> bytes:
    """Return the stored form of no plan, which makes a job continue without one."""
    return format_script(PlanScript(ranks=ranks)).encode()


def decode_plan(content: bytes, where: str) -> TrainingPlan:
    """Return the plan of a stored form.

    Raises:
        InputError: The content is not a plan.
    """
    text = parse_script(content, where).given
    return training_plan_from_wire(parse(text, TrainingPlanWire, where), where, resolve_topology)


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Settings of a controller.

    Attributes:
        deadline_s: Time in seconds for all ranks to vote.
        log: File to which each decision is appended before its announcement. None: no file.
        key: Key of the signatures of plans, votes, and decisions. None: no signatures.
    """

    deadline_s: float
    log: Path | None = None
    key: bytes | None = None


class Controller:
    """Controls the plans of one job, across restarts. Each :meth:`step` returns at once.

    Args:
        store: Store of the job.
        settings: Settings.
        now: Function that returns the seconds of a monotonic clock.
        planner: Function that plans again. None: no new plans from measurements.
        tell: Function that receives events as sentences.
    """

    def __init__(
        self,
        store: JobStore,
        settings: ControlSettings,
        now: Callable[[], float],
        planner: SearchFactory | None,
        tell: Callable[[str], None],
    ) -> None:
        self._store, self._settings, self._now = store, settings, now
        self._planner, self._report = planner, tell
        self._search: ReplanSearch | None = None
        self._begin(current_ledger(store, settings.key))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_search()

    def _begin(self, ledger: Ledger) -> None:
        """Begin with a job or a new generation of it, without the state of the former one."""
        self._stop_search()
        self.ledger = ledger
        settings = self._settings
        self._coordinator = Coordinator(
            ledger,
            self._now,
            audit_file=settings.log,
            deadline_s=settings.deadline_s,
        )
        self._reader, self._policy = FeedbackReader(ledger), ReplanPolicy()
        self._active_plan: bytes | None = None
        self._previous: bytes | None = None
        self._behavior: object = None
        self._started = not ledger.job.plan  # otherwise it adopts the job's first plan later
        self._rollbacks: set[int] = set()
        self._took_us: dict[object, float] = {}  # period of each withdrawn plan, by behavior
        ledger.mark_watched()
        for version in range(1, ledger.latest_version() + 1):
            try:
                committed = ledger.logged_decision(version) == b"commit"
            except DecisionError as error:
                self._report(f"plan {version} is left out: {error}")
                continue
            if committed:
                self._on_adopted(version)

    def propose(self, content: bytes) -> int:
        """Write a plan to the store for the vote of the ranks, and return its version."""
        return self._coordinator.propose(content)

    def step(self) -> list[Decision]:
        """Take all possible steps, and return the decisions.

        Raises:
            StoreError: The store cannot be reached: the job has ended, or continues without it.
        """
        ledger = current_ledger(self._store, self._settings.key)
        if ledger.job != self.ledger.job:
            self._report(f"the job has restarted (generation {ledger.job.generation})")
            self._begin(ledger)
        if not self._started and ledger.has_plan(0):  # a rank writes the plan once it is watched
            self._on_adopted(0)
        if self._planner is not None:
            for seen in self._reader.read():
                self._follow_measurements(seen, self._planner)
            self._start_search()
        decisions = self._coordinator.advance()
        for decision in decisions:
            self._report(format_decision(decision))
            if decision.committed:
                self._on_adopted(decision.version)
        return decisions

    def _on_adopted(self, version: int) -> None:
        try:
            content = self.ledger.read_plan(version)
            if content is None:
                return
            script = parse_script(content, f"plan {version}")
        except InputError as error:  # invalid, although the ranks accepted it
            self._report(f"plan {version} cannot be read here: {error}")
            return
        self._started = True
        self._previous = self._active_plan or encode_no_plan(self.ledger.ranks)
        self._active_plan, self._behavior = content, _script_behavior(script)
        self._policy.on_switch(version, script.period_us or None, back=version in self._rollbacks)

    def _follow_measurements(self, seen: IterationSummary, planner: SearchFactory) -> None:
        advice: ReplanAdvice = self._policy.observe(seen)
        if advice.decision is ReplanDecision.ROLL_BACK and self._previous is not None:
            version = self.propose(self._previous)
            self._rollbacks.add(version)
            self._took_us[self._behavior] = self._policy.measured_us or 0.0
            self._report(f"{advice.reason}: plan {version} returns to the previous plan")
        elif (
            advice.decision is ReplanDecision.REPLAN
            and self._search is None
            and self._active_plan is not None
        ):
            self._report(f"{advice.reason}: planning again")
            self._search = planner(self._active_plan, self._reader.cost_table())

    def _start_search(self) -> None:
        if self._search is None:
            return
        try:
            content = self._search.result()
            if content is None:
                return
            self._evaluate_plan(content)
        except ScclError as error:
            self._report(f"there is no other plan: {error}")
        self._policy.on_replan()
        self._stop_search()

    def _evaluate_plan(self, content: bytes) -> None:
        script = parse_script(content, "the new plan")
        period_us = script.period_us
        claimed = f"a plan with {format_duration(period_us)} per iteration is available"
        if _script_behavior(script) == self._behavior:
            self._report("no plan improves on the active one")
        elif self._policy.improves(
            max(period_us, self._took_us.get(_script_behavior(script), 0.0))
        ):
            self._report(f"{claimed}, and is proposed as plan {self.propose(content)}")
        else:
            self._report(f"{claimed}, which does not justify a switch")

    def _stop_search(self) -> None:
        if self._search is not None:
            self._search.close()
            self._search = None


def _script_behavior(script: PlanScript) -> object:
    """Return the actions of ranks under a script, without measurements and claims."""
    return script.channels, script.ops, script.submits, script.order


def format_decision(decision: Decision) -> str:
    """Return a decision as a sentence."""
    if decision.committed:
        return f"plan {decision.version} is committed: ranks switch at their next agreement"
    why = f": {decision.why}" if decision.why else ""
    return f"plan {decision.version} is aborted{why}"


POLL_S = 0.2
"""Seconds between two steps of the controller."""


class ProposedPart(Part, frozen=True, kw_only=True):
    """A plan that was proposed to a job."""

    version: NonNegative
    decision: Literal["commit", "abort", "open"]
    yes: Annotated[NonNegative, "Ranks that can run it."]
    no: Annotated[NonNegative, "Ranks that cannot."]
    why: Annotated[str, "Reason of the first rank that cannot run it; or empty."]


class OptimizerOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train control'."""

    kind: Literal["optimizer"] = "optimizer"
    run: str
    generation: Annotated[int, "Generation of the job, counted by restarts."]
    ranks: NonNegative
    committed: Annotated[
        bool | None, "Whether the plan of --commit was committed; null: none was given."
    ] = None
    plans: tuple[ProposedPart, ...]
    last: Annotated[IterationSummary | None, "Null: none was reported."] = None


def optimizer_output(
    ledger: Ledger,
    decision: Decision | None = None,
    inputs: dict[str, str] | None = None,
) -> OptimizerOutput:
    """Return the state of a job and its plans.

    Args:
        ledger: Ledger of the job.
        decision: Decision on the plan of ``--commit``. None: no such plan.
        inputs: Digests of input files.

    Raises:
        StoreError: The store cannot be reached.
    """
    seen = FeedbackReader(ledger).read()
    last = seen[-1] if seen else None
    versions = range(1, ledger.latest_version() + 1)
    return build_output(
        OptimizerOutput,
        ledger.job,
        inputs=inputs or {},
        ranks=ledger.ranks,
        committed=None if decision is None else decision.committed,
        plans=(_proposed_part(ledger, version) for version in versions),
        last=last,
    )


def _proposed_part(ledger: Ledger, version: int) -> ProposedPart:
    votes, why = ledger.votes(version), ""
    try:
        logged = ledger.logged_decision(version)
    except DecisionError as error:
        logged, why = None, str(error)
    against = [(rank, vote) for rank, vote in votes.items() if not vote.yes]
    if against and not why:
        why = f"rank {against[0][0]}: {against[0][1].why}"
    return ProposedPart(
        version=version,
        decision="open" if logged is None else "commit" if logged == b"commit" else "abort",
        yes=len(votes) - len(against),
        no=len(against),
        why=why,
    )


def load_plan_to_commit(file: Path) -> tuple[TrainingPlan, dict[str, str]]:
    """Return the verified plan of a file, and its digest.

    Raises:
        InputError: The file is not a plan, or fails verification.
    """
    plans, rest = load_training_files([file])
    if rest or not plans:
        raise InputError(f"{file} is not a training plan: create one with 'sccl train plan'")
    if faults := training_faults(plans[0]):
        raise InputError(
            f"{file}: this plan fails verification: {faults[0].message}; see all with 'sccl check "
            f"{file}'"
        )
    return plans[0].plan, training_digests(plans)


def wait_for_decision(controller: Controller, version: int) -> Decision:
    """Wait for the decision on a version.

    Raises:
        StoreError: The job's store cannot be reached.
    """
    while True:
        for decision in controller.step():
            if decision.version == version:
                return decision
        logged = controller.ledger.logged_decision(version)
        if logged is not None:  # another coordinator has already decided, and announces it
            return Decision(version, logged == b"commit")
        time.sleep(POLL_S)
