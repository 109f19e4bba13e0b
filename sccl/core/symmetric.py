"""Algorithms of large machines: some sends, and the symmetries that make all others of them."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.algorithm import Algorithm, KSynchronousPlan, Send
from sccl.core.collective import Collective
from sccl.core.ids import Rank
from sccl.core.topology import Topology, to_ranks


@dataclass(frozen=True, slots=True)
class Symmetry:
    """A renaming of ranks, and its action on the chunks of a class.

    Rank r becomes ``ranks[r]``. The i-th chunk that starts on H and is wanted on W becomes a chunk
    that starts on the image of H and is wanted on the image of W: the i-th one, rotated by
    ``chunk_shift`` within each block of ``period`` chunks.

    Attributes:
        ranks: the image of each rank.
        chunk_shift: 0 .. period-1.
        period: divides the chunks of every class.
    """

    ranks: tuple[int, ...]
    chunk_shift: int = 0
    period: int = 1

    def chunk_index(self, i: int) -> int:
        """Return which chunk of the image class the i-th of a class becomes."""
        start = i - i % self.period
        return start + (i - start + self.chunk_shift) % self.period

    def chunk_images(self, collective: Collective) -> tuple[int, ...]:
        """Return the image of each chunk.

        Raises:
            ValueError: a class has no image of as many chunks, or the period does not divide it.
        """
        classes = collective.chunk_classes()
        images: dict[int, frozenset[Rank]] = {}  # by id: most sets are one object, used many times

        def image(ranks: frozenset[Rank]) -> frozenset[Rank]:
            """Return where the symmetry takes a set of ranks."""
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
    """An algorithm that is invariant under symmetries, by one send of each orbit of sends.

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
        name: for people: ``"translations and turns of order 4"``.
    """

    name: str
    generators: tuple[Symmetry, ...]

    def shifts_chunks(self) -> bool:
        """Return whether some symmetry turns the chunks of a class."""
        return any(symmetry.chunk_shift for symmetry in self.generators)

    def fits(self, collective: Collective) -> bool:
        """Return whether each class of chunks has whole blocks of every symmetry's period."""
        return all(
            collective.class_size_divisor % symmetry.period == 0 for symmetry in self.generators
        )
