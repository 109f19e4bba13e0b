"""Serve calls of a group with a host bundle, through memory that its ranks share.

All ranks make the same decisions, from equal properties or exchanged data. A bundle executes one
call after the other, in the calling thread or in a dedicated thread.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from ctypes import CDLL
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from sccl.errors import ScclError
from sccl.torch_backend.bundles.bundle_abi import (
    BundleCommunicator,
    JoinError,
    StoreRendezvous,
    load_library,
    machine_identity,
)
from sccl.torch_backend.bundles.bundle_calls import build_job
from sccl.torch_backend.calls.call_description import CallDescription
from sccl.torch_backend.calls.works import ErrorFactory, ResultFuture
from sccl.torch_backend.peers import format_ranks, process_peers

BUNDLES = "SCCL_BUNDLES"
_END_S = 1.0
"""Seconds to wait for an aborted call. A call of the bundle notices the abort in a tenth of
this."""

_CREATED: Counter[tuple[int, ...]] = Counter()
"""Number of earlier groups of the same ranks, because their messages remain in the store."""

_OPEN: weakref.WeakSet[HostService] = weakref.WeakSet()


class HostService:
    """The bundle service of a group, next to gloo.

    Attributes:
        refusal: Reason why gloo serves all calls. Empty: the bundle serves some.
        shown: Text of the ranks.
    """

    def __init__(self, store: Any, group: Any, timeout: timedelta, wish: str) -> None:
        """Create the service, at the same time on all ranks of the group.

        Args:
            store: Store of the group.
            group: Group.
            timeout: Timeout of calls.
            wish: Value of :data:`BUNDLES`.
        """
        ranks = group.ranks
        _CREATED[ranks] += 1
        self.shown = format_ranks(ranks)
        self._rank, self._size = group.rank(), len(ranks)
        self._joined: BundleCommunicator | None = None
        self._collectives: frozenset[str] = frozenset()
        self._queue = HostQueue(f"sccl-bundle-{group.group_name}")
        self._behind, self._counting = 0, threading.Lock()  # queued calls of gloo
        meeting = StoreRendezvous(
            dist.PrefixStore(f"bundle-{_CREATED[ranks]}", store), self._rank, self._size
        )
        self.refusal = self._join(meeting, ranks[:1], timeout, wish)
        if not self.refusal:
            _OPEN.add(self)

    def _join(
        self, meeting: StoreRendezvous, first: Sequence[int], timeout: timedelta, wish: str
    ) -> str:
        """Join the other ranks. Return the reason of a failure, equal on all ranks. Empty: joined.

        Args:
            meeting: Exchanges of the ranks.
            first: Global rank that builds the bundle.
            timeout: Timeout of calls.
            wish: Value of :data:`BUNDLES`.
        """
        if problem := self._apart(meeting, wish):
            return problem
        if self._rank:  # compilation may take longer than the timeout of calls
            meeting.wait_for(0, lambda: not process_peers().gone(first))
        library, names, problem = meeting.exchange(
            _find_library(self._size, wish) if not self._rank else None
        )[0]
        if problem:
            return str(problem)
        opened: CDLL | None = None
        try:
            opened = load_library(Path(library))
        except JoinError as error:
            problem = f"rank {self._rank}: {error}"
        problems = [str(reason) for reason in meeting.exchange(problem) if reason]
        if problems or opened is None:
            return problems[0]
        try:
            self._joined = BundleCommunicator(opened, meeting, timeout.total_seconds())
        except JoinError as error:
            return str(error)
        self._collectives = frozenset(names)
        return ""

    def _apart(self, meeting: StoreRendezvous, wish: str) -> str:
        """Return the reason why ranks do not share memory. Empty: they can."""
        if self._size == 1:
            return "there is one rank"
        answers = meeting.exchange([wish, *machine_identity()])
        if any(answer[1:] != answers[0][1:] for answer in answers):
            return "its ranks are on several machines, or isolated from each other"
        if any(answer != answers[0] for answer in answers):
            return f"{BUNDLES} is not the same on all ranks"
        return f"{BUNDLES} is 0" if wish == "0" else ""

    def call(
        self, does: str, described: CallDescription, carry: Callable[[], Any], how: CallContext
    ) -> HostWork | None:
        """Submit a call.

        Args:
            does: Operation, a key of :data:`~sccl.torch_backend.torch_releases.METHOD_NAMES`.
            described: Description of the call.
            carry: Function that makes the call with gloo.
            how: Context of the call.

        Returns:
            Work object. None: the caller makes the call with gloo.
        """
        if self._joined is None:
            return None
        if does == "barrier":  # it must follow all earlier calls
            job = self._in_turn(carry) if self._queue.busy else None
        else:
            job = self._job(does, described)
            if job is None and self._behind:  # gloo needs one order on all ranks
                job = self._in_turn(carry)
        if job is None:
            return None
        work = HostWork(how.naming, list(described.got))
        return self._queue.put(work, job, at_once=how.waits)

    def _in_turn(self, carry: Callable[[], Any]) -> Job:
        """Return a job that makes a call with gloo after the end of all earlier calls."""
        with self._counting:
            self._behind += 1

        def job() -> None:
            try:
                carry().wait()
            finally:
                with self._counting:
                    self._behind -= 1

        return job

    def _job(self, does: str, described: CallDescription) -> Job | None:
        assert self._joined is not None
        name, job = build_job(self._joined, self._size, does, described) or ("", None)
        return job if not name or name in self._collectives else None

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of calls."""
        if self._joined is not None:
            self._joined.timeout_s = timeout.total_seconds()

    def close(self, *, at_once: bool = False) -> None:
        """Free all shared resources after the end of submitted calls.

        Args:
            at_once: Whether to end unfinished calls.
        """
        _OPEN.discard(self)
        joined, self._joined = self._joined, None
        if joined is None:
            return
        self.refusal = "it is destroyed"
        if at_once:
            joined.end()
        if self._queue.close(_END_S if at_once else None):  # else threads still use it
            joined.leave()

    def forget(self) -> None:
        """Stop the service in a forked child process."""
        self._joined, self.refusal = None, "the process was forked off a rank"


