"""Coarsen an algorithm: use only some of its parts, which needs fewer instructions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sccl.codegen.buffer_layout import build_layout
from sccl.core.algorithm import Algorithm, Send
from sccl.core.ids import ChunkId

MAX_COST_RATIO = Fraction(4, 3)
"""Maximum R/C of the coarser algorithm divided by that of the original. On dgx-h100, 16 of the 144
parts of the optimal allreduce have 9/7, and 8 have 18/7."""


def coarsen_chunks(algorithm: Algorithm) -> Algorithm:
    """Reduce an algorithm to few parts of each block, at a similar R/C.

    Each part of an algorithm is an algorithm for blocks of one part. Parts are added greedily to
    minimize the load of the busiest link or budget, until R/C is at most :data:`MAX_COST_RATIO`
    times the original.
    """
    layout, collective = build_layout(algorithm.collective), algorithm.collective
    by_part: list[list[Send]] = [[] for _ in range(layout.parts)]
    for send in algorithm.sends:
        by_part[layout.part(send.chunk)].append(send)
    unit = math.lcm(*(c.chunks_per_round for c in algorithm.topology.constraints()))
    loads = _part_loads(algorithm, by_part, unit)
    total = np.zeros_like(loads[0])
    left, kept = list(range(layout.parts)), list[int]()
    while left:
        after = total + loads[left]
        fullest = after.max(axis=(1, 2))
        part = left.pop(np.lexsort((left, (after**2).sum(axis=(1, 2)), fullest))[0])
        total += loads[part]
        kept.append(part)
        rounds = tuple(max(1, -(-int(each) // unit)) for each in total.max(axis=1))
        if sum(rounds) * layout.parts <= MAX_COST_RATIO * algorithm.rounds * len(kept):
            break
    if not left:
        return algorithm
    number = {part: n for n, part in enumerate(sorted(kept))}
    sends = (
        replace(send, chunk=ChunkId(number[part] * layout.period + send.chunk % layout.period))
        for part in kept
        for send in by_part[part]
    )
    few = replace(
        collective,
        chunks=collective.chunks // layout.parts * len(kept),
        num_chunks=layout.period * len(kept),
    )
    return Algorithm(algorithm.topology, few, rounds, tuple(sends))


def _part_loads(
    algorithm: Algorithm, by_part: Sequence[Sequence[Send]], unit: int
) -> npt.NDArray[np.int64]:
    """Return the load of each link and budget by part and step.

    Args:
        unit: Length of a round.
    """
    constraints = algorithm.topology.constraints()
    loads = np.zeros((len(by_part), algorithm.steps, len(constraints)), np.int64)
    members: dict[tuple[int, int], list[int]] = {}
    for number, constraint in enumerate(constraints):
        for edge in constraint.edges:
            members.setdefault(edge, []).append(number)
    rounds = np.array([unit // constraint.chunks_per_round for constraint in constraints])
    for part, sends in enumerate(by_part):
        for send in sends:
            loads[part, send.step, members[send.edge]] += 1
    busy: npt.NDArray[np.int64] = loads * rounds
    return busy
