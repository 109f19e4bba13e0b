"""The claims of a certificate against each other: a plan that beats a claimed bound refutes one.

Each proof is checked by itself, so a rule that proves too much would go unseen. Plans that are
executed show it: no algorithm or schedule of a certificate may be below a bound of the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from sccl.core.algorithm import Algorithm
from sccl.core.files.claims import (
    AlgorithmClaimWire,
    BandwidthWire,
    Claim,
    EveryWire,
    LimitClaimWire,
    ScheduleClaimWire,
    StepsWire,
    TimePointWire,
    TimeWire,
    UnsatWire,
)
from sccl.core.symmetric import AnyAlgorithm
from sccl.prove.check.cover import Covered, Triple
from sccl.prove.check.least import floor_of
from sccl.prove.check.members import is_by_trees, is_composition
from sccl.prove.check.plain import SEND
from sccl.prove.check.question import Case
from sccl.prove.check.trees import Spend

_StepBound = StepsWire | BandwidthWire | LimitClaimWire | EveryWire | UnsatWire
_TimeBound = TimeWire | TimePointWire


def contradicted(
    case: Case,
    claim: Claim,
    claims: Sequence[Claim],
    algorithms: Mapping[Triple, Sequence[AnyAlgorithm]],
    spend: Spend,
) -> Claim | None:
    """Return the first of some claims that cannot be true together with another. None: all can.

    Args:
        claims: Those before that have not failed.
        algorithms: By (C, S, R), those that were executed.

    Raises:
        TooMuchError: It takes too much work to say.
    """
    for other in claims:
        for plan, bound in ((claim, other), (other, claim)):
            if isinstance(plan, ScheduleClaimWire) and isinstance(bound, _TimeBound):
                spend(1)
                beaten = _is_earlier(plan, bound)
            elif isinstance(plan, AlgorithmClaimWire) and isinstance(bound, _StepBound):
                beaten = _is_beaten(case, plan, bound, algorithms, spend)
            else:
                continue
            if beaten:
                return other
    return None


def _is_earlier(plan: ScheduleClaimWire, bound: _TimeBound) -> bool:
    """Return whether a schedule takes less than a bound says, which never falls with the size."""
    if isinstance(bound, TimePointWire):
        least = Fraction(bound.at_least_us) if bound.size_bytes <= plan.size_bytes else Fraction(0)
    else:
        least = floor_of(bound).us(plan.size_bytes)
    return Fraction(plan.finish_us) < least


def _is_beaten(
    case: Case,
    plan: AlgorithmClaimWire,
    bound: _StepBound,
    algorithms: Mapping[Triple, Sequence[AnyAlgorithm]],
    spend: Spend,
) -> bool:
    """Return whether an algorithm is of the class of a bound, and below it."""
    triple = (plan.chunks, plan.steps, plan.rounds)
    spend(10 * (1 + plan.steps))
    if isinstance(bound, EveryWire) or (isinstance(bound, LimitClaimWire) and bound.trees):
        cost, most = Fraction(plan.rounds, plan.chunks), bound.steps
        if cost >= Fraction(bound.at_least) or (most is not None and plan.steps > most):
            return False
        return isinstance(bound, EveryWire) or any(
            is_by_trees(one) for one in _written_out(algorithms.get(triple, ()), spend)
        )
    covered = Covered.of([bound], case.spec, case.phases)
    if case.dual.phases == 1:
        return covered.rules_out(plan.chunks, (plan.steps,), (plan.rounds,))
    return any(
        covered.rules_out(plan.chunks, (cut, plan.steps - cut), (sum(halves[0]), sum(halves[1])))
        and is_composition(one, case.dual, cut)
        for one in _written_out(algorithms.get(triple, ()), spend)
        for cut in range(1, plan.steps)
        for halves in [(one.rounds_per_step[:cut], one.rounds_per_step[cut:])]
    )


def _written_out(algorithms: Sequence[AnyAlgorithm], spend: Spend) -> Iterator[Algorithm]:
    """Yield the algorithms whose class can be seen: those with all of their sends."""
    for one in algorithms:
        if isinstance(one, Algorithm):
            spend(SEND)
            yield one
