"""One question, one answer: its instances solved and their algorithms put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sccl.core.answer import Answer, Sat
from sccl.core.instance import Instance
from sccl.transform import Question

Solve = Callable[[Instance], Answer]


def ask(question: Question, solve: Solve) -> Answer:
    """Return the answer to a question, seconds added up; an algorithm has passed the judge.

    Args:
        solve: answers an instance (a solver of :mod:`sccl.backends` with its limits).
    """
    algorithms, seconds = [], 0.0
    for instance in question.instances:
        answer = solve(instance)
        seconds += answer.seconds
        if not isinstance(answer, Sat):
            return replace(answer, seconds=seconds)
        algorithms.append(answer.algorithm)
    return Sat(question.recover(algorithms), answer.solver, seconds)
