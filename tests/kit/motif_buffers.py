"""Motifs executed on numbers, in any order that they allow."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sccl.training.types.motif import Motif

Buffers = dict[int, NDArray[Any]]
"""Row of the elements of all ranks, of which each rank has some."""

DTYPES = ["int8", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"]


def held(name: str, groups: int, count: int, dtype: str, rng: np.random.Generator) -> Buffers:
    """Return the initial elements of the ranks of a group, numbered from 0."""
    total = count * groups if name == "alltoall" else count
    ends = [total * k // groups for k in range(groups + 1)]
    found: Buffers = {}
    for rank in range(groups):
        row = rng.integers(0, 3, total).astype(dtype)
        if name in {"allgather", "alltoall", "gather"}:
            row[: ends[rank]] = row[ends[rank + 1] :] = 0
        elif name in {"broadcast", "scatter"} and rank:
            row[:] = 0
        found[rank] = row
    return found


def is_done(name: str, before: Buffers, after: Buffers, count: int) -> bool:
    """Return whether a collective has reached the result of its definition."""
    groups = len(before)
    summed = sum(before.values(), np.zeros_like(before[0]))
    ends = [count * k // groups for k in range(groups + 1)]
    for rank, row in after.items():
        own = slice(ends[rank], ends[rank + 1])
        if name in {"allgather", "allreduce", "broadcast"} or (
            name in {"gather", "reduce"} and rank == 0
        ):
            wrong = (row != summed).any()
        elif name in {"reducescatter", "scatter"}:
            wrong = (row[own] != summed[own]).any()
        elif name == "alltoall":
            to = [slice(count * k + own.start, count * k + own.stop) for k in range(groups)]
            wrong = any((row[part] != summed[part]).any() for part in to)
        else:
            wrong = False
        if wrong:
            return False
    return True


def executed(motifs: Sequence[Motif], buffers: Buffers, rng: random.Random) -> Buffers:
    """Return the elements of all ranks after motifs in any order that these allow."""
    now = {rank: row.copy() for rank, row in buffers.items()}
    done: set[int] = set()
    while len(done) < len(motifs):
        ready = [k for k, m in enumerate(motifs) if k not in done and done.issuperset(m.after)]
        number = rng.choice(ready)
        done.add(number)
        motif = motifs[number]
        was = {rank: row.copy() for rank, row in now.items()}
        for move in motif.moves():
            at = slice(*move.span)
            parts = [was[rank][at] for rank in move.sources]
            for rank in move.targets:
                now[rank][at] = np.add.reduce(parts, dtype=parts[0].dtype)
    return now
