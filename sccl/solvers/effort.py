"""The effort of a solver: its limits, the part that is left, and Ctrl-C.

Solvers work in native code, where Python cannot deliver a signal. They run in a thread of their
own. The main thread waits where it can be interrupted, and then asks the solver to stop.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sccl.core.stop import StopKind, StopReason
from sccl.errors import ParameterError, ToolError

MAX_TIMEOUT_S = 10_000_000

UNIT_S = 2.0
"""Approximate seconds of a unit of effort (one to five), to convert time limits of users."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits and the seed of a solver run.

    Attributes:
        timeout_s: seconds after which it gives up with Unknown. None: no limit.
        seed: random seed.
        units: limit after which it gives up with Unknown, in a unit that does not depend on the
            load of the machine: CP-SAT's deterministic time, about :data:`UNIT_S` each. None: no
            limit. Use it where the next action depends on a search that found nothing.
    """

    timeout_s: float | None = None
    seed: int = 0
    units: float | None = None

    def __post_init__(self) -> None:
        if self.timeout_s is not None and not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise ParameterError(
                f"timeout is {self.timeout_s} seconds, expected more than 0 and at most "
                f"{MAX_TIMEOUT_S}"
            )
        if self.units is not None and math.isnan(self.units):
            raise ParameterError("effort is nan, expected a number of 0 or more")

    @property
    def seconds(self) -> float:
        """Return the seconds that it may take. Infinite: there is no end."""
        return math.inf if self.timeout_s is None else self.timeout_s

    @property
    def timeout_reason(self) -> StopReason:
        """Return the reason of a search whose time ran out."""
        return StopReason(StopKind.TIMEOUT, f"timeout after {self.timeout_s:g} s")

    @property
    def exhausted_reason(self) -> StopReason:
        """Return the reason of a search whose units are spent."""
        return budget_reason(self.units or 0.0)


def budget_reason(units: float) -> StopReason:
    """Return the reason of a search whose units are spent, without a schedule."""
    return StopReason(StopKind.BUDGET, f"no schedule within a budget of {units:g}")


class EffortMeter:
    """An effort and the part already spent, counted from the construction of this object.

    Attributes:
        units: Units spent so far, to which callers add their use.
    """

    def __init__(self, effort: Effort) -> None:
        self.effort, self.units = effort, 0.0
        self._begin = time.perf_counter()

    def elapsed_seconds(self) -> float:
        """Return the seconds that have gone by."""
        return time.perf_counter() - self._begin

    def deadline_passed(self) -> bool:
        """Return whether time has run out."""
        return self.effort.timeout_s is not None and self.elapsed_seconds() >= self.effort.timeout_s

    def is_exhausted(self) -> bool:
        """Return whether all units are spent."""
        return self.effort.units is not None and self.units >= self.effort.units

    def remaining(self, limit: float = math.inf) -> Effort | None:
        """Return the remaining effort of at most ``limit`` units, or None if time has run out."""
        units = min(
            limit, math.inf if self.effort.units is None else self.effort.units - self.units
        )
        seconds = None
        if self.effort.timeout_s is not None:
            seconds = self.effort.timeout_s - self.elapsed_seconds()
            if seconds <= 0:
                return None
        return Effort(seconds, self.effort.seed, None if units == math.inf else units)


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
