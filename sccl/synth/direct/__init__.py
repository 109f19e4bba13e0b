"""Answers without search: what symmetry, colourings and flows give at once, at any size.

They are asked before any solver. What they do not find is undecided.
"""

from sccl.synth.direct.answer import SEARCHED, answer, constructed
from sccl.synth.direct.reach import Attained, attained

__all__ = ["SEARCHED", "Attained", "answer", "attained", "constructed"]
