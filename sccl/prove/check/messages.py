"""Describe claims in words, each with its complete class of algorithms."""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from sccl.core.files.claims import (
    AlgorithmClaimWire,
    AllreduceBoundWire,
    BandwidthWire,
    Claim,
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
from sccl.prove.check.case import Case
from sccl.prove.check.constraint_prices import fraction_text
from sccl.prove.check.time_bounds import is_valid_for_both_alphas

_TREE_ALLREDUCES = (
    "tree allreduces (each chunk is reduced up a tree to one or two root ranks, then broadcast)"
)
_ALL_ALLREDUCES = "all allreduces (each send carries contributions to one chunk)"
_COMPOSITIONS = "compositions of a reducescatter and an allgather"
_ALL_PLANS = "all plans with any number and sizes of chunks"
_EQUAL_COMPOSITIONS = f"{_COMPOSITIONS} of equal steps and rounds"


def class_texts(case: Case) -> list[str]:
    """Return the classes within which a certificate claims optimality."""
    optimal = (c for c in case.claims if isinstance(c, ParetoWire | LimitPointWire | TimePointWire))
    return list(dict.fromkeys(class_text(case, claim) for claim in optimal))


def class_text(case: Case, claim: ParetoWire | LimitPointWire | TimePointWire) -> str:
    """Return the class within which a plan is claimed to be optimal, or within a gap."""
    if isinstance(claim, TimePointWire):
        if is_valid_for_both_alphas(case.topology):
            return f"{_ALL_PLANS}, whether alphas travel or occupy their links"
        return f"{_ALL_PLANS}, where alphas travel"
    if isinstance(claim, LimitPointWire):
        if claim.trees:
            return f"{_TREE_ALLREDUCES}, for every k and C"
        if claim.every:
            return f"{_ALL_ALLREDUCES}, for every k and C"
        subject = "all algorithms" if case.dual.phases == 1 else _composition_text(claim.halves)
        return f"{subject}, for every k and C"
    bounded = f"R <= S + {claim.k}"
    if case.dual.phases > 1:
        bounded = f"{bounded} in each of the two"
    largest = "any C" if claim.max_chunks is None else f"C up to {claim.max_chunks}"
    subject = "algorithms" if case.dual.phases == 1 else _composition_text(claim.halves)
    return f"{subject} with {bounded} and {largest}"


def describe_claim(case: Case, claim: Claim) -> str:
    """Return a claim as text."""
    if isinstance(claim, TimeWire | ScheduleClaimWire | TimePointWire):
        return _describe_time(case, claim)
    return _describe_steps(case, claim)


def _describe_steps(case: Case, claim: StepClaim) -> str:
    match claim:
        case StepsWire():
            return f"S >= {claim.at_least}{_scope_text(case, _COMPOSITIONS)}"
        case BandwidthWire():
            return _describe_bandwidth(case, claim)
        case LimitClaimWire() | AllreduceBoundWire():
            return _describe_limit(case, claim)
        case AlgorithmClaimWire():
            return f"an algorithm of {_format_triple(claim)}"
        case UnsatWire():
            return (
                f"no algorithm of "
                f"{_format_triple(claim)}{_scope_text(case, _EQUAL_COMPOSITIONS, 'among')}"
            )
        case ParetoWire() | LimitPointWire():
            return f"{_format_triple(claim)} is Pareto-optimal among {class_text(case, claim)}"
    assert_never(claim)


def _describe_bandwidth(case: Case, claim: BandwidthWire) -> str:
    lower_bound = _format_number(claim.at_least)
    if case.spec.counts:  # a lemma for times, in bytes
        return f"some lane carries at least {lower_bound} times the bytes of an element"
    compositions = _COMPOSITIONS if len(case.phases) == 1 else _EQUAL_COMPOSITIONS
    return f"R/C >= {lower_bound}{_scope_text(case, compositions)}"


def _describe_limit(case: Case, claim: LimitClaimWire | AllreduceBoundWire) -> str:
    match claim:
        case LimitClaimWire():
            scope = (
                f" for {_TREE_ALLREDUCES}"
                if claim.trees
                else _scope_text(case, _EQUAL_COMPOSITIONS)
            )
            lower_bound = _format_number(claim.at_least)
            return f"R/C >= {lower_bound} with S={claim.steps}{scope}, for every k and C"
        case AllreduceBoundWire():
            within = "" if claim.steps is None else f" with S={claim.steps}"
            return (
                f"R/C >= {_format_number(claim.at_least)}{within} for {_ALL_ALLREDUCES}, for every "
                f"k and C"
            )
    assert_never(claim)


def _describe_time(case: Case, claim: TimeWire | ScheduleClaimWire | TimePointWire) -> str:
    if isinstance(claim, ScheduleClaimWire):
        return (
            f"a schedule of {claim.size_bytes} bytes that takes {_format_decimal(claim.finish_us)} "
            f"us"
        )
    floor = f"{_format_decimal(claim.at_least_us)} us"
    travels = "" if is_valid_for_both_alphas(case.topology) else " in which alphas travel"
    if isinstance(claim, TimePointWire):
        took, size = f"{_format_decimal(claim.finish_us)} us", claim.size_bytes
        return f"{took} for {size} bytes, lower bound {floor} for {_ALL_PLANS}{travels}"
    plans = f" for plans{travels}" if travels else ""
    bound = f"lower bound{plans}: {floor} for {_format_decimal(claim.from_bytes)} bytes"
    more = Fraction(claim.us_per_byte)
    return f"{bound}, plus 1 us per additional {_format_decimal(str(1 / more))}" if more else bound


def _format_decimal(text: str) -> str:
    """Return a fraction as a decimal with ten digits, or exactly if it is tiny or huge."""
    value = Fraction(text)
    return f"{float(value):.10g}" if 10**-12 < value < 10**30 else fraction_text(value)


def _composition_text(halves: str) -> str:
    return _EQUAL_COMPOSITIONS if halves == "equal" else f"{_COMPOSITIONS} of any steps and rounds"


def _scope_text(case: Case, scope: str, word: str = "for") -> str:
    """Return the suffix for the class of a claim, empty if it covers all algorithms."""
    return f" {word} {scope}" if case.dual.phases > 1 else ""


def _format_number(text: str) -> str:
    return fraction_text(Fraction(text))


def _format_triple(claim: AlgorithmClaimWire | UnsatWire | ParetoWire | LimitPointWire) -> str:
    return f"C={claim.chunks} S={claim.steps} R={claim.rounds}"
