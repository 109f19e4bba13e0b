"""SYNDICATE's Figures 16 to 18 from the cost model: which option is best for which size.

The machine has 16 nodes of 8 GPUs, as in the paper. The effect of incast on bandwidth is an
assumption: the paper names the best parts of an alltoall for small, medium and large sizes, but
gives no numbers.
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
from sccl.sim import FluidTask, run_fair_sharing
from sccl.training.fabric_names import resolve_fabric
from sccl.training.motifs import apply_recipe, build_collective_motif, parse_recipe
from sccl.training.options.candidate_options import CandidateOption
from sccl.training.options.carriers import CARRIERS
from sccl.training.options.motif_costs import MotifCosts
from sccl.training.types.training_plan import FULL_LOAD

FABRIC = "hgx2x16"
PARTS = ("figure16", "figure17", "figure18")

GPU, CPU = "gpu", "cpu"

_RANKS = 128
_SIZES = tuple(2**k for k in range(12, 31))
_SMOKE = (2**12, 2**22, 2**30)
_GRADIENTS = 2**28
"""Bytes of the allreduce of Figure 18. The paper's bottom layers have hundreds of MB."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """Time of one collective, or of two concurrent ones.

    Attributes:
        part: Figure of the paper.
        plan: Options of the collectives.
        size_bytes: Buffer size of a rank, in bytes. For Figure 18, that of the alltoall.
        us: Time, in microseconds.
        best: Whether no other plan of the part is faster for that size.
    """

    part: str
    plan: str
    size_bytes: int
    us: float
    best: bool


@cache
def _costs() -> MotifCosts:
    return MotifCosts(resolve_fabric(FABRIC))


def build_option(
    collective: str, size: int, recipe: str, channel: str, carrier: str
) -> CandidateOption:
    """Return a collective of all ranks as an option with one channel and one carrier."""
    costs = _costs()
    number = [entry.name for entry in costs.fabric.channels].index(channel)
    by = {entry.name: entry for entry in CARRIERS}[carrier]
    motifs = apply_recipe(
        build_collective_motif(collective, range(_RANKS), size), parse_recipe(recipe)
    )
    parts = tuple((number, carrier, costs.carrier_cost(motif, number, by, 1)) for motif in motifs)
    return CandidateOption(recipe, parts, tuple(motif.after for motif in motifs), bitwise=True)


def concurrent_us(offers: Sequence[CandidateOption]) -> float:
    """Return the microseconds of concurrent options of one motif each, under fair sharing."""
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
    """Return the times of an allreduce by a tree and around a ring."""
    return {
        name: build_option("allreduce", size, "whole", GPU, name).ns / 1000
        for name in ("tree", "ring")
    }


def _figure17(size: int) -> dict[str, float]:
    """Return the times of an alltoall over hosts in one, two and four sequential parts."""
    return {
        f"{parts}-way": build_option("alltoall", size, recipe, CPU, "direct").ns / 1000
        for parts, recipe in ((1, "whole"), (2, "spline(2)"), (4, "spline(4)"))
    }


def _figure18(size: int) -> dict[str, float]:
    """Return the times of an allreduce and an alltoall, on separate paths or on one path."""
    times = {}
    for ring, exchange in ((GPU, CPU), (CPU, GPU), (GPU, GPU), (CPU, CPU)):
        pair = [
            build_option("allreduce", _GRADIENTS, "whole", ring, "ring"),
            build_option("alltoall", size, "whole", exchange, "direct"),
        ]
        times[f"allreduce {ring}, alltoall {exchange}"] = concurrent_us(pair)
    return times


_MADE = {"figure16": _figure16, "figure17": _figure17, "figure18": _figure18}


def run(parts: Sequence[str], *, smoke: bool = False) -> Iterator[StepCost]:
    """Yield the time of each plan, by size."""
    for part in parts:
        for size in _SMOKE if smoke else _SIZES:
            times = _MADE[part](size)
            best_us = min(times.values())
            for plan, us in times.items():
                yield StepCost(part, plan, size, us, us == best_us)


def winners(results: Sequence[StepCost], part: str) -> list[tuple[str, int]]:
    """Return the best plans in order of size, each with its smallest size."""
    best = sorted((r.size_bytes, r.plan) for r in results if r.part == part and r.best)
    return [(plan, next(rows)[0]) for plan, rows in groupby(best, key=lambda row: row[1])]


def costs_table(results: Sequence[StepCost]) -> Table:
    """Return a table of the best plans and their smallest sizes."""
    table = Table(title="Costs of collectives, by plan")
    for column in ("part", "best", "from"):
        table.add_column(column)
    for part in dict.fromkeys(r.part for r in results):
        for plan, size in winners(results, part):
            table.add_row(part, plan, format_bytes(size))
    return table
