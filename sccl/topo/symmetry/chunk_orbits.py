"""Orbits of chunks under symmetries of a machine and its collective, with the ways within them.

By Schreier's lemma: the ways from the representative to each chunk (a transversal), one generator
and the way back make generators of what keeps the representative. Source: Seress, Permutation Group
Algorithms (2003), chapter 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sccl.core.collective import Collective
from sccl.core.symmetric import Symmetry

RankArray = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ChunkOrbit:
    """The images of a chunk.

    Attributes:
        chunks: the orbit; its first is the representative.
        transport: shape (chunks, ranks): for each of ``chunks`` the rank permutation of a symmetry
            that makes it of the representative.
        stabiliser: rank permutations of symmetries that keep the representative: generators.
    """

    chunks: tuple[int, ...]
    transport: RankArray
    stabiliser: tuple[tuple[int, ...], ...]


def chunk_orbits(collective: Collective, symmetries: Sequence[Symmetry]) -> tuple[ChunkOrbit, ...]:
    """Return the orbits of chunks, by ascending representative.

    The stabilisers are Schreier's: for each chunk and generator the way there, the generator, and
    the way back.

    Raises:
        ValueError: a symmetry does not map classes of chunks to classes.
    """
    ranks = [np.array(s.ranks, np.int32) for s in symmetries]
    images = [s.chunks(collective) for s in symmetries]
    seen = np.zeros(collective.num_chunks, dtype=bool)
    return tuple(
        _orbit(first, collective.ranks, ranks, images, seen)
        for first in range(collective.num_chunks)
        if not seen[first]
    )


def _orbit(
    first: int,
    num_ranks: int,
    ranks: list[RankArray],
    images: list[tuple[int, ...]],
    seen: NDArray[np.bool_],
) -> ChunkOrbit:
    way: dict[int, RankArray] = {first: np.arange(num_ranks, dtype=np.int32)}
    keep: dict[tuple[int, ...], None] = {}
    for chunk in (order := [first]):
        seen[chunk] = True
        for image, permutation in zip(images, ranks, strict=True):
            there, walked = image[chunk], permutation[way[chunk]]
            if there not in way:
                way[there] = walked
                order.append(there)
            elif not np.array_equal(walked, way[there]):
                back = np.empty_like(walked)
                back[way[there]] = np.arange(num_ranks, dtype=np.int32)
                keep[tuple(back[walked].tolist())] = None
    transport = np.stack([way[chunk] for chunk in order])
    return ChunkOrbit(tuple(order), transport, tuple(keep))
