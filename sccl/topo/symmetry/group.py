"""A group of symmetries to synthesise under, by generators."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.collective import Collective
from sccl.core.symmetric import Symmetry


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
