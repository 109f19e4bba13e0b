"""All sends of an algorithm that is given by some of them and its symmetries, as arrays.

With thousands of ranks there are tens of millions of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sccl.core.symmetric import SymmetricAlgorithm
from sccl.errors import ParameterError
from sccl.topo.symmetry.chunk_orbits import RankArray, chunk_orbits

SendsOfChunk = tuple[int, NDArray[np.int32], RankArray, RankArray]
"""(chunk, steps, sources, destinations) of all sends of a chunk, by step."""


def all_sends(algorithm: SymmetricAlgorithm) -> Iterator[SendsOfChunk]:
    """Yield the sends of one chunk after the other; of those that are not sent, none.

    Raises:
        ParameterError: the symmetries do not map chunks to chunks, or two representatives are of
            one orbit.
    """
    try:
        orbits = chunk_orbits(algorithm.collective, algorithm.symmetries)
    except ValueError as error:
        raise ParameterError(f"the symmetries do not fit the collective: {error}") from error
    orbit_of = {chunk: i for i, orbit in enumerate(orbits) for chunk in orbit.chunks}
    given: dict[int, list[tuple[int, int, int]]] = {}
    for one in algorithm.sends:
        given.setdefault(one.chunk, []).append((one.step, one.src, one.dst))
    if len({orbit_of[chunk] for chunk in given}) < len(given):
        raise ParameterError("the sends of two chunks of one orbit are given, expected one each")
    for chunk, sends in given.items():
        steps, sources, destinations = np.array(sends, np.int32).T.copy()
        if not algorithm.symmetries:
            yield chunk, steps, sources, destinations
            continue
        for image, way in orbits[orbit_of[chunk]].ways(chunk):
            yield image, steps, way[sources], way[destinations]
