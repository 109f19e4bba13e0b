"""Claims in words, each with the whole class that it is about."""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from sccl.core.files.claims import (
    AlgorithmClaimWire,
    BandwidthWire,
    Claim,
    EveryWire,
    LimitClaimWire,
    LimitPointWire,
    ParetoWire,
    ScheduleClaimWire,
    StepClaim,
    StepsWire,
    TimePointWire,
    TimeWire,
    UnsatWire,
)
from sccl.prove.check.prices import short
from sccl.prove.check.question import Case
from sccl.prove.check.times import holds_for_both

_TREES = "tree allreduces (each chunk is reduced up a tree to a rank, or two, and broadcast down)"
_EVERY = "all allreduces (each send carries contributions to one chunk)"
_COMPOSITIONS = "compositions of a reducescatter and an allgather"
_PLANS = "all plans of chunks of any number and sizes"
_EQUAL = f"{_COMPOSITIONS} of equal steps and rounds"


def classes(case: Case) -> list[str]:
    """Return the classes within which the certificate claims that something is optimal."""
    optimal = (c for c in case.claims if isinstance(c, ParetoWire | LimitPointWire | TimePointWire))
    return list(dict.fromkeys(class_of(case, claim) for claim in optimal))


def class_of(case: Case, claim: ParetoWire | LimitPointWire | TimePointWire) -> str:
    """Return the class within which a plan is claimed to be optimal, or near it."""
    if isinstance(claim, TimePointWire):
        if holds_for_both(case.topology):
            return f"{_PLANS}, whether alphas travel or occupy their links"
        return f"{_PLANS}, where alphas travel"
    if isinstance(claim, LimitPointWire):
        if claim.trees:
            return f"{_TREES}, for every k and C"
        if claim.every:
            return f"{_EVERY}, for every k and C"
        whole = "all algorithms" if case.dual.phases == 1 else _composed(claim.halves)
        return f"{whole}, for every k and C"
    bounded = f"R <= S + {claim.k}"
    if case.dual.phases > 1:
        bounded = f"{bounded} in each of the two"
    largest = "any C" if claim.max_chunks is None else f"C up to {claim.max_chunks}"
    whole = "algorithms" if case.dual.phases == 1 else _composed(claim.halves)
    return f"{whole} with {bounded} and {largest}"


def claim_in_words(case: Case, claim: Claim) -> str:
    """Return a claim as text."""
    if isinstance(claim, TimeWire | ScheduleClaimWire | TimePointWire):
        return _time_in_words(case, claim)
    return _steps_in_words(case, claim)


def _steps_in_words(case: Case, claim: StepClaim) -> str:
    match claim:
        case StepsWire():
            return f"S >= {claim.at_least}{_for(case, _COMPOSITIONS)}"
        case BandwidthWire():
            return _bandwidth_in_words(case, claim)
        case LimitClaimWire() | EveryWire():
            return _limit_in_words(case, claim)
        case AlgorithmClaimWire():
            return f"an algorithm of {_triple(claim)}"
        case UnsatWire():
            return f"no algorithm of {_triple(claim)}{_for(case, _EQUAL, 'among')}"
        case ParetoWire() | LimitPointWire():
            return f"{_triple(claim)} is Pareto-optimal among {class_of(case, claim)}"
    assert_never(claim)


def _bandwidth_in_words(case: Case, claim: BandwidthWire) -> str:
    least = _number(claim.at_least)
    if case.spec.counts:  # a lemma of times, which are of bytes
        return f"some lane carries at least {least} times the bytes of an element"
    return f"R/C >= {least}{_for(case, _COMPOSITIONS if len(case.phases) == 1 else _EQUAL)}"


def _limit_in_words(case: Case, claim: LimitClaimWire | EveryWire) -> str:
    match claim:
        case LimitClaimWire():
            whole = f" for {_TREES}" if claim.trees else _for(case, _EQUAL)
            least = _number(claim.at_least)
            return f"R/C >= {least} with S={claim.steps}{whole}, for every k and C"
        case EveryWire():
            within = "" if claim.steps is None else f" with S={claim.steps}"
            return f"R/C >= {_number(claim.at_least)}{within} for {_EVERY}, for every k and C"
    assert_never(claim)


def _time_in_words(case: Case, claim: TimeWire | ScheduleClaimWire | TimePointWire) -> str:
    if isinstance(claim, ScheduleClaimWire):
        return f"a schedule of {claim.size_bytes} bytes that takes {_decimal(claim.finish_us)} us"
    least = f"{_decimal(claim.at_least_us)} us"
    travels = "" if holds_for_both(case.topology) else " in which alphas travel"
    if isinstance(claim, TimePointWire):
        took, size = f"{_decimal(claim.finish_us)} us", claim.size_bytes
        return f"{took} for {size} bytes, lower bound {least} for {_PLANS}{travels}"
    plans = f" for plans{travels}" if travels else ""
    bound = f"lower bound{plans}: {least} for {_decimal(claim.from_bytes)} bytes"
    more = Fraction(claim.us_per_byte)
    return f"{bound}, plus 1 us for each further {_decimal(str(1 / more))}" if more else bound


def _decimal(text: str) -> str:
    """Return a fraction with ten digits, where so many say it."""
    value = Fraction(text)
    return f"{float(value):.10g}" if 10**-12 < value < 10**30 else short(value)


def _composed(halves: str) -> str:
    return _EQUAL if halves == "equal" else f"{_COMPOSITIONS} of any steps and rounds"


def _for(case: Case, whole: str, word: str = "for") -> str:
    """Return the class that a claim is about; empty if it is about all algorithms."""
    return f" {word} {whole}" if case.dual.phases > 1 else ""


def _number(text: str) -> str:
    return short(Fraction(text))


def _triple(claim: AlgorithmClaimWire | UnsatWire | ParetoWire | LimitPointWire) -> str:
    return f"C={claim.chunks} S={claim.steps} R={claim.rounds}"
