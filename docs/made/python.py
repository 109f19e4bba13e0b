"""Reference of ``import sccl``: a table of names, and on the site their docstrings."""

from __future__ import annotations

import inspect

import sccl
from docs.made.markdown import cell

_TYPES = {
    "sccl.api.inputs": ("Machine", "CollectiveLike", "Ranks"),
    "sccl.api.questions": ("Store",),
    "sccl.api.synthesis": ("Size",),
    "sccl.synth.common.synthesis": ("BandwidthLike",),
    "sccl.api.simulation": ("PlanLike",),
    "sccl.api.progress": ("Progress",),
    "sccl.api.machine": ("Rank", "LinkLike"),
}
"""Aliases of types of arguments, by module."""

_PARTS: dict[str, tuple[str, ...]] = {
    "Questions": (
        *("topology", "collective", "bounds", "solve", "pareto", "limits", "load", "Answer"),
        *(
            "fastest",
            "tacos",
            "teccl",
            "taccl",
            "baseline",
            "simulate",
            "compare",
            "plan",
            "workload",
        ),
        *("make_workload", "check", "plot", "explore", "export"),
    ),
    "Results": (
        *("Frontier", "LimitFrontier", "SavedFrontier", "Point"),
        *("Algorithm", "Schedule", "Simulation", "Comparison", "Topology", "Chart"),
        *("TrainingPlan", "Workload", "CheckReport"),
    ),
    "Certificates": ("check_certificate", "Certificate"),
    "Errors": ("ScclError", "InputError"),
}


def summary() -> str:
    """Return a table of the names of each part, with the first sentences of their docstrings.

    Raises:
        ValueError: A public name belongs to no part.
    """
    missing = set(sccl.__all__) - {name for names in _PARTS.values() for name in names}
    if missing:
        raise ValueError(f"the reference has no place for {sorted(missing)}")
    rows = ["| name | purpose |", "|---|---|"]
    for name in (name for names in _PARTS.values() for name in names):
        first = (inspect.getdoc(getattr(sccl, name)) or "").split("\n\n")[0]
        rows.append(f"| `{name}` | {cell(' '.join(first.split()))} |")
    return "\n".join(rows)


def full() -> str:
    """Return the directives from which mkdocstrings makes a section for each name."""
    sections = "\n\n".join(
        f"## {title}\n\n" + "\n\n".join(f"::: sccl.{name}" for name in names)
        for title, names in _PARTS.items()
    )
    types = "\n\n".join(
        f"::: {module}.{name}" for module, names in _TYPES.items() for name in names
    )
    return f"{sections}\n\n## Argument types\n\n{types}"
