"""Improve an allreduce as a whole: overlap its phases, then solve chain models, all or in part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sccl.solvers.effort import Effort
from sccl.synth.limits import INFINITE, MAX_REFINED_SENDS
from sccl.synth.scheduling.problem import ChunkSend
from sccl.synth.teccl.chain_model import ChainModel
from sccl.synth.teccl.demand_chains import Chain, tighten_chain
from sccl.synth.teccl.phase_search import EPOCH_MODELS, PhaseSearch
from sccl.synth.teccl.rerooting import MAX_SENDS


@dataclass
class ChainSearch(PhaseSearch):
    """A search for a better allreduce. ``lower_bound`` holds for every allreduce, of any method.

    Attributes:
        problem: Second phase of the allreduce: an allgather on the original machine.
        rival_finish: Completion time of the best schedule of another method, units.
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
        """Return a lower bound on the time of a chain, to the root and from it, in units."""
        far = self.problem.earliest_arrival[: self.problem.ranks]  # rank r holds chunk r
        return int((far.max(axis=0) + far.max(axis=1)).min())

    def overlap_phases(self, strict: Chain) -> None:
        """Schedule the sends of consecutive phases again, without a barrier between the phases."""
        if len(strict) <= MAX_REFINED_SENDS:
            self._accept(strict)

    @property
    def has_root_choice(self) -> bool:
        """Return whether to try other roots: there are few sends and no switch copies chunks."""
        few = len(self.sends or ()) <= MAX_SENDS
        return few and not self.problem.is_multicast and self.options.model not in EPOCH_MODELS

    def improve_before(self, units: int, effort: Effort) -> None:
        """Search for chains that finish before another method, unless epochs are required.

        The search stops at once if no chain can finish before the better of ``units`` and the
        present schedule. If the other method is faster, neighborhoods are not searched.

        Args:
            units: Completion time of the other method, units.
            effort: Limits of the search.

        Raises:
            KeyboardInterrupt: The user interrupted. Results so far are kept.
        """
        self.rival_finish = units
        self.is_exhausted = units < self.finish
        if self.options.model not in EPOCH_MODELS and self._cutoff() > max(
            self.min_chain_time, self.target
        ):
            self.improve(effort)

    def _cutoff(self) -> int:
        return min(self.finish, self.rival_finish)

    def _accept(self, sends: tuple[ChunkSend, ...]) -> None:
        super()._accept(tighten_chain(self.problem, sends))

    def _mark_exhausted(self) -> None:
        """Record that no better chains exist. Schedules that are not chains may still be better."""
        self.is_exhausted = True
