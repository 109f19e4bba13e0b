"""Expand symmetric algorithms to all sends, in plain Python, for the verification."""

from __future__ import annotations

from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm
from sccl.prove.check.timed_trees import Spend

SEND_OPERATIONS = 20
"""Operations to expand and verify one send."""


def expand_symmetric(algorithm: AnyAlgorithm, spend: Spend) -> Algorithm:
    """Return an algorithm with all of its sends.

    Raises:
        ValueError: Its symmetries do not map chunks to chunks, two representatives are of one
            orbit, or its stated number of sends is wrong.
        TooMuchError: There are too many sends.
    """
    spend(SEND_OPERATIONS * algorithm.num_sends)
    if isinstance(algorithm, Algorithm):
        return algorithm
    by_chunk: dict[int, list[Send]] = {}
    for representative in algorithm.sends:
        by_chunk.setdefault(representative.chunk, []).append(representative)
    sends: list[Send] = []
    met: set[int] = set()
    for chunk, representatives in by_chunk.items():
        orbit = _chunk_orbit(algorithm, chunk, spend)
        if met & orbit.keys():
            raise ValueError("the sends of two chunks of one orbit are given, expected one each")
        met |= orbit.keys()
        if len(sends) + len(orbit) * len(representatives) > algorithm.num_sends:
            raise ValueError(f"it states {algorithm.num_sends} sends, and has more")
        for image_chunk, image in orbit.items():
            sends += [
                make_send(image_chunk, image[s.src], image[s.dst], s.step) for s in representatives
            ]
    if len(sends) != algorithm.num_sends:
        raise ValueError(f"it states {algorithm.num_sends} sends, and has {len(sends)}")
    return Algorithm(
        algorithm.topology, algorithm.collective, algorithm.rounds_per_step, tuple(sends)
    )


def _chunk_orbit(
    algorithm: SymmetricAlgorithm, chunk: int, spend: Spend
) -> dict[int, tuple[int, ...]]:
    """Return the images of a chunk, each with a renaming of ranks that maps the chunk to it."""
    spend(4 * len(algorithm.symmetries) * algorithm.collective.num_chunks)
    images = [symmetry.chunk_images(algorithm.collective) for symmetry in algorithm.symmetries]
    orbit = {chunk: tuple(range(algorithm.topology.ranks))}
    for current in (order := [chunk]):
        for symmetry, image in zip(algorithm.symmetries, images, strict=True):
            if image[current] not in orbit:
                spend(algorithm.topology.ranks)
                orbit[image[current]] = tuple(symmetry.ranks[rank] for rank in orbit[current])
                order.append(image[current])
    return orbit
