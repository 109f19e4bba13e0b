"""Time limits of all collectives at the fewest steps, on 16 to 1,024 ranks.

Each is a whole ``sccl limits`` process. It computes a lower bound on R/C for the fewest steps and a
verified algorithm at or near this bound.
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
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.topo import resolve_topology

FAMILIES: dict[str, tuple[str, ...]] = {
    "torus": ("torus:4x4", "torus:8x8", "torus:16x16", "torus:32x32"),
    "hypercube": ("hypercube:4", "hypercube:6", "hypercube:8", "hypercube:10"),
    "mesh": ("mesh:4x4", "mesh:8x8", "mesh:16x16", "mesh:32x32"),
    "dragonfly": ("dragonfly:4x5", "dragonfly:8x9", "dragonfly:16x17", "dragonfly:32x32"),
}
SMOKE: dict[str, tuple[str, ...]] = {"hypercube": ("hypercube:2",)}
SMOKE_COLLECTIVES = ("allgather", "allreduce", "alltoall")
"""One collective of each kind: with copies, with reductions, and without both."""
_GROWS_FROM = 50  # ranks: below, the start of the process dominates


@dataclass(frozen=True, slots=True)
class GrowthResult:
    """Times of ``sccl limits``.

    Attributes:
        verdict: ``"met"`` if the algorithm meets the lower bound, ``"near"`` if it is above,
            ``"refused"`` if the problem is too large, ``"late"`` at the time limit.
        above: Relative gap of the algorithm's R/C to the lower bound. None: no algorithm.
        seconds: Time of the whole process.
        user_seconds: Processor time, which depends less on other load.
        memory_mb: Peak memory in 10^6 bytes.
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
        """Return whether the process answered."""
        return self.verdict in {"met", "near"}


def run(*, smoke: bool, timeout_s: float) -> Iterator[GrowthResult]:
    """Yield the results. A family ends at a collective's first machine without an answer."""
    for family, machines in (SMOKE if smoke else FAMILIES).items():
        for collective in SMOKE_COLLECTIVES if smoke else collective_names():
            for machine in machines:
                result = limits(family, machine, collective, timeout_s)
                yield result
                if not result.answered:
                    break


def limits(family: str, machine: str, collective: str, timeout_s: float) -> GrowthResult:
    """Return the times of the limits of one collective on one machine."""
    topology = resolve_topology(machine)
    spec = named_spec(collective, topology.ranks)
    phases = dual_of(spec).phases  # allreduce has two, each with the diameter as fewest steps
    bounds_of = any_class_bounds if phases > 1 else lower_bounds
    steps = bounds_of(topology, spec).steps * phases
    key = (collective, family, machine, topology.ranks, steps)
    words = ("--collective", collective, "--topo", machine, "--max-steps", str(steps))
    try:
        done = measure("limits", *words, "--json", timeout_s=timeout_s)
    except subprocess.TimeoutExpired:
        return GrowthResult(*key, "late", None, None, None, None)
    except ScclError:
        return GrowthResult(*key, "refused", None, None, None, None)
    above = _gap(json.loads(done.text))
    costs = (done.seconds, done.user_seconds, done.memory_mb)
    return GrowthResult(*key, "met" if above == 0 else "near", above, *costs)


def _gap(document: dict[str, Any]) -> float:
    """Return the relative gap of the last point's R/C to the lower bound for as many steps."""
    last = document["points"][-1]
    if "above_every" in last:
        return float(Fraction(last["above_every"]))
    limit = document["limits"][-1]
    return float(Fraction(limit["upper"]) / Fraction(limit["lower"]) - 1)


def growth(results: Sequence[GrowthResult], field: str) -> dict[str, float]:
    """Return the exponent of a figure's growth with the ranks, by collective and family."""
    exponents = {}
    for series in dict.fromkeys((r.collective, r.family) for r in results):
        large = [
            (math.log(r.ranks), math.log(getattr(r, field)))
            for r in results
            if (r.collective, r.family) == series and r.ranks >= _GROWS_FROM and r.answered
        ]
        if len(large) > 1:
            ranks, figures = zip(*large, strict=True)
            exponents[", ".join(series)] = round(float(np.polyfit(ranks, figures, 1)[0]), 2)
    return exponents
