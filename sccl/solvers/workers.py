"""An Executor whose worker processes can be killed, for queries that may become obsolete.

The process pools of the standard library cannot end a running task, and one failed process breaks
the whole pool. Here a thread watches each process. A failed process is replaced and its task
restarted, a few times. If a process cannot be started, the task's future raises the error.

The pools of pebble are not an alternative. Their workers outlive a parent that is killed. The start
method "spawn" breaks scripts without a guard around their main part, and a notebook's threads
forbid the other methods. A task whose worker fails would still have to be restarted here.
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
"""Seconds that a process has to end after it has closed its pipe."""
_READ_BYTES = 1 << 16

_Call = tuple[Callable[..., Any], tuple[Any, ...]]
_Task = tuple[Future[Any], _Call]


class _WorkerDiedError(Exception):
    """A process ended during a task. The message is the last line of its stderr."""


class WorkerPool(Executor):
    """A pool of worker processes, started on demand.

    Raises:
        ToolError: the system cannot start another thread to watch a process.
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
        """Schedule ``fn(*args)``. The function must be importable, and the arguments picklable."""
        if kwargs:
            raise TypeError("workers take positional arguments only")
        future: Future[T] = Future()
        self._tasks.put((future, (fn, args)))
        return future

    def abandon(self, future: Future[Any]) -> None:
        """Abort a running task by killing its process."""
        self._abandoned.add(future)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Kill all processes immediately."""
        del cancel_futures  # pending tasks never start in any case
        self._closed = True
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads if wait else []:
            thread.join()

    _closed = False

    def _serve(self) -> None:
        """Run tasks from the queue in one process until the pool shuts down (thread target)."""
        process: _WorkerProcess | None = None
        while (task := self._tasks.get()) is not None:
            future, call = task
            if self._closed:
                future.cancel()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                process, result = self._compute(process, future, call)
            except Exception as error:  # noqa: BLE001 - the future raises it
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
        """Run a call, with a new process if needed.

        Returns:
            The process for further calls, and the result or error of the call.

        Raises:
            SolverError: processes failed repeatedly, or the task was abandoned.
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
    """A process that executes the calls that it receives through a pipe.

    Raises:
        OSError: the process cannot be started.
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
        """Return whether the process still runs. If not, release its resources."""
        if self.process.poll() is None:
            return True
        self.end()
        return False

    def call(self, call: _Call, unwanted: Callable[[], bool]) -> Any:
        """Run a call in the process, and return its result, or its error as a SolverError.

        Args:
            call: function and arguments.
            unwanted: predicate that is polled during the call. True aborts the call.

        Raises:
            SolverError: the call was aborted.
            _WorkerDiedError: the process ended.
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
        """End the process, and return the last line of its stderr, or its exit code."""
        try:
            self.process.wait(_EXIT_GRACE_S)  # its pipe is closed, so it is about to end
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
    """Execute calls until the pipe is closed (main function of a worker process).

    Args:
        number: file descriptor of the worker's end of the pipe.
    """
    pipe = Connection(number)
    while True:
        try:
            fn, args = pipe.recv()
        except EOFError:
            return
        try:
            result = (True, fn(*args))
        except Exception as error:  # noqa: BLE001 - reported to the parent
            result = (False, f"{type(error).__name__}: {error}")
        pipe.send(result)
