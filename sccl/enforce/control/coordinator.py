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

from sccl.enforce.control.ledger import ABORT, COMMIT, Ledger
from sccl.enforce.control.stores import DecisionError
from sccl.enforce.control.transitions import COORDINATOR, CoordinatorEvent, CoordinatorState

DEADLINE_S = 60.0
"""For all ranks to vote."""

_CHOSE = {CoordinatorState.CHOSE_COMMIT: COMMIT, CoordinatorState.CHOSE_ABORT: ABORT}
_LOGGED = {CoordinatorState.COMMIT_LOGGED: COMMIT, CoordinatorState.ABORT_LOGGED: ABORT}


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
        self._until: dict[int, float] = {}
        self._why: dict[int, str] = {}
        self._digests: dict[int, str] = {}
        self._given_up: set[int] = set()

    def propose(self, content: bytes) -> int:
        """Write a plan down for the ranks to vote, and return its version.

        Raises:
            ParameterError: it is too large.
            StoreError: the store cannot be reached.
        """
        version = self._ledger.write_plan(content, self._key)
        self._go(version, CoordinatorEvent.ASK)
        return version

    def look(self) -> list[Decision]:
        """Take all possible steps for all plans, and return the announced decisions.

        A plan with a decision that no coordinator wrote is given up. No rank switches to it unless
        all have received a commit that a coordinator wrote.

        Raises:
            StoreError: The store cannot be reached.
        """
        decisions = []
        for version in range(1, self._ledger.versions() + 1):
            if version in self._given_up:
                continue
            try:
                decision = self._go_on(version)
            except DecisionError as error:
                self._given_up.add(version)
                decision = Decision(version, committed=False, why=str(error))
            if decision is not None:
                decisions.append(decision)
        return decisions

    def _go_on(self, version: int) -> Decision | None:
        state = self._states.get(version, CoordinatorState.IDLE)
        if state is CoordinatorState.IDLE:
            state = self._find(version)
        if state is CoordinatorState.ASKED:
            state = self._count(version)
        if state in _CHOSE:
            state = self._write(version, _CHOSE[state])
        return self._tell(version, _LOGGED[state]) if state in _LOGGED else None

    def open(self) -> list[int]:
        """Return the versions that are not decided, as far as this coordinator knows."""
        over = {CoordinatorState.COMMIT_TOLD, CoordinatorState.ABORT_TOLD}
        return [
            version
            for version, state in self._states.items()
            if state not in over and version not in self._given_up
        ]

    def _find(self, version: int) -> CoordinatorState:
        logged = self._ledger.logged(version, self._key)
        if logged is not None:
            decided = self._ledger.told(version, self._key) is not None
            commit = logged == COMMIT
            event = CoordinatorEvent.FOUND_COMMIT if commit else CoordinatorEvent.FOUND_ABORT
            state = self._go(version, event)
            return self._go(version, CoordinatorEvent.TELL) if decided else state
        # Where a plan never comes, as who took its version has died, time ends that, too.
        return self._go(version, CoordinatorEvent.FOUND)

    def _count(self, version: int) -> CoordinatorState:
        votes = self._ledger.votes(version, self._key, self._digest(version))
        against = [f"rank {rank}: {vote.why}" for rank, vote in votes.items() if not vote.yes]
        if against:
            self._why[version] = against[0]
        elif len(votes) == self._ledger.ranks:
            return self._go(version, CoordinatorEvent.ALL_YES)
        elif self._now() >= self._until[version]:
            missing = [str(rank) for rank in range(self._ledger.ranks) if rank not in votes]
            shown = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
            self._why[version] = f"no vote within {self._deadline_s:g} s of rank {shown}"
        else:
            return self._states[version]
        return self._go(version, CoordinatorEvent.NOT_ALL_YES)

    def _write(self, version: int, choice: bytes) -> CoordinatorState:
        commit = self._ledger.log(version, choice, self._digest(version), self._key) == COMMIT
        has, hasnt = CoordinatorEvent.LOG_HAS_COMMIT, CoordinatorEvent.LOG_HAS_ABORT
        return self._go(version, has if commit else hasnt)

    def _tell(self, version: int, logged: bytes) -> Decision:
        decision = Decision(version, logged == COMMIT, self._why.get(version, ""))
        if decision.committed:
            decision = Decision(version, committed=True)
        if self._log is not None:
            append(self._log, decision, self._ledger)
        self._ledger.tell(version, logged, self._digest(version), self._key)
        self._go(version, CoordinatorEvent.TELL)
        return decision

    def _digest(self, version: int) -> str:
        """Return the digest of a plan as it was when this coordinator first saw it."""
        if not self._digests.get(version):
            self._digests[version] = self._ledger.digest(version, self._key)
        return self._digests[version]

    def _go(self, version: int, event: CoordinatorEvent) -> CoordinatorState:
        state = COORDINATOR[self._states.get(version, CoordinatorState.IDLE), event]
        if state is CoordinatorState.ASKED:
            self._until[version] = self._now() + self._deadline_s
        self._states[version] = state
        return state


def append(log: Path, decision: Decision, ledger: Ledger) -> None:
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
