"""From a request to a schedule: attempts by seeds, the first to finish of them, and a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from contextlib import closing
from dataclasses import dataclass

from sccl.core.outcome import Found, GaveUp, Outcome
from sccl.solvers.effort import Effort, Spending
from sccl.synth.contract import Notify, Request
from sccl.synth.tacos.attempt import Meter, Seeded, attempted
from sccl.synth.tacos.improve import is_close
from sccl.synth.tacos.options import Options
from sccl.synth.tacos.task import Task, task_of

_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Matched:
    """Progress: transfers found, and their maximum number, without trials of improvements."""

    sends: int
    of: int


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the earliest schedule of several seeds, with a lower bound.

    Raises:
        InputError: the options do not fit the request, or the result would be too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    task = task_of(request, options)
    attempts = _Attempts(task, options, effort, notify)
    best = _Best(task)
    with closing(attempts):
        try:
            for attempt in attempts.in_order():
                best.take(attempt)
                if attempt.ended:
                    return GaveUp(attempt.ended, best.found)
                if best.close:
                    break
        except KeyboardInterrupt:
            for attempt in attempts.interrupted():
                best.take(attempt)
            if best.found is None:
                raise
            return GaveUp("interrupted", best.found)
    assert best.found is not None
    return best.found


class _Best:
    """The best of some attempts, and the lower bound."""

    def __init__(self, task: Task) -> None:
        self.task, self.least, self.finish = task, 0, 0
        self.found: Found | None = None

    def take(self, attempt: Seeded) -> None:
        """Take note of an attempt."""
        if not attempt.parts and attempt.log is None:
            return
        finish, sends = attempt.log or self.task.joined(attempt.halves, attempt.parts)
        if not self.least:
            alone = len(attempt.halves) == 1 and attempt.least
            self.least = attempt.least[0] if alone else self.task.least(finish)
        if self.found is None or finish < self.finish:
            self.finish, self.found = finish, self.task.found(finish, sends, self.least)

    @property
    def close(self) -> bool:
        """Return whether there is hardly a better one."""
        return self.found is not None and is_close(self.finish, self.least)


class _Attempts:
    """Attempts at a task, one per seed. Several jobs run some at a time, with the same results.

    Jobs are threads: most of the time is spent in compiled loops, which release the GIL.
    """

    def __init__(self, task: Task, options: Options, effort: Effort, notify: Notify) -> None:
        self.task, self.options, self.effort, self.notify = task, options, effort, notify
        self._spending, self._spent, self._end = Spending(effort), 0.0, ""
        self._told = 0
        self._jobs = min(options.jobs, options.restarts)
        self._pool = ThreadPoolExecutor(self._jobs) if self._jobs > 1 else None
        self._coming: deque[Future[Seeded]] = deque()

    def close(self) -> None:
        """End all attempts in progress."""
        self._end = self._end or "not needed any more"
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def interrupted(self) -> list[Seeded]:
        """End all attempts in progress after an interrupt. Return their results."""
        self._end = "interrupted"
        self.close()
        return [f.result() for f in self._coming if not f.cancelled() and not f.exception()]

    def in_order(self) -> Iterator[Seeded]:
        """Yield the attempts by their numbers."""
        for number in range(self.options.restarts):
            attempt = self._next(number) if self._pool else None
            if attempt is None or self._too_much(attempt):
                attempt = self._made(number, self._spent)
            self._spent += attempt.spent
            yield attempt

    def _too_much(self, attempt: Seeded) -> bool:
        """Return whether an attempt exceeded the effort that earlier ones left."""
        units = self.effort.units
        return units is not None and self._spent + attempt.spent >= units

    def _next(self, number: int) -> Seeded:
        """Return an attempt once it is made, and let those after it be made, as many as jobs."""
        assert self._pool is not None
        ahead = min(number + 2 * self._jobs, self.options.restarts)
        for later in range(number + len(self._coming), ahead):
            self._coming.append(self._pool.submit(self._made, later, 0.0))
        future = self._coming[0]
        while True:  # a wait without end cannot be interrupted everywhere
            try:
                attempt = future.result(timeout=_LOOK_S)
                break
            except NotYetError:
                if future.done():
                    raise
        self._coming.popleft()
        return attempt

    def _made(self, number: int, spent: float) -> Seeded:
        """Return an attempt, made after so much has been spent."""
        seed = (self.effort.seed * 1_000_003 + number) % 2**63
        meter = Meter(lambda units: self._why_end(spent + units), self._tell)
        return attempted(self.task, number, seed, self.options.improve, meter)

    def _why_end(self, units: float) -> str:
        """Return why an attempt is to end after so much has been spent. Empty: it is not."""
        if self._end:
            return self._end
        if self._spending.late():
            return self.effort.why_late
        if self.effort.units is not None and units >= self.effort.units:
            return self.effort.why_used_up
        return ""

    def _tell(self, sends: int) -> None:
        most = self.task.sends // max(len(self.task.passes), 1) * self.options.restarts
        self._told = min(self._told + sends, most)
        self.notify(Matched(self._told, most))
