"""An Executor of worker processes that can be killed, for queries that may become obsolete.

The process pools of the standard library cannot end a running task, and fail together. Here a
thread watches each process. A process that fails is replaced and its task is started again, a few
times. If a process cannot be started, the waiter for its task receives the error.

Tried without success: the pools of pebble. Their workers outlive a parent that is killed. With the
start method "spawn" a script without a guard around its main part breaks, a notebook's threads
forbid the other methods, and a task whose worker fails would still have to be restarted here.
"""

from __future__ import annotations

import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from multiprocessing.connection import Connection, Pipe
from typing import Any, ParamSpec, TypeVar

from sccl.errors import ScclError, SolverError, ToolError
from sccl.solvers.process_control import last_line, start_process

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPTS = 3
_POLL_S = 0.05
_EXIT_GRACE_S = 5.0
"""For a process that has closed its pipe to end by itself."""
_READ_BYTES = 1 << 16

_Call = tuple[Callable[..., Any], tuple[Any, ...]]
_Task = tuple[Future[Any], _Call]


class _WorkerDiedError(Exception):
    """A process ended within a task. The message says with which last words."""


class WorkerPool(Executor):
    """A number of worker processes, started on demand.

    Raises:
        ToolError: the system cannot start another thread to watch them.
    """

    def __init__(self, jobs: int) -> None:
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._abandoned: set[Future[Any]] = set()
        self._threads: list[threading.Thread] = []
        for _ in range(jobs):
            thread = threading.Thread(target=self._serve, daemon=True)
            try:
                thread.start()
            except (RuntimeError, MemoryError) as error:
                self.shutdown()
                raise ToolError(_start_failure_text(error)) from error
            self._threads.append(thread)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have ``fn(*args)`` computed. Both must be importable and plain."""
        if kwargs:
            raise TypeError("workers take positional arguments only")
        future: Future[T] = Future()
        self._tasks.put((future, (fn, args)))
        return future

    def abandon(self, future: Future[Any]) -> None:
        """End a task that runs, by ending its process."""
        self._abandoned.add(future)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """End all processes, at once."""
        del cancel_futures  # pending tasks never start in any case
        self._closed = True
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads if wait else []:
            thread.join()

    _closed = False

    def _serve(self) -> None:
        """Be one worker: take tasks, keep a process for them, watch it."""
        process: _WorkerProcess | None = None
        while (task := self._tasks.get()) is not None:
            future, call = task
            if self._closed:
                future.cancel()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                process, result = self._compute(process, future, call)
            except Exception as error:  # noqa: BLE001 - whoever waits has to hear of it
                process = None
                future.set_exception(_to_sccl_error(error))
                continue
            self._abandoned.discard(future)
            if isinstance(result, SolverError):
                future.set_exception(result)
            else:
                future.set_result(result)
        if process is not None:
            process.end()

    def _compute(
        self, process: _WorkerProcess | None, future: Future[Any], call: _Call
    ) -> tuple[_WorkerProcess | None, Any]:
        """Return the process to continue with, and the result or error of a call.

        Raises:
            SolverError: processes failed repeatedly, or the task is obsolete.
            ToolError: no process can be started.
        """
        words = ""
        for _ in range(_ATTEMPTS):
            process = process if process and process.is_alive() else _start_worker()
            try:
                return process, process.call(call, lambda: self._is_abandoned(future))
            except _WorkerDiedError as error:
                words = str(error)
            except BaseException:
                process.end()
                raise
            process = None
        raise SolverError(f"a worker process died {_ATTEMPTS} times: {words}")

    def _is_abandoned(self, future: Future[Any]) -> bool:
        return self._closed or future in self._abandoned


class _WorkerProcess:
    """A process that computes the calls that it receives through a pipe.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self) -> None:
        self.complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self.pipe, theirs = Pipe()
            with theirs:
                number = theirs.fileno()
                self.process = start_process(
                    __name__, number, pass_fds=[number], stderr=self.complaints
                )
        except BaseException:
            self.complaints.close()
            raise

    def is_alive(self) -> bool:
        """Return whether it still runs. If not, it is cleared away."""
        if self.process.poll() is None:
            return True
        self.end()
        return False

    def call(self, call: _Call, unwanted: Callable[[], bool]) -> Any:
        """Return the result of a call.

        Raises:
            SolverError: the call raised it, or its result is obsolete.
            _DiedError: the process ended.
        """
        try:
            self.pipe.send(call)
            while not self.pipe.poll(_POLL_S):
                if unwanted():
                    raise SolverError("given up")
            fine, value = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise _WorkerDiedError(self.last_words()) from error
        return value if fine else SolverError(value)

    def last_words(self) -> str:
        """End the process, and return the last line that it wrote to stderr, or its exit code."""
        try:
            self.process.wait(_EXIT_GRACE_S)  # it has closed its pipe: it is about to end
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.complaints.seek(0)
        words = self.complaints.read(_READ_BYTES)
        self.end()
        return last_line(words) if words else f"exit code {self.process.returncode}"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.pipe.close()
        self.complaints.close()


def _start_worker() -> _WorkerProcess:
    try:
        return _WorkerProcess()
    except (OSError, RuntimeError, MemoryError) as error:
        raise ToolError(_start_failure_text(error)) from error


def _start_failure_text(error: BaseException) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"cannot start a worker ({reason}): give fewer --jobs, or raise the limit (ulimit -a)"


def _to_sccl_error(error: Exception) -> ScclError:
    if isinstance(error, ScclError):
        return error
    return SolverError(f"{type(error).__name__}: {error}")


def main(number: int) -> None:
    """Serve calls until the pipe is closed: the main function of a worker process.

    Args:
        number: the file descriptor of its end of the pipe.
    """
    pipe = Connection(number)
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
