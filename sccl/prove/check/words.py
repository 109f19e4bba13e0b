"""Claims in words, each with the whole class that it is about."""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from sccl.core.files.claims import (
    AlgorithmClaimWire,
    BandwidthWire,
    Claim,
    LimitClaimWire,
    LimitPointWire,
    ParetoWire,
    StepsWire,
    UnsatWire,
)
from sccl.prove.check.prices import short
from sccl.prove.check.question import Case

_TREES = "allreduces by trees (each chunk goes up a timed tree and down another)"
_COMPOSITIONS = "compositions of a reducescatter and an allgather"
_EQUAL = f"{_COMPOSITIONS} of equal steps and rounds"


def classes(case: Case) -> list[str]:
    """Return the classes within which the certificate claims that something is optimal."""
    optimal = (c for c in case.claims if isinstance(c, ParetoWire | LimitPointWire))
    return list(dict.fromkeys(class_of(case, claim) for claim in optimal))


def class_of(case: Case, claim: ParetoWire | LimitPointWire) -> str:
    """Return the class within which an algorithm is claimed to be optimal."""
    if isinstance(claim, LimitPointWire):
        if claim.trees:
            return f"{_TREES}, for every k and C"
        whole = "all algorithms" if case.dual.phases == 1 else _composed(claim.halves)
        return f"{whole}, for every k and C"
    bounded = f"R <= S + {claim.k}"
    if case.dual.phases > 1:
        bounded = f"{bounded} in each of the two"
    largest = "any C" if claim.max_chunks is None else f"C up to {claim.max_chunks}"
    whole = "algorithms" if case.dual.phases == 1 else _composed(claim.halves)
    return f"{whole} with {bounded} and {largest}"


def claim_in_words(case: Case, claim: Claim) -> str:
    """Return what a claim says."""
    match claim:
        case StepsWire():
            return f"S >= {claim.at_least}{_for(case, _COMPOSITIONS)}"
        case BandwidthWire():
            whole = _COMPOSITIONS if len(case.phases) == 1 else _EQUAL
            return f"R/C >= {_number(claim.at_least)}{_for(case, whole)}"
        case LimitClaimWire():
            whole = f" for {_TREES}" if claim.trees else _for(case, _EQUAL)
            least = _number(claim.at_least)
            return f"R/C >= {least} with S={claim.steps}{whole}, for every k and C"
        case AlgorithmClaimWire():
            return f"an algorithm of {_triple(claim)}"
        case UnsatWire():
            return f"no algorithm of {_triple(claim)}{_for(case, _EQUAL, 'among')}"
        case ParetoWire() | LimitPointWire():
            return f"{_triple(claim)} is Pareto-optimal among {class_of(case, claim)}"
    assert_never(claim)


def _composed(halves: str) -> str:
    return _EQUAL if halves == "equal" else f"{_COMPOSITIONS} of any steps and rounds"


def _for(case: Case, whole: str, word: str = "for") -> str:
    """Return the class that a claim is about; empty if it is about all algorithms."""
    return f" {word} {whole}" if case.dual.phases > 1 else ""


def _number(text: str) -> str:
    return short(Fraction(text))


def _triple(claim: AlgorithmClaimWire | UnsatWire | ParetoWire | LimitPointWire) -> str:
    return f"C={claim.chunks} S={claim.steps} R={claim.rounds}"
