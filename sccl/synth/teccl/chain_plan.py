"""Allreduce bettered as a whole: its phases overlap, then chains are models, and neighbourhoods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sccl.solvers.effort import Effort
from sccl.synth.intervals.posed import ChunkSend
from sccl.synth.network.paths import FAR
from sccl.synth.network.sends import Sends
from sccl.synth.teccl.chain_model import ChainModel
from sccl.synth.teccl.chains import Chain, sends_of, tightened
from sccl.synth.teccl.phases import EPOCHS, PhasePlan
from sccl.synth.teccl.rooted import MOST_SENDS

MOST_PLACED = 2**17
"""Sends that are placed again: some seconds."""


@dataclass
class ChainPlan(PhasePlan):
    """An allreduce. ``least`` is a bound for all of them, by any method.

    Attributes:
        posed: its second phase, an allgather on the machine itself.
        ahead: units of the best that is no chain of one root.
    """

    ahead: int = FAR

    kind: ClassVar = ChainModel
    intervals: ClassVar[int] = 2
    most: ClassVar[int] = 4000
    made: ClassVar[float] = 0.05
    at_once: ClassVar[tuple[float, float]] = (1.0, 0.25)

    @property
    def shortest(self) -> int:
        """Return the units that no chain takes less than: to the root, and from there."""
        far = self.posed.soonest[: self.posed.ranks]  # rank r holds chunk r
        return int((far.max(axis=0) + far.max(axis=1)).min())

    def overlap(self, strict: Chain) -> None:
        """Let each chunk go on by itself, in phases that were one after the other."""
        if len(strict) <= MOST_PLACED:
            self._take(strict)

    @property
    def turns(self) -> bool:
        """Return whether other roots are looked for: of few sends, which no switch copies."""
        few = len(self.sends or ()) <= MOST_SENDS
        return few and not self.posed.copied and self.options.model not in EPOCHS

    def run_before(self, units: int, effort: Effort) -> None:
        """Search for a schedule that finishes before some units, unless epochs are required.

        If another method does as well, chains are not improved step by step.

        Raises:
            KeyboardInterrupt: the user interrupted. Results so far are kept.
        """
        self.ahead = units
        self.exhausted = units < self.finish
        if self.options.model not in EPOCHS and self._latest() > max(self.shortest, self.enough):
            self.run(effort)

    def _latest(self) -> int:
        return min(self.finish, self.ahead)

    def columns(self) -> Sends:
        """Return the sends, in ticks and by columns."""
        return sends_of(self.posed, self.sends or ())

    def _take(self, sends: tuple[ChunkSend, ...]) -> None:
        super()._take(tightened(self.posed, sends))

    def _exhaust(self) -> None:
        """Record that chains of such chunks are not better. Schedules that are no chains may be."""
        self.exhausted = True
