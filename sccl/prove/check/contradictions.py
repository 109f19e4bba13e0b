"""Check that no plan of a certificate beats a bound of the same certificate.

Each proof is checked separately, so an unsound proof rule would remain unnoticed. Executed plans
reveal it: an algorithm or schedule below a claimed bound refutes the claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from sccl.core.algorithm import Algorithm
from sccl.core.files.claims import (
    AlgorithmClaimWire,
    AllreduceBoundWire,
    BandwidthWire,
    Claim,
    LimitClaimWire,
    ScheduleClaimWire,
    StepsWire,
    TimePointWire,
    TimeWire,
    UnsatWire,
)
from sccl.core.symmetric import AnyAlgorithm
from sccl.prove.check.allreduce import is_composition, is_tree_allreduce
from sccl.prove.check.case import Case
from sccl.prove.check.coverage import CandidateTriple, Coverage
from sccl.prove.check.orbit_expansion import SEND_OPERATIONS
from sccl.prove.check.time_claims import claimed_bound
from sccl.prove.check.timed_trees import Spend

_StepBound = StepsWire | BandwidthWire | LimitClaimWire | AllreduceBoundWire | UnsatWire
_TimeBound = TimeWire | TimePointWire


def find_contradiction(
    case: Case,
    claim: Claim,
    claims: Sequence[Claim],
    algorithms: Mapping[CandidateTriple, Sequence[AnyAlgorithm]],
    spend: Spend,
) -> Claim | None:
    """Return the first earlier claim that contradicts a claim, None if there is none.

    Args:
        claims: The earlier claims that have not failed.
        algorithms: The executed algorithms, by (C, S, R).

    Raises:
        TooMuchError: The check takes too much work.
    """
    for prior in claims:
        for plan, bound in ((claim, prior), (prior, claim)):
            if isinstance(plan, ScheduleClaimWire) and isinstance(bound, _TimeBound):
                spend(1)
                beaten = _is_earlier(plan, bound)
            elif isinstance(plan, AlgorithmClaimWire) and isinstance(bound, _StepBound):
                beaten = _is_beaten(case, plan, bound, algorithms, spend)
            else:
                continue
            if beaten:
                return prior
    return None


def _is_earlier(plan: ScheduleClaimWire, bound: _TimeBound) -> bool:
    """Return whether a schedule is faster than a bound. Bounds never decrease with the size."""
    if isinstance(bound, TimePointWire):
        lower_bound = (
            Fraction(bound.at_least_us) if bound.size_bytes <= plan.size_bytes else Fraction(0)
        )
    else:
        lower_bound = claimed_bound(bound).us(plan.size_bytes)
    return Fraction(plan.finish_us) < lower_bound


def _is_beaten(
    case: Case,
    plan: AlgorithmClaimWire,
    bound: _StepBound,
    algorithms: Mapping[CandidateTriple, Sequence[AnyAlgorithm]],
    spend: Spend,
) -> bool:
    """Return whether an algorithm is in the class of a bound, and below the bound."""
    triple = (plan.chunks, plan.steps, plan.rounds)
    spend(10 * (1 + plan.steps))
    if isinstance(bound, AllreduceBoundWire) or (isinstance(bound, LimitClaimWire) and bound.trees):
        cost, max_steps = Fraction(plan.rounds, plan.chunks), bound.steps
        if cost >= Fraction(bound.at_least) or (max_steps is not None and plan.steps > max_steps):
            return False
        return isinstance(bound, AllreduceBoundWire) or any(
            is_tree_allreduce(algorithm)
            for algorithm in _expanded_algorithms(algorithms.get(triple, ()), spend)
        )
    covered = Coverage.from_claims([bound], case.spec, case.phases)
    if case.dual.phases == 1:
        return covered.rules_out(plan.chunks, (plan.steps,), (plan.rounds,))
    return any(
        covered.rules_out(plan.chunks, (cut, plan.steps - cut), (sum(halves[0]), sum(halves[1])))
        and is_composition(algorithm, case.dual, cut)
        for algorithm in _expanded_algorithms(algorithms.get(triple, ()), spend)
        for cut in range(1, plan.steps)
        for halves in [(algorithm.rounds_per_step[:cut], algorithm.rounds_per_step[cut:])]
    )


def _expanded_algorithms(algorithms: Sequence[AnyAlgorithm], spend: Spend) -> Iterator[Algorithm]:
    """Yield the algorithms whose class can be determined, which have all sends listed."""
    for algorithm in algorithms:
        if isinstance(algorithm, Algorithm):
            spend(SEND_OPERATIONS)
            yield algorithm
