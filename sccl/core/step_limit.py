"""The limit of R/C for S steps: the least R/C over all k and C, as an interval with proofs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.core.bound import require_at_least_bound
from sccl.core.formatting import describe_dual
from sccl.core.topology import ConstraintKey

StepPrices = tuple[tuple[ConstraintKey, int, Fraction], ...]
"""(constraint, step from 0, price) where a price is not 0."""


@dataclass(frozen=True, slots=True)
class TimedCut:
    """Ranks that are inside from a time on; data inside at first and wanted outside must cross.

    Attributes:
        labels: By rank, the step, from 0, from which on the rank is inside. S + 1: never.
        weight: its share in the proof.
    """

    labels: tuple[int, ...]
    weight: Fraction


@dataclass(frozen=True, slots=True)
class LimitProof:
    """The proof of a limit on a machine.

    Attributes:
        collective: the bounded collective: the requested one, or its dual.
        on_reversed: whether the bound is on the reversed topology.
        topology: the name of the machine.
        steps: S of it.
        bound: lower bound on its R/C.
        prices: prices at which its timed trees cost at least the bound. With cuts, only of shared
            budgets.
        cuts: cuts through time, which prove it instead of trees. If there are neither, the
            bandwidth bound proves it.
        roots: root of a broadcast contained in an allreduce, which bounds it: a rank, or in process
            groups one of each.
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
        lower: proved: no algorithm of the class with S steps has a smaller R/C.
        upper: R/C of a packing, or of an algorithm. None: not searched, or none found.
        proofs: proofs of ``lower``, by machine. Empty: they are not kept.
    """

    steps: int
    lower: Fraction
    upper: Fraction | None
    proofs: tuple[LimitProof, ...] = ()

    def require_consistent(self) -> StepLimit:
        """Return it, if the attained value is not below the proved bound.

        Raises:
            ContradictionError: it is.
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

        ``"bound"`` if the proofs are not kept.
        """
        if not self.proofs:
            return "bound"
        is_packed = any(proof.prices and not proof.cuts for proof in self.proofs)
        return "packing" if is_packed else "cut"

    @property
    def required_upper(self) -> Fraction:
        """Return ``upper``, which has to be there."""
        assert self.upper is not None
        return self.upper

    @property
    def is_exact(self) -> bool:
        """Return whether both bounds are one: the limit is known."""
        return self.lower == self.upper
