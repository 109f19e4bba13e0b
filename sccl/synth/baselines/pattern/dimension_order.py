"""Collectives that go dimension by dimension through a grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sccl.core.collective import Collective
from sccl.synth.baselines.pattern.grid import Grid
from sccl.synth.baselines.pattern.send_pattern import Pattern, build_pattern


def gather_by_dimensions(
    collective: Collective,
    grid: Grid,
    order: Sequence[int],
    joined: Sequence[bool],
    direction: int,
) -> Pattern:
    """Return an allgather that gathers one dimension after the other.

    A dimension takes one step if all ranks of a line are linked to each other. Otherwise chunks go
    around a ring.

    Args:
        collective: Allgather of one chunk per rank.
        order: Order of the dimensions.
        joined: For each dimension, whether all ranks of a line are linked to each other.
        direction: Direction around rings: 1 or -1.
    """
    held = np.arange(grid.ranks)[:, None]  # ranks that hold each chunk, shape (chunks, holders)
    parts, begun = [], 0
    for dimension in order:
        targets = [grid.shift(dimension, direction * i)[held] for i in range(grid.sides[dimension])]
        for i, dst in enumerate(targets[1:]):
            src, step = (held, begun) if joined[dimension] else (targets[i], begun + i)
            columns = np.broadcast_arrays(step, np.arange(grid.ranks)[:, None], src, dst)
            parts.append(np.stack(columns).reshape(4, -1))
        begun += 1 if joined[dimension] else grid.sides[dimension] - 1
        held = np.concatenate(targets, axis=1)
    step, chunk, src, dst = np.concatenate(parts, axis=1)
    return build_pattern(collective, step=step, chunk=chunk, src=src, dst=dst)
