"""The numbers that a set of claims rules out, and the part that a claim of optimality still needs.

An algorithm is one phase, or (allreduce) a reducescatter and then an allgather: two phases with
separate steps and rounds, on the reversed machine and on the machine. Ruled-out numbers are kept by
phase, in terms of the requested collective: its C, and the phase's S and R.
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
    """The numbers that are ruled out for a phase.

    Attributes:
        steps: fewer are impossible.
        bandwidth: less R/C is impossible.
        limits: (S, R/C): less R/C is impossible with at most S steps.
        refuted: (C, S, R): impossible, and so is any with no more rounds and no fewer chunks.
    """

    steps: int = 0
    bandwidth: Fraction = Fraction(0)
    limits: tuple[tuple[int, Fraction], ...] = ()
    refuted: tuple[CandidateTriple, ...] = ()

    def lower_bound(self, steps: int) -> Fraction | None:
        """Return the lower bound on R/C with up to ``steps`` steps. None: there is no such phase.

        An algorithm of fewer steps is one of more steps, some without rounds, and prices hold for
        that too. So the limit of more steps holds for fewer.
        """
        if steps < self.steps:
            return None
        return max([self.bandwidth, *(value for s, value in self.limits if s >= steps)])

    def rules_out(self, chunks: int, steps: int, rounds: int) -> bool:
        """Return whether it is impossible. If so, then with more chunks too.

        An algorithm becomes one of a step and a round more by doing nothing in that step.
        """
        lower_bound = self.lower_bound(steps)
        return (
            lower_bound is None
            or rounds < lower_bound * chunks
            or any(c <= chunks and 0 <= s - steps <= r - rounds for c, s, r in self.refuted)
        )


@dataclass(frozen=True, slots=True)
class Coverage:
    """The numbers that claims rule out together.

    Attributes:
        unit: C is a multiple of it.
        phases: one, or the two of an allreduce.
        tree_limits: (S, R/C), for an allreduce by trees: less R/C is impossible with S steps.
    """

    unit: int
    phases: tuple[PhaseExclusions, ...]
    tree_limits: tuple[tuple[int, Fraction], ...]

    @staticmethod
    def from_claims(
        claims: Iterable[Claim], spec: Spec, solved_on: Sequence[DualPhase]
    ) -> Coverage:
        """Return the numbers that claims rule out together.

        Args:
            solved_on: the phases that claims are about: both, if their machines differ.
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
        """Return the lower bound on R/C with up to ``steps`` steps. None: there is no algorithm.

        Args:
            equal: whether two phases have equal steps and rounds.
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
        """Yield the ways to spread steps over the phases."""
        count = len(self.phases)
        if equal or count == 1:
            if steps % count == 0:
                yield (steps // count,) * count
            return
        for first in range(1, steps):
            yield first, steps - first

    def rules_out(self, chunks: int, steps: Iterable[int], rounds: Iterable[int]) -> bool:
        """Return whether one of the phases is impossible. If so, then with more chunks too."""
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

    For each S and R it is the one with the smallest C: a claim that rules it out rules out all
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
    """Yield the rounds that phases of so many steps can have."""
    if equal:
        for more in range(k + 1):
            yield tuple(s + more for s in parts)
        return
    yield from product(*(range(s, s + k + 1) for s in parts))


def _min_chunks(rounds: int, cost: Fraction, unit: int, *, less: bool) -> int:
    """Return the least C, a multiple of the unit, with R/C no more than a cost, or less than it."""
    units = rounds / cost / unit
    rounded_up = -(-units.numerator // units.denominator)
    return unit * (rounded_up + 1 if less and rounded_up == units else rounded_up)


def count_round_vectors(rounds: int, steps: int, limit: int) -> int:
    """Return in how many ways rounds spread over steps, or a number above ``limit``."""
    count = 1
    for i in range(1, min(steps - 1, rounds - steps) + 1):  # rounds - 1 over steps - 1
        count = count * (rounds - i) // i
        if count > limit:
            return count
    return count


def enumerate_round_vectors(rounds: int, steps: int, limit: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to spread rounds over steps, one at least for each: up to ``limit`` + 1."""
    for cuts in islice(combinations(range(1, rounds), steps - 1), limit + 1):
        yield tuple(b - a for a, b in pairwise((0, *cuts, rounds)))
