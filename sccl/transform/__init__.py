"""Algorithms to algorithms: inversion, composition, and the way back from a dual."""

from sccl.transform.invert import compose, invert, prune
from sccl.transform.question import Question, build_question

__all__ = ["Question", "build_question", "compose", "invert", "prune"]
