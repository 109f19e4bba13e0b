"""Calls that a bundle serves, one after the other: done by who calls, or by a thread of theirs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from sccl.torch_backend.calls.carried_work import ErrorFactory
from sccl.torch_backend.calls.result_future import ResultFuture

Job = Callable[[], None]

_NOTIFYING = threading.local()
"""Whether a thread tells futures."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """How a job calls.

    Attributes:
        waits: whether it does nothing else before results are there.
        naming: makes an error that says which call it is of.
        device: where its tensors are.
    """

    waits: bool
    naming: ErrorFactory
    device: torch.device


class HostWork(dist._Work):  # noqa: SLF001 - the base class of torch's own groups in Python
    """The work object of a call."""

    def __init__(self, naming: ErrorFactory, results: list[torch.Tensor]) -> None:
        super().__init__()
        self._naming, self._results = naming, results
        self._ended: threading.Event | None = None  # None: it had ended when it was given out
        self._lock: threading.Lock | None = None
        self._future: ResultFuture | None = None
        self._error: BaseException | None = None
        self.within = getattr(_NOTIFYING, "calls", False)
        """Whether a callback of another call submits it, which may wait for it there."""

    def begin(self) -> None:
        """Take note that it ends later, in another thread."""
        self._ended, self._lock = threading.Event(), threading.Lock()

    def do(self, job: Job) -> Job | None:
        """Make the call.

        Waits raise any error. Return a job that settles its future, if there is one.
        """
        try:
            job()
        except Exception as error:  # noqa: BLE001 - told to who waits
            self._error = error
        if self._ended is None or self._lock is None:
            return None
        with self._lock:
            self._ended.set()
            future = self._future
        return None if future is None else partial(self._settle, future)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until results are there.

        Raises:
            CallError: they don't come.
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
            if ended:  # nothing follows upon it yet
                self._set(future)
        return self._future.future

    def _settle(self, future: ResultFuture) -> None:
        """Settle a future in a dedicated thread, which runs its callbacks."""
        _NOTIFYING.calls = True
        self._set(future)

    def _set(self, future: ResultFuture) -> None:
        error = None if self._error is None else self._naming(self._error)
        future.settle(self._results, error)

    def is_completed(self) -> bool:
        """Return whether it has ended."""
        return self._ended is None or self._ended.is_set()

    def is_success(self) -> bool:
        """Return whether all went well."""
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
        """Return whether calls have not ended."""
        return self._left > 0

    def put(self, work: HostWork, job: Job, *, at_once: bool) -> HostWork:
        """Do a call: here, where that is wanted and nothing comes before it.

        Otherwise by the thread.

        Args:
            at_once: who calls waits for it, and does nothing else before.
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
        """End the thread, once it has done all; return whether it has.

        Args:
            within_s: how long that may take. None: any time.
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
