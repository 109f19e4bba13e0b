"""Candidates: the (C, S, R) that a sweep asks about, and the ranges of them that it covers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sccl.errors import ParameterError

MAX_K = 1_000_000


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A (C, S, R) of the collective that was asked for; ordered by cost, then chunks."""

    cost: Fraction
    chunks: int
    steps: int
    rounds: int

    def __str__(self) -> str:
        return f"C={self.chunks} S={self.steps} R={self.rounds}"

    def implies_unsat(self, peer: Candidate) -> bool:
        """Return whether ``peer`` is unsat if this one, of as many steps, is.

        An algorithm stays one when a step is given another round, and when the chunks of the last
        pattern are left out. So if ``peer`` with R' <= R and C' >= C had an algorithm, so would
        this. (C counts whole patterns: both are multiples of the collective's unit.)
        """
        return (
            self.steps == peer.steps and peer.rounds <= self.rounds and peer.chunks >= self.chunks
        )

    def may_dominate(self, point: Candidate) -> bool:
        """Return whether an algorithm for this candidate would dominate ``point``."""
        if self.steps == point.steps:
            return self.cost < point.cost
        return self.steps < point.steps and self.cost <= point.cost


@dataclass(frozen=True, slots=True)
class SweepRange:
    """The range of a sweep.

    Attributes:
        k: R <= S + k (SCCL section 3.1: k-synchronous), for the S and R of the dual that is solved.
            None: 5, or enough to attain the bandwidth bound in the fewest steps.
        max_steps: last S. None: three steps (of the dual) more than the latency bound.
        max_chunks: largest C. None: as large as R and the bandwidth bound allow.
    """

    k: int | None = None
    max_steps: int | None = None
    max_chunks: int | None = None

    def __post_init__(self) -> None:
        if self.k is not None and not 0 <= self.k <= MAX_K:
            raise ParameterError(f"k is {self.k}, expected 0 to {MAX_K} (R is at most S + k)")
        for name, value in (("max-steps", self.max_steps), ("max-chunks", self.max_chunks)):
            if value is not None and value < 1:
                raise ParameterError(f"{name} is {value}, expected at least 1")

    @property
    def description(self) -> str:
        """Return the restriction on claims of a sweep, such as ``"k = 2"``."""
        of_rounds = "the k searched" if self.k is None else f"k = {self.k}"
        return of_rounds + (f" and C <= {self.max_chunks}" if self.max_chunks is not None else "")
