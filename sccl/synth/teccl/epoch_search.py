"""Search for the fewest epochs in which TE-CCL's model has a schedule (appendix E).

Source: Liu et al., TE-CCL (SIGCOMM 2024). The paper derives an upper bound on the number of epochs
from a list of candidate times (Algorithm 1), and the objective then prefers early epochs. Here the
models have no objective, and the search decides numbers of epochs one after the other. It starts
from the completion time of a known schedule and goes upward while models are infeasible, in longer
strides if a model is neither solved nor refuted. Once there is a schedule, it bisects between the
lower bound and that schedule's number of epochs.

Rounds of A* are in :mod:`sccl.synth.teccl.astar`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sccl.core.formatting import format_count
from sccl.errors import ParameterError, TooLargeError
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.limits import MAX_VARIABLES, OPERATION_EFFORT
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import ChunkSend
from sccl.synth.scheduling.serial import prune_sends, serial_schedule
from sccl.synth.teccl.epochs import MAX_EPOCHS, Epochs, count_epochs
from sccl.synth.teccl.milp import EpochMilp, MilpResult, OutOfTimeError

EFFORT_SHARE = 0.5
"""Fraction of the remaining budget for one model, and of the remaining time for one round of A*.
Otherwise the first round, which is improved as long as there is time, would leave none for later
rounds.

The same fraction of the time for building a model is reserved for the end of CP-SAT's presolve,
which ignores the deadline. (With 316,000 variables and a limit of 6 s, CP-SAT returned after 8 s.
This model took 6 s to build.)
"""


@dataclass
class EpochSearch:
    """A search over the number of epochs.

    Attributes:
        epochs: Epochs of the problem.
        actions: Groups of symmetries to impose, one after the other. The last is the identity.
        lower_bound: Lower bound on the completion time, units, at full bandwidth if it varies.
        buffers: Limit on the chunks of others that a rank stores to forward later. None: no limit.
        on_progress: Called with each schedule, in exact time, and its number of epochs.
        solver: Solver of the models.
    """

    epochs: Epochs
    actions: Sequence[SymmetryAction]
    lower_bound: int
    buffers: int | None
    on_progress: Callable[[tuple[ChunkSend, ...], int], None]
    solver: str = "auto"

    def find_min_epochs(self, spending: EffortMeter, target: int, finish: int | None) -> int | None:
        """Search for the fewest epochs of a schedule.

        Args:
            spending: The budget.
            target: Completion time, units. The search ends with a schedule that attains it.
            finish: Completion time of a known schedule, units. None: no schedule is known.

        Returns:
            The fewest epochs of all schedules of this search. None: it has no schedule.

        Raises:
            TooLargeError: A model would be too large.
            KeyboardInterrupt: The user interrupted. Schedules so far have been reported.
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
                if self.report(result.sends) <= target:
                    break
            else:  # an undecided number is not tried again
                low, stride = count + 1, 1 if result.refuted else stride * 2
            upper_bound = upper_bound if high is None else min(upper_bound, high)
            count = (
                min(low - 1 + stride, upper_bound - 1) if high is None else (low + upper_bound) // 2
            )
        return high

    def solve_within(self, count: int, spending: EffortMeter) -> None:
        """Look for a schedule with a given number of epochs.

        Raises:
            ParameterError: It is proved that no such schedule exists.
            TooLargeError: The model would be too large.
            KeyboardInterrupt: The user interrupted.
        """
        refuted = count < self.epochs.min_epochs
        if not refuted:
            result = self.solve_epochs(count, spending)
            if result.sends is not None:
                self.report(result.sends)
            refuted = result.refuted
        if refuted:
            quiet = replace(self, on_progress=_ignore)
            fewest = quiet.find_min_epochs(spending, 0, None)
            hint = "give more" if fewest is None else f"{fewest} will do"
            raise ParameterError(
                f"epochs is {count}: it is proved that {format_count(count, 'epoch')} of "
                f"{self.epochs.length_us:g} us {'is' if count == 1 else 'are'} too few: {hint}"
            )

    def solve_epochs(self, count: int, spending: EffortMeter) -> MilpResult:
        """Return the result of the model with ``count`` epochs: symmetric schedules, then all."""
        self.check_size(count)
        result = MilpResult(None, refuted=False, effort_units=0.0)
        for action in self.actions:
            build_model = partial(EpochMilp, self.epochs, action, count, buffers=self.buffers)
            result = self.solve_with_budget(build_model, spending)
            spending.units += OPERATION_EFFORT * self._count_variables(count)
            if result.sends is not None:
                break
        return result

    def solve_with_budget(
        self, build_model: Callable[..., EpochMilp], spending: EffortMeter, share: float = 1.0
    ) -> MilpResult:
        """Build a model if there is time for it, and return its result.

        Args:
            build_model: Constructor of the model, with ``deadline_passed`` as its only argument.
            spending: The budget.
            share: Fraction of the remaining time for this model.
        """
        no_result = MilpResult(None, refuted=False, effort_units=0.0)
        if spending.is_exhausted():
            return no_result
        build_start = spending.elapsed_seconds()
        try:
            model = build_model(deadline_passed=spending.deadline_passed)
        except OutOfTimeError:
            return no_result
        presolve_s = EFFORT_SHARE * (spending.elapsed_seconds() - build_start)
        remaining = spending.remaining()
        if remaining is None or remaining.seconds <= presolve_s:
            return no_result
        timeout_s = remaining.timeout_s
        seconds = None if timeout_s is None else (timeout_s - presolve_s) * share
        units = remaining.units and min(remaining.units, max(remaining.units * EFFORT_SHARE, 0.05))
        result = model.solve(Effort(seconds, remaining.seed, units), self.solver)
        spending.units += max(result.effort_units, 1e-3)
        return result

    def _last_epoch(self, sends: Sequence[ChunkSend]) -> int:
        arrivals = (
            s.start + (self.epochs.for_chunk(s.chunk).delay_at(s.route, s.start) or 0)
            for s in sends
        )
        return max(arrivals, default=0)

    def report(self, sends: Sequence[ChunkSend]) -> int:
        """Report a schedule in exact time, without useless sends. Return its completion time.

        If buffers are limited, no send leaves before its epoch.
        """
        problem, length = self.epochs.problem, 0 if self.buffers is None else self.epochs.length
        order = sorted(prune_sends(problem, sends), key=lambda s: (s.start, s.chunk, s.route))
        exact = serial_schedule(problem, order, length)
        self.on_progress(exact, self._last_epoch(order))
        return problem.finish(exact)

    def _count_variables(self, count: int) -> int:
        return len(self.actions[0].representatives) * len(self.epochs.problem.src) * count

    def check_size(self, count: int) -> None:
        """Check the size of a model with ``count`` epochs.

        Raises:
            TooLargeError: It has too many variables.
        """
        problem, size = self.epochs.problem, self._count_variables(count)
        if size > MAX_VARIABLES:
            raise TooLargeError(
                f"{problem.collective.name} of {problem.ranks} ranks in "
                f"{format_count(count, 'epoch')} of "
                f"{self.epochs.length_us:g} us takes {size} variables, at most {MAX_VARIABLES} are "
                "modelled: give longer epochs, fewer chunks, or the continuous model"
            )


def _ignore(*_: object) -> None:
    """Report nothing."""
