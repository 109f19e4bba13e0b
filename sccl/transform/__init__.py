"""Algorithms to algorithms: inversion, composition, and the way back from a dual."""

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
