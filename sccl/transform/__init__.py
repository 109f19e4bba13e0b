"""Algorithms to algorithms: inversion, composition, and the way back from a dual."""

from sccl.transform.invert import compose, invert, prune
from sccl.transform.question import Question, pose

__all__ = ["Question", "compose", "invert", "pose", "prune"]
