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

from sccl.core.formatting import format_count
from sccl.errors import ParameterError, TooLargeError
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import ChunkSend
from sccl.synth.scheduling.serial import prune_sends, serial_schedule
from sccl.synth.teccl.epochs import MAX_EPOCHS, Epochs, count_epochs
from sccl.synth.teccl.milp import EpochMilp, EpochState, MilpResult, OutOfTimeError

MAX_VARIABLES = 1_500_000
"""Approximate limit on the variables of a model."""

_EFFORT_SHARE = 0.5
"""Of the effort that is left: for one model, and of the time, for a round of A*, as a first one
that can be bettered for long leaves none to others else."""

_PRESOLVE_SHARE = 0.4
"""Of the time that making a model took: that CP-SAT takes to leave its presolve, in which it hears
no deadline (8 s instead of 6 with 316,000 variables, which took 6 to make)."""

_MAX_STALLED_ROUNDS = 3
"""Rounds of A* that bring nothing nearer, each twice as long, after which it gives up."""


@dataclass
class EpochSearch:
    """A search in epochs.

    Attributes:
        actions: groups of symmetries that are tried, the last the identity alone.
        lower_bound: lower bound in units, at full bandwidth if it varies.
        buffers: limit on chunks of others that a rank keeps to forward later. None: no limit.
        on_progress: called with each schedule that is found, in exact time, and its epochs.
        solver: solver of the models.
    """

    epochs: Epochs
    actions: Sequence[SymmetryAction]
    lower_bound: int
    buffers: int | None
    on_progress: Callable[[tuple[ChunkSend, ...], int], None]
    solver: str = "auto"

    def find_min_epochs(self, spending: EffortMeter, target: int, finish: int | None) -> int | None:
        """Search the fewest epochs. Return the number found. None: none so far.

        Args:
            target: units: it ends with a schedule that finishes by then.
            finish: finish of a known schedule, units. None: there is none.

        Raises:
            TooLargeError: the model would be too large.
            KeyboardInterrupt: the user interrupted. Results so far have been reported.
        """
        if finish is not None and finish <= target:
            return None
        low, high, stride = self.epochs.lower_bound(self.lower_bound), None, 1
        upper_bound = MAX_EPOCHS + 1 if finish is None else -(-finish // self.epochs.length)
        count = max(low, min(count_epochs(self.lower_bound, self.epochs.length), upper_bound - 1))
        while low < upper_bound and not spending.is_exhausted() and not spending.deadline_passed():
            result = self.solve_epochs(count, spending)
            if result.sends is not None:
                high = self._last_epoch(result.sends)
                if self._report(result.sends) <= target:
                    break
            else:  # an abandoned count is not tried again
                low, stride = count + 1, 1 if result.refuted else stride * 2
            upper_bound = upper_bound if high is None else min(upper_bound, high)
            count = (
                min(low - 1 + stride, upper_bound - 1) if high is None else (low + upper_bound) // 2
            )
        return high

    def solve_within(self, count: int, spending: EffortMeter) -> None:
        """Look for a schedule of so many epochs.

        Raises:
            ParameterError: it is proved that there is none.
            TooLargeError: the model would be too large.
            KeyboardInterrupt: the user interrupted.
        """
        refuted = count < self.epochs.min_epochs
        if not refuted:
            result = self.solve_epochs(count, spending)
            if result.sends is not None:
                self._report(result.sends)
            refuted = result.refuted
        if refuted:
            quiet = replace(self, on_progress=_ignore)
            fewest = quiet.find_min_epochs(spending, 0, None)
            hint = "give more" if fewest is None else f"{fewest} will do"
            raise ParameterError(
                f"epochs is {count}: it is proved that {format_count(count, 'epoch')} of "
                f"{self.epochs.length_us:g} us {'is' if count == 1 else 'are'} too few: {hint}"
            )

    def solve_rounds(self, spending: EffortMeter, count: int) -> bool:
        """Solve round after round until all is there (section 4.2); return whether it is.

        Args:
            count: epochs of a round.

        Raises:
            TooLargeError: the model would be too large.
            KeyboardInterrupt: the user interrupted.
        """
        problem, standing, before = self.epochs.problem, EpochState.initial(self.epochs), 0
        sends: list[ChunkSend] = []
        wanted = [(c, r) for c in range(problem.chunks) for r in problem.wanted[c]]
        stalled = 0
        while any(pair not in standing.available_from for pair in wanted):
            if (
                spending.is_exhausted()
                or spending.deadline_passed()
                or stalled == _MAX_STALLED_ROUNDS
            ):
                return False
            try:
                self._check_size(count)
            except TooLargeError:  # as rounds are longer where one brought nothing
                if stalled:
                    return False
                raise
            epochs = replace(self.epochs, first_epoch=before)
            make = partial(
                EpochMilp,
                epochs,
                self.actions[0],
                count,
                standing=standing,
                buffers=self.buffers,
                complete=False,
            )
            result = self._solve_with_budget(make, spending, _EFFORT_SHARE)
            new = result.sends or ()
            sends += [ChunkSend(s.start + before, s.chunk, s.route) for s in new]
            standing, before = standing.advance(epochs, new, count), before + count
            stalled, count = (0, count) if new else (stalled + 1, count * 2)
        self._report(sends)
        return True

    def solve_epochs(self, count: int, spending: EffortMeter) -> MilpResult:
        """Return the result of the model with ``count`` epochs: symmetric schedules, then all."""
        self._check_size(count)
        result = MilpResult(None, refuted=False, effort_units=0.0)
        for action in self.actions:
            make = partial(EpochMilp, self.epochs, action, count, buffers=self.buffers)
            result = self._solve_with_budget(make, spending)
            if result.sends is not None:
                break
        return result

    def _solve_with_budget(
        self, make: Callable[..., EpochMilp], spending: EffortMeter, share: float = 1.0
    ) -> MilpResult:
        """Return the result of a model, which is built if there is time for it.

        Args:
            share: fraction of the remaining time.
        """
        nothing = MilpResult(None, refuted=False, effort_units=0.0)
        if spending.is_exhausted():
            return nothing
        began = spending.elapsed_seconds()
        try:
            model = make(deadline_passed=spending.deadline_passed)
        except OutOfTimeError:
            return nothing
        ending = _PRESOLVE_SHARE * (spending.elapsed_seconds() - began)
        left = spending.remaining()
        if left is None or left.seconds <= ending:
            return nothing
        seconds = None if left.timeout_s is None else (left.timeout_s - ending) * share
        units = left.units and min(left.units, max(left.units * _EFFORT_SHARE, 0.05))
        result = model.solve(Effort(seconds, left.seed, units), self.solver)
        spending.units += max(result.effort_units, 1e-3)
        return result

    def _last_epoch(self, sends: Sequence[ChunkSend]) -> int:
        delays = (
            s.start + (self.epochs.for_chunk(s.chunk).delay_at(s.route, s.start) or 0)
            for s in sends
        )
        return max(delays, default=0)

    def _report(self, sends: Sequence[ChunkSend]) -> int:
        """Report a schedule in exact time, without useless sends. Return its finish.

        If buffers are limited, no send leaves before its epoch.
        """
        problem, length = self.epochs.problem, 0 if self.buffers is None else self.epochs.length
        order = sorted(prune_sends(problem, sends), key=lambda s: (s.start, s.chunk, s.route))
        exact = serial_schedule(problem, order, length)
        self.on_progress(exact, self._last_epoch(order))
        return problem.finish(exact)

    def _check_size(self, count: int) -> None:
        """Check that a model of so many epochs can be held.

        Raises:
            TooLargeError: it cannot.
        """
        problem = self.epochs.problem
        size = len(self.actions[0].representatives) * len(problem.src) * count
        if size > MAX_VARIABLES:
            raise TooLargeError(
                f"{problem.collective.name} of {problem.ranks} ranks in "
                f"{format_count(count, 'epoch')} of "
                f"{self.epochs.length_us:g} us takes {size} variables, at most {MAX_VARIABLES} are "
                "modelled: give longer epochs, fewer chunks, or the continuous model"
            )


def _ignore(*_: object) -> None:
    """Tell nobody."""
