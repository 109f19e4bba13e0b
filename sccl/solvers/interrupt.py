"""Running a solver so that Ctrl-C stops it.

Solvers work in native code, where Python cannot deliver a signal. They run in a thread of their
own. The main thread waits where it can be interrupted, and then asks the solver to stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from sccl.errors import ToolError

T = TypeVar("T")


def run_interruptible(work: Callable[[], T], stop: Callable[[], None] | None) -> T:
    """Return ``work()``, computed in a thread.

    Args:
        work: Function to run.
        stop: Function that makes ``work`` return soon. The waiting thread calls it on
            KeyboardInterrupt. Without it, ``work`` continues to its end or that of the process.

    Raises:
        KeyboardInterrupt: The user interrupted, and ``work`` has ended.
        ToolError: The system cannot start another thread.
        Exception: Any exception that ``work`` raises.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()  # Thread.join would do, but an interrupted join forgets the thread

    def run() -> None:
        """Run the work, and keep its result or exception."""
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run, name="sccl-solver", daemon=True)
    try:
        thread.start()
        while not done.wait(timeout=0.2):  # a wait without end cannot be interrupted everywhere
            pass
    except RuntimeError as error:
        raise ToolError(f"cannot start a solver ({error})") from error
    except KeyboardInterrupt:
        while stop is not None and thread.is_alive() and not done.wait(timeout=0.1):
            stop()  # again and again: a solver that has not begun yet does not hear the first
        raise
    if errors:
        raise errors[0]
    return results[0]
