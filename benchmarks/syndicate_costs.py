"""SYNDICATE's Figures 16 to 18 from the cost model: which option is best for which size.

On 16 nodes of 8 GPUs, as in the paper. What incast leaves of a bandwidth is assumed: the paper says
which parts of an alltoall are best for small, middle and large ones, and no numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import groupby

import numpy as np
from rich.table import Table

from sccl.core.cost import format_bytes
from sccl.core.training_plan import FULL_LOAD
from sccl.sim import FluidTask, run_fair_sharing
from sccl.topo.fabrics import resolve_fabric
from sccl.training.motifs import apply_recipe, build_collective_motif, parse_recipe
from sccl.training.options.candidate_options import CandidateOption
from sccl.training.options.carriers import CARRIERS
from sccl.training.options.motif_costs import MotifCosts

FABRIC = "hgx2x16"
PARTS = ("figure16", "figure17", "figure18")

GPU, CPU = "gpu", "cpu"

_RANKS = 128
_SIZES = tuple(2**k for k in range(12, 31))
_SMOKE = (2**12, 2**22, 2**30)
_GRADIENTS = 2**28
"""Bytes of the allreduce of Figure 18: the paper's bottom layers have hundreds of MB."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a collective takes, or two of them.

    Attributes:
        part: a figure of the paper.
        plan: how it is done.
        size_bytes: of the buffer of a rank; of Figure 18 that of the alltoall.
        us: microseconds.
        best: whether no other plan of the part takes less for that size.
    """

    part: str
    plan: str
    size_bytes: int
    us: float
    best: bool


@cache
def _costs() -> MotifCosts:
    return MotifCosts(resolve_fabric(FABRIC))


def offered(collective: str, size: int, recipe: str, channel: str, carrier: str) -> CandidateOption:
    """Return a collective of all ranks as an option of one channel and one carrier."""
    costs = _costs()
    number = [one.name for one in costs.fabric.channels].index(channel)
    by = {one.name: one for one in CARRIERS}[carrier]
    motifs = apply_recipe(
        build_collective_motif(collective, range(_RANKS), size), parse_recipe(recipe)
    )
    parts = tuple((number, carrier, costs.carrier_cost(motif, number, by, 1)) for motif in motifs)
    return CandidateOption(recipe, parts, tuple(motif.after for motif in motifs), bitwise=True)


def together(offers: Sequence[CandidateOption]) -> float:
    """Return the microseconds that options of one motif each take at once, sharing as fluids do."""
    tasks = []
    for offer in offers:
        ((_, _, cost),) = offer.parts
        loads = {
            int(pipe): Fraction(int(cost.loads[pipe]), FULL_LOAD)
            for pipe in np.flatnonzero(cost.loads)
        }
        tasks.append(FluidTask(Fraction(cost.ns), loads))
    return float(max(span.end for span in run_fair_sharing(tasks))) / 1000


def _figure16(size: int) -> dict[str, float]:
    """Return what an allreduce takes by a tree and around a ring."""
    return {
        name: offered("allreduce", size, "whole", GPU, name).ns / 1000 for name in ("tree", "ring")
    }


def _figure17(size: int) -> dict[str, float]:
    """Return what an alltoall over hosts takes in one, two and four parts, each after the other."""
    return {
        f"{ways}-way": offered("alltoall", size, recipe, CPU, "direct").ns / 1000
        for ways, recipe in ((1, "whole"), (2, "spline(2)"), (4, "spline(4)"))
    }


def _figure18(size: int) -> dict[str, float]:
    """Return what an allreduce and an alltoall take, each on a path of its own, or on one."""
    found = {}
    for ring, exchange in ((GPU, CPU), (CPU, GPU), (GPU, GPU), (CPU, CPU)):
        pair = [
            offered("allreduce", _GRADIENTS, "whole", ring, "ring"),
            offered("alltoall", size, "whole", exchange, "direct"),
        ]
        found[f"allreduce {ring}, alltoall {exchange}"] = together(pair)
    return found


_MADE = {"figure16": _figure16, "figure17": _figure17, "figure18": _figure18}


def run(parts: Sequence[str], *, smoke: bool = False) -> Iterator[StepCost]:
    """Yield what each plan takes, by size."""
    for part in parts:
        for size in _SMOKE if smoke else _SIZES:
            took = _MADE[part](size)
            least = min(took.values())
            for plan, us in took.items():
                yield StepCost(part, plan, size, us, us == least)


def winners(results: Sequence[StepCost], part: str) -> list[tuple[str, int]]:
    """Return which plans are best one after the other, as sizes grow, each from which size on."""
    best = sorted((r.size_bytes, r.plan) for r in results if r.part == part and r.best)
    return [(plan, next(own)[0]) for plan, own in groupby(best, key=lambda row: row[1])]


def costs_table(results: Sequence[StepCost]) -> Table:
    """Return which plans of collectives are best, and from which size on."""
    table = Table(title="Costs of collectives, by plan")
    for column in ("part", "best", "from"):
        table.add_column(column)
    for part in dict.fromkeys(r.part for r in results):
        for plan, size in winners(results, part):
            table.add_row(part, plan, format_bytes(size))
    return table
