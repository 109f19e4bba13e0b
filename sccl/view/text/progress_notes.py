"""Report the progress of a search as lines of text or on a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sccl.core.answer import Unsat, verdict
from sccl.core.frontier import Point
from sccl.core.step_limit import StepLimit
from sccl.synth.common.sweep_events import (
    BoundsComputed,
    LimitComputed,
    LimitStarted,
    PartStarted,
    PointDecided,
    QueryAnswered,
    QueryStarted,
    SweepEvent,
)


@dataclass(slots=True)
class ProgressNotes:
    """Callback that reports the progress of a sweep.

    Attributes:
        line: callback that receives results.
        status: callback that receives the current query. None: every answer is passed to ``line``.
    """

    line: Callable[[str], None]
    status: Callable[[str], None] | None = None
    bound: str = "bounds"

    def __call__(self, event: SweepEvent) -> None:
        """Report an event."""
        match event:
            case PartStarted(part):
                self.line(part)
            case BoundsComputed(bounds):
                self.bound = f"S >= {bounds.steps}, R/C >= {bounds.bandwidth}"
                self.line(f"bounds: {self.bound}")
            case QueryStarted(candidate, left):
                self._set_status(f"{candidate} (R/C {candidate.cost}), {left} more at this S")
            case QueryAnswered(candidate, answer):
                if not self.status:
                    kept = ", from the store" if answer.from_store else ""
                    marked = isinstance(answer, Unsat) and not answer.is_accepted
                    kept += ", not verified here" if marked else ""
                    self.line(f"{candidate}: {verdict(answer)} in {answer.seconds:.2f} s{kept}")
            case LimitStarted(steps):
                self._set_status(f"limit of R/C for S={steps}")
            case LimitComputed(limit):
                exact = "is" if limit.lower == limit.upper else "at least"
                self.line(f"limit of R/C for S={limit.steps} {exact} {limit.lower}, for all k")
            case PointDecided(point):
                self.line(f"found: {point.candidate}, R/C = {point.cost}, {point.state_text}")

    def _set_status(self, text: str) -> None:
        if self.status:
            self.status(f"{self.bound} | {text}")


def limit_note(event: StepLimit | Point) -> str:
    """Return an event of a limit frontier as text. Empty: a point without an algorithm."""
    if isinstance(event, StepLimit):
        value = str(event.lower)
        if event.lower != event.upper:  # the value of a packing may be a fraction of many digits
            ends = (event.lower, event.upper)
            value = " to ".join("?" if end is None else f"{float(end):.5g}" for end in ends)
        return f"S={event.steps}: the limit of R/C is {value}"
    if event.algorithm is None:
        return ""
    return f"{'found' if event.is_attained else 'close candidate'}: {event.candidate}"


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[str], None]]:
    """Show the current activity and its duration on a terminal, and yield its setter."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("bounds", total=None)
        yield lambda text: progress.reset(task, description=text)


class ShareCallback(Protocol):
    """Progress callback: the amount done, the total, and a new activity, if it changes."""

    def __call__(self, done: int, of: int, doing: str = "", /) -> None:
        """Show the progress."""


@contextmanager
def share_bar(console: Console, doing: str) -> Iterator[ShareCallback]:
    """Show the progress and the remaining time on a terminal, and yield the progress callback."""
    if not console.is_terminal:
        yield lambda _done, _of, _doing=doing: None
        return
    columns = (
        *(SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn()),
        *(TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        tasks = {doing: progress.add_task(doing, total=None)}

        def report(done: int, of: int, now: str = doing) -> None:
            if now not in tasks:
                for task in tasks.values():
                    progress.update(task, visible=False)
                tasks[now] = progress.add_task(now, total=None)
            progress.update(tasks[now], completed=min(done, of), total=of)

        yield report
