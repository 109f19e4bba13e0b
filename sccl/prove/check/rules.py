"""The collectives and machines that each proof rule holds for, in one table.

A claim that no rule holds for is refused before its proof is looked at.
"""

from __future__ import annotations

from collections.abc import Callable

from sccl.collectives import is_allreduce
from sccl.core.files.claims import (
    Claim,
    LimitClaimWire,
    LimitPointWire,
    TimeBandwidthWire,
)
from sccl.core.words import counted
from sccl.prove.check.question import Case

Condition = Callable[[Case], str]
"""Returns why a certificate's question does not meet it, as a clause. Empty: it does."""


def require_rule(case: Case, claim: Claim) -> None:
    """Check that the rule that proves a claim holds for the collective and the machine.

    Raises:
        ValueError: It does not.
    """
    for condition in RULES[rule_of(claim)]:
        if why := condition(case):
            raise ValueError(why)


def rule_of(claim: Claim) -> str:
    """Return the name of the rule that proves a claim: its kind, and its class where it has one."""
    kind = str(claim.__struct_config__.tag)
    match claim:
        case LimitClaimWire(trees=True) | LimitPointWire(trees=True):
            return f"{kind} by trees"
        case LimitPointWire(every=True):
            return f"{kind} of every class"
    return kind


# --- conditions ----------------------------------------------------------------------------------


def _alike(case: Case) -> str:
    """Steps and rounds are of chunks of one size."""
    if not case.spec.counts:
        return ""
    return "steps and rounds are of chunks of one size, and this collective has counts"


def _alike_or_lemma(case: Case) -> str:
    """As a lemma of a bound on times, R/C counts the bytes of an element."""
    lemma = any(isinstance(claim, TimeBandwidthWire) for claim in case.claims)
    return "" if lemma else _alike(case)


def _even(case: Case) -> str:
    """A round is the time in which a lane carries one chunk.

    If links differ in speed, a round is defined by one chunk on each of their lanes, as the
    description of the machine states. A budget of another speed counts no lanes of any link.
    """
    machine = case.topology
    lanes = {link.gb_per_s for link in machine.links}
    own = [b.name for b in machine.budgets if b.gb_per_s is not None and b.gb_per_s not in lanes]
    if not own:
        return ""
    return (
        f"rounds count lanes of links, and budget {own[0][:60]!r} states another speed than any of "
        "these has"
    )


def _allreduce(case: Case) -> str:
    return (
        ""
        if is_allreduce(case.spec)
        else "it is for allreduce alone, and the collective is another"
    )


def _one_phase(case: Case) -> str:
    return "" if case.dual.phases == 1 else "it is of one phase, and the collective has two"


def _shared(case: Case) -> str:
    """With fewer chunks than ranks the owners between the phases would be arbitrary."""
    if case.dual.phases == 1:
        return ""
    for (held, _), chunks in case.spec.at(case.spec.unit).classes().items():
        if len(chunks) % len(held):
            return (
                "in compositions each rank of a group owns equally many chunks between the "
                f"phases, and here {counted(len(held), 'rank')} reduce "
                f"{counted(len(chunks), 'chunk')}"
            )
    return ""


_ROUNDS = (_alike, _even)
_PHASES = (*_ROUNDS, _shared)

RULES: dict[str, tuple[Condition, ...]] = {
    "steps": (_alike, _shared),
    "bandwidth": (_alike_or_lemma, _even, _shared),
    "limit": _PHASES,
    "limit by trees": (_allreduce, *_ROUNDS),
    "every": (_allreduce, *_ROUNDS),
    "algorithm": _ROUNDS,
    "unsat": _PHASES,
    "pareto": _PHASES,
    "limit-point": _PHASES,
    "limit-point by trees": (_allreduce, *_ROUNDS),
    "limit-point of every class": (_allreduce, *_ROUNDS),
    "time-cut": (),
    "time-groups": (_allreduce,),
    "time-bandwidth": (_one_phase,),
    "time-prices": (_one_phase,),
    "time-late": (_one_phase,),
    "schedule": (),
    "time-point": (),
}
"""By rule, the conditions under which it holds; none: it holds for every collective."""
