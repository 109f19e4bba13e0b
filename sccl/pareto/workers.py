"""Worker processes that can be killed: an Executor for queries that may no longer be wanted.

Those of the standard library cannot end a task that runs, and die together. Here each process is
watched by a thread. A process that dies is replaced and its task begun again, a few times.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, ParamSpec, TypeVar

from sccl.errors import SolverError

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPTS = 3
_LOOK_S = 0.05

_Task = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class Workers(Executor):
    """So many processes; they start when there is something to do."""

    def __init__(self, jobs: int) -> None:
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._abandoned: set[Future[Any]] = set()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(jobs)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have ``fn(*args)`` computed; both must be importable and plain."""
        if kwargs:
            raise TypeError("workers take positional arguments only")
        future: Future[T] = Future()
        self._tasks.put((future, fn, args))
        return future

    def abandon(self, future: Future[Any]) -> None:
        """End a task that runs, by ending its process."""
        self._abandoned.add(future)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """End all processes, at once."""
        del cancel_futures  # what is not begun is never begun
        self._closed = True
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads if wait else []:
            thread.join()

    _closed = False

    def _serve(self) -> None:
        """Be one worker: take tasks, keep a process for them, watch it."""
        process: _Process | None = None
        while (task := self._tasks.get()) is not None:
            future, fn, args = task
            if self._closed:
                future.cancel()
            if not future.set_running_or_notify_cancel():
                continue
            for _ in range(_ATTEMPTS):
                process = process if process and process.alive() else _Process()
                outcome = self._watch(process, future, fn, args)
                if outcome != "died":
                    break
                process = None
            else:
                future.set_exception(SolverError(f"a worker process died {_ATTEMPTS} times"))
            if outcome == "abandoned":
                assert process is not None
                process.end()
                process = None
        if process is not None:
            process.end()

    def _watch(
        self, process: _Process, future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...]
    ) -> str:
        """Return ``"done"``, ``"died"`` or ``"abandoned"``."""
        try:
            process.pipe.send((fn, args))
            while not process.pipe.poll(_LOOK_S):
                if self._closed or future in self._abandoned:
                    self._abandoned.discard(future)
                    future.set_exception(SolverError("given up"))
                    return "abandoned"
            fine, value = process.pipe.recv()
        except (EOFError, OSError):
            return "died"
        if fine:
            future.set_result(value)
        else:
            future.set_exception(SolverError(value))
        return "done"


class _Process:
    """A process that computes what comes through a pipe."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # threads are about: no fork
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def alive(self) -> bool:
        return self.process.is_alive()

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection) -> None:
    """Compute until the pipe is closed: what a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    while True:
        try:
            fn, args = pipe.recv()
        except EOFError:
            return
        try:
            result = (True, fn(*args))
        except Exception as error:  # noqa: BLE001 - told to the parent
            result = (False, f"{type(error).__name__}: {error}")
        pipe.send(result)
