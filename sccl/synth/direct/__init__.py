"""Constructions without search: by symmetry, colourings and flows, at any size.

They are tried before any solver. An instance that they do not solve stays undecided.
"""

from sccl.synth.direct.answer import SEARCHED, answer, constructed
from sccl.synth.direct.reach import Attained, attained

__all__ = ["SEARCHED", "Attained", "answer", "attained", "constructed"]
