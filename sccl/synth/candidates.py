"""The candidates (R, C) that SCCL's Algorithm 1 considers for a number of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor

from sccl.collectives import Dual
from sccl.errors import ParameterError
from sccl.prove.bounds import LowerBounds

MAX_K = 100_000
MAX_CANDIDATES = 1_000_000
"""Of a number of steps; they grow with the square of k."""

LEAST_K = 5
"""The k of SCCL's evaluation (section 5.2)."""


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A (C, S, R) of the collective that was asked for; ordered by cost, then chunks."""

    cost: Fraction
    chunks: int
    steps: int
    rounds: int

    def __str__(self) -> str:
        return f"C={self.chunks} S={self.steps} R={self.rounds}"

    def implies_unsat(self, other: Candidate) -> bool:
        """Return whether ``other`` is unsat if this one, of as many steps, is.

        An algorithm stays one when a step is given another round, and when the chunks of the last
        pattern are left out. So if ``other`` with R' <= R and C' >= C had an algorithm, so would
        this. (C counts whole patterns: both are multiples of the collective's unit.)
        """
        return (
            self.steps == other.steps
            and other.rounds <= self.rounds
            and other.chunks >= self.chunks
        )

    def may_dominate(self, point: Candidate) -> bool:
        """Return whether an algorithm for this candidate would dominate ``point``."""
        if self.steps == point.steps:
            return self.cost < point.cost
        return self.steps < point.steps and self.cost <= point.cost


@dataclass(frozen=True, slots=True)
class Range:
    """What a sweep covers.

    Attributes:
        k: R <= S + k (SCCL section 3.1: k-synchronous), for the S and R of the dual that is solved;
            None: 5, or what it takes to meet the bandwidth bound in the fewest steps.
        max_steps: last S; None: three steps (of the dual) more than the latency bound.
        max_chunks: largest C; None: as many as R and the bandwidth bound allow.
    """

    k: int | None = None
    max_steps: int | None = None
    max_chunks: int | None = None

    def __post_init__(self) -> None:
        if self.k is not None and not 0 <= self.k <= MAX_K:
            raise ParameterError(f"k is {self.k}, expected 0 to {MAX_K} (R is at most S + k)")
        for what, value in (("max-steps", self.max_steps), ("max-chunks", self.max_chunks)):
            if value is not None and value < 1:
                raise ParameterError(f"{what} is {value}, expected at least 1")

    @property
    def words(self) -> str:
        """Return what claims of a sweep are restricted to, such as ``"k = 2"``."""
        return within(self.k, self.max_chunks)


def within(k: int | None, max_chunks: int | None) -> str:
    """Return a range of R and C in words, as they follow ``for``."""
    of_rounds = "the k searched" if k is None else f"k = {k}"
    return of_rounds + (f" and C <= {max_chunks}" if max_chunks is not None else "")


ALL = "all k-synchronous algorithms"


def scope_of(covered: Range | None, composition: str) -> str:
    """Return the class that a sweep's claims are about, as words; of any k and C if ``None``.

    The last S of a sweep is no part of it: only algorithms with no more steps can dominate a point.
    """
    if covered is None:
        return composition or ALL
    limit = f" with C <= {covered.max_chunks}" if covered.max_chunks else ""
    if composition:
        return f"{composition}, each half {covered.k}-synchronous{limit}"
    return f"{covered.k}-synchronous algorithms{limit}"


def candidates(dual: Dual, bandwidth: Fraction, steps: int, covered: Range) -> Iterator[Candidate]:
    """Yield the candidates with ``steps`` steps: R <= S + k and R/C >= the bandwidth bound.

    Args:
        dual: what is solved.
        bandwidth: the bound on R/C of the collective that was asked for.
        steps: S of the collective that was asked for.
        covered: k and the largest C.
    """
    k = LEAST_K if covered.k is None else covered.k
    dual_steps, unit = steps // dual.phases, dual.spec.unit * dual.chunk_factor
    most = dual_steps + k
    if covered.max_chunks is None and most * dual.phases / bandwidth / unit * k > MAX_CANDIDATES:
        raise ParameterError(
            f"k is {k}: with {steps} steps that makes more than {MAX_CANDIDATES} candidates; give "
            "a smaller --k, or --max-chunks"
        )
    for dual_rounds in range(dual_steps, most + 1):
        rounds = dual_rounds * dual.phases
        cheapest = rounds / bandwidth  # the C at which R/C is the bound
        last = floor(cheapest) if covered.max_chunks is None else covered.max_chunks
        for chunks in range(unit, min(floor(cheapest), last) + 1, unit):
            yield Candidate(Fraction(rounds, chunks), chunks, steps, rounds)


def settled(covered: Range, dual: Dual, bounds: LowerBounds) -> Range:
    """Return ``covered`` with its k: 5, or what it takes to meet the bandwidth bound, if not given.

    With the fewest chunks whose R is whole, and in the fewest steps.
    """
    if covered.k is not None:
        return covered
    unit = dual.spec.unit * dual.chunk_factor
    rounds = (bounds.bandwidth * unit / dual.phases).numerator
    return replace(covered, k=max(LEAST_K, rounds - bounds.steps // dual.phases))
