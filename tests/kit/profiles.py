"""Measurements of machines whose costs are known: by the model, with noise and outliers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product

from sccl.topo.profiles.measurements import LinkTiming, Measurements, Pacing

SIZES = tuple(1 << n for n in range(10, 23, 2))
COUNTS = (1, 2, 8)


def model_us(alpha_us: float, us_per_mb: float, pacing: Pacing, chunks: int, size: int) -> float:
    """Return the time of chunks by the formula of TACCL's section 4.1."""
    if pacing is Pacing.IN_TURN:
        return chunks * (alpha_us + us_per_mb * size / 1e6)
    return alpha_us + chunks * us_per_mb * size / 1e6


def measured(
    costs: Mapping[tuple[int, int], tuple[float, float]],
    ranks: int,
    seed: str,
    noise: float = 0.0,
    outliers: float = 0.0,
) -> Measurements:
    """Return measurements of links.

    Args:
        costs: microseconds, and microseconds for 10^6 bytes, of each link.
        noise: every repetition is up to so much more or less, in proportion.
        outliers: the share of a link's rows that take 2 to 10 times as long, all repetitions.
    """
    rng = random.Random(seed)  # noqa: S311 - the same every time
    rows = []
    kinds = list(product(SIZES, COUNTS, Pacing))
    for (src, dst), (alpha, beta) in costs.items():
        off = {*rng.sample(range(len(kinds)), round(outliers * len(kinds)))}
        for number, (size, chunks, pacing) in enumerate(kinds):
            us = model_us(alpha, beta, pacing, chunks, size)
            us *= rng.uniform(2, 10) if number in off else 1
            many = tuple(us * (1 + rng.uniform(-noise, noise)) for _ in range(3))
            rows.append(LinkTiming(src, dst, pacing, chunks, size, many))
    return Measurements("known", ranks, tuple(rows), "Made by the model.")
