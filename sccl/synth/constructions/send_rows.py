"""Convert rows of numbers to sends."""

from __future__ import annotations

import numpy as np

from sccl.core.algorithm import Send, make_send
from sccl.core.arrays import IntArray


def sorted_sends(rows: IntArray) -> list[Send]:
    """Return sends from the rows (step, chunk, from, to), shape (4, sends), in ascending order."""
    rows = rows[:, np.lexsort(rows[::-1])]
    return [make_send(c, u, v, s) for s, c, u, v in zip(*rows.tolist(), strict=True)]
