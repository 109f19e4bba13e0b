"""Answers without search: what symmetry, colourings and flows give at once, at any size.

They are asked before any solver. What they do not find is undecided.
"""

from sccl.synth.direct.answer import answer

__all__ = ["answer"]
