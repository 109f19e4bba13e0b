"""Trivance: ranks of a ring exchange with both of those 3^i away, the farthest first."""

from __future__ import annotations

from itertools import product

import numpy as np

from sccl.errors import ParameterError
from sccl.synth.baselines.pattern import Pattern, build_pattern, split_chunks, with_inverses
from sccl.synth.common.contract import Request

NAME = "trivance"
SOURCE = "Trivance, 2026 (arXiv 2602.17254), of 3^k ranks: as many steps as its logarithm by 3"


def _allgather(request: Request, pieces: int) -> Pattern:
    """Return the allgather: in each step data triple, and distances are divided by three."""
    ranks = request.spec.ranks
    steps = round(np.log(ranks) / np.log(3))
    if 3**steps != ranks:
        raise ParameterError(
            f"trivance needs a power of 3 as the number of ranks, and there are {ranks}: give "
            "another topology, or another algorithm, such as bruck"
        )
    far = [3 ** (steps - 1 - step) for step in range(steps)]
    rows = [
        (step, sum(sign * far[i] for i, sign in enumerate(signs)), shift * far[step])
        for step in range(steps)
        for signs in product((-1, 0, 1), repeat=step)
        for shift in (1, -1)
    ]
    step, has, shift = np.array(rows).T[:, :, None]
    rank = np.arange(ranks)
    pattern = build_pattern(
        request.spec.at(1),
        step=step,
        chunk=(rank + has) % ranks,
        src=rank,
        dst=(rank + shift) % ranks,
    )
    return split_chunks(pattern, pieces)


COLLECTIVES = with_inverses(allgather=_allgather)
