"""Solve TE-CCL's model round by round: the A* technique (section 4.2 and appendix D).

Source: Liu et al., TE-CCL (SIGCOMM 2024). A round is a partition of time here, not the unit of
bandwidth of step-based algorithms. A model of a few epochs maximizes the progress of all chunks
(``EpochMilp(is_complete=False)``, whose objective is
:meth:`sccl.synth.teccl.milp.EpochMilp._add_distance_objective`). The next round starts from the
state that this one leaves (:class:`sccl.synth.teccl.milp.EpochState`, the Q of appendix D).

Two deviations: a chunk may arrive any number of rounds after its send, while the paper's rounds are
longer than every delay. The paper's rounds all have the same number of epochs. Here a round that
sends nothing is followed by a round with twice as many epochs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sccl.errors import TooLargeError
from sccl.solvers.effort import EffortMeter
from sccl.synth.limits import MAX_IDLE
from sccl.synth.scheduling.problem import ChunkSend
from sccl.synth.teccl.epoch_search import EFFORT_SHARE, EpochSearch
from sccl.synth.teccl.milp import EpochMilp, EpochState


def solve_rounds(search: EpochSearch, spending: EffortMeter, count: int) -> bool:
    """Solve rounds until all demands are met (section 4.2). Return whether they are met.

    Args:
        search: Problem, symmetries, solver, and the receiver of the schedule.
        spending: The budget.
        count: Number of epochs of a round.

    Raises:
        TooLargeError: The model of a round would be too large.
        KeyboardInterrupt: The user interrupted.
    """
    problem, state, first_epoch = search.epochs.problem, EpochState.initial(search.epochs), 0
    sends: list[ChunkSend] = []
    demands = [(c, r) for c in range(problem.chunks) for r in problem.wanted[c]]
    stalled_rounds = 0
    while any(demand not in state.available_from for demand in demands):
        if spending.is_exhausted() or spending.deadline_passed() or stalled_rounds == MAX_IDLE:
            return False
        try:
            search.check_size(count)
        except TooLargeError:
            if stalled_rounds:  # a round of the requested size fits
                return False
            raise
        epochs = replace(search.epochs, first_epoch=first_epoch)
        build_model = partial(
            EpochMilp,
            epochs,
            search.actions[0],
            count,
            initial_state=state,
            buffers=search.buffers,
            is_complete=False,
        )
        result = search.solve_with_budget(build_model, spending, EFFORT_SHARE)
        round_sends = result.sends or ()
        sends += [ChunkSend(s.start + first_epoch, s.chunk, s.route) for s in round_sends]
        state = state.advance(epochs, round_sends, count)
        first_epoch += count
        stalled_rounds, count = (0, count) if round_sends else (stalled_rounds + 1, count * 2)
    search.report(sends)
    return True
