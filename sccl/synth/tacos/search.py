"""From a request to a schedule: one matching per seed, the first to finish of them, and a bound."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.outcome import Found, GaveUp, Outcome
from sccl.solvers.effort import Effort, Spending
from sccl.synth.contract import Notify, Request
from sccl.synth.tacos.options import Options
from sccl.synth.tacos.task import task_of

SENDS_OF_A_UNIT = 10_000_000
"""Transfers that take about as long as a unit of effort."""


@dataclass(frozen=True, slots=True)
class Matched:
    """So many more transfers have been found, of so many in all."""

    sends: int
    of: int


class _Stopped(Exception):  # noqa: N818 - not an error
    """Time or effort has run out; its text says which."""


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the schedule that finishes first of those from some seeds, with a lower bound.

    Raises:
        InputError: the options do not fit the request, or what comes out would be too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    task = task_of(request, options)
    best: Found | None = None
    watch = _Watch(effort, notify, task.sends // max(len(task.passes), 1))
    least = 0
    try:
        for attempt in range(options.restarts):
            watch.check()
            finish, sends = task.made(_seed(effort.seed, attempt), watch, turns=task.turns(attempt))
            least = least or task.least(finish)
            if best is None or finish * task.tick_us < best.bound.attained:
                best = task.found(finish, sends, least)
            if best.proved:
                break
    except _Stopped as why:
        return GaveUp(str(why), best)
    except KeyboardInterrupt:
        if best is None:
            raise
        return GaveUp("interrupted", best)
    assert best is not None
    return best


def _seed(seed: int, attempt: int) -> int:
    return (seed * 1_000_003 + attempt) % 2**63


class _Watch:
    """What has been spent on an effort; called as a :data:`Pause`."""

    def __init__(self, effort: Effort, notify: Notify, total: int) -> None:
        self._spending, self._notify, self._total = Spending(effort), notify, total

    def __call__(self, sends: int, done: bool) -> None:
        """Count and tell what was done.

        Raises:
            _Stopped: time or effort is over, and not all is done.
        """
        self._spending.units += sends / SENDS_OF_A_UNIT
        self._notify(Matched(sends, self._total))
        if not done:
            self.check()

    def check(self) -> None:
        """Check that there is time and effort left.

        Raises:
            _Stopped: there is not.
        """
        if self._spending.late():
            raise _Stopped(self._spending.effort.why_late)
        if self._spending.used_up():
            raise _Stopped(self._spending.effort.why_used_up)
