"""All sends of an algorithm that is given by some of them and its symmetries, as arrays.

With thousands of ranks there are tens of millions of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import Int32Array
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.errors import ParameterError
from sccl.topo.symmetry.chunk_orbits import chunk_orbits

SendsOfChunk = tuple[int, NDArray[np.int32], Int32Array, Int32Array]
"""(chunk, steps, sources, destinations) of all sends of a chunk, by step."""


def expanded_sends(algorithm: SymmetricAlgorithm) -> Iterator[SendsOfChunk]:
    """Yield the sends of each chunk, which may be empty.

    Raises:
        ParameterError: The symmetries do not map chunks to chunks, or two representatives are in
            one orbit.
    """
    try:
        orbits = chunk_orbits(algorithm.collective, algorithm.symmetries)
    except ValueError as error:
        raise ParameterError(f"the symmetries do not fit the collective: {error}") from error
    orbit_of = {chunk: i for i, orbit in enumerate(orbits) for chunk in orbit.chunks}
    by_chunk: dict[int, list[tuple[int, int, int]]] = {}
    for send in algorithm.sends:
        by_chunk.setdefault(send.chunk, []).append((send.step, send.src, send.dst))
    if len({orbit_of[chunk] for chunk in by_chunk}) < len(by_chunk):
        raise ParameterError("the sends of two chunks of one orbit are given, expected one each")
    for chunk, sends in by_chunk.items():
        steps, sources, destinations = np.array(sends, np.int32).T.copy()
        if not algorithm.symmetries:
            yield chunk, steps, sources, destinations
            continue
        for image, permutation in orbits[orbit_of[chunk]].images_from(chunk):
            yield image, steps, permutation[sources], permutation[destinations]
