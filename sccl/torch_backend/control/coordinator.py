"""Coordinate plans: write them, count votes, log decisions, and announce them.

A coordinator keeps no private state. Another one, or the same one after a restart, continues from
the store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sccl.torch_backend.control.job_stores import DecisionError
from sccl.torch_backend.control.ledger import ABORT, COMMIT, Ledger
from sccl.torch_backend.control.transitions import (
    COORDINATOR_TRANSITIONS,
    CoordinatorEvent,
    CoordinatorState,
)

DEADLINE_S = 60.0
"""For all ranks to vote."""

_CHOICE_OF_STATE = {CoordinatorState.CHOSE_COMMIT: COMMIT, CoordinatorState.CHOSE_ABORT: ABORT}
_LOGGED_DECISIONS = {CoordinatorState.COMMIT_LOGGED: COMMIT, CoordinatorState.ABORT_LOGGED: ABORT}


@dataclass(frozen=True, slots=True)
class Decision:
    """An announced decision on a plan.

    Attributes:
        why: For an abort: the rank that refuses it, or that some have not voted in time.
    """

    version: int
    committed: bool
    why: str = ""


class Coordinator:
    """Looks after the plans of one job.

    Args:
        now: seconds of a clock that never goes back.
        log: a file to which each decision is appended before it is told. None: none.
        key: with which plans, votes and decisions are signed.
    """

    def __init__(
        self,
        ledger: Ledger,
        now: Callable[[], float],
        *,
        log: Path | None = None,
        key: bytes | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._ledger, self._now, self._log, self._key = ledger, now, log, key
        self._deadline_s = deadline_s
        self._states: dict[int, CoordinatorState] = {}
        self._deadlines: dict[int, float] = {}
        self._reasons: dict[int, str] = {}
        self._digests: dict[int, str] = {}
        self._abandoned: set[int] = set()

    def propose(self, content: bytes) -> int:
        """Write a plan down for the ranks to vote, and return its version.

        Raises:
            ParameterError: it is too large.
            StoreError: the store cannot be reached.
        """
        version = self._ledger.write_plan(content, self._key)
        self._transition(version, CoordinatorEvent.PROPOSE)
        return version

    def advance(self) -> list[Decision]:
        """Take all possible steps for all plans, and return the announced decisions.

        A plan with a decision that no coordinator wrote is given up. No rank switches to it unless
        all have received a commit that a coordinator wrote.

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
            state = self._find_state(version)
        if state is CoordinatorState.PROPOSED:
            state = self._count_votes(version)
        if state in _CHOICE_OF_STATE:
            state = self._write_choice(version, _CHOICE_OF_STATE[state])
        return (
            self._announce(version, _LOGGED_DECISIONS[state])
            if state in _LOGGED_DECISIONS
            else None
        )

    def open_versions(self) -> list[int]:
        """Return the versions that are not decided, as far as this coordinator knows."""
        over = {CoordinatorState.COMMIT_ANNOUNCED, CoordinatorState.ABORT_ANNOUNCED}
        return [
            version
            for version, state in self._states.items()
            if state not in over and version not in self._abandoned
        ]

    def _find_state(self, version: int) -> CoordinatorState:
        logged = self._ledger.logged_decision(version, self._key)
        if logged is not None:
            decided = self._ledger.announced_decision(version, self._key) is not None
            commit = logged == COMMIT
            event = CoordinatorEvent.FOUND_COMMIT if commit else CoordinatorEvent.FOUND_ABORT
            state = self._transition(version, event)
            return self._transition(version, CoordinatorEvent.ANNOUNCE) if decided else state
        # A plan may never come, because its owner died, so a time limit ends that, too.
        return self._transition(version, CoordinatorEvent.FOUND)

    def _count_votes(self, version: int) -> CoordinatorState:
        votes = self._ledger.votes(version, self._key, self._digest(version))
        against = [f"rank {rank}: {vote.why}" for rank, vote in votes.items() if not vote.yes]
        if against:
            self._reasons[version] = against[0]
        elif len(votes) == self._ledger.ranks:
            return self._transition(version, CoordinatorEvent.ALL_YES)
        elif self._now() >= self._deadlines[version]:
            missing = [str(rank) for rank in range(self._ledger.ranks) if rank not in votes]
            shown = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
            self._reasons[version] = f"no vote within {self._deadline_s:g} s of rank {shown}"
        else:
            return self._states[version]
        return self._transition(version, CoordinatorEvent.NOT_ALL_YES)

    def _write_choice(self, version: int, choice: bytes) -> CoordinatorState:
        commit = (
            self._ledger.log_decision(version, choice, self._digest(version), self._key) == COMMIT
        )
        has, hasnt = CoordinatorEvent.LOG_HAS_COMMIT, CoordinatorEvent.LOG_HAS_ABORT
        return self._transition(version, has if commit else hasnt)

    def _announce(self, version: int, logged: bytes) -> Decision:
        decision = Decision(version, logged == COMMIT, self._reasons.get(version, ""))
        if decision.committed:
            decision = Decision(version, committed=True)
        if self._log is not None:
            append_decision(self._log, decision, self._ledger)
        self._ledger.announce_decision(version, logged, self._digest(version), self._key)
        self._transition(version, CoordinatorEvent.ANNOUNCE)
        return decision

    def _digest(self, version: int) -> str:
        """Return the digest of a plan as it was when this coordinator first saw it."""
        if not self._digests.get(version):
            self._digests[version] = self._ledger.plan_digest(version, self._key)
        return self._digests[version]

    def _transition(self, version: int, event: CoordinatorEvent) -> CoordinatorState:
        state = COORDINATOR_TRANSITIONS[self._states.get(version, CoordinatorState.IDLE), event]
        if state is CoordinatorState.PROPOSED:
            self._deadlines[version] = self._now() + self._deadline_s
        self._states[version] = state
        return state


def append_decision(log: Path, decision: Decision, ledger: Ledger) -> None:
    """Append a decision to a file, as a line of JSON that is on the disk when this returns."""
    line = {
        "run": ledger.job.run,
        "generation": ledger.job.generation,
        "version": decision.version,
        "decision": "commit" if decision.committed else "abort",
        "why": decision.why,
    }
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
