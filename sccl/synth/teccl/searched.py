"""TE-CCL in epochs: the fewest epochs in which all can be sent, or rounds of A*.

The search for the number of epochs starts from the time of a known schedule: by feasibility alone,
upward as long as it is refuted, in longer strides if it is neither found nor refuted, and then
between the lower bound and the result. (Appendix E searches for an upper bound, and leaves the rest
to the objective.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sccl.core.words import counted
from sccl.errors import ParameterError, TooLargeError
from sccl.solvers.effort import Effort, Spending
from sccl.synth.intervals.model import Action
from sccl.synth.intervals.placing import placed, pruned
from sccl.synth.intervals.posed import ChunkSend
from sccl.synth.teccl.epochs import MOST, Epochs, epochs_in
from sccl.synth.teccl.expanded import EpochState, Expanded, ExpandedModel, OutOfTimeError

MOST_VARIABLES = 1_500_000
"""Approximate limit on the variables of a model."""

_SHARE = 0.5
"""Of the effort that is left: for one model, and of the time, for a round of A*, as a first one
that can be bettered for long leaves none to others else."""

_ENDING = 0.4
"""Of the time that making a model took: that CP-SAT takes to leave its presolve, in which it hears
no deadline (8 s instead of 6 with 316,000 variables, which took 6 to make)."""

_STALLED = 3
"""Rounds of A* that bring nothing nearer, each twice as long, after which it gives up."""


@dataclass
class EpochSearch:
    """A search in epochs.

    Attributes:
        actions: groups of symmetries that are tried, the last the identity alone.
        least: lower bound in units, at full bandwidth if it varies.
        buffers: limit on chunks of others that a rank keeps to forward later. None: no limit.
        told: called with each schedule that is found, in exact time, and its epochs.
        solver: solver of the models.
    """

    epochs: Epochs
    actions: Sequence[Action]
    least: int
    buffers: int | None
    told: Callable[[tuple[ChunkSend, ...], int], None]
    solver: str = "auto"

    def fewest(self, spending: Spending, enough: int, finish: int | None) -> int | None:
        """Search the fewest epochs. Return the number found. None: none so far.

        Args:
            enough: units: it ends with a schedule that finishes by then.
            finish: finish of a known schedule, units. None: there is none.

        Raises:
            TooLargeError: the model would be too large.
            KeyboardInterrupt: the user interrupted. Results so far have been reported.
        """
        if finish is not None and finish <= enough:
            return None
        low, high, stride = self.epochs.fewest(self.least), None, 1
        most = MOST + 1 if finish is None else -(-finish // self.epochs.length)
        count = max(low, min(epochs_in(self.least, self.epochs.length), most - 1))
        while low < most and not spending.used_up() and not spending.late():
            found = self.solved(count, spending)
            if found.sends is not None:
                high = self._last(found.sends)
                if self._tell(found.sends) <= enough:
                    break
            else:  # what is given up is not looked at again
                low, stride = count + 1, 1 if found.refuted else stride * 2
            most = most if high is None else min(most, high)
            count = min(low - 1 + stride, most - 1) if high is None else (low + most) // 2
        return high

    def within(self, count: int, spending: Spending) -> None:
        """Look for a schedule of so many epochs.

        Raises:
            ParameterError: it is proved that there is none.
            TooLargeError: the model would be too large.
            KeyboardInterrupt: the user interrupted.
        """
        refuted = count < self.epochs.least
        if not refuted:
            found = self.solved(count, spending)
            if found.sends is not None:
                self._tell(found.sends)
            refuted = found.refuted
        if refuted:
            quiet = replace(self, told=_nothing)
            fewest = quiet.fewest(spending, 0, None)
            hint = "give more" if fewest is None else f"{fewest} will do"
            raise ParameterError(
                f"epochs is {count}: it is proved that {counted(count, 'epoch')} of "
                f"{self.epochs.us:g} us {'is' if count == 1 else 'are'} too few: {hint}"
            )

    def rounds(self, spending: Spending, count: int) -> bool:
        """Solve round after round until all is there (section 4.2); return whether it is.

        Args:
            count: epochs of a round.

        Raises:
            TooLargeError: the model would be too large.
            KeyboardInterrupt: the user interrupted.
        """
        posed, standing, before = self.epochs.posed, EpochState.first(self.epochs), 0
        sends: list[ChunkSend] = []
        wanted = [(c, r) for c in range(posed.chunks) for r in posed.wanted[c]]
        stalled = 0
        while any(pair not in standing.there for pair in wanted):
            if spending.used_up() or spending.late() or stalled == _STALLED:
                return False
            try:
                self._check_size(count)
            except TooLargeError:  # as rounds are longer where one brought nothing
                if stalled:
                    return False
                raise
            epochs = replace(self.epochs, first=before)
            make = partial(
                ExpandedModel,
                epochs,
                self.actions[0],
                count,
                standing=standing,
                buffers=self.buffers,
                whole=False,
            )
            found = self._spent(make, spending, _SHARE)
            new = found.sends or ()
            sends += [ChunkSend(s.start + before, s.chunk, s.way) for s in new]
            standing, before = standing.after(epochs, new, count), before + count
            stalled, count = (0, count) if new else (stalled + 1, count * 2)
        self._tell(sends)
        return True

    def solved(self, count: int, spending: Spending) -> Expanded:
        """Return the result of the model with ``count`` epochs: symmetric schedules, then all."""
        self._check_size(count)
        found = Expanded(None, refuted=False, units=0.0)
        for action in self.actions:
            make = partial(ExpandedModel, self.epochs, action, count, buffers=self.buffers)
            found = self._spent(make, spending)
            if found.sends is not None:
                break
        return found

    def _spent(
        self, make: Callable[..., ExpandedModel], spending: Spending, share: float = 1.0
    ) -> Expanded:
        """Return the result of a model, which is built if there is time for it.

        Args:
            share: fraction of the remaining time.
        """
        nothing = Expanded(None, refuted=False, units=0.0)
        if spending.used_up():
            return nothing
        began = spending.seconds()
        try:
            model = make(late=spending.late)
        except OutOfTimeError:
            return nothing
        ending = _ENDING * (spending.seconds() - began)
        left = spending.left()
        if left is None or left.seconds <= ending:
            return nothing
        seconds = None if left.timeout_s is None else (left.timeout_s - ending) * share
        units = left.units and min(left.units, max(left.units * _SHARE, 0.05))
        found = model.solved(Effort(seconds, left.seed, units), self.solver)
        spending.units += max(found.units, 1e-3)
        return found

    def _last(self, sends: Sequence[ChunkSend]) -> int:
        delays = (s.start + (self.epochs.of(s.chunk).delay_at(s.way, s.start) or 0) for s in sends)
        return max(delays, default=0)

    def _tell(self, sends: Sequence[ChunkSend]) -> int:
        """Report a schedule in exact time, without useless sends. Return its finish.

        If buffers are limited, no send leaves before its epoch.
        """
        posed, length = self.epochs.posed, 0 if self.buffers is None else self.epochs.length
        order = sorted(pruned(posed, sends), key=lambda s: (s.start, s.chunk, s.way))
        exact = placed(posed, order, length)
        self.told(exact, self._last(order))
        return posed.finish(exact)

    def _check_size(self, count: int) -> None:
        """Check that a model of so many epochs can be held.

        Raises:
            TooLargeError: it cannot.
        """
        posed = self.epochs.posed
        size = len(self.actions[0].firsts) * len(posed.src) * count
        if size > MOST_VARIABLES:
            raise TooLargeError(
                f"{posed.collective.name} of {posed.ranks} ranks in {counted(count, 'epoch')} of "
                f"{self.epochs.us:g} us takes {size} variables, at most {MOST_VARIABLES} are "
                "modelled: give longer epochs, fewer chunks, or the continuous model"
            )


def _nothing(*_: object) -> None:
    """Tell nobody."""
