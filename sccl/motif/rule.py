"""A rule of recipes: it makes of one motif several, which together do the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from sccl.core.motif import Motif
from sccl.errors import ParameterError

Motifs = tuple[Motif, ...]
"""Of which each names those that it waits for by their numbers in here."""

Number = tuple[int, ...]
"""What a rule is told: a number, or the sizes of groups that add up to one."""


@dataclass(frozen=True, slots=True)
class MotifRule:
    """A rule, as recipes name it.

    Attributes:
        of: the collectives that it splits.
        makes: what it makes of a motif of one group, and of the numbers that a recipe tells.
        told: what these are, for messages and documents; empty: there are none.
        says: what it makes, for documents.
        source: whose rule it is.
    """

    name: str
    of: tuple[str, ...]
    makes: Callable[[Motif, Sequence[Number]], Motifs]
    told: str
    says: str
    source: str

    def applied(self, motif: Motif, numbers: Sequence[Number]) -> Motifs:
        """Return what it makes of a motif of any number of groups.

        Raises:
            ParameterError: it is not of that motif, and what it would need.
        """
        if motif.collective not in self.of:
            raise ParameterError(
                f"{self.name} is of {', '.join(self.of)}, and not of {motif.collective}"
            )
        each = [self.makes(replace(motif, shares=(s,), after=()), numbers) for s in motif.shares]
        shapes = {tuple(replace(one, shares=()) for one in made) for made in each}
        if len(shapes) > 1:
            raise ParameterError(
                f"{self.name} makes other motifs of some groups of a {motif.collective} than of "
                "others, as they are of different sizes"
            )
        return tuple(
            replace(alike[0], shares=tuple(chain.from_iterable(one.shares for one in alike)))
            for alike in zip(*each, strict=True)
        )
