"""sccl: synthesize, prove and run optimal collective-communication algorithms.

    >>> import sccl
    >>> frontier = sccl.pareto("allgather", "dgx1")
    >>> frontier
    Frontier(allgather on dgx1: C=2 S=2 R=3, C=6 S=3 R=7; complete for every k)
    >>> frontier.points[0].algorithm.bandwidth_cost
    Fraction(3, 2)

The names of this module are stable. They are loaded at their first use, so ``import sccl`` takes no
time. The packages below it (``sccl.core``, ``sccl.synth``, ...) are for extensions of sccl.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # the same as in typing, which takes time to load
if TYPE_CHECKING:
    from sccl.api.algorithm import Algorithm
    from sccl.api.certificates import Certificate, check_certificate
    from sccl.api.chart import Chart
    from sccl.api.check import CheckReport, check
    from sccl.api.comparison import Comparison, compare
    from sccl.api.explorer import explore
    from sccl.api.export import export
    from sccl.api.frontier import Frontier, LimitFrontier, SavedFrontier
    from sccl.api.frontier_base import Point
    from sccl.api.inputs import collective, topology
    from sccl.api.loading import load
    from sccl.api.machine import Topology
    from sccl.api.plotting import plot
    from sccl.api.questions import Answer, bounds, limits, pareto, solve
    from sccl.api.schedule import Schedule
    from sccl.api.simulation import Simulation, simulate
    from sccl.api.synthesis import baseline, fastest, taccl, tacos, teccl
    from sccl.api.training import TrainingPlan, plan
    from sccl.api.workloads import Workload, make_workload, workload
    from sccl.errors import InputError, ScclError

__version__ = "0.2.0"

_HOMES = {
    "sccl.api.algorithm": ("Algorithm",),
    "sccl.api.certificates": ("Certificate", "check_certificate"),
    "sccl.api.chart": ("Chart",),
    "sccl.api.check": ("CheckReport", "check"),
    "sccl.api.comparison": ("Comparison", "compare"),
    "sccl.api.explorer": ("explore",),
    "sccl.api.export": ("export",),
    "sccl.api.frontier": ("Frontier", "LimitFrontier", "SavedFrontier"),
    "sccl.api.schedule": ("Schedule",),
    "sccl.api.frontier_base": ("Point",),
    "sccl.api.simulation": ("Simulation", "simulate"),
    "sccl.api.synthesis": ("baseline", "fastest", "taccl", "tacos", "teccl"),
    "sccl.api.training": ("TrainingPlan", "plan"),
    "sccl.api.workloads": ("Workload", "make_workload", "workload"),
    "sccl.api.loading": ("load",),
    "sccl.api.machine": ("Topology",),
    "sccl.api.inputs": ("collective", "topology"),
    "sccl.api.plotting": ("plot",),
    "sccl.api.questions": ("Answer", "bounds", "limits", "pareto", "solve"),
    "sccl.errors": ("InputError", "ScclError"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Algorithm",
    "Answer",
    "Certificate",
    "Chart",
    "CheckReport",
    "Comparison",
    "Frontier",
    "InputError",
    "LimitFrontier",
    "Point",
    "SavedFrontier",
    "ScclError",
    "Schedule",
    "Simulation",
    "Topology",
    "TrainingPlan",
    "Workload",
    "baseline",
    "bounds",
    "check",
    "check_certificate",
    "collective",
    "compare",
    "explore",
    "export",
    "fastest",
    "limits",
    "load",
    "make_workload",
    "pareto",
    "plan",
    "plot",
    "simulate",
    "solve",
    "taccl",
    "tacos",
    "teccl",
    "topology",
    "workload",
]


def __getattr__(name: str) -> object:
    """Load a public name at its first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'sccl' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted([*__all__, "__version__"])
