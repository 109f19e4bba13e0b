"""The limit of R/C for S steps: the minimum R/C over all k and C, as an interval with proofs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.core.bound import require_at_least_bound
from sccl.core.formatting import describe_dual
from sccl.core.topology import ConstraintKey

StepPrices = tuple[tuple[ConstraintKey, int, Fraction], ...]
"""(constraint, step from 0, price) for nonzero prices."""


@dataclass(frozen=True, slots=True)
class TimedCut:
    """A cut through time: data that are inside at first and demanded outside must cross it.

    Attributes:
        labels: Step from which each rank is inside, from 0. S + 1: never.
        weight: Its weight in the proof.
    """

    labels: tuple[int, ...]
    weight: Fraction


@dataclass(frozen=True, slots=True)
class LimitProof:
    """The proof of a limit on a machine.

    Attributes:
        collective: the bounded collective: the requested one, or its dual.
        on_reversed: whether the bound is on the reversed topology.
        topology: Name of the machine.
        steps: S of the bounded collective.
        bound: Lower bound on its R/C.
        prices: Prices at which its timed trees cost at least the bound. With cuts, prices of shared
            budgets only.
        cuts: Cuts through time, which prove the bound instead of trees. Without prices and cuts,
            the bandwidth bound proves it.
        roots: Roots of a broadcast that an allreduce contains and that bounds it: one rank, or one
            rank of each process group.
    """

    collective: str
    on_reversed: bool
    topology: str
    steps: int
    bound: Fraction
    prices: StepPrices
    cuts: tuple[TimedCut, ...] = ()
    roots: tuple[int, ...] = ()

    @property
    def problem(self) -> str:
        """Return the bounded problem as text."""
        first, *others = map(str, self.roots or ("",))
        rooted = f" from rank{'s' if others else ''} {', '.join((first, *others))}" if first else ""
        return describe_dual(f"{self.collective}{rooted}", on_reversed=self.on_reversed)


@dataclass(frozen=True, slots=True)
class StepLimit:
    """Lower and upper bounds on R/C of algorithms with S steps, for any k and C.

    Attributes:
        steps: S of the requested collective.
        lower: Proved lower bound on R/C of all algorithms of the class with S steps.
        upper: R/C of a packing, or of an algorithm. None: not searched, or none found.
        proofs: Proofs of ``lower``, by machine. Empty: not stored.
    """

    steps: int
    lower: Fraction
    upper: Fraction | None
    proofs: tuple[LimitProof, ...] = ()

    def require_consistent(self) -> StepLimit:
        """Return the limit after checking that its upper bound is not below its lower bound.

        Raises:
            ContradictionError: It is.
        """
        if self.upper is not None:
            require_at_least_bound(
                self.upper,
                self.lower,
                result=f"the best R/C that is known for S={self.steps}",
                limit="the lower bound on R/C for as many steps",
            )
        return self

    @property
    def method(self) -> str:
        """Return the method that proved ``lower``: ``"cut"`` or ``"packing"``.

        It is ``"bound"`` if the proofs are not stored.
        """
        if not self.proofs:
            return "bound"
        is_packed = any(proof.prices and not proof.cuts for proof in self.proofs)
        return "packing" if is_packed else "cut"

    @property
    def required_upper(self) -> Fraction:
        """Return ``upper``, which must exist."""
        assert self.upper is not None
        return self.upper

    @property
    def is_exact(self) -> bool:
        """Return whether both bounds are equal."""
        return self.lower == self.upper
