"""The Pareto frontier over (S, R/C): asking one question, and sweeping all of them."""

from sccl.pareto.allreduce import MAX_RANKS as MAX_TREE_RANKS
from sccl.pareto.allreduce import (
    TreeFrontier,
    fewest_tree_steps,
    gather_frontier,
    tree_floor,
    tree_frontier,
)
from sccl.pareto.ask import Solve, ask
from sccl.pareto.candidates import Candidate, Range, candidates, within
from sccl.pareto.classes import COMPOSED, GATHERED, SCOPES, TREES, Between, ClassFrontier, cost_of
from sccl.pareto.every_class import (
    AllreduceFrontier,
    has_classes,
    limit_allreduce,
    sweep_allreduce,
)
from sccl.pareto.folder import Folder
from sccl.pareto.frontier import Frontier, Open, Point, Refuted, completeness
from sccl.pareto.limits import (
    LimitFrontier,
    LimitPoint,
    StepLimit,
    limit_frontier,
    step_limit,
)
from sccl.pareto.plain import (
    allreduce_json,
    frontier_json,
    limit_frontier_json,
    limit_json,
    plain_of,
)
from sccl.pareto.sweep import (
    Answered,
    Asking,
    Begun,
    Bounded,
    Event,
    Limited,
    Limiting,
    Settled,
    sweep,
)

__all__ = [
    "COMPOSED",
    "GATHERED",
    "MAX_TREE_RANKS",
    "SCOPES",
    "TREES",
    "AllreduceFrontier",
    "Answered",
    "Asking",
    "Begun",
    "Between",
    "Bounded",
    "Candidate",
    "ClassFrontier",
    "Event",
    "Folder",
    "Frontier",
    "LimitFrontier",
    "LimitPoint",
    "Limited",
    "Limiting",
    "Open",
    "Point",
    "Range",
    "Refuted",
    "Settled",
    "Solve",
    "StepLimit",
    "TreeFrontier",
    "allreduce_json",
    "ask",
    "candidates",
    "completeness",
    "cost_of",
    "fewest_tree_steps",
    "frontier_json",
    "gather_frontier",
    "has_classes",
    "limit_allreduce",
    "limit_frontier",
    "limit_frontier_json",
    "limit_json",
    "plain_of",
    "step_limit",
    "sweep",
    "sweep_allreduce",
    "tree_floor",
    "tree_frontier",
    "within",
]
