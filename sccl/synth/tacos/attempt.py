"""One attempt at a task: a matching of each half by one seed, and trials to better it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sccl.synth.network.sends import Timed
from sccl.synth.tacos.improve import SENDS_OF_A_UNIT, Improver
from sccl.synth.tacos.in_step import Log
from sccl.synth.tacos.task import Matching, Task, first_of


class Stopped(Exception):  # noqa: N818 - not an error
    """Time or effort has run out. Its text says which."""


class Meter:
    """The effort spent by an attempt, and its limit. A :data:`~sccl.synth.network.sends.Pause`.

    Attributes:
        spent: units of effort.
    """

    def __init__(self, why_end: Callable[[float], str], tell: Callable[[int], None]) -> None:
        """Make one with no effort spent.

        Args:
            why_end: returns, for the effort spent, why the attempt has to end. Empty: it continues.
            tell: called with the number of transfers found.
        """
        self._why_end, self._tell = why_end, tell
        self.spent = 0.0

    def __call__(self, sends: int, done: bool) -> None:
        """Count and report progress.

        Raises:
            Stopped: the attempt has to end, and is not complete.
        """
        self.spent += sends / SENDS_OF_A_UNIT
        self._tell(sends)
        if not done:
            self.check()

    def check(self) -> None:
        """Check that the attempt may go on.

        Raises:
            Stopped: it may not.
        """
        if why := self._why_end(self.spent):
            raise Stopped(why)


@dataclass(slots=True)
class Seeded:
    """The result of one seed.

    Attributes:
        parts: for each half the earliest result. Empty: there is none.
        log: the finish and the log of rounds, instead of parts. None: there is none.
        least: for each half a lower bound on the finish of matchings.
        ended: why it ended before all was tried. Empty: it did not.
        spent: units of effort.
    """

    halves: tuple[Matching, ...]
    parts: list[Timed] = field(default_factory=list)
    log: tuple[int, Log] | None = None
    least: list[int] = field(default_factory=list)
    ended: str = ""
    spent: float = 0.0


def attempted(task: Task, number: int, seed: int, units: float, meter: Meter) -> Seeded:
    """Return the result of an attempt.

    Args:
        units: effort for improvements.

    Raises:
        UnreachableError: a rank has no path from any source of a chunk it wants.
        KeyboardInterrupt: the user interrupted before anything was found.
    """
    attempt = Seeded(task.halves(turns=task.turns(number)))
    try:
        meter.check()
        if task.passes:
            attempt.log = task.logged(seed, meter)
            attempt.spent = meter.spent
            return attempt
        attempt.parts = [first_of(half, seed, meter) for half in attempt.halves]
        for place, half in enumerate(attempt.halves):
            _better(task, attempt, place, Improver(half, seed), units, meter)
    except Stopped as why:
        attempt.ended = str(why)
    except KeyboardInterrupt:
        if not attempt.parts:
            raise
        attempt.ended = "interrupted"
    attempt.spent = meter.spent
    return attempt


def _better(  # noqa: PLR0913, PLR0917 - what is told
    task: Task, attempt: Seeded, place: int, improver: Improver, units: float, meter: Meter
) -> None:
    """Replace a part of an attempt by the result of trials."""
    half, part = attempt.halves[place], attempt.parts[place]
    attempt.least.append(task.least_of(half, part[0]))
    share = 0.0 if half.unwound else units / len(attempt.halves)
    for better in improver.improved(part, attempt.least[place], share, meter):
        attempt.parts[place] = better
        meter.check()
