"""Themis: BlueConnect in which each piece takes the dimensions in an order of its own."""

from __future__ import annotations

from sccl.core.topology import Topology
from sccl.synth.baselines.pattern import Maker, Pattern, backwards, beside, there_and_back
from sccl.synth.baselines.pattern.dimensions import by_dimensions
from sccl.synth.baselines.pattern.grid import Grid, fully_joined, required_grid
from sccl.synth.contract import Request

NAME = "themis"
SOURCE = "Rashidi, Won, Srinivasan, Sridharan, Krishna, ISCA 2022, without a threshold"


def orders(grid: Grid, rates: list[float], pieces: int) -> list[tuple[int, ...]]:
    """Return the order in which each piece of an allgather takes the dimensions.

    A stage carries all data gathered before, so the last one carries the most. It is assigned to
    the dimension with the lowest load so far.

    Args:
        rates: rate of a rank in each dimension.
    """
    load = [0.0] * len(rates)
    found = []
    for _ in range(pieces):
        order = tuple(sorted(range(len(rates)), key=lambda d: -load[d]))  # ties: as they come
        size = 1
        for d in order:
            load[d] += size * (grid.sides[d] - 1) / rates[d]
            size *= grid.sides[d]
        found.append(order)
    return found


def rates_of(topology: Topology, grid: Grid) -> list[float]:
    """Return the GB/s of the links of a rank in each dimension, in the mean of all ranks."""
    rates = [0.0] * len(grid.sides)
    places = [grid.at(d).tolist() for d in range(len(grid.sides))]
    for link in topology.links:
        if max(link.edge) < topology.ranks:
            moved = [d for d, at in enumerate(places) if at[link.src] != at[link.dst]]
            for d in moved[:1] if len(moved) == 1 else ():
                rates[d] += link.lanes * link.gb_per_s / topology.ranks
    return [rate or topology.gb_per_s for rate in rates]


def _allgather(request: Request, pieces: int) -> Pattern:
    grid = required_grid("Themis", request.topology)
    joined = [fully_joined(request.topology, grid, d) for d in range(len(grid.sides))]
    collective = request.spec.at(1)
    chosen = orders(grid, rates_of(request.topology, grid), pieces)
    made = {
        (order, way): by_dimensions(collective, grid, order, joined, way)
        for order in set(chosen)
        for way in (1, -1)
    }
    return beside([made[order, way] for order in chosen for way in (1, -1)])


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": there_and_back(_allgather),
}
