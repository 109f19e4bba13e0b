"""Answers without search: what symmetry, colourings and flows give at once, at any size.

They are asked before any solver. What they do not find is undecided.
"""

from sccl.synth.direct.answer import answer, constructed
from sccl.synth.direct.reach import Attained, attained

__all__ = ["Attained", "answer", "attained", "constructed"]
