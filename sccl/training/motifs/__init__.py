"""Split collectives into motifs: rules, recipes of rules, and verification of the results.

Source: SYNDICATE (NSDI 2023) sections 4.2.1 and A.1. Segmentation splits the payload of a
collective, splining splits its pattern, and both compose.
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
