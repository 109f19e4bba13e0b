"""The candidates (R, C) that SCCL's Algorithm 1 considers for a number of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from sccl.collectives import Dual
from sccl.errors import ParameterError

MAX_K = 500
"""The candidates of a number of steps grow with the square of k: beyond, a list of millions."""


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
        k: R <= S + k (SCCL section 3.1: k-synchronous), for the S and R of the dual that is solved.
        max_steps: last S; None: three steps (of the dual) more than the latency bound.
        max_chunks: largest C; None: as many as R and the bandwidth bound allow.
    """

    k: int = 5
    max_steps: int | None = None
    max_chunks: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.k <= MAX_K:
            raise ParameterError(f"k is {self.k}, expected 0 to {MAX_K} (R is at most S + k)")
        for what, value in (("max-steps", self.max_steps), ("max-chunks", self.max_chunks)):
            if value is not None and value < 1:
                raise ParameterError(f"{what} is {value}, expected at least 1")


def candidates(dual: Dual, bandwidth: Fraction, steps: int, covered: Range) -> Iterator[Candidate]:
    """Yield the candidates with ``steps`` steps: R <= S + k and R/C >= the bandwidth bound.

    Args:
        dual: what is solved.
        bandwidth: the bound on R/C of the collective that was asked for.
        steps: S of the collective that was asked for.
        covered: k and the largest C.
    """
    dual_steps, unit = steps // dual.phases, dual.spec.unit * dual.chunk_factor
    for dual_rounds in range(dual_steps, dual_steps + covered.k + 1):
        rounds = dual_rounds * dual.phases
        cheapest = rounds / bandwidth  # the C at which R/C is the bound
        last = floor(cheapest) if covered.max_chunks is None else covered.max_chunks
        for chunks in range(unit, min(floor(cheapest), last) + 1, unit):
            yield Candidate(Fraction(rounds, chunks), chunks, steps, rounds)
