"""Alltoall without search if ranks form an abelian group and links lead from x to x + g.

Links commute: a chunk for x + d may use the same links g, in any order, for any x. So one rank's
chunks determine everything: the links whose sum is each displacement d, and the step of each link.
Suppose that each step gives a displacement at most one link, and uses a link at most as often as
its lanes and rounds allow. Then by translation all ranks together stay within the capacity, too.

This is an edge coloring of a bipartite multigraph, of displacements and links, by steps. With R a
multiple of S it exists if no displacement needs more than S links and no link more than R uses per
lane: in each step a fraction 1/(remaining steps) of the rest is a fractional flow, so an integral
flow exists, too. Hence R/C is the load of the fullest link divided by P. On tori and hypercubes
this is the lower bound by distances, and S is the diameter.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sccl.core.algorithm import Send, make_send
from sccl.core.arrays import IntArray
from sccl.synth.constructions.displacement_routes import ShortestRoutes
from sccl.synth.limits import MAX_PASSES
from sccl.topo.symmetry.regular_groups import CayleyMachine

_MAX_EXACT_SIZE = 2_000
"""Pieces times ranks times steps up to which displacements are assigned as a whole. Without it, R/C
of an alltoall on ``circulant:20:1,4,7,8`` is 7/20 instead of 1/4."""


def build_sends(
    machine: CayleyMachine, pieces: int, steps: int, rounds: int
) -> tuple[tuple[int, ...], list[Send]] | None:
    """Return the rounds of each step, and all sends of rank 0's chunks. None: not found.

    Args:
        machine: The machine.
        pieces: Number of chunks per pair of ranks.
        steps: Number of steps.
        rounds: Number of rounds.
    """
    far = machine.distances()
    if int(far.min()) < 0 or int(far.max()) > steps:
        return None
    needs = _link_needs(machine, far, pieces)
    lanes = np.array(machine.lanes, np.int64)
    if (needs.sum(axis=0) > lanes * rounds).any():
        return None
    for most_first in (True, False):
        per_step = _spread_rounds(rounds, steps, most_first=most_first)
        if (colors := _color_edges(needs, lanes, per_step)) is not None:
            return tuple(per_step), _sends_along(machine, colors)
    return None


def rounds_per_chunk(machine: CayleyMachine, pieces: int) -> Fraction | None:
    """Return R/C by the fullest link. None: rank 0 does not reach some rank."""
    far = machine.distances()
    if int(far.min()) < 0:
        return None
    load = _link_needs(machine, far, pieces).sum(axis=0)
    full = max(Fraction(int(n), lanes) for n, lanes in zip(load, machine.lanes, strict=True))
    return full / (pieces * machine.group.ranks)


def _link_needs(machine: CayleyMachine, far: IntArray, pieces: int) -> IntArray:
    """Return the number of uses of each link by each piece of each displacement.

    The shape is (pieces * ranks, links of a rank). A displacement has the number of its rank. Paths
    are shortest. If there are several, pieces choose one after the other the path that adds least
    to the full links.
    """
    routes = ShortestRoutes.of(machine, far)
    first, last = (routes.single_route_counts(turned=turned) for turned in (False, True))
    needs = np.tile(first, (pieces, 1))
    ranks = machine.group.ranks
    few = pieces * ranks * int(far.max()) <= _MAX_EXACT_SIZE
    free = np.flatnonzero((far > 1) if few else (first != last).any(axis=1)).tolist()
    row_of = routes.cheapest_route if few else routes.least_loaded_route
    load = needs.sum(axis=0)
    best, best_load = needs.copy(), routes.max_load(load)
    for _ in range(MAX_PASSES if free else 0):
        for piece in range(pieces):
            for d in free:
                row = needs[piece * ranks + d]
                load -= row
                row[:] = row_of(d, load)
                load += row
        if routes.max_load(load) < best_load:
            best, best_load = needs.copy(), routes.max_load(load)
        free = free[::-1]
    return best


def _spread_rounds(rounds: int, steps: int, *, most_first: bool) -> list[int]:
    """Distribute rounds over steps as evenly as possible."""
    each, more = divmod(rounds, steps)
    step_rounds = [each + (step < more) for step in range(steps)]
    return step_rounds if most_first else step_rounds[::-1]


def _color_edges(needs: IntArray, lanes: IntArray, rounds: list[int]) -> IntArray | None:
    """Return the link of each row in each step, -1 for none. None: a step has no flow.

    In each step a flow assigns links to rows. A row with as many links left as there are steps must
    move. A link must be used so often that the later rounds are enough for the rest. Otherwise rows
    with more links left go first.
    """
    from sccl.solvers.network_flow import min_cost_max_flow  # noqa: PLC0415 - OR-Tools takes long to load

    left, loads = needs.copy(), needs.sum(axis=0)
    colors = np.full((len(rounds), len(needs)), -1, dtype=np.int64)
    links = len(lanes)
    for step, now in enumerate(rounds):
        steps_left, later = len(rounds) - step, sum(rounds[step + 1 :])
        hops = left.sum(axis=1)
        rows = np.flatnonzero(hops)
        if not len(rows):
            break
        must = np.maximum(loads - lanes * later, 0)
        row, link = np.nonzero(left[rows])
        source, sink = len(rows) + links, len(rows) + links + 1
        forced = (len(rounds) + 1) * (len(rows) + 1)
        ends = np.arange(links) + len(rows)
        arcs = np.concatenate(
            [
                np.stack([np.full(len(rows), source), np.arange(len(rows))], axis=1),
                np.stack([row, link + len(rows)], axis=1),
                np.stack([ends, np.full(links, sink)], axis=1),
                np.stack([ends, np.full(links, sink)], axis=1),
            ]
        )
        ones = np.ones(len(rows) + len(row), dtype=np.int64)
        capacities = np.concatenate([ones, must, np.maximum(lanes * now - must, 0)])
        tight = hops[rows] >= steps_left
        costs = np.concatenate(
            [
                np.where(tight, -forced, -hops[rows]),
                np.zeros(len(row), dtype=np.int64),
                np.full(links, -forced),
                np.zeros(links, dtype=np.int64),
            ]
        )
        flow = min_cost_max_flow(arcs, capacities, costs, (source, sink))
        moved = flow[len(rows) : len(rows) + len(row)] > 0
        took = np.full(len(rows), -1, dtype=np.int64)
        took[row[moved]] = link[moved]
        used = np.bincount(link[moved], minlength=links)
        if (tight & (took < 0)).any() or (used < must).any() or (must > lanes * now).any():
            return None
        going = took >= 0
        left[rows[going], took[going]] -= 1
        loads = loads - used
        colors[step, rows[going]] = took[going]
    return None if left.any() else colors


def _sends_along(machine: CayleyMachine, colors: IntArray) -> list[Send]:
    """Return the sends of rank 0's chunks, from the link of each row in each step."""
    moves = np.array(machine.moves)
    positions = np.zeros(colors.shape[1], dtype=np.int64)
    sent = []
    for step, links in enumerate(colors):
        rows = np.flatnonzero(links >= 0)
        targets = moves[links[rows], positions[rows]]
        chunks = rows * machine.group.ranks
        sent += [
            make_send(chunk, src, dst, step)
            for chunk, src, dst in zip(
                chunks.tolist(), positions[rows].tolist(), targets.tolist(), strict=True
            )
        ]
        positions[rows] = targets
    return sent
