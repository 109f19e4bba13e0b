"""Symmetric algorithms of large machines: representative sends, and the symmetries."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.algorithm import Algorithm, KSynchronousPlan, Send
from sccl.core.collective import Collective
from sccl.core.ids import Rank
from sccl.core.topology import Topology, to_ranks


@dataclass(frozen=True, slots=True)
class Symmetry:
    """A renaming of ranks, and its action on the chunks of a class.

    Rank r maps to ``ranks[r]``. The i-th chunk with holders H and destinations W maps to the i-th
    chunk whose holders and destinations are the images of H and W, rotated by ``chunk_shift``
    within each block of ``period`` chunks.

    Attributes:
        ranks: Image of each rank.
        chunk_shift: Rotation of chunks, 0 .. period-1.
        period: Length of blocks, which divides the number of chunks of every class.
    """

    ranks: tuple[int, ...]
    chunk_shift: int = 0
    period: int = 1

    def chunk_index(self, i: int) -> int:
        """Return the index in the image class of the i-th chunk of a class."""
        start = i - i % self.period
        return start + (i - start + self.chunk_shift) % self.period

    def chunk_images(self, collective: Collective) -> tuple[int, ...]:
        """Return the image of each chunk.

        Raises:
            ValueError: A class has no image of the same size, or the period does not divide its
                size.
        """
        classes = collective.chunk_classes()
        images: dict[int, frozenset[Rank]] = {}  # by id, since most sets are shared objects

        def image(ranks: frozenset[Rank]) -> frozenset[Rank]:
            """Return the image of a set of ranks."""
            if id(ranks) not in images:
                everyone = len(ranks) == collective.ranks
                images[id(ranks)] = ranks if everyone else to_ranks(self.ranks[r] for r in ranks)
            return images[id(ranks)]

        chunk_images = [0] * collective.num_chunks
        for (holders, wanted), chunks in classes.items():
            others = classes.get((image(holders), image(wanted)))
            if others is None or len(others) != len(chunks) or len(chunks) % self.period:
                raise ValueError(f"chunk {chunks[0]} has no image")
            for i, chunk in enumerate(chunks):
                chunk_images[chunk] = others[self.chunk_index(i)]
        return tuple(chunk_images)


@dataclass(frozen=True, slots=True)
class SymmetricAlgorithm(KSynchronousPlan):
    """An algorithm that is invariant under symmetries, given by representative sends.

    Like :class:`Algorithm` it is a candidate: the verifier (:mod:`sccl.judge.symmetric`) checks
    it by its symmetries, or after all of its sends have been expanded.

    Attributes:
        symmetries: generators of the group.
        sends: all sends of one chunk in each orbit of chunks.
        num_sends: number of sends of all chunks.
    """

    topology: Topology
    collective: Collective
    rounds_per_step: tuple[int, ...]
    symmetries: tuple[Symmetry, ...]
    sends: tuple[Send, ...]
    num_sends: int
    scope: str = ""
    proved: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sends", tuple(sorted(self.sends)))


AnyAlgorithm = Algorithm | SymmetricAlgorithm


@dataclass(frozen=True, slots=True)
class Group:
    """Generators of a group of symmetries.

    Attributes:
        name: Description, such as ``"translations and turns of order 4"``.
    """

    name: str
    generators: tuple[Symmetry, ...]

    def shifts_chunks(self) -> bool:
        """Return whether any symmetry rotates the chunks of a class."""
        return any(symmetry.chunk_shift for symmetry in self.generators)

    def fits(self, collective: Collective) -> bool:
        """Return whether the period of every symmetry divides the size of each class of chunks."""
        return all(
            collective.class_size_divisor % symmetry.period == 0 for symmetry in self.generators
        )