def bundle_setting() -> str:
    """Return the environment's setting for bundles."""
    return os.environ.get(BUNDLES, "")


def _find_library(ranks: int, wish: str) -> tuple[str, tuple[str, ...], str]:
    """Return a library, its collectives, and the reason why there is none (empty: there is one)."""
    from sccl.torch_backend.bundles.host_bundles import find_bundle  # noqa: PLC0415 - one rank of a machine needs it

    try:
        bundle = find_bundle(ranks, wish)
    except ScclError as error:
        return "", (), str(error).partition("\n")[0]
    return str(bundle.library), bundle.collectives, ""


def _close_all() -> None:
    for service in list(_OPEN):
        service.close(at_once=True)


def _forget_all() -> None:
    for service in list(_OPEN):
        service.forget()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)


Job = Callable[[], None]

_NOTIFYING = threading.local()
"""Thread-local ``calls``: whether the thread runs callbacks of futures."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """The context of a call.

    Attributes:
        waits: Whether the caller waits for the results immediately.
        naming: Function that wraps an error in one that names the call.
        device: Device of the tensors.
    """

    waits: bool
    naming: ErrorFactory
    device: torch.device


class HostWork(dist._Work):  # noqa: SLF001 - the base class of torch's own groups in Python
    """The work object of a call."""

    def __init__(self, naming: ErrorFactory, results: list[torch.Tensor]) -> None:
        super().__init__()
        self._naming, self._results = naming, results
        self._ended: threading.Event | None = None  # None: the call has ended early
        self._lock: threading.Lock | None = None
        self._future: ResultFuture | None = None
        self._error: BaseException | None = None
        self.within = getattr(_NOTIFYING, "calls", False)
        """Whether a callback of another call submitted this call, and may wait for it."""

    def begin(self) -> None:
        """Prepare the work object for a call that ends in another thread."""
        self._ended, self._lock = threading.Event(), threading.Lock()

    def do(self, job: Job) -> Job | None:
        """Make the call. Waits raise any error.

        Returns:
            Job that completes the future. None: there is no future.
        """
        try:
            job()
        except Exception as error:  # noqa: BLE001 - raised by waits
            self._error = error
        if self._ended is None or self._lock is None:
            return None
        with self._lock:
            self._ended.set()
            future = self._future
        return None if future is None else partial(self._settle, future)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the results.

        Raises:
            CallError: The call failed, or has not ended within the timeout.
        """
        if self._ended is not None and not self._ended.wait(
            None if timeout is None or not timeout else timeout.total_seconds()
        ):
            raise self._naming(TimeoutError(f"no end after {timeout}"))
        if self._error is not None:
            raise self._naming(self._error) from self._error
        return True

    def get_future(self) -> Any:
        """Return a future of the results."""
        if self._future is None:
            future = ResultFuture()
            if self._lock is None:
                self._future, ended = future, True
            else:
                with self._lock:
                    self._future, ended = future, self.is_completed()
            if ended:  # it has no callbacks yet
                self._set(future)
        return self._future.future

    def _settle(self, future: ResultFuture) -> None:
        """Complete a future in a dedicated thread, which runs its callbacks."""
        _NOTIFYING.calls = True
        self._set(future)

    def _set(self, future: ResultFuture) -> None:
        error = None if self._error is None else self._naming(self._error)
        future.settle(self._results, error)

    def is_completed(self) -> bool:
        """Return whether the call has ended."""
        return self._ended is None or self._ended.is_set()

    def is_success(self) -> bool:
        """Return whether the call has succeeded."""
        return self.is_completed() and self._error is None

    def exception(self) -> Any:
        """Return the error."""
        return self._error

    def result(self) -> Any:
        """Return the results."""
        return list(self._results)

    def synchronize(self) -> None:
        """Wait for the call."""
        self.wait()


