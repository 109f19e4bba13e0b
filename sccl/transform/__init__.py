"""Algorithms to algorithms: inversion, composition, and the way back from a dual."""

from sccl.transform.expand import MAX_EXPANDED, expand, judge, require_judged
from sccl.transform.invert import compose, invert, prune
from sccl.transform.question import Question, pose

__all__ = [
    "MAX_EXPANDED",
    "Question",
    "compose",
    "expand",
    "invert",
    "judge",
    "pose",
    "prune",
    "require_judged",
]
