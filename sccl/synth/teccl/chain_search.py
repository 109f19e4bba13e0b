"""Allreduce bettered as a whole: its phases overlap, then chains are models, and neighbourhoods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sccl.solvers.effort import Effort
from sccl.synth.limits import INFINITE, MAX_REFINED_SENDS
from sccl.synth.network.transfers import Sends
from sccl.synth.scheduling.problem import ChunkSend
from sccl.synth.teccl.chain_model import ChainModel
from sccl.synth.teccl.demand_chains import Chain, chain_to_sends, tighten_chain
from sccl.synth.teccl.phase_search import EPOCH_MODELS, PhaseSearch
from sccl.synth.teccl.rerooting import MAX_SENDS


@dataclass
class ChainSearch(PhaseSearch):
    """An allreduce. ``lower_bound`` is a bound for all of them, by any method.

    Attributes:
        problem: its second phase, an allgather on the machine itself.
        rival_finish: units of the best that is no chain of one root.
    """

    rival_finish: int = INFINITE

    model_type: ClassVar = ChainModel
    intervals_per_route: ClassVar[int] = 2
    max_intervals: ClassVar[int] = 4000
    min_units: ClassVar[float] = 0.05
    full_model_units: ClassVar[tuple[float, float]] = (1.0, 0.25)
    """Budgets. Without the model, an allreduce of 64 KB on mesh:3x3 takes 36 % longer, and of 1 MB
    on dgx1 3.8 %.
    """

    @property
    def min_chain_time(self) -> int:
        """Return the units that no chain takes less than: to the root, and from there."""
        far = self.problem.earliest_arrival[: self.problem.ranks]  # rank r holds chunk r
        return int((far.max(axis=0) + far.max(axis=1)).min())

    def overlap_phases(self, strict: Chain) -> None:
        """Let each chunk go on by itself, in phases that were one after the other."""
        if len(strict) <= MAX_REFINED_SENDS:
            self._accept(strict)

    @property
    def has_root_choice(self) -> bool:
        """Return whether other roots are looked for: of few sends, which no switch copies."""
        few = len(self.sends or ()) <= MAX_SENDS
        return few and not self.problem.is_multicast and self.options.model not in EPOCH_MODELS

    def improve_before(self, units: int, effort: Effort) -> None:
        """Search for a schedule that finishes before some units, unless epochs are required.

        If another method does as well, chains are not improved step by step.

        Raises:
            KeyboardInterrupt: the user interrupted. Results so far are kept.
        """
        self.rival_finish = units
        self.is_exhausted = units < self.finish
        if self.options.model not in EPOCH_MODELS and self._cutoff() > max(
            self.min_chain_time, self.target
        ):
            self.improve(effort)

    def _cutoff(self) -> int:
        return min(self.finish, self.rival_finish)

    def to_sends(self) -> Sends:
        """Return the sends, in ticks and by columns."""
        return chain_to_sends(self.problem, self.sends or ())

    def _accept(self, sends: tuple[ChunkSend, ...]) -> None:
        super()._accept(tighten_chain(self.problem, sends))

    def _mark_exhausted(self) -> None:
        """Record that chains of such chunks are not better. Schedules that are no chains may be."""
        self.is_exhausted = True
