"""Constructions without search: by symmetry, edge colorings, and flows, at any size.

They are tried before any solver. An instance that they do not solve remains undecided.
"""

from sccl.synth.constructions.answer import (
    ConstructionCost,
    answer,
    attained_cost,
    construct_algorithm,
    cost_without_search,
)

__all__ = [
    "ConstructionCost",
    "answer",
    "attained_cost",
    "construct_algorithm",
    "cost_without_search",
]
