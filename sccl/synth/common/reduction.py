"""One question, one answer: its instances solved and their algorithms put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.instance import Instance
from sccl.core.stop import StopKind, StopReason
from sccl.errors import TooLargeError
from sccl.transform import Question

InstanceSolver = Callable[[Instance], Answer]


def solve_question(question: Question, solve: InstanceSolver) -> Answer:
    """Return the answer to a question, seconds added up. An algorithm has passed the judge.

    Args:
        solve: answers an instance (a solver of :mod:`sccl.synth.syncoll.solve` with its effort).
    """
    algorithms, seconds, gave_up = [], 0.0, None
    for instance in question.instances:
        answer = solve(instance)
        seconds += answer.seconds
        match answer:
            case Unsat():
                return replace(answer, seconds=seconds)
            case Unknown():
                gave_up = answer  # another instance may still be unsat, which decides
            case Sat(algorithm):
                algorithms.append(algorithm)
    if gave_up is not None:
        return replace(gave_up, seconds=seconds)
    assert isinstance(answer, Sat)
    try:
        recovered = question.recover(algorithms)
        return replace(answer, algorithm=recovered, seconds=seconds)
    except TooLargeError as error:
        why = f"its dual has an algorithm, which is too large to turn round: {error}"
        return Unknown(StopReason(StopKind.TOO_LARGE, why), answer.solver, seconds)
