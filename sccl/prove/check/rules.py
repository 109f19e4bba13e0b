"""List the collectives and machines for which each proof rule is valid, in one table.

A claim without a valid rule is rejected before its proof is checked.
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
from sccl.core.formatting import format_count
from sccl.prove.check.case import Case

Condition = Callable[[Case], str]
"""Function that returns why a certificate's problem violates the condition, as a clause (empty: it
does not).
"""


def require_rule(case: Case, claim: Claim) -> None:
    """Check that the proof rule of a claim is valid for the collective and the machine.

    Raises:
        ValueError: It is not.
    """
    for condition in RULES[rule_name(claim)]:
        if why := condition(case):
            raise ValueError(why)


def rule_name(claim: Claim) -> str:
    """Return the name of a claim's proof rule: its kind, and its class if it has one."""
    kind = str(claim.__struct_config__.tag)
    match claim:
        case LimitClaimWire(trees=True) | LimitPointWire(trees=True):
            return f"{kind} by trees"
        case LimitPointWire(every=True):
            return f"{kind} of every class"
    return kind


# --- conditions ----------------------------------------------------------------------------------


def _unequal_chunks(case: Case) -> str:
    """Steps and rounds require chunks of one size."""
    if not case.spec.counts:
        return ""
    return "steps and rounds require chunks of one size, and this collective has counts"


def _unequal_chunks_unless_lemma(case: Case) -> str:
    """As a lemma for a bound on times, R/C counts bytes of unequal chunks."""
    lemma = any(isinstance(claim, TimeBandwidthWire) for claim in case.claims)
    return "" if lemma else _unequal_chunks(case)


def _unequal_lanes(case: Case) -> str:
    """A round is the time in which a lane carries one chunk.

    If links differ in speed, a round is defined as one chunk on each lane, as the description of
    the machine states. A budget whose speed differs from that of all links counts no lanes.
    """
    machine = case.topology
    lanes = {link.gb_per_s for link in machine.links}
    ids = [b.name for b in machine.budgets if b.gb_per_s is not None and b.gb_per_s not in lanes]
    if not ids:
        return ""
    return f"rounds count lanes of links, and budget {ids[0][:60]!r} has another bandwidth per lane"


def _not_allreduce(case: Case) -> str:
    return (
        ""
        if is_allreduce(case.spec)
        else "it applies to allreduce only, and the collective is another"
    )


def _several_phases(case: Case) -> str:
    return "" if case.dual.phases == 1 else "it covers one phase, and the collective has two"


def _too_few_chunks(case: Case) -> str:
    """With fewer chunks than ranks, the owners between the phases would be arbitrary."""
    if case.dual.phases == 1:
        return ""
    for (held, _), chunks in case.spec.at(case.spec.unit).chunk_classes().items():
        if len(chunks) % len(held):
            return (
                "in compositions each rank of a group owns equally many chunks between the "
                f"phases, and here {format_count(len(held), 'rank')} reduce "
                f"{format_count(len(chunks), 'chunk')}"
            )
    return ""


_ROUND_CONDITIONS = (_unequal_chunks, _unequal_lanes)
_PHASE_CONDITIONS = (*_ROUND_CONDITIONS, _too_few_chunks)

RULES: dict[str, tuple[Condition, ...]] = {
    "steps": (_unequal_chunks, _too_few_chunks),
    "bandwidth": (_unequal_chunks_unless_lemma, _unequal_lanes, _too_few_chunks),
    "limit": _PHASE_CONDITIONS,
    "limit by trees": (_not_allreduce, *_ROUND_CONDITIONS),
    "every": (_not_allreduce, *_ROUND_CONDITIONS),
    "algorithm": _ROUND_CONDITIONS,
    "unsat": _PHASE_CONDITIONS,
    "pareto": _PHASE_CONDITIONS,
    "limit-point": _PHASE_CONDITIONS,
    "limit-point by trees": (_not_allreduce, *_ROUND_CONDITIONS),
    "limit-point of every class": (_not_allreduce, *_ROUND_CONDITIONS),
    "time-cut": (),
    "time-groups": (_not_allreduce,),
    "time-bandwidth": (_several_phases,),
    "time-prices": (_several_phases,),
    "time-late": (_several_phases,),
    "schedule": (),
    "time-point": (),
}
"""Conditions of each rule. A rule without conditions holds for every collective."""
