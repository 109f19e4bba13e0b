"""All sends of an algorithm that is given by some of them and its symmetries, as arrays.

With thousands of ranks there are tens of millions of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Send
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.errors import ParameterError
from sccl.topo.symmetry.chunk_orbits import ChunkOrbit, RankArray, chunk_orbits


def all_sends(
    algorithm: SymmetricAlgorithm,
) -> Iterator[tuple[int, NDArray[np.int32], RankArray, RankArray]]:
    """Yield (step, chunks, sources, destinations) for all sends, by step; several times per step.

    Raises:
        ParameterError: the symmetries do not map chunks to chunks, or two representatives are of
            one orbit.
    """
    try:
        orbits = chunk_orbits(algorithm.collective, algorithm.symmetries)
    except ValueError as error:
        raise ParameterError(f"the symmetries do not fit the collective: {error}") from error
    orbit_of = {chunk: i for i, orbit in enumerate(orbits) for chunk in orbit.chunks}
    by_step: dict[tuple[int, int], list[Send]] = {}
    for one in algorithm.sends:
        by_step.setdefault((one.step, one.chunk), []).append(one)
    given = {chunk for _, chunk in by_step}
    if len({orbit_of[chunk] for chunk in given}) < len(given):
        raise ParameterError("the sends of two chunks of one orbit are given, expected one each")
    turned = {chunk: _from(orbits[orbit_of[chunk]], chunk) for chunk in given}
    for (step, chunk), sends in sorted(by_step.items()):
        chunks, transport = turned[chunk]
        sources = transport[:, [s.src for s in sends]]
        destinations = transport[:, [s.dst for s in sends]]
        repeated = np.repeat(chunks, len(sends))
        yield step, repeated, sources.ravel(), destinations.ravel()


def _from(orbit: ChunkOrbit, chunk: int) -> tuple[NDArray[np.int32], RankArray]:
    """Return an orbit's chunks, and the ways to them from ``chunk``."""
    transport = orbit.transport
    if chunk != orbit.chunks[0]:
        start = transport[orbit.chunks.index(chunk)]
        back = np.empty_like(start)
        back[start] = np.arange(len(start), dtype=np.int32)
        transport = transport[:, back]
    return np.array(orbit.chunks, np.int32), transport
