"""Transform algorithms: invert, compose, and convert the algorithm of a dual collective back."""

from sccl.transform.invert import compose, invert, prune
from sccl.transform.question import InstanceSolver, Question, build_question, solve_question

__all__ = [
    "InstanceSolver",
    "Question",
    "build_question",
    "compose",
    "invert",
    "prune",
    "solve_question",
]
