"""Represent a rank in the change to another plan: vote, receive decisions, and switch."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from sccl.errors import InputError, ScclError
from sccl.torch_backend.control.job_stores import StoreError
from sccl.torch_backend.control.ledger import COMMIT, Ledger, RankVote
from sccl.torch_backend.control.transitions import (
    CONTRIBUTED_STATES,
    RANK_TRANSITIONS,
    RETAINED_STATES,
    RankEvent,
    RankState,
    Vote,
)

P = TypeVar("P")

_SELDOM_S, _LAST_S = 30.0, 5.0

_FINAL = frozenset({RankState.REFUSED, RankState.ABORTED, RankState.ACTIVE, RankState.PAST})
_DECIDED = _FINAL | {RankState.COMMITTED}

_SLOTS = 8
"""Versions that a rank contributes at a time, by their remainders: the highest of each."""

CONTRIBUTION_SIZE = 2 * _SLOTS
"""Numbers that a rank contributes to an agreement."""


class Follower(Generic[P]):
    """The plans that a rank knows. A thread listens, and the job's thread asks at boundaries.

    Args:
        fit: Function that reads a plan with its version, and decides whether this rank can run it.
            An InputError has the reason if not. None: not known yet, ask again.
        key: Key of signatures of plans, decisions, and votes. None: no signatures.
        drop: Function that receives each plan that is no longer kept.
    """

    def __init__(
        self,
        ledger: Ledger,
        rank: int,
        fit: Callable[[bytes, int], P | None],
        key: bytes | None = None,
        drop: Callable[[P], None] = lambda _: None,
    ) -> None:
        self._ledger, self._rank, self._prepare_plan, self._key = ledger, rank, fit, key
        self._discard_plan = drop
        self._lock = threading.Lock()
        self._states: dict[int, RankState] = {}
        self._plans: dict[int, P] = {}
        self._read: dict[int, bytes] = {}  # of which it is not known yet
        self._digests: dict[int, str] = {}
        self._unsent: dict[int, RankVote] = {}
        self._settled = 0
        self.active = 0

    def listen(self) -> None:
        """Read the store once: vote on new plans, and receive decisions.

        A vote that cannot be written is written the next time.

        Raises:
            StoreError: The store cannot be reached, or has invalid content. Then this rank
                continues under its plan, and so do all others, because it contributes no other.
        """
        self._send_votes()
        wrong: StoreError | None = None
        for version in range(self._settled + 1, self._ledger.latest_version() + 1):
            try:
                self._follow(version)
            except StoreError as error:  # other versions may be in order
                wrong = wrong or error
        with self._lock:
            while self._states.get(self._settled + 1) in _FINAL:
                self._settled += 1
        if wrong is not None:
            raise wrong

    def _follow(self, version: int) -> None:
        state = self._states.get(version, RankState.UNKNOWN)
        if state is RankState.UNKNOWN:
            self._prepare(version)
        if state in _DECIDED:
            return
        decision = self._ledger.announced_decision(
            version, self._key, self._digests.get(version, "")
        )
        if decision is not None:
            event = RankEvent.COMMIT if decision == COMMIT else RankEvent.ABORT
            with self._lock:
                self._apply_event(version, event)
            self._read.pop(version, None)

    def contribution(self) -> tuple[int, ...]:
        """Return the plans that this rank can run and knows to be committed, as numbers.

        The ranks agree by the least of each number. A plan has a number of its own, which stands
        once as it is and once negated: the least of both belong together only where all ranks have
        contributed the same plan.
        """
        numbers = [0] * _SLOTS
        with self._lock:
            for version in sorted(self._runnable_versions()):
                numbers[version % _SLOTS] = self._plan_number(version)
        return (*numbers, *(-number for number in numbers))

    def adopt_agreed(self, minima: Sequence[int]) -> P | None:
        """Switch to the highest version that all ranks can run and know to be committed.

        Args:
            minima: the least of each number that the ranks have contributed.

        Returns:
            Its plan. None: it is the one that is active, or none is.
        """
        pairs = zip(minima[:_SLOTS], minima[_SLOTS:], strict=True)
        common = {number for number, negated in pairs if number and number == -negated}
        with self._lock:
            both = [
                candidate
                for candidate in self._runnable_versions()
                if self._plan_number(candidate) in common
            ]
            version = max(both, default=0)
            if version <= self.active:
                return None
            for state_version in list(self._states):
                if state_version <= version:
                    later = state_version < version
                    event = RankEvent.AGREED_LATER if later else RankEvent.AGREED
                    self._apply_event(state_version, event)
            self.active = version
            return self._plans[version]

    def _runnable_versions(self) -> list[int]:
        return [
            v
            for v, state in self._states.items()
            if state in CONTRIBUTED_STATES and v in self._plans
        ]

    def _plan_number(self, version: int) -> int:
        """Return the number of a plan, which differs between versions and between contents."""
        text = f"{version} {self._digests.get(version, '')}"
        return 1 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def states(self) -> dict[int, RankState]:
        """Return the state of each version on this rank."""
        with self._lock:
            return dict(self._states)

    def close(self) -> None:
        """Let go of all plans."""
        with self._lock:
            for plan in self._plans.values():
                self._discard_plan(plan)
            self._plans.clear()

    def _prepare(self, version: int) -> None:
        plan, why = None, ""
        try:
            content = self._read.get(version) or self._ledger.read_plan(version, self._key)
            if content is None:
                return  # its version is taken, and it is still being written
            self._digests[version] = hashlib.sha256(content).hexdigest()
            plan = self._prepare_plan(content, version)
            if plan is None:
                self._read[version] = content
                return
        except StoreError:  # no fault of the plan: it is read again the next time
            raise
        except InputError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - the job continues after any error
            why = f"it cannot be verified here ({type(error).__name__}: {error})"
        self._read.pop(version, None)
        with self._lock:
            fits = RankEvent.PREPARE_FIT if plan is not None else RankEvent.PREPARE_UNFIT
            if plan is not None and self._states.get(version, RankState.UNKNOWN) not in _FINAL:
                self._plans[version] = plan
            elif plan is not None:
                self._discard_plan(plan)
            vote = self._apply_event(version, fits)
        if vote is not Vote.NONE:
            self._unsent[version] = RankVote(vote is Vote.YES, why)
            self._send_votes()

    def _send_votes(self) -> None:
        for version, vote in list(self._unsent.items()):
            digest = self._digests.get(version, "")
            self._ledger.write_vote(version, self._rank, vote, digest, self._key)
            del self._unsent[version]

    def _apply_event(self, version: int, event: RankEvent) -> Vote:
        state = self._states.get(version, RankState.UNKNOWN)
        self._states[version], vote = RANK_TRANSITIONS[state, event]
        if self._states[version] not in RETAINED_STATES and version in self._plans:
            self._discard_plan(self._plans.pop(version))
        return vote


class Listener:
    """The thread that listens; where that fails, it tries again, ever more seldom.

    Args:
        look: looks once, as :meth:`Follower.listen` does.
        failed: is told why it could not, the first time. The job goes on under its plan.
        every_s: seconds from a look to the next.
    """

    def __init__(
        self,
        look: Callable[[], None],
        failed: Callable[[ScclError], None],
        every_s: float = 0.2,
    ) -> None:
        self._look, self._failed, self._every_s = look, failed, every_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sccl-plans", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it, at the latest after a few seconds."""
        self._end.set()
        self._thread.join(_LAST_S)

    def _run(self) -> None:
        is_reported, wait_s = False, self._every_s
        while not self._end.wait(wait_s):
            try:
                self._look()
                wait_s = self._every_s
            except StoreError as error:
                if not is_reported and not self._end.is_set():
                    self._failed(error)
                is_reported, wait_s = True, min(2 * wait_s, _SELDOM_S)
