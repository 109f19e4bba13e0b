"""Which candidates a set of claims rules out, and which a claim of optimality still needs.

Candidates are (C, S, R) of the collective that was asked for, as in SCCL's Algorithm 1: R <= S + k
(for combining collectives in terms of the dual), C a multiple of the collective's unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from sccl.certify.wire import BandwidthWire, Claim, LimitWire, StepsWire, UnsatWire
from sccl.collectives import Dual, Spec, dual

Candidate = tuple[int, int, int]
"""(C, S, R)."""


@dataclass(frozen=True, slots=True)
class Covered:
    """What is ruled out.

    Attributes:
        steps: fewer are impossible.
        bandwidth: less R/C is impossible.
        limits: (S, R/C): less R/C is impossible with so many steps.
        tree_limits: likewise, for allreduce by trees.
        refuted: impossible, and with them what has no more rounds and no fewer chunks.
    """

    other: Dual
    steps: int
    bandwidth: Fraction
    limits: tuple[tuple[int, Fraction], ...]
    refuted: tuple[Candidate, ...]
    tree_limits: tuple[tuple[int, Fraction], ...] = ()

    @staticmethod
    def of(claims: Iterable[Claim], spec: Spec) -> Covered:
        """Return what claims rule out together."""
        steps, bandwidth = 0, Fraction(0)
        limits: list[tuple[int, Fraction]] = []
        tree_limits: list[tuple[int, Fraction]] = []
        refuted: list[Candidate] = []
        for claim in claims:
            match claim:
                case StepsWire():
                    steps = max(steps, claim.at_least)
                case BandwidthWire():
                    bandwidth = max(bandwidth, Fraction(claim.at_least))
                case LimitWire():
                    of_class = tree_limits if claim.trees else limits
                    of_class.append((claim.steps, Fraction(claim.at_least)))
                case UnsatWire():
                    refuted.append((claim.chunks, claim.steps, claim.rounds))
                case _:
                    pass
        return Covered(
            dual(spec), steps, bandwidth, tuple(limits), tuple(refuted), tuple(tree_limits)
        )

    def least(self, steps: int, *, trees: bool = False) -> Fraction:
        """Return what R/C is at least with up to ``steps`` steps, for every k and C.

        An algorithm of fewer steps is one of more of which some have no rounds, and prices hold for
        that too. So the limit of more steps holds for fewer.
        """
        limits = [value for s, value in (self.tree_limits if trees else self.limits) if s >= steps]
        return max([*limits, Fraction(0) if trees else self.bandwidth])

    def rules_out(self, candidate: Candidate) -> bool:
        """Return whether a candidate is impossible by what is claimed."""
        chunks, steps, rounds = candidate
        cost = Fraction(rounds, chunks)
        return (
            steps < self.steps
            or cost < self.bandwidth
            or any(s == steps and cost < limit for s, limit in self.limits)
            or any(s == steps and rounds <= r and chunks >= c for c, s, r in self.refuted)
        )


def needed(covered: Covered, point: Candidate, k: int, max_chunks: int | None) -> list[Candidate]:
    """Return the candidates that would dominate a point and are not ruled out."""
    every = _dominating(covered, point, k, max_chunks)
    return [candidate for candidate in every if not covered.rules_out(candidate)]


def _dominating(
    covered: Covered, point: Candidate, k: int, max_chunks: int | None
) -> Iterator[Candidate]:
    """Yield the candidates with no more steps and no larger R/C, one of them smaller.

    Those with fewer steps or a smaller R/C than the bounds allow are left out. For the others C
    ends where R/C falls below the bandwidth bound, which must be positive.
    """
    chunks, last, rounds = point
    cost, phases = Fraction(rounds, chunks), covered.other.phases
    unit = covered.other.spec.unit * covered.other.chunk_factor
    for steps in range(max(covered.steps, phases), last + 1, phases):
        for dual_rounds in range(steps // phases, steps // phases + k + 1):
            r = dual_rounds * phases
            most = floor(r / covered.bandwidth)
            for c in range(unit, min(most, max_chunks or most) + 1, unit):
                if Fraction(r, c) < cost or (steps < last and Fraction(r, c) == cost):
                    yield (c, steps, r)


def vectors(rounds: int, steps: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to spread rounds over steps, one at least for each: up to ``most`` + 1."""

    def spread(left: int, parts: int) -> Iterator[tuple[int, ...]]:
        if parts == 1:
            yield (left,)
            return
        for first in range(1, left - parts + 2):
            for rest in spread(left - first, parts - 1):
                yield (first, *rest)

    for number, vector in enumerate(spread(rounds, steps)):
        if number > most:
            return
        yield vector
