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

from sccl.collectives import Phase, Spec, dual_of
from sccl.core.files.claims import (
    BandwidthWire,
    Claim,
    EveryWire,
    LimitClaimWire,
    ParetoWire,
    StepsWire,
    UnsatWire,
)
from sccl.prove.check.trees import Spend

_ANY_STEPS = 2**40
_CANDIDATE = 40  # what a candidate takes, in operations

Triple = tuple[int, int, int]
"""(C, S, R) of a candidate, of all phases together."""


@dataclass(slots=True)
class RuledOut:
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
    refuted: tuple[Triple, ...] = ()

    def least(self, steps: int) -> Fraction | None:
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
        least = self.least(steps)
        return (
            least is None
            or rounds < least * chunks
            or any(c <= chunks and 0 <= s - steps <= r - rounds for c, s, r in self.refuted)
        )


@dataclass(frozen=True, slots=True)
class Covered:
    """The numbers that claims rule out together.

    Attributes:
        unit: C is a multiple of it.
        phases: one, or the two of an allreduce.
        tree_limits: (S, R/C), for an allreduce by trees: less R/C is impossible with S steps.
    """

    unit: int
    phases: tuple[RuledOut, ...]
    tree_limits: tuple[tuple[int, Fraction], ...]

    @staticmethod
    def of(claims: Iterable[Claim], spec: Spec, solved_on: Sequence[Phase]) -> Covered:
        """Return the numbers that claims rule out together.

        Args:
            solved_on: the phases that claims are about: both, if their machines differ.
        """
        count = dual_of(spec).phases
        ruled_out = {phase.number: RuledOut() for phase in solved_on}
        trees: list[tuple[int, Fraction]] = []
        for claim in claims:
            if isinstance(claim, LimitClaimWire) and claim.trees:
                trees.append((claim.steps, Fraction(claim.at_least)))
            elif isinstance(claim, EveryWire):
                trees.append((claim.steps or _ANY_STEPS, Fraction(claim.at_least)))
            elif isinstance(claim, StepsWire):
                for phase in ruled_out.values():
                    phase.steps = max(phase.steps, -(-claim.at_least // count))
            elif isinstance(claim, BandwidthWire | LimitClaimWire | UnsatWire):
                _take(ruled_out[claim.machine], claim, count)
        each = tuple(ruled_out.values())
        return Covered(spec.unit, (each[0], each[-1])[:count], tuple(trees))

    def least(self, steps: int, *, equal: bool) -> Fraction | None:
        """Return the lower bound on R/C with up to ``steps`` steps. None: there is no algorithm.

        Args:
            equal: whether two phases have equal steps and rounds.
        """
        found = []
        for parts in self.splits(steps, equal=equal):
            each = [p.least(s) for p, s in zip(self.phases, parts, strict=True)]
            known = [value for value in each if value is not None]
            if len(known) == len(each):
                found.append(max(known) * len(known) if equal else sum(known, Fraction(0)))
        return min(found, default=None)

    def least_by_trees(self, steps: int) -> Fraction:
        """Return the lower bound on R/C of an allreduce by trees with up to ``steps`` steps."""
        return max([value for s, value in self.tree_limits if s >= steps], default=Fraction(0))

    def splits(self, steps: int, *, equal: bool) -> Iterator[tuple[int, ...]]:
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


def _take(phase: RuledOut, claim: BandwidthWire | LimitClaimWire | UnsatWire, count: int) -> None:
    """Add a claim to a phase; claims are about both phases if these are equal."""
    match claim:
        case BandwidthWire():
            phase.bandwidth = max(phase.bandwidth, Fraction(claim.at_least) / count)
        case LimitClaimWire():
            limit = (claim.steps // count, Fraction(claim.at_least) / count)
            phase.limits = (*phase.limits, limit)
        case UnsatWire():
            refuted = (claim.chunks, claim.steps // count, claim.rounds // count)
            phase.refuted = (*phase.refuted, refuted)


def needed(covered: Covered, claim: ParetoWire, spend: Spend) -> Iterator[Triple]:
    """Yield the candidates that would dominate a point and are not ruled out.

    For each S and R it is the one with the smallest C: a claim that rules it out rules out all
    larger C.
    """
    cost, equal = Fraction(claim.rounds, claim.chunks), claim.halves == "equal"
    for steps in range(1, claim.steps + 1):
        spend(10 * steps * (1 + sum(len(phase.limits) for phase in covered.phases)))
        least = covered.least(steps, equal=equal)
        if least is None or least > cost or (least == cost and steps == claim.steps):
            continue
        for parts in covered.splits(steps, equal=equal):
            for rounds in _rounds(parts, claim.k, equal=equal):
                spend(_CANDIDATE + sum(len(phase.refuted) for phase in covered.phases))
                chunks = _least_chunks(sum(rounds), cost, covered.unit, less=steps == claim.steps)
                fits = claim.max_chunks is None or chunks <= claim.max_chunks
                if fits and not covered.rules_out(chunks, parts, rounds):
                    yield chunks, steps, sum(rounds)


def _rounds(parts: tuple[int, ...], k: int, *, equal: bool) -> Iterator[tuple[int, ...]]:
    """Yield the rounds that phases of so many steps can have."""
    if equal:
        for more in range(k + 1):
            yield tuple(s + more for s in parts)
        return
    yield from product(*(range(s, s + k + 1) for s in parts))


def _least_chunks(rounds: int, cost: Fraction, unit: int, *, less: bool) -> int:
    """Return the least C, a multiple of the unit, with R/C no more than a cost, or less than it."""
    units = rounds / cost / unit
    whole = -(-units.numerator // units.denominator)
    return unit * (whole + 1 if less and whole == units else whole)


def number_of_vectors(rounds: int, steps: int, most: int) -> int:
    """Return in how many ways rounds spread over steps, or a number above ``most``."""
    found = 1
    for i in range(1, min(steps - 1, rounds - steps) + 1):  # rounds - 1 over steps - 1
        found = found * (rounds - i) // i
        if found > most:
            return found
    return found


def vectors(rounds: int, steps: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to spread rounds over steps, one at least for each: up to ``most`` + 1."""
    for cuts in islice(combinations(range(1, rounds), steps - 1), most + 1):
        yield tuple(b - a for a, b in pairwise((0, *cuts, rounds)))
