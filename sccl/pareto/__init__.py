"""The Pareto frontier over (S, R/C): asking one question, and sweeping all of them."""

from sccl.pareto.ask import ask
from sccl.pareto.candidates import Candidate, Range, candidates
from sccl.pareto.folder import Folder
from sccl.pareto.frontier import Frontier, Open, Point, Refuted, frontier_json
from sccl.pareto.sweep import Answered, Asking, Bounded, Event, Settled, sweep

__all__ = [
    "Answered",
    "Asking",
    "Bounded",
    "Candidate",
    "Event",
    "Folder",
    "Frontier",
    "Open",
    "Point",
    "Range",
    "Refuted",
    "Settled",
    "ask",
    "candidates",
    "frontier_json",
    "sweep",
]
