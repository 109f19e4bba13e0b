"""Determine which (C, S, R) a set of claims rules out, and which a claim of optimality still needs.

An algorithm has one phase, or (allreduce) two: a reducescatter and then an allgather, with separate
steps and rounds, on the reversed machine and on the machine. Exclusions are stored by phase, with
the C of the requested collective, and the S and R of the phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice, pairwise, product

from sccl.collectives import DualPhase, Spec, dual_of
from sccl.core.files.claims import (
    AllreduceBoundWire,
    BandwidthWire,
    Claim,
    LimitClaimWire,
    ParetoWire,
    StepsWire,
    UnsatWire,
)
from sccl.prove.check.timed_trees import Spend

_UNLIMITED_STEPS = 2**40
_CANDIDATE_OPERATIONS = 40  # cost of a candidate in operations

CandidateTriple = tuple[int, int, int]
"""(C, S, R) of a candidate, of all phases together."""


@dataclass(slots=True)
class PhaseExclusions:
    """The exclusions of a phase.

    Attributes:
        steps: Lower bound on S.
        bandwidth: Lower bound on R/C.
        limits: Pairs (S, lower bound on R/C with at most S steps).
        refuted: Impossible (C, S, R). More chunks or fewer rounds are impossible, too.
    """

    steps: int = 0
    bandwidth: Fraction = Fraction(0)
    limits: tuple[tuple[int, Fraction], ...] = ()
    refuted: tuple[CandidateTriple, ...] = ()

    def lower_bound(self, steps: int) -> Fraction | None:
        """Return the lower bound on R/C with up to ``steps`` steps, None if ``steps`` is too small.

        An algorithm of fewer steps is one of more steps, some without rounds, and prices also cover
        those. So the limit of more steps holds for fewer.
        """
        if steps < self.steps:
            return None
        return max([self.bandwidth, *(value for s, value in self.limits if s >= steps)])

    def rules_out(self, chunks: int, steps: int, rounds: int) -> bool:
        """Return whether (C, S, R) is impossible. If so, more chunks are impossible, too.

        An idle step extends an algorithm by one step and one round.
        """
        lower_bound = self.lower_bound(steps)
        return (
            lower_bound is None
            or rounds < lower_bound * chunks
            or any(c <= chunks and 0 <= s - steps <= r - rounds for c, s, r in self.refuted)
        )


@dataclass(frozen=True, slots=True)
class Coverage:
    """The exclusions of all claims together.

    Attributes:
        unit: Number that divides C.
        phases: Exclusions of the phase, or of the two phases of an allreduce.
        tree_limits: Pairs (S, lower bound on R/C with S steps) for an allreduce by trees.
    """

    unit: int
    phases: tuple[PhaseExclusions, ...]
    tree_limits: tuple[tuple[int, Fraction], ...]

    @staticmethod
    def from_claims(
        claims: Iterable[Claim], spec: Spec, solved_on: Sequence[DualPhase]
    ) -> Coverage:
        """Collect the exclusions of claims.

        Args:
            solved_on: The phases that claims concern: both, if their machines differ.
        """
        count = dual_of(spec).phases
        ruled_out = {phase.number: PhaseExclusions() for phase in solved_on}
        trees: list[tuple[int, Fraction]] = []
        for claim in claims:
            if isinstance(claim, LimitClaimWire) and claim.trees:
                trees.append((claim.steps, Fraction(claim.at_least)))
            elif isinstance(claim, AllreduceBoundWire):
                trees.append((claim.steps or _UNLIMITED_STEPS, Fraction(claim.at_least)))
            elif isinstance(claim, StepsWire):
                for phase in ruled_out.values():
                    phase.steps = max(phase.steps, -(-claim.at_least // count))
            elif isinstance(claim, BandwidthWire | LimitClaimWire | UnsatWire):
                _add_claim(ruled_out[claim.machine], claim, count)
        each = tuple(ruled_out.values())
        return Coverage(spec.unit, (each[0], each[-1])[:count], tuple(trees))

    def lower_bound(self, steps: int, *, equal: bool) -> Fraction | None:
        """Return the lower bound on R/C with up to ``steps`` steps, None if ``steps`` is too small.

        Args:
            equal: Whether the two phases have equal steps and rounds.
        """
        bounds = []
        for parts in self.step_splits(steps, equal=equal):
            each = [p.lower_bound(s) for p, s in zip(self.phases, parts, strict=True)]
            values = [value for value in each if value is not None]
            if len(values) == len(each):
                bounds.append(max(values) * len(values) if equal else sum(values, Fraction(0)))
        return min(bounds, default=None)

    def tree_lower_bound(self, steps: int) -> Fraction:
        """Return the lower bound on R/C of an allreduce by trees with up to ``steps`` steps."""
        return max([value for s, value in self.tree_limits if s >= steps], default=Fraction(0))

    def step_splits(self, steps: int, *, equal: bool) -> Iterator[tuple[int, ...]]:
        """Yield all distributions of steps over the phases."""
        count = len(self.phases)
        if equal or count == 1:
            if steps % count == 0:
                yield (steps // count,) * count
            return
        for first in range(1, steps):
            yield first, steps - first

    def rules_out(self, chunks: int, steps: Iterable[int], rounds: Iterable[int]) -> bool:
        """Return whether a phase is impossible. If so, more chunks are impossible, too."""
        each = zip(self.phases, steps, rounds, strict=True)
        return any(phase.rules_out(chunks, s, r) for phase, s, r in each)


def _add_claim(
    phase: PhaseExclusions, claim: BandwidthWire | LimitClaimWire | UnsatWire, count: int
) -> None:
    """Add a claim to a phase, or to both phases if these are equal."""
    match claim:
        case BandwidthWire():
            phase.bandwidth = max(phase.bandwidth, Fraction(claim.at_least) / count)
        case LimitClaimWire():
            limit = (claim.steps // count, Fraction(claim.at_least) / count)
            phase.limits = (*phase.limits, limit)
        case UnsatWire():
            refuted = (claim.chunks, claim.steps // count, claim.rounds // count)
            phase.refuted = (*phase.refuted, refuted)


def undecided_candidates(
    covered: Coverage, claim: ParetoWire, spend: Spend
) -> Iterator[CandidateTriple]:
    """Yield the candidates that would dominate a point and are not ruled out.

    For each S and R, only the smallest C is considered: a claim that rules it out rules out all
    larger C.
    """
    cost, equal = Fraction(claim.rounds, claim.chunks), claim.halves == "equal"
    for steps in range(1, claim.steps + 1):
        spend(10 * steps * (1 + sum(len(phase.limits) for phase in covered.phases)))
        lower_bound = covered.lower_bound(steps, equal=equal)
        if (
            lower_bound is None
            or lower_bound > cost
            or (lower_bound == cost and steps == claim.steps)
        ):
            continue
        for parts in covered.step_splits(steps, equal=equal):
            for rounds in _phase_rounds(parts, claim.k, equal=equal):
                spend(_CANDIDATE_OPERATIONS + sum(len(phase.refuted) for phase in covered.phases))
                chunks = _min_chunks(sum(rounds), cost, covered.unit, less=steps == claim.steps)
                fits = claim.max_chunks is None or chunks <= claim.max_chunks
                if fits and not covered.rules_out(chunks, parts, rounds):
                    yield chunks, steps, sum(rounds)


def _phase_rounds(parts: tuple[int, ...], k: int, *, equal: bool) -> Iterator[tuple[int, ...]]:
    """Yield the possible rounds of the phases for their numbers of steps."""
    if equal:
        for more in range(k + 1):
            yield tuple(s + more for s in parts)
        return
    yield from product(*(range(s, s + k + 1) for s in parts))


def _min_chunks(rounds: int, cost: Fraction, unit: int, *, less: bool) -> int:
    """Return the smallest multiple C of the unit with R/C <= cost, or < cost if ``less``."""
    units = rounds / cost / unit
    rounded_up = -(-units.numerator // units.denominator)
    return unit * (rounded_up + 1 if less and rounded_up == units else rounded_up)


def count_round_vectors(rounds: int, steps: int, limit: int) -> int:
    """Return the number of round vectors, or some number above ``limit`` if they are more."""
    count = 1
    for i in range(1, min(steps - 1, rounds - steps) + 1):  # rounds - 1 over steps - 1
        count = count * (rounds - i) // i
        if count > limit:
            return count
    return count


def enumerate_round_vectors(rounds: int, steps: int, limit: int) -> Iterator[tuple[int, ...]]:
    """Yield round vectors with at least one round per step, up to ``limit`` + 1 vectors."""
    for cuts in islice(combinations(range(1, rounds), steps - 1), limit + 1):
        yield tuple(b - a for a, b in pairwise((0, *cuts, rounds)))
