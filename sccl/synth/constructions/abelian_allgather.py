"""Breadth-first allgather if ranks form an abelian group and links lead from x to x + g.

A chunk reaches each rank as early as possible, over one of the links from ranks that had it a step
before. So each step is a split of demands over links. By Hall's theorem an integral split exists if
the rounds are at least the minimum load of the fullest link. Translations map the arrivals on one
rank to the tree of rank 0: both put the same loads on the kinds of links. Source: Zhao et al., NSDI
2025 (arXiv 2202.03356), breadth-first broadcast.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np

from sccl.core.algorithm import Send, make_send
from sccl.core.arrays import IntArray
from sccl.synth.constructions.bipartite_split import DemandClasses, min_max_load, split_demands
from sccl.topo.symmetry.regular_groups import CayleyMachine


def build_sends(
    machine: CayleyMachine, pieces: int, steps: int, rounds: int
) -> tuple[tuple[int, ...], list[Send]] | None:
    """Return the rounds of each step, and all sends of rank 0's chunks. None: not possible.

    Args:
        machine: The machine.
        pieces: C.
        steps: Number of steps. It must be the distance of the farthest rank.
        rounds: Number of rounds.
    """
    layers = _layers(machine)
    if layers is None or len(layers) != steps:
        return None
    min_rounds = [ceil(pieces * min_max_load(classes, machine.lanes)) for classes, _ in layers]
    if sum(min_rounds) > rounds:
        return None
    sent = []
    for step, ((classes, members), step_rounds) in enumerate(zip(layers, min_rounds, strict=True)):
        split = split_demands(classes, machine.lanes, pieces, step_rounds)
        for ranks, amounts in zip(members, split, strict=True):
            chunks = np.tile(np.arange(pieces), len(ranks)) * machine.group.ranks
            targets = np.repeat(ranks, pieces)
            link = np.repeat(np.arange(len(amounts)), amounts)
            src = machine.predecessors[link, targets]
            sent += [
                make_send(chunk, u, v, step)
                for chunk, u, v in zip(chunks.tolist(), src.tolist(), targets.tolist(), strict=True)
            ]
    return (min_rounds[0] + rounds - sum(min_rounds), *min_rounds[1:]), sent


def step_costs(machine: CayleyMachine) -> tuple[Fraction, ...] | None:
    """Return the rounds per chunk of each step. None: rank 0 does not reach some rank."""
    layers = _layers(machine)
    if layers is None:
        return None
    return tuple(min_max_load(classes, machine.lanes) for classes, _ in layers)


def _layers(machine: CayleyMachine) -> list[tuple[DemandClasses, list[IntArray]]] | None:
    """Return, for each distance, the ranks by the set of links that may bring rank 0's chunk."""
    far = machine.distances()
    if int(far.min()) < 0:
        return None
    nearer = np.ascontiguousarray(machine.is_nearer(far).T)
    layers = []
    for distance in range(1, int(far.max()) + 1):
        ranks = np.flatnonzero(far == distance)
        masks, which = np.unique(nearer[ranks], axis=0, return_inverse=True)
        which = which.reshape(-1)
        bits = [sum(1 << i for i in np.flatnonzero(mask).tolist()) for mask in masks]
        members = [ranks[which == i] for i in range(len(bits))]
        classes = tuple((mask, len(group)) for mask, group in zip(bits, members, strict=True))
        layers.append((classes, members))
    return layers
