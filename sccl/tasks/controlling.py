"""Controlling a running job: plans proposed, watched, made again, and taken back."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from sccl.core.cost import duration_text
from sccl.core.files.text import parse
from sccl.core.files.training_plan_shapes import TrainingPlanWire
from sccl.core.files.training_plans import training_plan_of_wire
from sccl.core.training_plan import TrainingPlan
from sccl.enforce.control import (
    Advice,
    Coordinator,
    Decision,
    DecisionError,
    FeedbackReader,
    IterationSeen,
    JobStore,
    Ledger,
    Replanning,
    Wish,
    current,
)
from sccl.enforce.script import PlanScript, script_in, script_text
from sccl.errors import InputError, ScclError, ToolError
from sccl.solvers.processes import last_line, start
from sccl.tasks.scripting import script_of
from sccl.topo import resolve

GIVEN, COSTS, FOUND = "plan.json", "costs.csv", "found.json"
"""Files of ``sccl.tasks.replanned``: the active plan, measured times of its motifs, and the new
plan.
"""


class Planning(Protocol):
    """A plan that is being looked for."""

    def found(self) -> bytes | None:
        """Return the plan. None: not yet. A ScclError says why there will be none."""

    def close(self) -> None:
        """End it."""


Planner = Callable[[bytes, str], Planning]
"""Begins to plan again: what the active plan is of, by a table of costs."""


class PlanningProcess:
    """``sccl.tasks.replanned`` at work, in a folder that ends with it."""

    def __init__(self, plan: bytes, costs: str, seconds: float) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sccl-")
        place = Path(self._folder.name)
        (place / GIVEN).write_bytes(plan)
        if costs.count("\n") > 1:  # more than its head
            (place / COSTS).write_text(costs, encoding="utf-8")
        self._found = place / FOUND
        self._process = start(
            "sccl.tasks.replanned",
            self._folder.name,
            seconds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def found(self) -> bytes | None:
        """Return the plan. None: not yet.

        Raises:
            ToolError: it has ended without one.
        """
        if self._process.poll() is None:
            return None
        if self._process.returncode:
            assert self._process.stderr is not None
            raise ToolError(last_line(self._process.stderr.read()))
        return self._found.read_bytes()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


def content_of(plan: TrainingPlan) -> bytes:
    """Return a plan as it is sent: its script, with the text of its file.

    Raises:
        ParameterError: a job can't be made to keep to it.
    """
    return script_text(script_of(plan)).encode()


def without_plan(ranks: int) -> bytes:
    """Return what is sent for a job to go on without a plan."""
    return script_text(PlanScript(ranks=ranks)).encode()


def plan_in(content: bytes, where: str) -> TrainingPlan:
    """Return the plan that was sent.

    Raises:
        InputError: it is none.
    """
    text = script_in(content, where).given
    return training_plan_of_wire(parse(text, TrainingPlanWire, where), where, resolve)


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """How a job is controlled.

    Attributes:
        deadline_s: for all ranks to vote.
        log: to which decisions are appended before they are told.
        key: with which plans, votes, and decisions are signed.
    """

    deadline_s: float
    log: Path | None = None
    key: bytes | None = None


class Controller:
    """Controls the plans of one job, across restarts. Each :meth:`step` returns at once.

    Args:
        now: Function that returns the seconds of a monotonic clock.
        planner: Function that plans again. None: no new plans from measurements.
        tell: Function that receives events as sentences.
    """

    def __init__(
        self,
        store: JobStore,
        settings: ControlSettings,
        now: Callable[[], float],
        planner: Planner | None,
        tell: Callable[[str], None],
    ) -> None:
        self._store, self._settings, self._now = store, settings, now
        self._planner, self._tell = planner, tell
        self._planning: Planning | None = None
        self._begin(current(store))

    @property
    def key(self) -> bytes | None:
        """Return the key with which plans, votes, and decisions are signed."""
        return self._settings.key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_planning()

    def _begin(self, ledger: Ledger) -> None:
        """Begin with a job, or with its new life: nothing of the former counts."""
        self._end_planning()
        self.ledger = ledger
        settings = self._settings
        self._coordinator = Coordinator(
            ledger, self._now, log=settings.log, key=settings.key, deadline_s=settings.deadline_s
        )
        self._reader, self._rule = FeedbackReader(ledger), Replanning()
        self._active: bytes | None = None
        self._former: bytes | None = None
        self._does: object = None
        self._started = not ledger.job.plan  # then that is what it is started under
        self._back: set[int] = set()
        self._took_us: dict[object, float] = {}  # of plans that were taken back, by what they do
        ledger.watch()
        for version in range(1, ledger.versions() + 1):
            try:
                committed = ledger.logged(version, settings.key) == b"commit"
            except DecisionError as error:
                self._tell(f"plan {version} is left out: {error}")
                continue
            if committed:
                self._took(version)

    def propose(self, content: bytes) -> int:
        """Write a plan down for the ranks to vote, and return its version."""
        return self._coordinator.propose(content)

    def step(self) -> list[Decision]:
        """Take all possible steps, and return the decisions.

        Raises:
            StoreError: The store cannot be reached: the job has ended, or continues without it.
        """
        ledger = current(self._store)
        if ledger.job != self.ledger.job:
            self._tell(f"the job has begun anew (generation {ledger.job.generation})")
            self._begin(ledger)
        if not self._started and ledger.has_plan(0):  # a rank writes it once it is watched
            self._took(0)
        if self._planner is not None:
            for seen in self._reader.read():
                self._follow(seen, self._planner)
            self._plan()
        decisions = self._coordinator.look()
        for decision in decisions:
            self._tell(told_decision(decision))
            if decision.committed:
                self._took(decision.version)
        return decisions

    def _took(self, version: int) -> None:
        try:
            content = self.ledger.read_plan(version, self._settings.key)
            if content is None:
                return
            script = script_in(content, f"plan {version}")
        except InputError as error:  # the ranks have judged it otherwise
            self._tell(f"plan {version} cannot be read here: {error}")
            return
        self._started = True
        self._former = self._active or without_plan(self.ledger.ranks)
        self._active, self._does = content, _does(script)
        self._rule.switched(version, script.period_us or None, back=version in self._back)

    def _follow(self, seen: IterationSeen, planner: Planner) -> None:
        advice: Advice = self._rule.saw(seen)
        if advice.wish is Wish.BACK and self._former is not None:
            version = self.propose(self._former)
            self._back.add(version)
            self._took_us[self._does] = self._rule.measured_us or 0.0
            self._tell(f"{advice.why}: plan {version} returns to the previous plan")
        elif advice.wish is Wish.PLAN and self._planning is None and self._active is not None:
            self._tell(f"{advice.why}: planning anew")
            self._planning = planner(self._active, self._reader.costs())

    def _plan(self) -> None:
        if self._planning is None:
            return
        try:
            content = self._planning.found()
            if content is None:
                return
            self._weigh(content)
        except ScclError as error:
            self._tell(f"there is no other plan: {error}")
        self._rule.planned()
        self._end_planning()

    def _weigh(self, content: bytes) -> None:
        script = script_in(content, "the new plan")
        period_us = script.period_us
        claimed = f"a plan with {duration_text(period_us)} per iteration is available"
        if _does(script) == self._does:
            self._tell("no plan improves on the active one")
        elif self._rule.worth(max(period_us, self._took_us.get(_does(script), 0.0))):
            self._tell(f"{claimed}, and is proposed as plan {self.propose(content)}")
        else:
            self._tell(f"{claimed}, which is not worth a switch")

    def _end_planning(self) -> None:
        if self._planning is not None:
            self._planning.close()
            self._planning = None


def _does(script: PlanScript) -> object:
    """Return the actions of ranks under a script, without measurements and claims."""
    return script.channels, script.ops, script.submits, script.order


def told_decision(decision: Decision) -> str:
    """Return a decision as a sentence."""
    if decision.committed:
        return f"plan {decision.version} is committed: ranks switch at their next agreement"
    why = f": {decision.why}" if decision.why else ""
    return f"plan {decision.version} is aborted{why}"
