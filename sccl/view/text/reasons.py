"""The reasons for bounds and answers, as text."""

from __future__ import annotations

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.answer import Answer, Origin, Sat, Unknown, Unsat, made_by
from sccl.core.bounds import Bounds, Counted, Priced
from sccl.core.words import counted, runs_of
from sccl.view.shown import Bounds as Shown

_READABLE = 32  # runs of ranks; --json has every rank


def in_words(bounds: Bounds, spec: Spec) -> Shown:
    """Return bounds as people read them.

    Args:
        spec: the collective that they are of.
    """
    reasons = [
        f"S ≥ {bounds.steps}: {explain_steps(bounds, spec)}.",
        f"R/C ≥ {bounds.bandwidth}: {explain(bounds, spec)}.",
    ]
    match bounds.evidence:
        case Counted():
            reasons.append("They hold for every class of algorithms.")
        case Priced(problem=problem) if not dual_of(spec).is_identity:
            reasons.append(
                f"Both follow from its dual, {problem}, to which chunks and rounds refer."
            )
    if bounds.scope:
        reasons.append(f"They hold for {bounds.scope}.")
    return Shown(bounds.steps, bounds.bandwidth, tuple(reasons), bounds.scope)


def explain_steps(bounds: Bounds, spec: Spec) -> str:
    """Return why no algorithm has fewer steps, as a sentence."""
    far = bounds.distance
    assert far is not None
    away, sources = counted(far.steps, "link"), ", ".join(map(str, far.sources))
    if isinstance(bounds.evidence, Counted):
        return f"rank {far.rank} needs the contribution of rank {sources}, {away} away"
    twice = ", twice" if dual_of(spec).phases == 2 else ""
    return f"chunk {far.chunk} starts on rank {sources} and rank {far.rank} is {away} away{twice}"


def explain(bounds: Bounds, spec: Spec) -> str:
    """Return why no algorithm has a smaller R/C, as a sentence."""
    match bounds.evidence:
        case Counted() as sends:
            return _of_sends(sends, spec)
        case Priced(cuts=()) as lengths:
            why = "the shortest paths of all chunks, at the prices below, cost "
            why += f"{lengths.rounds} times the capacity of one round"
        case Priced() as crossed:
            why = _of_cuts(crossed)
        case None:
            return "its file has no reason"
    return f"with C={bounds.evidence.chunks}, {why}{_to_original(dual_of(spec))}"


def _of_sends(found: Counted, spec: Spec) -> str:
    """Return why no allreduce of any class has a smaller R/C."""
    most, grouped = found.chunks_per_round, bool(spec.post.pattern)
    if found.ranks:
        whose = f"of {counted(found.sends, 'group')} something of each chunk"
        words = f"{whose if grouped else 'of each chunk something'} must enter ranks "
        words += f"{_set(found.ranks)}, and at most {most} can in a round"
    elif found.groups:
        named = ", ".join(_set(group) for group in found.groups if len(group) > 1)
        count, alone = len(found.groups), all(len(group) > 1 for group in found.groups)
        words = f"between the {count} {'sets' if grouped else 'groups'} {named}"
        words += f"{'' if alone else ' and ranks by themselves'} "
        words += f"{_told(found, 'set' if grouped else 'group', grouped=grouped)}, "
        words += f"and links between them carry at most {most} in a round"
    else:
        words = f"{_told(found, 'rank', grouped=grouped)}, "
        words += f"and all links carry at most {most} in a round"
    if found.approached:
        words += "; more steps approach this bound arbitrarily closely"
    return words


def _told(found: Counted, each: str, *, grouped: bool) -> str:
    """Return how many sends there are between ranks, or sets of ranks."""
    if not grouped:
        return f"each chunk takes at least {found.sends} sends, 2 less than two for each {each}"
    some = "of its ranks" if each == "rank" else f"{each} that has some of its ranks"
    every = f"a chunk of each group takes two sends for each {some} but one"
    return f"{every}, together {found.sends}"


def _of_cuts(found: Priced) -> str:
    """Return the data that must enter some sets of ranks, and the capacity in a round."""
    several = len(found.cuts) > 1
    texts = []
    for cut in found.cuts:
        weight = f" (weight {cut.weight})" if several else ""
        texts.append(f"{counted(cut.chunks, 'chunk')} must enter ranks {_set(cut.ranks)}{weight}")
    first = 1 if several else found.cuts[0].weight  # one cut needs no weight
    capacity = sum(c.weight / first * c.chunks for c in found.cuts) / found.rounds
    what = "together at most" if several else "at most"
    return f"{' and '.join(texts)}, {what} {capacity} can in a round"


def _set(ranks: tuple[int, ...]) -> str:
    """Return ranks as a set, no more of them than can be read."""
    runs = runs_of(ranks, through="-")
    more = [f"..., {len(ranks)} in all"] if len(runs) > _READABLE else []
    return "{" + ", ".join(runs[:_READABLE] + more) + "}"


def _to_original(dual: Dual) -> str:
    """Return how numbers of a dual become those of its original, after a proof's sentence."""
    times = [f"C is {dual.chunk_factor} times"] if dual.chunk_factor > 1 else []
    times += [f"R {dual.phases} times"] if dual.phases > 1 else []
    return f"; of {dual.original.name}, {' and '.join(times)} that of its dual" if times else ""


def reason_of(answer: Answer) -> str:
    """Return the reason for an answer as text."""
    match answer:
        case Sat():
            return "verified"
        case Unsat(evidence):
            if answer.trusted:
                return f"{evidence} (on the word of {answer.origin.words}, not verified here)"
            return evidence
        case Unknown(reason):
            return reason


def solver_of(answer: Answer) -> str:
    """Return which solver gave an answer, and whether that was earlier."""
    words = made_by(answer)
    if isinstance(answer, Unsat) and answer.origin is Origin.CLUSTER:
        words += " on the cluster"
    return f"{words} (from the store)" if answer.from_store else words
