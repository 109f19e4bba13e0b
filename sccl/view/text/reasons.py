"""Explain lower bounds and answers in sentences."""

from __future__ import annotations

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.answer import Answer, Origin, Sat, Unknown, Unsat, describe_solver
from sccl.core.bound import AlgorithmBounds, CountProof, PriceProof
from sccl.core.formatting import format_count, format_runs
from sccl.view.completeness import BoundSummary

_READABLE = 32  # maximum runs of ranks in text (--json has every rank)


def describe_bounds(bounds: AlgorithmBounds, spec: Spec) -> BoundSummary:
    """Return bounds with their reasons in sentences."""
    reasons = [
        f"S ≥ {bounds.steps}: {explain_steps(bounds, spec)}.",
        f"R/C ≥ {bounds.bandwidth}: {explain_bandwidth(bounds, spec)}.",
    ]
    match bounds.evidence:
        case CountProof():
            reasons.append("They hold for every family of algorithms.")
        case PriceProof(problem=problem) if not dual_of(spec).is_identity:
            reasons.append(
                f"Both follow from its dual, {problem}, to which chunks and rounds refer."
            )
    if bounds.scope:
        reasons.append(f"They hold for {bounds.scope}.")
    return BoundSummary(bounds.steps, bounds.bandwidth, tuple(reasons), bounds.scope)


def explain_steps(bounds: AlgorithmBounds, spec: Spec) -> str:
    """Return the reason why no algorithm has fewer steps, as a sentence."""
    far = bounds.distance
    assert far is not None
    away, sources = format_count(far.steps, "link"), ", ".join(map(str, far.sources))
    if isinstance(bounds.evidence, CountProof):
        return f"rank {far.rank} needs the contribution of rank {sources}, {away} away"
    twice = ", twice" if dual_of(spec).phases == 2 else ""
    return f"chunk {far.chunk} starts on rank {sources} and rank {far.rank} is {away} away{twice}"


def explain_bandwidth(bounds: AlgorithmBounds, spec: Spec) -> str:
    """Return the reason why no algorithm has a lower R/C, as a sentence."""
    match bounds.evidence:
        case CountProof() as sends:
            return _explain_sends(sends, spec)
        case PriceProof(cuts=()) as lengths:
            why = "the shortest paths of all chunks, at the prices below, cost "
            why += f"{lengths.rounds} times the capacity of one round"
        case PriceProof() as crossed:
            why = _explain_cuts(crossed)
        case None:
            return "its file has no reason"
    return f"with C={bounds.evidence.chunks}, {why}{_duality_note(dual_of(spec))}"


def _explain_sends(bound: CountProof, spec: Spec) -> str:
    """Return the reason why no allreduce of any class has a lower R/C."""
    capacity, grouped = bound.chunks_per_round, bool(spec.post.pattern)
    if bound.ranks:
        prefix = f"of {format_count(bound.sends, 'group')} something of each chunk"
        words = f"{prefix if grouped else 'of each chunk something'} must enter ranks "
        words += f"{_set_text(bound.ranks)}, and at most {capacity} per round"
    elif bound.groups:
        named = ", ".join(_set_text(group) for group in bound.groups if len(group) > 1)
        count, has_no_singles = len(bound.groups), all(len(group) > 1 for group in bound.groups)
        words = f"between the {count} {'sets' if grouped else 'groups'} {named}"
        words += f"{'' if has_no_singles else ' and ranks by themselves'} "
        words += f"{_send_count_text(bound, 'set' if grouped else 'group', grouped=grouped)}, "
        words += f"and links between them carry at most {capacity} per round"
    else:
        words = f"{_send_count_text(bound, 'rank', grouped=grouped)}, "
        words += f"and all links carry at most {capacity} per round"
    if bound.is_asymptotic:
        words += "; more steps approach this bound arbitrarily closely"
    return words


def _send_count_text(bound: CountProof, each: str, *, grouped: bool) -> str:
    """Return the required number of sends between ranks, or between sets of ranks, as text."""
    if not grouped:
        return f"each chunk takes at least {bound.sends} sends, 2 less than two for each {each}"
    some_ranks = "of its ranks" if each == "rank" else f"{each} that has some of its ranks"
    sentence = f"a chunk of each group takes two sends for each {some_ranks} but one"
    return f"{sentence}, together {bound.sends}"


def _explain_cuts(bound: PriceProof) -> str:
    """Return the data that must enter sets of ranks, and the capacity of a round, as text."""
    several = len(bound.cuts) > 1
    texts = []
    for cut in bound.cuts:
        weight = f" (weight {cut.weight})" if several else ""
        texts.append(
            f"{format_count(cut.chunks, 'chunk')} must enter ranks {_set_text(cut.ranks)}{weight}"
        )
    first = 1 if several else bound.cuts[0].weight  # one cut needs no weight
    capacity = sum(c.weight / first * c.chunks for c in bound.cuts) / bound.rounds
    phrase = "together at most" if several else "at most"
    return f"{' and '.join(texts)}, {phrase} {capacity} per round"


def _set_text(ranks: tuple[int, ...]) -> str:
    """Return ranks in set notation, shortened if there are too many to read."""
    runs = format_runs(ranks, through="-")
    more = [f"..., {len(ranks)} in all"] if len(runs) > _READABLE else []
    return "{" + ", ".join(runs[:_READABLE] + more) + "}"


def _duality_note(dual: Dual) -> str:
    """Return a clause on how C and R of the original relate to those of its dual, or empty."""
    times = [f"C is {dual.chunk_factor} times"] if dual.chunk_factor > 1 else []
    times += [f"R is {dual.phases} times"] if dual.phases > 1 else []
    return (
        f"; for {dual.original.name}, {' and '.join(times)} as large as for its dual"
        if times
        else ""
    )


def answer_reason(answer: Answer) -> str:
    """Return the reason for an answer as text."""
    match answer:
        case Sat():
            return "verified"
        case Unsat(evidence):
            if answer.trusted:
                return f"{evidence} (on the word of {answer.origin.description}, not verified here)"
            return evidence
        case Unknown(reason):
            return str(reason)


def answer_solver(answer: Answer) -> str:
    """Return the solver that gave an answer, and whether the answer comes from the store."""
    words = describe_solver(answer)
    if isinstance(answer, Unsat) and answer.origin is Origin.CLUSTER:
        words += " on the cluster"
    return f"{words} (from the store)" if answer.from_store else words