class HostQueue:
    """Calls of a communicator in order of submission.

    A dedicated thread runs callbacks of calls, such as hooks of DistributedDataParallel, in order:
    a callback may submit a call and wait for it. Such nested calls get one thread each.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._waiting: queue.SimpleQueue[tuple[HostWork, Job] | None] = queue.SimpleQueue()
        self._left = 0
        self._thread: threading.Thread | None = None
        self._tasks: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._teller = threading.Thread(target=self._tell, name=f"{name}-told", daemon=True)

    @property
    def busy(self) -> bool:
        """Return whether any call has not ended."""
        return self._left > 0

    def put(self, work: HostWork, job: Job, *, at_once: bool) -> HostWork:
        """Make a call here, if the caller waits and no call is queued, or else in the thread.

        Args:
            work: Work object of the call.
            job: Function that makes the call.
            at_once: Whether the caller waits for the results immediately.
        """
        with self._lock:
            is_inline = at_once and not self._left
            self._left += 1
            if is_inline:
                self._turn.acquire()
            else:
                work.begin()
                self._start()
                self._waiting.put((work, job))
        if is_inline:
            try:
                work.do(job)
            finally:
                self._turn.release()
                self._ended()
        return work

    def close(self, within_s: float | None) -> bool:
        """End the thread after all queued calls. Return whether it has ended.

        Args:
            within_s: Time limit in seconds. None: no limit.
        """
        if self._thread is None:
            return True
        self._waiting.put(None)
        for thread in (self._thread, self._teller):
            if thread is not threading.current_thread():
                thread.join(within_s)
        return not self._thread.is_alive()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
            self._teller.start()

    def _work(self) -> None:
        while (entry := self._waiting.get()) is not None:
            work, job = entry
            with self._turn:
                tell = work.do(job)
            self._ended()
            if tell is None:
                continue
            if work.within:
                threading.Thread(target=tell, name=f"{self._name}-within", daemon=True).start()
            else:
                self._tasks.put(tell)
        self._tasks.put(None)

    def _tell(self) -> None:
        while (tell := self._tasks.get()) is not None:
            tell()

    def _ended(self) -> None:
        with self._lock:
            self._left -= 1
