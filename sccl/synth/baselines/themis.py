"""Themis: BlueConnect in which each piece takes the dimensions in an order of its own."""

from __future__ import annotations

from sccl.core.topology import Topology
from sccl.synth.baselines.pattern import Pattern, run_in_parallel, with_inverses
from sccl.synth.baselines.pattern.dimension_order import gather_by_dimensions
from sccl.synth.baselines.pattern.grid import Grid, is_fully_connected, require_grid
from sccl.synth.common.contract import Request

NAME = "themis"
SOURCE = "Rashidi, Won, Srinivasan, Sridharan, Krishna, ISCA 2022, without a threshold"


def dimension_orders(grid: Grid, rates: list[float], pieces: int) -> list[tuple[int, ...]]:
    """Return the order of the dimensions for each piece of an allgather.

    A stage carries all data gathered before, so the last one carries the most. It is assigned to
    the dimension with the lowest load so far.

    Args:
        grid: The grid of ranks.
        rates: Rate of a rank in each dimension.
        pieces: Number of pieces.
    """
    load = [0.0] * len(rates)
    piece_orders = []
    for _ in range(pieces):
        order = tuple(sorted(range(len(rates)), key=lambda d: -load[d]))  # ties: as they come
        size = 1
        for d in order:
            load[d] += size * (grid.sides[d] - 1) / rates[d]
            size *= grid.sides[d]
        piece_orders.append(order)
    return piece_orders


def dimension_rates(topology: Topology, grid: Grid) -> list[float]:
    """Return the mean GB/s of a rank's links in each dimension."""
    rates = [0.0] * len(grid.sides)
    places = [grid.coordinates(d).tolist() for d in range(len(grid.sides))]
    for link in topology.links:
        if max(link.edge) < topology.ranks:
            moved = [d for d, at in enumerate(places) if at[link.src] != at[link.dst]]
            for d in moved[:1] if len(moved) == 1 else ():
                rates[d] += link.lanes * link.gb_per_s / topology.ranks
    return [rate or topology.gb_per_s for rate in rates]


def _allgather(request: Request, pieces: int) -> Pattern:
    grid = require_grid("Themis", request.topology)
    joined = [is_fully_connected(request.topology, grid, d) for d in range(len(grid.sides))]
    collective = request.spec.at(1)
    chosen = dimension_orders(grid, dimension_rates(request.topology, grid), pieces)
    made = {
        (order, direction): gather_by_dimensions(collective, grid, order, joined, direction)
        for order in set(chosen)
        for direction in (1, -1)
    }
    return run_in_parallel([made[order, direction] for order in chosen for direction in (1, -1)])


COLLECTIVES = with_inverses(allgather=_allgather)
