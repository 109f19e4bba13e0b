"""The algebra of splitting collectives: rules, recipes made of them, and the judge of both.

Source: SYNDICATE (NSDI 2023) sections 4.2.1 and A.1: segmentation cuts a collective's
payload, splining its pattern. Both compose.
"""

from sccl.motif.extents import buffer_of, extent
from sccl.motif.judge import wrong_in
from sccl.motif.merge import joined
from sccl.motif.recipes import MERGE, Recipe, motifs_of, recipe_of
from sccl.motif.rule import MotifRule
from sccl.motif.rules import rules
from sccl.motif.whole import whole

__all__ = [
    "MERGE",
    "MotifRule",
    "Recipe",
    "buffer_of",
    "extent",
    "joined",
    "motifs_of",
    "recipe_of",
    "rules",
    "whole",
    "wrong_in",
]
