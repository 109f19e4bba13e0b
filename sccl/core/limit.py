"""The limit of R/C for a number of steps: what no k and no C can beat, and what proves it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.core.contradictions import require_not_below
from sccl.core.topology import ConstraintKey
from sccl.core.words import solved_as

Prices = tuple[tuple[ConstraintKey, int, Fraction], ...]
"""(constraint, step from 0, price) where a price is not 0."""


@dataclass(frozen=True, slots=True)
class TimedCut:
    """Ranks that are inside from a time on: what starts inside, and is wanted outside, gets out.

    Attributes:
        labels: by rank, the time from 0 from which on it is inside; S+1: never.
        weight: its share in the proof.
    """

    labels: tuple[int, ...]
    weight: Fraction


@dataclass(frozen=True, slots=True)
class LimitProof:
    """Why a limit holds on a machine.

    Attributes:
        collective: what was bounded: the one that was asked for, or its dual.
        on_reversed: whether that was done on the reversed topology.
        topology: the name of the machine.
        steps: S of it.
        bound: on its R/C.
        prices: at which its timed trees cost as much. With cuts, of shared budgets alone.
        cuts: through time, that prove it instead of trees; of both none: the bandwidth bound does.
        roots: of a broadcast that an allreduce has in it, and by which that is bounded: a rank, or
            in process groups one of each.
    """

    collective: str
    on_reversed: bool
    topology: str
    steps: int
    bound: Fraction
    prices: Prices
    cuts: tuple[TimedCut, ...] = ()
    roots: tuple[int, ...] = ()

    @property
    def problem(self) -> str:
        """Return what was bounded, in words."""
        one, *others = map(str, self.roots or ("",))
        rooted = f" from rank{'s' if others else ''} {', '.join((one, *others))}" if one else ""
        return solved_as(f"{self.collective}{rooted}", on_reversed=self.on_reversed)


@dataclass(frozen=True, slots=True)
class StepLimit:
    """What no algorithm of S steps can beat, whatever its k and C.

    Attributes:
        steps: S of the collective that was asked for.
        lower: proved: no algorithm of the class with S steps has a smaller R/C.
        upper: R/C of a packing, or of an algorithm. None: neither was looked for, or found.
        proofs: of ``lower``, by machine that was solved on. Empty: they are not kept.
    """

    steps: int
    lower: Fraction
    upper: Fraction | None
    proofs: tuple[LimitProof, ...] = ()

    def require_consistent(self) -> StepLimit:
        """Return it, if what is attained is not below what is proved.

        Raises:
            ContradictionError: It is.
        """
        if self.upper is not None:
            require_not_below(
                self.upper,
                self.lower,
                result=f"the best R/C that is known for S={self.steps}",
                limit="the lower bound on R/C for as many steps",
            )
        return self

    @property
    def best(self) -> Fraction:
        """Return ``upper``, which has to be there."""
        assert self.upper is not None
        return self.upper

    @property
    def known(self) -> bool:
        """Return whether both bounds are one: the limit is known."""
        return self.lower == self.upper
