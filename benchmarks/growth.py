"""How all collectives grow with the machine: limits at the fewest steps, 16 to 1,024 ranks.

A whole ``sccl limits`` process each: what bounds R/C in as few steps as can be, and an algorithm at
it or near it, judged.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.process import measure
from sccl.collectives import collective_names, dual_of, named_spec
from sccl.errors import ScclError
from sccl.prove.bounds import any_class_bounds, lower_bounds
from sccl.topo import resolve_topology

FAMILIES: dict[str, tuple[str, ...]] = {
    "torus": ("torus:4x4", "torus:8x8", "torus:16x16", "torus:32x32"),
    "hypercube": ("hypercube:4", "hypercube:6", "hypercube:8", "hypercube:10"),
    "mesh": ("mesh:4x4", "mesh:8x8", "mesh:16x16", "mesh:32x32"),
    "dragonfly": ("dragonfly:4x5", "dragonfly:8x9", "dragonfly:16x17", "dragonfly:32x32"),
}
SMOKE: dict[str, tuple[str, ...]] = {"hypercube": ("hypercube:2",)}
SMOKE_COLLECTIVES = ("allgather", "allreduce", "alltoall")
"""One of each kind: what is copied, what is reduced, what does neither."""
_GROWS_FROM = 50  # ranks: below, starting the process is most of it


@dataclass(frozen=True, slots=True)
class GrowthResult:
    """What ``sccl limits`` took.

    Attributes:
        verdict: ``"met"``: the limit is known; ``"near"``: what was found is above what is proved;
            ``"refused"``: it says that this would be too large; ``"late"``: it was ended.
        above: by which part R/C of what was found is above what none beats; None: nothing was.
        seconds: of the whole process.
        user_seconds: of the processor, which other work on the machine changes less.
        memory_mb: the most it held.
    """

    collective: str
    family: str
    topology: str
    ranks: int
    steps: int
    verdict: str
    above: float | None
    seconds: float | None
    user_seconds: float | None
    memory_mb: float | None

    @property
    def answered(self) -> bool:
        """Return whether there are figures of it."""
        return self.verdict in {"met", "near"}


def run(*, smoke: bool, timeout_s: float) -> Iterator[GrowthResult]:
    """Yield the results; of a collective and a family none beyond the first without an answer."""
    for family, machines in (SMOKE if smoke else FAMILIES).items():
        for collective in SMOKE_COLLECTIVES if smoke else collective_names():
            for machine in machines:
                result = limits(family, machine, collective, timeout_s)
                yield result
                if not result.answered:
                    break


def limits(family: str, machine: str, collective: str, timeout_s: float) -> GrowthResult:
    """Return what the limits of one collective on one machine take, as a user asks for them."""
    topology = resolve_topology(machine)
    spec = named_spec(collective, topology.ranks)
    phases = dual_of(spec).phases  # of allreduce two, each of as many steps as the machine is wide
    of_all = any_class_bounds if phases > 1 else lower_bounds
    steps = of_all(topology, spec).steps * phases
    of = (collective, family, machine, topology.ranks, steps)
    about = ("--collective", collective, "--topo", machine, "--max-steps", str(steps))
    try:
        done = measure("limits", *about, "--json", timeout_s=timeout_s)
    except subprocess.TimeoutExpired:
        return GrowthResult(*of, "late", None, None, None, None)
    except ScclError:
        return GrowthResult(*of, "refused", None, None, None, None)
    above = _above(json.loads(done.text))
    took = (done.seconds, done.user_seconds, done.memory_mb)
    return GrowthResult(*of, "met" if above == 0 else "near", above, *took)


def _above(found: dict[str, Any]) -> float:
    """Return by which part R/C of the last point is above what none of as many steps beats."""
    last = found["points"][-1]
    if "above_every" in last:
        return float(Fraction(last["above_every"]))
    limit = found["limits"][-1]
    return float(Fraction(limit["upper"]) / Fraction(limit["lower"]) - 1)


def growth(results: Sequence[GrowthResult], field: str) -> dict[str, float]:
    """Return, by collective and family, the power of the ranks that a figure grows with."""
    found = {}
    for series in dict.fromkeys((r.collective, r.family) for r in results):
        large = [
            (math.log(r.ranks), math.log(getattr(r, field)))
            for r in results
            if (r.collective, r.family) == series and r.ranks >= _GROWS_FROM and r.answered
        ]
        if len(large) > 1:
            ranks, figures = zip(*large, strict=True)
            found[", ".join(series)] = round(float(np.polyfit(ranks, figures, 1)[0]), 2)
    return found
