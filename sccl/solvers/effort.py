"""Budgets of solver runs, and interrupts by Ctrl-C.

Solvers run native code, during which Python cannot handle signals. So they run in a separate
thread. The main thread waits interruptibly and, on Ctrl-C, asks the solver to stop.
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
"""Approximate seconds per unit of the budget (one to five), to convert time limits of users."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits and the seed of a solver run.

    A run that reaches a limit ends with the answer Unknown.

    Attributes:
        timeout_s: time limit in seconds. None: no limit.
        seed: random seed.
        units: budget in units that do not depend on the load of the machine: CP-SAT's deterministic
            time, about :data:`UNIT_S` seconds each. None: no limit. Use it where the next action
            depends on a search that found nothing.
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
        """Return the time limit in seconds, infinite if there is none."""
        return math.inf if self.timeout_s is None else self.timeout_s

    @property
    def timeout_reason(self) -> StopReason:
        """Return the stop reason of a search that reached its time limit."""
        return StopReason(StopKind.TIMEOUT, f"timeout after {self.timeout_s:g} s")

    @property
    def exhausted_reason(self) -> StopReason:
        """Return the stop reason of a search that spent its budget."""
        return budget_reason(self.units or 0.0)


def budget_reason(units: float) -> StopReason:
    """Return the stop reason of a search that spent its budget without finding a schedule."""
    return StopReason(StopKind.BUDGET, f"no schedule within a budget of {units:g}")


class EffortMeter:
    """A budget and the part already spent, counted from the construction of this object.

    Attributes:
        effort: The budget.
        units: Units spent so far. Callers add the units that they use.
    """

    def __init__(self, effort: Effort) -> None:
        self.effort, self.units = effort, 0.0
        self._begin = time.perf_counter()

    def elapsed_seconds(self) -> float:
        """Return the seconds since the construction."""
        return time.perf_counter() - self._begin

    def deadline_passed(self) -> bool:
        """Return whether the time limit is reached."""
        return self.effort.timeout_s is not None and self.elapsed_seconds() >= self.effort.timeout_s

    def is_exhausted(self) -> bool:
        """Return whether all units are spent."""
        return self.effort.units is not None and self.units >= self.effort.units

    def remaining(self, limit: float = math.inf) -> Effort | None:
        """Return the remaining budget of at most ``limit`` units, or None after the deadline."""
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
            KeyboardInterrupt. None: ``work`` then continues until it or the process ends.

    Raises:
        KeyboardInterrupt: The user interrupted, and ``work`` has ended.
        ToolError: The system cannot start another thread.
        Exception: Any exception that ``work`` raises.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()  # Thread.join would do, but an interrupted join forgets the thread

    def run() -> None:
        """Run the work, and store its result or exception."""
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run, name="sccl-solver", daemon=True)
    try:
        thread.start()
        while not done.wait(timeout=0.2):  # some systems cannot interrupt a wait without timeout
            pass
    except RuntimeError as error:
        raise ToolError(f"cannot start a solver ({error})") from error
    except KeyboardInterrupt:
        while stop is not None and thread.is_alive() and not done.wait(timeout=0.1):
            stop()  # repeatedly, since a solver that has not started yet ignores it
        raise
    if errors:
        raise errors[0]
    return results[0]
