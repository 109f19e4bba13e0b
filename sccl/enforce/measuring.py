"""What a rank measures while it runs a plan: where time goes, and what motifs take."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from sccl.enforce.control import MotifTime, merged
from sccl.enforce.script import ScriptMotif

_MOST_TIMES = 4096


@dataclass(frozen=True, slots=True)
class Spent:
    """Where time went.

    Attributes:
        us: all of it.
        idle_us: of that, without any motif under way: what is left of computation by overlap.
        waited_us: of that, while a call was there that the plan does not let begin yet.
        motifs: what they took.
    """

    us: float
    idle_us: float
    waited_us: float
    motifs: tuple[MotifTime, ...]


class Stopwatch:
    """Counts motifs that are under way, and calls that are not all issued, as they come and go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running, self._held = 0, False
        self._times: list[MotifTime] = []
        self._idle = self._waited = 0.0
        self._began = self._last = time.perf_counter()

    def begun(self, motifs: int) -> None:
        """Take note of motifs that are issued."""
        with self._lock:
            self._pass()
            self._running += motifs

    def held(self, *, some: bool) -> None:
        """Take note whether there are calls of which motifs are not issued."""
        with self._lock:
            self._pass()
            self._held = some

    def ended(self, motif: ScriptMotif, seconds: float) -> None:
        """Take note of a motif that is done, and what it took."""
        with self._lock:
            self._pass()
            self._running -= 1
            if motif.timed is not None and len(self._times) < _MOST_TIMES:
                collective, option, ranks, size = motif.timed
                self._times.append(
                    MotifTime(
                        collective=collective,
                        option=option,
                        ranks=ranks,
                        size_bytes=size,
                        us=seconds * 1e6,
                    )
                )

    def taken(self) -> Spent:
        """Return where time went since the last time that this was asked."""
        with self._lock:
            now = self._pass()
            spent = Spent(
                (now - self._began) * 1e6, self._idle * 1e6, self._waited * 1e6, merged(self._times)
            )
            self._began, self._idle, self._waited, self._times = now, 0.0, 0.0, []
        return spent

    def _pass(self) -> float:
        now = time.perf_counter()
        if not self._running:
            self._idle += now - self._last
            if self._held:
                self._waited += now - self._last
        self._last = now
        return now
