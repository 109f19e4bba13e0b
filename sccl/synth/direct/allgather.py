"""Allgather breadth first where ranks are an abelian group and links lead from x to x + g.

A chunk reaches each rank as early as possible, over one of the links from ranks where it was a step
before. So each step is a split of demands over links: by Hall's theorem an integral split exists if
the rounds match the minimum load of the fullest link. By translation the tree of rank 0 loads all
links of one kind as the arrivals on one rank load the links into it. Source: Zhao et al., NSDI 2025
(arXiv 2202.03356), breadth-first broadcast.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Send, send
from sccl.synth.direct.shares import Classes, least_load, shares
from sccl.topo.symmetry.regular import Cayley

Ints = NDArray[np.int64]


def sends(
    machine: Cayley, pieces: int, steps: int, rounds: int
) -> tuple[tuple[int, ...], list[Send]] | None:
    """Return the rounds of each step, and all sends of rank 0's chunks. None: there are none.

    Args:
        pieces: C.
        steps: that of the farthest rank, or there are none.
    """
    layers = _layers(machine)
    if layers is None or len(layers) != steps:
        return None
    least = [ceil(pieces * least_load(classes, machine.lanes)) for classes, _ in layers]
    if sum(least) > rounds:
        return None
    found = []
    for step, ((classes, members), enough) in enumerate(zip(layers, least, strict=True)):
        split = shares(classes, machine.lanes, pieces, enough)
        for ranks, amounts in zip(members, split, strict=True):
            chunks = np.tile(np.arange(pieces), len(ranks)) * machine.group.ranks
            there = np.repeat(ranks, pieces)
            link = np.repeat(np.arange(len(amounts)), amounts)
            src = machine.before[link, there]
            found += [
                send(chunk, u, v, step)
                for chunk, u, v in zip(chunks.tolist(), src.tolist(), there.tolist(), strict=True)
            ]
    return (least[0] + rounds - sum(least), *least[1:]), found


def costs(machine: Cayley) -> tuple[Fraction, ...] | None:
    """Return the rounds per chunk of each step. None: some rank is not reached."""
    layers = _layers(machine)
    if layers is None:
        return None
    return tuple(least_load(classes, machine.lanes) for classes, _ in layers)


def _layers(machine: Cayley) -> list[tuple[Classes, list[Ints]]] | None:
    """Return, by distance, the ranks there by which links may bring a chunk of rank 0."""
    far = machine.distances()
    if int(far.min()) < 0:
        return None
    nearer = np.ascontiguousarray(machine.nearer(far).T)
    found = []
    for distance in range(1, int(far.max()) + 1):
        ranks = np.flatnonzero(far == distance)
        masks, which = np.unique(nearer[ranks], axis=0, return_inverse=True)
        which = which.reshape(-1)
        bits = [sum(1 << i for i in np.flatnonzero(mask).tolist()) for mask in masks]
        members = [ranks[which == i] for i in range(len(bits))]
        classes = tuple((mask, len(own)) for mask, own in zip(bits, members, strict=True))
        found.append((classes, members))
    return found
