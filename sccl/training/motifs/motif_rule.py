"""A rule of recipes: it makes of one motif several, which together do the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from sccl.core.motif import Motif
from sccl.errors import ParameterError

Motifs = tuple[Motif, ...]
"""Motifs, each with the numbers of those that it waits for in this tuple."""

Number = tuple[int, ...]
"""Parameter of a rule: a number, or the sizes of groups that add up to one."""


@dataclass(frozen=True, slots=True)
class MotifRule:
    """A rule of recipes.

    Attributes:
        collectives: Collectives that it splits.
        split: Function from a motif of one group, and the numbers of the recipe, to motifs.
        parameters: Description of these numbers, for messages and documents. Empty: it has none.
        description: Description of the result, for documents.
        source: Source of the rule.
    """

    name: str
    collectives: tuple[str, ...]
    split: Callable[[Motif, Sequence[Number]], Motifs]
    parameters: str
    description: str
    source: str

    def apply(self, motif: Motif, numbers: Sequence[Number]) -> Motifs:
        """Return the motifs that it makes of a motif with any number of groups.

        Raises:
            ParameterError: The rule does not apply. The message states its requirement.
        """
        if motif.collective not in self.collectives:
            raise ParameterError(
                f"{self.name} applies to {', '.join(self.collectives)}, not to {motif.collective}"
            )
        each = [self.split(replace(motif, shares=(s,), after=()), numbers) for s in motif.shares]
        shapes = {tuple(replace(part, shares=()) for part in made) for made in each}
        if len(shapes) > 1:
            raise ParameterError(
                f"{self.name} splits the groups of a {motif.collective} into different motifs, "
                "because group sizes differ: expected groups of one size"
            )
        return tuple(
            replace(alike[0], shares=tuple(chain.from_iterable(part.shares for part in alike)))
            for alike in zip(*each, strict=True)
        )
