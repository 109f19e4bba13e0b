"""Split steps of several rounds into several steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sccl.core.algorithm import Algorithm
from sccl.core.ids import Edge, Step
from sccl.errors import ParameterError


def stretch_steps(algorithm: Algorithm, steps: int) -> Algorithm:
    """Return an algorithm with the same rounds and sends in more steps.

    The data of a step are available at its start, so they may be sent in any of the steps that
    replace it. Each link sends as much as possible in the first of them.

    Args:
        algorithm: Algorithm on a topology without shared budgets.
        steps: Number of steps, at least that of the algorithm, and at most its rounds.

    Raises:
        ParameterError: The number of steps is out of range, or there are shared budgets.
    """
    if not algorithm.steps <= steps <= algorithm.rounds or algorithm.topology.budgets:
        raise ParameterError(
            f"steps is {steps}, expected {algorithm.steps} to {algorithm.rounds}, on a topology "
            "without shared budgets"
        )
    pieces = [[rounds] for rounds in algorithm.rounds_per_step]
    more = steps - algorithm.steps
    for step_rounds in pieces:
        cut = min(more, step_rounds[0] - 1)
        step_rounds[:] = [step_rounds[0] - cut] + [1] * cut
        more -= cut
    first = [sum(map(len, pieces[:k])) for k in range(len(pieces))]
    lanes = {link.edge: link.lanes for link in algorithm.topology.links}
    sent: Counter[tuple[int, Edge]] = Counter()
    sends = []
    for send in sorted(algorithm.sends):
        before = sent[send.step, send.edge]
        sent[send.step, send.edge] += 1
        piece, room = 0, pieces[send.step][0] * lanes[send.edge]
        while before >= room:
            piece += 1
            room += pieces[send.step][piece] * lanes[send.edge]
        sends.append(replace(send, step=Step(first[send.step] + piece)))
    rounds = tuple(rounds for step_rounds in pieces for rounds in step_rounds)
    return replace(algorithm, rounds_per_step=rounds, sends=tuple(sends))
