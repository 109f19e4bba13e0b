"""Measure a rank's time under a plan: its distribution, and the times of motifs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from sccl.torch_backend.control.feedback import MotifKey, MotifTime, merge_times
from sccl.torch_backend.script import ScriptMotif

_MAX_TIMES = 4096


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """The distribution of time over some iterations.

    Attributes:
        period_us: Mean duration of an iteration.
        idle: Fraction of time without any active motif.
        waited: Fraction of time without any active motif while the plan held back a submitted call.
        motifs: Times of motifs.
    """

    period_us: float
    idle: float
    waited: float
    motifs: tuple[MotifTime, ...]


class Stopwatch:
    """Measures times by counting active motifs, and whether submitted calls are held back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running, self._held = 0, False
        self._times: list[tuple[MotifKey, float]] = []
        self._idle = self._waited = 0.0
        self._began = self._last = time.perf_counter()
        self._now: tuple[int, float] | None = None
        self._then: tuple[int, float] | None = None

    def came_to(self, iterations: int) -> None:
        """Record the number of iterations so far. 0: unknown."""
        if iterations:
            self._now = iterations, time.perf_counter()

    def begun(self, motifs: int) -> None:
        """Record the issue of motifs."""
        with self._lock:
            self._pass()
            self._running += motifs

    def held(self, *, has_pending: bool) -> None:
        """Record whether submitted calls have motifs that are not issued."""
        with self._lock:
            self._pass()
            self._held = has_pending

    def ended(self, motif: ScriptMotif, seconds: float | None) -> None:
        """Record the end of a motif and its time in seconds. None: its size was not planned."""
        with self._lock:
            self._pass()
            self._running -= 1
            if motif.timed is not None and seconds is not None and len(self._times) < _MAX_TIMES:
                self._times.append((motif.timed, seconds * 1e6))

    def taken(self) -> TimeSpent | None:
        """Return the distribution of time since the last result. None: no iteration has ended."""
        then, now = self._then, self._now
        if now is None or then is None or now[0] == then[0]:
            self._then = then or now
            return None
        self._then = now
        with self._lock:
            elapsed = max(self._pass() - self._began, 1e-9)
            spent = TimeSpent(
                (now[1] - then[1]) * 1e6 / (now[0] - then[0]),
                self._idle / elapsed,
                self._waited / elapsed,
                merge_times(self._times),
            )
            self._began, self._idle, self._waited, self._times = self._last, 0.0, 0.0, []
        return spent

    def _pass(self) -> float:
        now = time.perf_counter()
        if not self._running:
            self._idle += now - self._last
            if self._held:
                self._waited += now - self._last
        self._last = now
        return now
