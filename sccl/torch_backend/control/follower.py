"""Follow the plans of a job on one rank: vote, receive decisions, and switch.

The rank's side of the protocol in :mod:`sccl.torch_backend.control.transitions`. It replaces the
switch of SYNDICATE (NSDI 2023, section 5) "from the subsequent training iteration" by an agreement
of the ranks (:meth:`Follower.contribution` and :meth:`Follower.adopt_agreed`).
"""

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

_MAX_INTERVAL_S, _JOIN_TIMEOUT_S = 30.0, 5.0

_FINAL = frozenset({RankState.REFUSED, RankState.ABORTED, RankState.ACTIVE, RankState.PAST})
_DECIDED = _FINAL | {RankState.COMMITTED}

_SLOTS = 8
"""Number of versions in a contribution: the highest for each remainder modulo this number."""


class Follower(Generic[P]):
    """The plans of a rank. One thread reads the store. The job's thread agrees at boundaries.

    Args:
        ledger: Plans, votes, and decisions in the job's store.
        rank: The rank.
        prepare: Function that returns a plan from its content and version if this rank can run it.
            None: not known yet, to be called again. An InputError has the reason of a refusal.
        discard: Function that receives each plan that is no longer kept.

    Attributes:
        active: Version of the active plan. 0: none of these.
    """

    def __init__(
        self,
        ledger: Ledger,
        rank: int,
        prepare: Callable[[bytes, int], P | None],
        discard: Callable[[P], None] = lambda _: None,
    ) -> None:
        self._ledger, self._rank, self._prepare_plan = ledger, rank, prepare
        self._discard_plan = discard
        self._lock = threading.Lock()
        self._states: dict[int, RankState] = {}
        self._plans: dict[int, P] = {}
        self._undecided_contents: dict[int, bytes] = {}  # plans to be prepared again
        self._digests: dict[int, str] = {}
        self._unsent_votes: dict[int, RankVote] = {}
        self._settled = 0
        self.active = 0

    def listen(self) -> None:
        """Read the store once: vote on new plans, and receive decisions.

        A vote that cannot be written is written the next time.

        Raises:
            StoreError: The store cannot be reached, or has invalid content. This rank then
                contributes no new plan, so all ranks stay under their plan.
        """
        self._send_votes()
        first_error: StoreError | None = None
        for version in range(self._settled + 1, self._ledger.latest_version() + 1):
            try:
                self._follow(version)
            except StoreError as error:  # other versions may be valid
                first_error = first_error or error
        with self._lock:
            while self._states.get(self._settled + 1) in _FINAL:
                self._settled += 1
        if first_error is not None:
            raise first_error

    def _follow(self, version: int) -> None:
        state = self._states.get(version, RankState.UNKNOWN)
        if state is RankState.UNKNOWN:
            self._prepare(version)
        if state in _DECIDED:
            return
        decision = self._ledger.announced_decision(version, self._digests.get(version, ""))
        if decision is not None:
            event = RankEvent.COMMIT if decision == COMMIT else RankEvent.ABORT
            with self._lock:
                self._apply_event(version, event)
            self._undecided_contents.pop(version, None)

    def contribution(self) -> tuple[int, ...]:
        """Return the plans that this rank can run and knows to be committed, as integers.

        Each plan has an integer of its own. The contribution has each integer twice, the second
        time negated. So the minima over all ranks are negatives of each other only if all ranks
        have contributed the same plan.
        """
        numbers = [0] * _SLOTS
        with self._lock:
            for version in sorted(self._runnable_versions()):
                numbers[version % _SLOTS] = self._plan_number(version)
        return (*numbers, *(-number for number in numbers))

    def adopt_agreed(self, minima: Sequence[int]) -> P | None:
        """Switch to the highest version that all ranks can run and know to be committed (ACTIVATE).

        Args:
            minima: The MIN all-reduce of the contributions of all ranks.

        Returns:
            The plan of that version. None: it is already active, or there is no such version.
        """
        pairs = zip(minima[:_SLOTS], minima[_SLOTS:], strict=True)
        common = {number for number, negated in pairs if number and number == -negated}
        with self._lock:
            agreed_versions = [
                candidate
                for candidate in self._runnable_versions()
                if self._plan_number(candidate) in common
            ]
            version = max(agreed_versions, default=0)
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
        """Return the integer of a plan, a hash of its version and content."""
        text = f"{version} {self._digests.get(version, '')}"
        return 1 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def states(self) -> dict[int, RankState]:
        """Return the state of each version on this rank."""
        with self._lock:
            return dict(self._states)

    def close(self) -> None:
        """Discard all plans."""
        with self._lock:
            for plan in self._plans.values():
                self._discard_plan(plan)
            self._plans.clear()

    def _prepare(self, version: int) -> None:
        plan, why = None, ""
        try:
            content = self._undecided_contents.get(version) or self._ledger.read_plan(version)
            if content is None:
                return  # a coordinator is writing it
            self._digests[version] = hashlib.sha256(content).hexdigest()
            plan = self._prepare_plan(content, version)
            if plan is None:
                self._undecided_contents[version] = content
                return
        except StoreError:  # not a fault of the plan, which is read again the next time
            raise
        except InputError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - the job continues after any error
            why = f"it cannot be verified here ({type(error).__name__}: {error})"
        self._undecided_contents.pop(version, None)
        with self._lock:
            event = RankEvent.PREPARE_FIT if plan is not None else RankEvent.PREPARE_UNFIT
            if plan is not None and self._states.get(version, RankState.UNKNOWN) not in _FINAL:
                self._plans[version] = plan
            elif plan is not None:
                self._discard_plan(plan)
            vote = self._apply_event(version, event)
        if vote is not Vote.NONE:
            self._unsent_votes[version] = RankVote(vote is Vote.YES, why)
            self._send_votes()

    def _send_votes(self) -> None:
        for version, vote in list(self._unsent_votes.items()):
            digest = self._digests.get(version, "")
            self._ledger.write_vote(version, self._rank, vote, digest)
            del self._unsent_votes[version]

    def _apply_event(self, version: int, event: RankEvent) -> Vote:
        state = self._states.get(version, RankState.UNKNOWN)
        self._states[version], vote = RANK_TRANSITIONS[state, event]
        if self._states[version] not in RETAINED_STATES and version in self._plans:
            self._discard_plan(self._plans.pop(version))
        return vote


class Listener:
    """A thread that reads the store periodically, at growing intervals while that fails.

    Args:
        listen: Function that reads the store once, such as :meth:`Follower.listen`.
        on_error: Function that receives the first error. The job continues under its plan.
        interval_s: Seconds between two reads.
    """

    def __init__(
        self,
        listen: Callable[[], None],
        on_error: Callable[[ScclError], None],
        interval_s: float = 0.2,
    ) -> None:
        self._listen, self._on_error, self._interval_s = listen, on_error, interval_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sccl-plans", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, or leave it after a few seconds."""
        self._end.set()
        self._thread.join(_JOIN_TIMEOUT_S)

    def _run(self) -> None:
        is_reported, wait_s = False, self._interval_s
        while not self._end.wait(wait_s):
            try:
                self._listen()
                wait_s = self._interval_s
            except StoreError as error:
                if not is_reported and not self._end.is_set():
                    self._on_error(error)
                is_reported, wait_s = True, min(2 * wait_s, _MAX_INTERVAL_S)
