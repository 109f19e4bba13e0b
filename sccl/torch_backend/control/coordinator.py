"""Coordinate the two-phase commit of plans: write them, count votes, log and announce decisions.

Source: SYNDICATE (NSDI 2023), section 5, with a different protocol. In the paper all ranks switch
in the iteration after the commit. Here a commit only allows a plan, and the ranks agree by a MIN
all-reduce in which iteration all of them switch
(:mod:`sccl.torch_backend.control.transitions` explains why).

A coordinator makes a *choice* from the votes and writes it to the log in the store. The first
choice in the log is the *decision*, even if another coordinator wrote it, and is then announced. A
coordinator keeps no private state. Another one, or the same one after a restart, continues from the
store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sccl.core.formatting import join_first
from sccl.torch_backend.control.job_stores import DecisionError
from sccl.torch_backend.control.ledger import ABORT, COMMIT, Ledger
from sccl.torch_backend.control.transitions import (
    COORDINATOR_TRANSITIONS,
    CoordinatorEvent,
    CoordinatorState,
)

DEADLINE_S = 60.0
"""Default time in seconds for all ranks to vote."""

_CHOICE_OF_STATE = {CoordinatorState.CHOSE_COMMIT: COMMIT, CoordinatorState.CHOSE_ABORT: ABORT}
_DECISION_OF_STATE = {CoordinatorState.COMMIT_LOGGED: COMMIT, CoordinatorState.ABORT_LOGGED: ABORT}


@dataclass(frozen=True, slots=True)
class Decision:
    """An announced decision on a plan.

    Attributes:
        version: Version of the plan.
        committed: Whether the ranks may switch to it.
        why: Reason of an abort: the rank that refuses the plan, or ranks without a vote in time.
    """

    version: int
    committed: bool
    why: str = ""


class Coordinator:
    """Coordinator of the plans of one job.

    Args:
        ledger: Plans, votes, and decisions in the job's store.
        now: Function that returns the seconds of a monotonic clock.
        audit_file: File to which each decision is appended before its announcement. None: no file.
        deadline_s: Time for all ranks to vote, seconds.
    """

    def __init__(
        self,
        ledger: Ledger,
        now: Callable[[], float],
        *,
        audit_file: Path | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._ledger, self._now, self._audit_file = ledger, now, audit_file
        self._deadline_s = deadline_s
        self._states: dict[int, CoordinatorState] = {}
        self._deadlines: dict[int, float] = {}
        self._reasons: dict[int, str] = {}
        self._digests: dict[int, str] = {}
        self._abandoned: set[int] = set()

    def propose(self, content: bytes) -> int:
        """Write a plan to the store for the vote of the ranks (PREPARE). Return its version.

        Raises:
            ParameterError: The plan is too large.
            StoreError: The store cannot be reached.
        """
        version = self._ledger.write_plan(content)
        self._transition(version, CoordinatorEvent.PROPOSE)
        return version

    def advance(self) -> list[Decision]:
        """Take all possible steps for all plans, and return the announced decisions.

        A plan whose logged decision is invalid, for example not signed, is abandoned. No rank
        switches to it unless all ranks have received a valid commit.

        Raises:
            StoreError: The store cannot be reached.
        """
        decisions = []
        for version in range(1, self._ledger.latest_version() + 1):
            if version in self._abandoned:
                continue
            try:
                decision = self._advance_version(version)
            except DecisionError as error:
                self._abandoned.add(version)
                decision = Decision(version, committed=False, why=str(error))
            if decision is not None:
                decisions.append(decision)
        return decisions

    def _advance_version(self, version: int) -> Decision | None:
        state = self._states.get(version, CoordinatorState.IDLE)
        if state is CoordinatorState.IDLE:
            state = self._recover_state(version)
        if state is CoordinatorState.PROPOSED:
            state = self._count_votes(version)
        if state in _CHOICE_OF_STATE:
            state = self._log_choice(version, _CHOICE_OF_STATE[state])
        if state in _DECISION_OF_STATE:
            return self._announce(version, _DECISION_OF_STATE[state])
        return None

    def _recover_state(self, version: int) -> CoordinatorState:
        """Return the state of a version that another coordinator wrote, from the store."""
        decision = self._ledger.logged_decision(version)
        if decision is None:
            # The vote's deadline also ends a plan whose owner died before it was written.
            return self._transition(version, CoordinatorEvent.RECOVER)
        is_announced = self._ledger.announced_decision(version) is not None
        is_commit = decision == COMMIT
        state = self._transition(
            version,
            CoordinatorEvent.RECOVER_COMMIT if is_commit else CoordinatorEvent.RECOVER_ABORT,
        )
        return self._transition(version, CoordinatorEvent.ANNOUNCE) if is_announced else state

    def _count_votes(self, version: int) -> CoordinatorState:
        """Choose to commit if all ranks vote yes, and to abort on a no or at the deadline."""
        votes = self._ledger.votes(version, self._digest(version))
        refusals = [f"rank {rank}: {vote.why}" for rank, vote in votes.items() if not vote.yes]
        if refusals:
            self._reasons[version] = refusals[0]
        elif len(votes) == self._ledger.ranks:
            return self._transition(version, CoordinatorEvent.ALL_YES)
        elif self._now() >= self._deadlines[version]:
            missing = [str(rank) for rank in range(self._ledger.ranks) if rank not in votes]
            ranks = join_first(missing, 8)
            self._reasons[version] = f"no vote within {self._deadline_s:g} s of rank {ranks}"
        else:
            return self._states[version]
        return self._transition(version, CoordinatorEvent.NOT_ALL_YES)

    def _log_choice(self, version: int, choice: bytes) -> CoordinatorState:
        """Write a choice to the log, and read the decision: the first choice in the log."""
        decision = self._ledger.log_decision(version, choice, self._digest(version))
        has_commit, has_abort = CoordinatorEvent.LOG_HAS_COMMIT, CoordinatorEvent.LOG_HAS_ABORT
        return self._transition(version, has_commit if decision == COMMIT else has_abort)

    def _announce(self, version: int, decision: bytes) -> Decision:
        """Announce a logged decision to the ranks (COMMIT or ABORT)."""
        committed = decision == COMMIT
        why = "" if committed else self._reasons.get(version, "")
        announcement = Decision(version, committed, why)
        if self._audit_file is not None:
            append_decision(self._audit_file, announcement, self._ledger)
        self._ledger.announce_decision(version, decision, self._digest(version))
        self._transition(version, CoordinatorEvent.ANNOUNCE)
        return announcement

    def _digest(self, version: int) -> str:
        """Return the digest of a plan at this coordinator's first read."""
        if not self._digests.get(version):
            self._digests[version] = self._ledger.plan_digest(version)
        return self._digests[version]

    def _transition(self, version: int, event: CoordinatorEvent) -> CoordinatorState:
        state = COORDINATOR_TRANSITIONS[self._states.get(version, CoordinatorState.IDLE), event]
        if state is CoordinatorState.PROPOSED:
            self._deadlines[version] = self._now() + self._deadline_s
        self._states[version] = state
        return state


def append_decision(audit_file: Path, decision: Decision, ledger: Ledger) -> None:
    """Append a decision to a file as a line of JSON, and flush it to the disk."""
    line = {
        "run": ledger.job.run,
        "generation": ledger.job.generation,
        "version": decision.version,
        "decision": "commit" if decision.committed else "abort",
        "why": decision.why,
    }
    with audit_file.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
