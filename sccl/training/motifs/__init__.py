"""The algebra of splitting collectives: rules, recipes made of them, and the judge of both.

Source: SYNDICATE (NSDI 2023) sections 4.2.1 and A.1: segmentation cuts a collective's
payload, splining its pattern. Both compose.
"""

from sccl.training.motifs.collective_motif import build_collective_motif, merge_collectives
from sccl.training.motifs.extents import buffer_elements, element_count
from sccl.training.motifs.motif_judge import find_motif_fault
from sccl.training.motifs.recipes import MERGE, Recipe, apply_recipe, parse_recipe
from sccl.training.motifs.splitting_rules import MotifRule, recipe_rules

__all__ = [
    "MERGE",
    "MotifRule",
    "Recipe",
    "apply_recipe",
    "buffer_elements",
    "build_collective_motif",
    "element_count",
    "find_motif_fault",
    "merge_collectives",
    "parse_recipe",
    "recipe_rules",
]
