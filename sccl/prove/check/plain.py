"""Algorithms that are given by some of their sends, written out: in plain Python, for the judge."""

from __future__ import annotations

from sccl.core.algorithm import Algorithm, Send, send
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm
from sccl.prove.check.trees import Spend

SEND = 20
"""Operations for making and verifying a send."""


def written_out(algorithm: AnyAlgorithm, spend: Spend) -> Algorithm:
    """Return an algorithm with all of its sends.

    Raises:
        ValueError: its symmetries do not map chunks to chunks, two representatives are of one
            orbit, or it says that it has another number of sends than it has.
        TooMuchError: they are too many to go through.
    """
    spend(SEND * algorithm.num_sends)
    if isinstance(algorithm, Algorithm):
        return algorithm
    given: dict[int, list[Send]] = {}
    for one in algorithm.sends:
        given.setdefault(one.chunk, []).append(one)
    sends: list[Send] = []
    met: set[int] = set()
    for chunk, representatives in given.items():
        ways = _orbit(algorithm, chunk, spend)
        if met & ways.keys():
            raise ValueError("the sends of two chunks of one orbit are given, expected one each")
        met |= ways.keys()
        if len(sends) + len(ways) * len(representatives) > algorithm.num_sends:
            raise ValueError(f"it states {algorithm.num_sends} sends, and has more")
        for other, image in ways.items():
            sends += [send(other, image[s.src], image[s.dst], s.step) for s in representatives]
    if len(sends) != algorithm.num_sends:
        raise ValueError(f"it states {algorithm.num_sends} sends, and has {len(sends)}")
    return Algorithm(
        algorithm.topology, algorithm.collective, algorithm.rounds_per_step, tuple(sends)
    )


def _orbit(algorithm: SymmetricAlgorithm, chunk: int, spend: Spend) -> dict[int, tuple[int, ...]]:
    """Return the images of a chunk, each with a renaming of ranks that makes it of the chunk."""
    spend(4 * len(algorithm.symmetries) * algorithm.collective.num_chunks)
    images = [symmetry.chunks(algorithm.collective) for symmetry in algorithm.symmetries]
    ways = {chunk: tuple(range(algorithm.topology.ranks))}
    for here in (order := [chunk]):
        for symmetry, image in zip(algorithm.symmetries, images, strict=True):
            if image[here] not in ways:
                spend(algorithm.topology.ranks)
                ways[image[here]] = tuple(symmetry.ranks[rank] for rank in ways[here])
                order.append(image[here])
    return ways
