"""Orbits of chunks under symmetries of a machine and its collective, with paths within them.

By Schreier's lemma: a path from the representative to a chunk (one per chunk is a transversal), one
generator and the path back give generators of the stabiliser of the representative. Source: Seress,
Permutation Group Algorithms (2003), chapter 4.

All sends of an algorithm that is given by some of them and its symmetries are expanded as arrays.
With thousands of ranks there are tens of millions of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import Int32Array
from sccl.core.collective import Collective
from sccl.core.symmetric import SymmetricAlgorithm, Symmetry
from sccl.errors import ParameterError


@dataclass(frozen=True, slots=True)
class ChunkOrbit:
    """Orbit of a chunk, as a tree of symmetries that map each image to the next ones.

    Attributes:
        chunks: The orbit. Its first chunk is the representative.
        parent: Index in ``chunks`` of the preimage of each chunk, or its own for the first.
        generator: Index of the symmetry that maps the preimage to each chunk.
        children: Images of each chunk under all symmetries.
    """

    chunks: tuple[int, ...]
    parent: tuple[int, ...]
    generator: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    symmetries: tuple[Symmetry, ...]

    def images_from(self, start: int | None = None) -> Iterator[tuple[int, Int32Array]]:
        """Yield each chunk, with the image of the ranks under its symmetry, depth first.

        Args:
            start: the chunk of the orbit where paths start. None: its representative.
        """
        images = [np.array(s.ranks, np.int32) for s in self.symmetries]
        after: list[list[int]] = [[] for _ in self.chunks]
        for place, before in enumerate(self.parent[1:], 1):
            after[before].append(place)
        first = np.arange(len(images[0]) if images else 0, dtype=np.int32)
        place = 0 if start is None else self.chunks.index(start)
        back = []
        while place:
            back.append(images[self.generator[place]])
            place = self.parent[place]
        for image in reversed(back):
            first = image[first]
        stack: list[tuple[int, Int32Array]] = [(0, np.argsort(first).astype(np.int32))]
        while stack:  # a chunk's way is made when its turn has come: few are held at a time
            place, permutation = stack.pop()
            if place:
                permutation = images[self.generator[place]][permutation]
            yield self.chunks[place], permutation
            stack += [(next_place, permutation) for next_place in reversed(after[place])]

    def stabilizer(self) -> tuple[tuple[int, ...], ...]:
        """Return rank permutations of symmetries that keep the representative: generators.

        They are Schreier's: for each chunk and symmetry the way there, the symmetry, and the way
        back.
        """
        images = [np.array(s.ranks, np.int32) for s in self.symmetries]
        permutations = dict(self.images_from())
        keep: dict[tuple[int, ...], None] = {}
        for chunk, onward in zip(self.chunks, self.children, strict=True):
            for target, image in zip(onward, images, strict=True):
                walked = image[permutations[chunk]]
                if not np.array_equal(walked, permutations[target]):
                    keep[tuple(np.argsort(permutations[target])[walked].tolist())] = None
        return tuple(keep)


def chunk_orbits(collective: Collective, symmetries: Sequence[Symmetry]) -> tuple[ChunkOrbit, ...]:
    """Return the orbits of chunks, by ascending representative.

    Raises:
        ValueError: a symmetry does not map classes of chunks to classes.
    """
    images = [s.chunk_images(collective) for s in symmetries]
    seen = np.zeros(collective.num_chunks, dtype=bool)
    return tuple(
        _build_orbit(first, tuple(symmetries), images, seen)
        for first in range(collective.num_chunks)
        if not seen[first]
    )


def _build_orbit(
    first: int,
    symmetries: tuple[Symmetry, ...],
    images: list[tuple[int, ...]],
    seen: NDArray[np.bool_],
) -> ChunkOrbit:
    chunks, before, by = [first], [0], [0]
    onward = []
    seen[first] = True
    for place, chunk in enumerate(chunks):
        onward.append(tuple(image[chunk] for image in images))
        for number, target in enumerate(onward[-1]):
            if not seen[target]:
                seen[target] = True
                chunks.append(target)
                before.append(place)
                by.append(number)
    return ChunkOrbit(tuple(chunks), tuple(before), tuple(by), tuple(onward), symmetries)


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
