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
    frontier_json,
    limit_frontier_json,
    limit_json,
    tree_frontier_json,
)
from sccl.pareto.sweep import Answered, Asking, Bounded, Event, Limited, Limiting, Settled, sweep

__all__ = [
    "MAX_TREE_RANKS",
    "Answered",
    "Asking",
    "Bounded",
    "Candidate",
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
    "ask",
    "candidates",
    "completeness",
    "fewest_tree_steps",
    "frontier_json",
    "gather_frontier",
    "limit_frontier",
    "limit_frontier_json",
    "limit_json",
    "step_limit",
    "sweep",
    "tree_floor",
    "tree_frontier",
    "tree_frontier_json",
    "within",
]
