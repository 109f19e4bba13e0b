"""Why bounds hold, and why an answer is what it is, in words."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sccl.collectives import Dual, Spec, named
from sccl.core.answer import Answer, Sat, Unknown, Unsat, made_by
from sccl.core.topology import Topology
from sccl.core.words import counted
from sccl.prove.bounds import AnyBounds, LowerBounds, any_bounds, lower_bounds
from sccl.synth.allreduce.classes import COMPOSED, SCOPES, has_classes
from sccl.view.shown import Bounds


def bounds_of(topology: Topology, spec: Spec) -> Bounds:
    """Return what no algorithm can beat, and why, as people read it.

    Raises:
        InputError: the collective does not fit the topology, or some rank cannot be reached.
    """
    if not has_classes(spec):
        return in_words(lower_bounds(topology, spec))
    composed = Bounds(*bounds_of_halves(topology), (), SCOPES[COMPOSED])
    return replace(any_in_words(any_bounds(topology)), classes=(composed,))


def bounds_of_halves(topology: Topology) -> tuple[int, Fraction]:
    """Return the least S and R/C of a reducescatter and then an allgather."""
    halves = [
        lower_bounds(topology, named(name, topology.ranks))
        for name in ("reducescatter", "allgather")
    ]
    per_chunk = (halves[0].bandwidth, halves[1].bandwidth / topology.ranks)
    return sum(half.steps for half in halves), sum(per_chunk, Fraction(0))


def any_in_words(found: AnyBounds) -> Bounds:
    """Return bounds that hold for all allreduces as people read them."""
    reasons = (
        f"S ≥ {found.steps}: {explain_any_steps(found)}.",
        f"R/C ≥ {found.bandwidth}: {explain_any(found)}.",
        "They hold for every class of algorithms.",
    )
    return Bounds(found.steps, found.bandwidth, reasons)


def explain_any_steps(found: AnyBounds) -> str:
    """Return why no allreduce has fewer steps."""
    pair = found.pair
    away = counted(pair.steps, "link")
    return f"rank {pair.rank} needs the contribution of rank {pair.sources[0]}, {away} away"


def explain_any(found: AnyBounds) -> str:
    """Return why no allreduce has a smaller R/C."""
    if not found.ranks:
        every = f"each chunk takes at least {found.sends} sends, 2 less than two for each rank"
        return f"{every}, and all links carry at most {found.chunks_per_round} in a round"
    inside = "{" + ", ".join(str(r) for r in found.ranks) + "}"
    return (
        f"of each chunk something must enter ranks {inside}, and at most "
        f"{found.chunks_per_round} can in a round"
    )


def in_words(found: LowerBounds) -> Bounds:
    """Return bounds as people read them."""
    reasons = [f"S ≥ {found.steps}: {explain_steps(found)}."]
    reasons += [f"R/C ≥ {found.bandwidth}: {explain(found)}."]
    if not found.dual.is_identity:
        reasons.append(
            f"Both follow from its dual, {found.problem}, whose chunks and rounds are spoken of."
        )
    if found.scope:
        reasons.append(f"They hold for {found.scope}.")
    return Bounds(found.steps, found.bandwidth, tuple(reasons), found.scope)


def explain_steps(found: LowerBounds) -> str:
    """Return why no algorithm has fewer steps, as a sentence."""
    pair = found.pair
    sources = ", ".join(str(s) for s in pair.sources)
    twice = ", twice" if found.dual.phases == 2 else ""
    away = counted(pair.steps, "link")
    return f"chunk {pair.chunk} starts on rank {sources} and rank {pair.rank} is {away} away{twice}"


def explain(found: LowerBounds) -> str:
    """Return the bandwidth proof as a sentence."""
    proof, unit = found.proof, found.dual.spec.unit
    split = f"with C={unit}, "
    if proof.kind == "lengths":
        return (
            f"{split}the shortest paths of all chunks, at the prices below, cost "
            f"{proof.value} times what one round can carry{_to_original(found.dual)}"
        )
    texts = []
    for cut in proof.cuts:
        inside = "{" + ", ".join(str(r) for r in cut.ranks) + "}"
        weight = f" (weight {cut.weight})" if len(proof.cuts) > 1 else ""
        texts.append(f"{counted(cut.chunks, 'chunk')} must enter ranks {inside}{weight}")
    first = proof.cuts[0].weight if len(texts) == 1 else 1  # one cut needs no weight
    total = sum(c.weight / first * c.chunks for c in proof.cuts)
    capacity = total / proof.value
    what = "at most" if len(texts) == 1 else "together at most"
    crossing = f"{' and '.join(texts)}, {what} {capacity} can in a round"
    return f"{split}{crossing}{_to_original(found.dual)}"


def _to_original(dual: Dual) -> str:
    """Return how numbers of a dual become those of its original, after a proof's sentence."""
    times = [f"C is {dual.chunk_factor} times"] if dual.chunk_factor > 1 else []
    times += [f"R {dual.phases} times"] if dual.phases > 1 else []
    return f"; of {dual.original.name}, {' and '.join(times)} that of its dual" if times else ""


def reason_of(answer: Answer) -> str:
    """Return why an answer is what it is, in words."""
    match answer:
        case Sat():
            return "the judge accepts the algorithm"
        case Unsat(evidence):
            return evidence
        case Unknown(reason):
            return reason


def solver_of(answer: Answer) -> str:
    """Return which solver gave an answer, and whether that was earlier."""
    words = made_by(answer)
    return f"{words} (from the store)" if answer.from_store else words
