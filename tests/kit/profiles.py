"""Measurements of machines whose costs are known: by the model, with noise and outliers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import combinations, product

from sccl.topo.profiles.measurements import (
    LinkTiming,
    Measurements,
    Pacing,
    PairedCopies,
    PcieMeasurements,
)

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


def pcie_of(
    switches: tuple[tuple[int, ...], ...],
    nic: int | None,
    near: int,
    cpus: int,
    rng: random.Random | str,
    noise: float,
    *,
    alone: bool = True,
) -> PcieMeasurements:
    """Return measurements of a machine's PCIe with relative noise.

    Args:
        nic: Switch of the NIC.
        near: CPU that is nearest to it.
        rng: Generator of the noise, or its seed.
    """
    draw = random.Random(rng) if isinstance(rng, str) else rng  # noqa: S311 - the same every time
    place = {gpu: i for i, group in enumerate(switches) for gpu in group}
    gpus = range(len(place))

    def figures(value: float) -> tuple[float, ...]:
        return tuple(value * (1 + draw.uniform(-noise, noise)) for _ in range(3))

    return PcieMeasurements(
        name="a VM",
        loopback_us=tuple(figures(1.7 if cpu == near else 2.3) for cpu in range(cpus)),
        pairs=tuple(
            PairedCopies((a, b), figures(6.5 if place[a] == place[b] else 13.0))
            for a, b in combinations(gpus, 2)
        ),
        beside_nic=tuple(figures(6.5 if place[gpu] == nic else 13.0) for gpu in gpus),
        alone=tuple(figures(13.0) for _ in gpus) if alone else (),
    )
