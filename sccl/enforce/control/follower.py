"""A rank's part in coming to another plan: it votes, hears what is decided, and switches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from sccl.enforce.control.ledger import COMMIT, Ledger, RankVote
from sccl.enforce.control.stores import StoreError
from sccl.enforce.control.transitions import COUNTED, HELD, RANK, RankEvent, RankState, Vote
from sccl.errors import InputError, ScclError

P = TypeVar("P")

_SELDOM_S, _LAST_S = 30.0, 5.0

_FINAL = frozenset({RankState.REFUSED, RankState.ABORTED, RankState.ACTIVE, RankState.PAST})
_DECIDED = _FINAL | {RankState.COMMITTED}


class SwitchError(ScclError):
    """What cannot happen has: the store was written to by somebody else, or it is a defect."""


class Follower(Generic[P]):
    """What a rank knows of plans; a thread listens, and the job's own asks at boundaries.

    Args:
        fit: reads a plan, with its version, and judges whether this rank can run it; an InputError
            says why not. None: that is not known yet, and is asked again.
        key: with which plans must be signed; None: they need not be.
        drop: is told of each plan that is not kept any more.
    """

    def __init__(
        self,
        ledger: Ledger,
        rank: int,
        fit: Callable[[bytes, int], P | None],
        key: bytes | None = None,
        drop: Callable[[P], None] = lambda _: None,
    ) -> None:
        self._ledger, self._rank, self._fit, self._key = ledger, rank, fit, key
        self._drop = drop
        self._lock = threading.Lock()
        self._states: dict[int, RankState] = {}
        self._plans: dict[int, P] = {}
        self._read: dict[int, bytes] = {}  # of which it is not known yet
        self._settled = 0
        self.active = 0

    def listen(self) -> None:
        """Look once at what is written: vote for what is new, hear what is decided.

        Raises:
            StoreError: it cannot be reached, or has what it should not: then this rank goes on
                under its plan, and as it contributes no other, so do all.
        """
        for version in range(self._settled + 1, self._ledger.versions() + 1):
            state = self._states.get(version, RankState.UNKNOWN)
            if state is RankState.UNKNOWN:
                self._prepare(version)
            told = None if state in _DECIDED else self._ledger.told(version)
            if told is not None:
                event = RankEvent.COMMIT if told == COMMIT else RankEvent.ABORT
                with self._lock:
                    self._happened(version, event)
                self._read.pop(version, None)
        with self._lock:
            while self._states.get(self._settled + 1) in _FINAL:
                self._settled += 1

    def contribution(self) -> int:
        """Return the highest version that this rank knows to be committed; 0: none."""
        with self._lock:
            return max((v for v, state in self._states.items() if state in COUNTED), default=0)

    def agreed(self, version: int) -> P | None:
        """Switch to the version that all ranks have agreed on, the least of their contributions.

        Returns:
            Its plan; None: it is the one that is active, or none is yet.

        Raises:
            SwitchError: this rank cannot run it, which no interleaving leads to.
        """
        if version == self.active:
            return None
        with self._lock:
            for other in [*self._states, version]:
                if other <= version:
                    later = other < version
                    event = RankEvent.AGREED_LATER if later else RankEvent.AGREED
                    self._happened(other, event)
            self.active = version
            return self._plans[version]

    def states(self) -> dict[int, RankState]:
        """Return what each version is to this rank."""
        with self._lock:
            return dict(self._states)

    def close(self) -> None:
        """Let go of all plans."""
        with self._lock:
            for plan in self._plans.values():
                self._drop(plan)
            self._plans.clear()

    def _prepare(self, version: int) -> None:
        plan, why = None, ""
        try:
            content = self._read.get(version) or self._ledger.read_plan(version, self._key)
            if content is None:
                return  # its version is taken, and it is still being written
            plan = self._fit(content, version)
            if plan is None:
                self._read[version] = content
                return
        except InputError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the job goes on
            why = f"it cannot be judged here ({type(error).__name__}: {error})"
        self._read.pop(version, None)
        with self._lock:
            fits = RankEvent.PREPARE_FIT if plan is not None else RankEvent.PREPARE_UNFIT
            if plan is not None and self._states.get(version, RankState.UNKNOWN) not in _FINAL:
                self._plans[version] = plan
            elif plan is not None:
                self._drop(plan)
            vote = self._happened(version, fits)
        if vote is not Vote.NONE:
            self._ledger.vote(version, self._rank, RankVote(vote is Vote.YES, why))

    def _happened(self, version: int, event: RankEvent) -> Vote:
        state = self._states.get(version, RankState.UNKNOWN)
        row = RANK.get((state, event))
        if row is None:
            raise SwitchError(
                f"plan {version} is {state.name} to rank {self._rank}, to which {event.name} "
                "cannot happen: something else writes into the job's store"
            )
        self._states[version], vote = row
        if self._states[version] not in HELD and version in self._plans:
            self._drop(self._plans.pop(version))
        return vote


class Listener:
    """The thread that listens; where that fails, it tries again, ever more seldom.

    Args:
        look: looks once, as :meth:`Follower.listen` does.
        failed: is told why it could not, the first time; the job goes on under its plan.
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
        told, wait_s = False, self._every_s
        while not self._end.wait(wait_s):
            try:
                self._look()
                wait_s = self._every_s
            except (StoreError, SwitchError) as error:
                if not told and not self._end.is_set():
                    self._failed(error)
                told, wait_s = True, min(2 * wait_s, _SELDOM_S)
